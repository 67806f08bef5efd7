package fs

import (
	"crypto/sha256"
	"encoding/binary"

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
	h := sha256.New()
	h.Write([]byte(written))
	var b [8]byte
	for _, v := range []uint64{0, id.Dev, id.Ino, uint64(id.Size), uint64(id.MTimeNS), uint64(id.CTimeNS)} {
		binary.LittleEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
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
