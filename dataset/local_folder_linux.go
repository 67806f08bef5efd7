package dataset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// localFolder is an open folder of a LocalStore, which no link led to. Entries are
// opened by their own names, and not by links either, so that nothing outside is.
type localFolder struct {
	f    *os.File // a place
	conn syscall.RawConn
}

// OpenFolder opens a folder. Where links lead to it the error is
// errors.ErrUnsupported: then permissions may have to be lessened by what lies on
// their way.
func (s *LocalStore) OpenFolder(ctx context.Context, path string) (nearFolder, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.failed("open", path, err)
	}
	if err := checkPath(path); err != nil {
		return nil, s.failed("open", path, err)
	}
	fd, err := -1, error(nil)
	if closed := s.within(func(b *beneath) { fd, err = b.openUnlinked(path) }); closed != nil {
		err = closed
	}
	if err != nil {
		return nil, s.failed("open", path, err)
	}
	f := os.NewFile(uintptr(fd), s.full(path))
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &localFolder{f: f, conn: conn}, nil
}

// openUnlinked opens a folder as a place where its path has no links.
func (b *beneath) openUnlinked(path string) (int, error) {
	if b.walkOnly || len(path) >= unix.PathMax {
		return -1, errors.ErrUnsupported
	}
	if path == "" {
		path = "."
	}
	fd, err := openat2(b.root, path, unix.O_PATH|unix.O_DIRECTORY, resolveFlags|unix.RESOLVE_NO_SYMLINKS)
	if err == unix.EAGAIN || err == unix.EXDEV || err == unix.ELOOP {
		err = errors.ErrUnsupported
	}
	return fd, err
}

func (f *localFolder) Info() (info Info, err error) {
	if f.conn.Control(func(fd uintptr) { info, err = infoOf(int(fd)) }) != nil {
		err = fs.ErrClosed
	}
	return info, err
}

func (f *localFolder) Stat(name string) (info Info, err error) {
	if f.conn.Control(func(dir uintptr) { info, err = fileIn(int(dir), name) }) != nil {
		err = fs.ErrClosed
	}
	return info, err
}

// fileIn describes a regular file of an open folder.
func fileIn(dir int, name string) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return Info{}, err
		}
	}
	if kindOf(st.Mode) != Regular {
		return Info{}, errNoFile
	}
	return infoFrom(&st), nil
}

func (f *localFolder) ReadStart(name string, p []byte) (info Info, n int, err error) {
	if f.conn.Control(func(dir uintptr) { info, n, err = readStartIn(int(dir), name, p) }) != nil {
		err = fs.ErrClosed
	}
	return info, n, err
}

func readStartIn(dir int, name string, p []byte) (Info, int, error) {
	fd, err := openat(dir, name, readFlags)
	if err != nil {
		return Info{}, 0, err
	}
	defer unix.Close(fd)
	return readStart(fd, p)
}

func (f *localFolder) Close() error { return f.f.Close() }
