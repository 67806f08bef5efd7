// Package integration holds the tests that go through a real mount: the command
// as it is built, a mount as the kernel sees it, and as readers the programs
// that people use (PyTorch, torchvision, NumPy, PIL, fio, cp, rsync, tar), none
// of them changed.
//
// The test process never touches a mount: it would wait for a daemon that may
// be waiting for it, and a hung test could not be told from a hung mount.
// Readers are processes of their own (checks.py), which can be killed, and so
// can the daemon. Every mount is taken down when its test ends, whatever came
// of it, and the last thing that happens is a look for mounts left over.
//
// What a check has to say is in checks.py, beside the reason; the tests here
// say what is mounted and how. fixtures.py computes the images.
package integration
