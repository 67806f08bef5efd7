package fs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"prismfs/dataset"
)

// inodeNumber returns the inode number of a path as it was written below the
// mount point: a hash, so that it is the same after a remount and needs no
// table. The numbers that FUSE reserves are avoided.
func inodeNumber(written string) uint64 {
	sum := sha256.Sum256([]byte(written))
	return usable(binary.LittleEndian.Uint64(sum[:8]))
}

// generation tells apart nodes whose inode numbers are the same: other paths
// with the same hash, and other contents of the same path.
func generation(written string, id dataset.Identity) uint64 {
	return generationOf(written, identityBytes(id))
}

// autoGeneration does so for a path whose fidelity can be set.
func autoGeneration(written string, id dataset.Identity, fidelity int) uint64 {
	return generationOf(written, binary.LittleEndian.AppendUint64(identityBytes(id), uint64(fidelity)))
}

// echoGeneration does so for a path that has contents of several samples.
func echoGeneration(written string, c content) uint64 {
	distinction := binary.LittleEndian.AppendUint64(identityBytes(c.sample.Info.ID), uint64(c.fidelity))
	return generationOf(written, append(distinction, c.sample.Path...))
}

func identityBytes(id dataset.Identity) []byte {
	b := make([]byte, 0, 6*8)
	for _, v := range []uint64{id.Dev, id.Ino, uint64(id.Size), uint64(id.MTimeNS), uint64(id.CTimeNS)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// folderGeneration does so for folders. One path can come to mean another
// folder or view: a+png is a in PNG until the source has a folder of that name.
func folderGeneration(written string, at place) uint64 {
	return generationOf(written, fmt.Appendf(nil, "%s\x00%v", at.source, at.view))
}

// generationOf hashes a path and what distinguishes a node of that path from
// others. Paths have no NUL.
func generationOf(written string, distinction []byte) uint64 {
	h := sha256.New()
	h.Write([]byte(written))
	h.Write([]byte{0})
	h.Write(distinction)
	return binary.LittleEndian.Uint64(h.Sum(nil)[8:16])
}

// usable maps the reserved numbers (0: none, 1: the root, all ones: unknown)
// to others.
func usable(ino uint64) uint64 {
	switch ino {
	case 0, 1:
		return ino + 2
	case ^uint64(0):
		return ino - 1
	}
	return ino
}
