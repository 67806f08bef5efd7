// Package gpudecode decodes images for many goroutines at once.
//
// A caller hands in the encoded bytes and the memory for the samples and waits
// ([Decoder.Decode]). There is a fixed number of places. While one is free and
// nobody waits, a request is decoded by its caller's own goroutine: waking
// another one would cost more than some images do. Otherwise it waits in a
// queue, from which workers take one image at a time, the oldest first. Places
// that are free help with a large image, band by band, and leave it as soon as a
// request waits. So no place is idle while there is work for it, and there are
// no timers. What nobody waits for yet ([Request].Ahead) gets what is left.
//
// What it promises: samples are those that package l3 gives, whatever else is
// decoded at the time; a bad image, and even a codec that panics, is an error
// of that one request; the buffers of a request are used only until Decode
// returns; a request whose context ends while it waits is dropped, one that is
// being decoded is finished.
//
// This is the backend of the CPU. One for a processor that wants many images at
// a time takes the place of the workers, and all that waits at once; what is in
// front of them (the queue, cancellation, the counters) is not the CPU's.
//
// The package knows nothing of files, datasets, forms or mounts.
package gpudecode
