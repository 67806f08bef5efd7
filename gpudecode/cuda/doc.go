// Package cuda calls the CUDA driver, as much of it as decoding takes: devices,
// memory, streams, kernels out of PTX.
//
// The driver's library (libcuda.so.1) is loaded when [Load] is called and never
// linked: a program that imports this package starts on any machine, and is told
// by an error what is missing. No toolkit is needed, neither to build nor to run.
//
// The driver keeps the context that a call acts on in the calling thread of the
// operating system, and goroutines change threads between any two calls. So
// whatever has a [Device], [Memory], [Stream] or [Module] must be called from a
// goroutine that is locked to its thread (runtime.LockOSThread) and has called
// [Device.Bind] on it. Any number of threads may be bound to one device.
//
// After some errors ([Lost]) nothing works any more on that device in this
// process until it has been closed and is opened again, and perhaps not then.
//
// The package knows nothing of images, and does not wait with a limit of time: a
// device that hangs holds the thread that synchronises with it.
package cuda
