package dataset

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// ErrRemoved says that the folder of a store was removed.
var ErrRemoved = errors.New("was removed")

// Root looks whether the folder of the store is still there. The error wraps ErrRemoved
// if it was removed; any other is that of its file system.
func (s *LocalStore) Root() error {
	var err error
	if closed := s.within(func(b *beneath) { _, err = isThere(b.root) }); closed != nil {
		err = closed
	}
	if err != nil {
		return s.failed("look at", "", err)
	}
	return nil
}

// Statfs describes the file system of the folder.
func (s *LocalStore) Statfs(st *unix.Statfs_t) error {
	var err error
	if closed := s.within(func(b *beneath) { err = unix.Fstatfs(b.root, st) }); closed != nil {
		err = closed
	}
	if err != nil {
		return s.failed("look at the file system of", "", err)
	}
	return nil
}

// isThere describes a folder that has not been removed.
func isThere(fd int) (st unix.Stat_t, err error) {
	for {
		if err = unix.Fstat(fd, &st); err != unix.EINTR {
			break
		}
	}
	if err == nil && st.Nlink == 0 {
		err = ErrRemoved
	}
	return st, err
}

// Reopen has the store be the folder that is now where its folder was, in place of one
// that was removed. It has to be on the same file system, for a mount point where nothing
// is mounted any more is no return; and nothing on the way to it may be a link, since
// who may put one there could show what is not his.
func (s *LocalStore) Reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.root.Load()
	switch {
	case s.closed:
		return s.failed("open", "", fs.ErrClosed)
	case old.b.walkOnly:
		return s.failed("open", "", errors.ErrUnsupported)
	}
	fd, err := openat2(unix.AT_FDCWD, old.b.realDir, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return s.failed("open", "", err)
	}
	st, err := isThere(fd)
	if err == nil && uint64(st.Dev) != old.b.at.dev {
		err = errors.New("what is there is on another file system")
	}
	if err != nil {
		unix.Close(fd)
		return s.failed("open", "", err)
	}
	root, err := newLocalRoot(fd, old.b.realDir)
	if err != nil {
		return s.failed("open", "", err)
	}
	root.b.watched = old.b.watched
	s.root.Store(root)
	old.f.Close() // calls under way are finished
	return nil
}
