package fs

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// blockBytes is the block size that files report.
const blockBytes = 4096

// fillFileAttr writes the attributes of a file of size bytes that stems from
// the given source file: its permissions, owner and times.
func fillFileAttr(a *fuse.Attr, info dataset.Info, size int64) {
	fillOwner(a, info)
	a.Mode = fuse.S_IFREG | uint32(info.Mode.Perm())
	a.Size = uint64(size)
	a.Blksize = blockBytes
	a.Blocks = (uint64(size) + 511) / 512
	a.Nlink = 1
}

func fillOwner(a *fuse.Attr, info dataset.Info) {
	a.Owner = fuse.Owner{Uid: info.UID, Gid: info.GID}
	a.Mtime, a.Mtimensec = splitTime(info.ID.MTimeNS)
	a.Ctime, a.Ctimensec = splitTime(info.ID.CTimeNS)
	a.Atime, a.Atimensec = a.Mtime, a.Mtimensec
}

// splitTime splits nanoseconds since 1970, which may be before it, the way the
// kernel wants them: the nanoseconds are never negative.
func splitTime(ns int64) (sec uint64, nsec uint32) {
	s, rest := ns/1e9, ns%1e9
	if rest < 0 {
		s, rest = s-1, rest+1e9
	}
	return uint64(s), uint32(rest)
}

// attribute is an extended attribute.
type attribute struct{ name, value string }

// attributePrefix stands before the names of all extended attributes.
const attributePrefix = "user.prismfs."

// sampleAttributes tells of a sample what a file of bare samples cannot; encoded
// is what its fidelity costs to read.
func sampleAttributes(c content, shape, dtype string, encoded int64) []attribute {
	s := c.sample
	a := []attribute{
		{attributePrefix + "shape", shape},
		{attributePrefix + "dtype", dtype},
		{attributePrefix + "fidelity", strconv.Itoa(c.fidelity)},
		{attributePrefix + "source", s.Source},
		{attributePrefix + "encoded_bytes", strconv.FormatInt(encoded, 10)},
	}
	if s.Label != nil {
		a = append(a, attribute{attributePrefix + "label", strconv.Itoa(*s.Label)})
	}
	return a
}

// shapeText writes a shape as 512,768,3.
func shapeText(shape []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]")
}

// attributeUnsupported reports whether files of a mount have no such attribute, ever:
// access control lists, security labels, capabilities. ls -l asks for two of them a
// file, until it is told that there are none.
func attributeUnsupported(name string) bool {
	return strings.HasPrefix(name, "system.") || strings.HasPrefix(name, "security.")
}

func getxattr(all []attribute, name string, dest []byte) (uint32, syscall.Errno) {
	for _, a := range all {
		if a.name == name {
			if len(dest) < len(a.value) {
				return uint32(len(a.value)), syscall.ERANGE
			}
			return uint32(copy(dest, a.value)), 0
		}
	}
	return 0, syscall.ENODATA
}

func listxattr(all []attribute, dest []byte) (uint32, syscall.Errno) {
	n := 0
	for _, a := range all {
		n += len(a.name) + 1
	}
	if len(dest) < n {
		return uint32(n), syscall.ERANGE
	}
	n = 0
	for _, a := range all {
		n += copy(dest[n:], a.name)
		dest[n] = 0
		n++
	}
	return uint32(n), 0
}
