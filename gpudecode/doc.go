// Package gpudecode decodes images for many goroutines at once.
//
// A caller hands in the encoded bytes and the memory for the samples and waits
// ([Decoder.Decode]). What arrives while every worker is busy becomes a
// worker's next batch: there are no timers, so an image that comes alone is
// decoded at once, and under load batches grow by themselves.
//
// What it promises: samples are those that package l3 gives, whatever else is
// decoded at the time; a bad image, and even a codec that panics, is an error
// of that one request; the buffers of a request are used only until Decode
// returns; a request whose context ends while it waits is dropped, one that is
// being decoded is finished.
//
// This is the pool of the CPU: a fixed number of workers, each with a decoder
// whose scratch memory is used again. A backend for another processor takes
// the place of worker.run, which gets a whole batch; all that is in front of
// it (the queue, cancellation, the counters) is not the CPU's.
//
// The package knows nothing of files, datasets, forms or mounts.
package gpudecode
