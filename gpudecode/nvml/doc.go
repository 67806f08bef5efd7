// Package nvml asks NVIDIA's management library what devices a machine has, how
// busy they are and how they fare, and chooses one.
//
// The library (libnvidia-ml.so.1) comes with the driver and is loaded at run time.
// Where it is not there, or the driver is not loaded, [Open] says so. A driver may
// lack any single call: what it does not say is missing from a [Status], by name.
//
// The package knows nothing of CUDA, and not which devices a process may use. As
// root the library makes device nodes without any driver: those say nothing.
package nvml
