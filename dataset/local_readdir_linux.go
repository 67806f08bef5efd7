package dataset

import (
	"context"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// direntsBytes is the size of the part of a folder that is held at a time, about
// 2,000 entries. More makes a listing no faster.
const direntsBytes = 64 << 10

var direntsPool = sync.Pool{New: func() any { return new([direntsBytes]byte) }}

// ReadDir calls yield for every entry. The kernel says with a name what it is,
// so that only links, and what file systems of few words give, are looked at one
// by one. A link that leads out of the source, nowhere or into a loop is Broken;
// Stat of it says why.
func (s *LocalStore) ReadDir(ctx context.Context, path string, yield func(DirEntry) bool) error {
	if err := s.readDir(ctx, path, yield); err != nil {
		return s.failed("list", path, err)
	}
	return nil
}

func (s *LocalStore) readDir(ctx context.Context, path string, yield func(DirEntry) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkPath(path); err != nil {
		return err
	}
	fd, _, err := s.openBeneath(path, readFlags|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := direntsPool.Get().(*[direntsBytes]byte)
	defer direntsPool.Put(buf)
	for {
		n, err := getdents(fd, buf[:])
		if err != nil || n == 0 {
			return err
		}
		if more, err := s.yieldAll(ctx, path, buf[:n], yield); err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func getdents(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// yieldAll hands out the entries of one answer of the kernel, and says whether
// more are wanted.
func (s *LocalStore) yieldAll(ctx context.Context, path string, buf []byte, yield func(DirEntry) bool) (bool, error) {
	for len(buf) > 0 {
		name, typ, n, err := dirent(buf)
		if err != nil {
			return false, err
		}
		buf = buf[n:]
		if name == "." || name == ".." {
			continue
		}
		kind, err := s.entryKind(ctx, path, name, typ)
		if err != nil {
			return false, err
		}
		if !yield(DirEntry{Name: name, Kind: kind}) {
			return false, nil
		}
	}
	return true, nil
}

// entryKind says what an entry is or leads to.
func (s *LocalStore) entryKind(ctx context.Context, path, name string, typ byte) (Kind, error) {
	switch typ {
	case unix.DT_REG:
		return Regular, nil
	case unix.DT_DIR:
		return Dir, nil
	case unix.DT_LNK, unix.DT_UNKNOWN:
	default:
		return Special, nil
	}
	if path != "" {
		name = path + "/" + name
	}
	info, err := s.Stat(ctx, name)
	switch {
	case err == nil:
		return info.Kind, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case isScarcity(err):
		return 0, err
	}
	return Broken, nil
}

// The layout of a struct linux_dirent64: u64 inode, s64 offset, u16 length of
// the record, u8 type, then the name, ended by NUL (getdents64(2)).
const (
	direntLenAt  = 16
	direntTypeAt = 18
	direntNameAt = 19
)

// dirent takes the first record of buf apart. x/sys's ParseDirent gives names
// only, os.ReadDir looks up entries of unknown type by a path.
func dirent(buf []byte) (name string, typ byte, n int, err error) {
	if len(buf) <= direntNameAt {
		return "", 0, 0, unix.EIO
	}
	n = int(binary.NativeEndian.Uint16(buf[direntLenAt:]))
	if n <= direntNameAt || n > len(buf) {
		return "", 0, 0, unix.EIO
	}
	raw := buf[direntNameAt:n]
	end := 0
	for end < len(raw) && raw[end] != 0 {
		end++
	}
	return string(raw[:end]), buf[direntTypeAt], n, nil
}
