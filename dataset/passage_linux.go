package dataset

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// A link is followed by this process, with its rights, and what it leads to is
// shown in the link's place. Who reads there by the permissions that are shown
// has not been held against the folders on the link's way, as he would have been
// in the source. So what is shown is what those folders leave of it.

// passage is the folders that links led through, in order. Those of the path
// itself, up to its first link, are not among them: they are on the reader's own
// way, too.
type passage []gate

// gate is who may search a folder.
type gate struct{ mode, uid, gid uint32 }

// The bits of one class of users.
const (
	ownerBits = 0o700
	groupBits = 0o070
	otherBits = 0o007
	search    = 0o111
)

// restrict takes from the permissions of a file those of every class of users of
// which somebody may not come through. It never leaves anybody more than the
// source does; of users that differ in their groups it can leave some less.
func (p passage) restrict(mode fs.FileMode, uid, gid uint32) fs.FileMode {
	for _, g := range p {
		mode &= g.lets(uid, gid)
	}
	return mode
}

// lets returns the bits of the classes of a file all of whose users may search
// the folder.
func (g gate) lets(uid, gid uint32) (bits fs.FileMode) {
	if g.mode&search == search {
		return ownerBits | groupBits | otherBits
	}
	if g.uid == uid && g.mode&unix.S_IXUSR != 0 {
		bits |= ownerBits
	}
	// A member of the group may own the folder: then the owner's bit counts.
	if g.gid == gid && g.mode&unix.S_IXGRP != 0 && g.mode&unix.S_IXUSR != 0 {
		bits |= groupBits
	}
	return bits
}
