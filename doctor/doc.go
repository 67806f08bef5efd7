// Package doctor looks at what this machine allows a mount to do, and how fast it
// would be, without mounting anything.
//
// [Look] asks what mounts ask: the same library that is loaded, the same device
// that is opened, the same memory that is read. Each [Check] is a line: what there
// is, what its want costs, and what to do about that.
//
// It changes nothing, keeps nothing and takes no device into use. It tries to make
// a private tmpfs and, for users who may not mount, a user namespace, which are gone
// when it returns. NVIDIA's libraries make device nodes
// when root starts them, so they are started only where the kernel sees a card.
//
// What it cannot know before there is a mount: whether the kernel takes backing
// files. Whether it was built for that is looked up where it says so.
//
// The package knows nothing of datasets and of how its findings are printed.
package doctor
