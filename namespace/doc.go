// Package namespace gives a command a mount namespace of its own, so that it sees
// a mount which nobody else sees, and which is gone with it.
//
// Whoever has CAP_SYS_ADMIN needs a mount namespace only. Others need a user
// namespace around it, in which they may mount FUSE without root and without
// fusermount3; it knows one user and one group, their own, under their own numbers.
// Files of others belong to nobody there, and the user's other groups cannot be named,
// though what they allow is still allowed.
//
// [Choose] says which it will be, [Kind.Attributes] how to start a process in it,
// [Enter] is the first thing that this process does, and [DropRights] the last before
// it starts the command. [Why] explains a refusal.
//
// It promises that mounts made inside are never seen outside, and that mounts made
// outside appear inside, as home directories that are mounted when they are first
// entered. It knows nothing of FUSE and of what is run.
package namespace
