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
// What it promises: samples are those that package l3 gives, or PIL of a JPEG,
// whatever else is decoded at the time; a bad image, and even a codec that panics, is an error
// of that one request; the buffers of a request are used only until Decode
// returns; a request whose context ends while it waits is dropped, one that is
// being decoded is finished.
//
// With a device ([Open]) there is a scheduler in front of this. It hands the device
// all that waits as one batch as soon as one of its lanes is free; a request that
// finds one free does not wait. Readers take turns. Everything that the device
// does not do, because it cannot, is too small a matter, has failed or is lost, its
// caller decodes on the CPU as if there was no device; so readers notice nothing,
// while the log and [Stats] say what happens. A lost device is tried again later.
// The files batch_*.go know nothing of CUDA, device_cuda.go, device_lane.go and
// device_memory.go nothing of requests that wait.
//
// What it does not know: how long a device may take. One that hangs keeps its
// batches. And of files in the published format, which have no checksums, it
// cannot tell whether a device has decoded them right.
//
// The package knows nothing of files, datasets, forms or mounts.
package gpudecode
