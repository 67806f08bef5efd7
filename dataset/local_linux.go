package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// LocalStore is a folder of this machine.
//
// Everything is opened beneath a descriptor of the folder: links are followed as
// long as they end inside it, be they relative or absolute, and ErrOutside says
// that one does not; nothing outside is ever opened, even where somebody changes
// the folder meanwhile. A link in a loop gives ELOOP, a dangling one
// fs.ErrNotExist.
//
// WatchLinks has the permissions of what links lead to lessened by those of the
// folders that they lead through.
//
// Renaming or moving the folder does not disturb the store, and a file system
// that is mounted somewhere in the folder is part of it. Where the folder is removed
// and made anew, Reopen has the store be the new one.
type LocalStore struct {
	dir  string
	root atomic.Pointer[localRoot]

	mu     sync.Mutex // of Reopen and Close
	closed bool
}

// localRoot is the open folder of a store.
type localRoot struct {
	f    *os.File
	conn syscall.RawConn // of f
	b    beneath
}

var _ Store = (*LocalStore)(nil)

// readFlags are those of every open for reading: without O_NONBLOCK the open of
// a fifo, put in the place of a file at the last moment, would wait for a
// writer; without O_NOCTTY a terminal could become ours.
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// OpenLocal opens a folder as a store. The folder itself may be reached by links.
func OpenLocal(dir string) (*LocalStore, error) {
	fail := func(err error) (*LocalStore, error) {
		return nil, &fs.PathError{Op: "open source folder", Path: dir, Err: err}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fail(err)
	}
	realDir, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return fail(reason(err))
	}
	fd, err := openat(unix.AT_FDCWD, realDir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fail(err)
	}
	root, err := newLocalRoot(fd, realDir)
	if err != nil {
		return fail(err)
	}
	s := &LocalStore{dir: abs}
	s.root.Store(root)
	return s, nil
}

// newLocalRoot makes a root of a descriptor, and owns it, error or not.
func newLocalRoot(fd int, realDir string) (*localRoot, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), realDir)
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	b := beneath{root: fd, at: placeOf(&st), realDir: realDir, walkOnly: !openat2Works(fd)}
	return &localRoot{f: f, conn: conn, b: b}, nil
}

// within calls do with the folder, which stays open until it returns. It fails with
// fs.ErrClosed alone.
func (s *LocalStore) within(do func(b *beneath)) error {
	for {
		root := s.root.Load()
		if root.conn.Control(func(uintptr) { do(&root.b) }) == nil {
			return nil
		}
		if s.root.Load() == root { // it was not reopened meanwhile
			return fs.ErrClosed
		}
	}
}

// WatchLinks is for a store whose files are shown to others than who runs this
// process: permissions of what a link leads to are given only as far as every
// folder on the link's way can be searched by whom they speak of. It comes
// before all other calls.
func (s *LocalStore) WatchLinks() { s.root.Load().b.watched = true }

// String returns the absolute path of the folder.
func (s *LocalStore) String() string { return s.dir }

// Close closes the folder. Calls under way are finished, later ones give
// fs.ErrClosed.
func (s *LocalStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.root.Load().f.Close()
}

// Stat describes what path leads to. It needs no permission to read it.
func (s *LocalStore) Stat(ctx context.Context, path string) (Info, error) {
	fd, info, err := s.look(ctx, path)
	if err != nil {
		return Info{}, s.failed("look at", path, err)
	}
	unix.Close(fd)
	return info, nil
}

// Open opens a regular file for reading; the File is a *LocalFile.
func (s *LocalStore) Open(ctx context.Context, path string) (File, error) {
	f, err := s.openFile(ctx, path)
	if err != nil {
		return nil, s.failed("open", path, err)
	}
	return f, nil
}

func (s *LocalStore) openFile(ctx context.Context, path string) (*LocalFile, error) {
	// Opening a device can have effects (a tape rewinds, a watchdog starts to
	// tick) and opening a fifo wakes its writer: so look first.
	place, info, err := s.look(ctx, path)
	if err != nil {
		return nil, err
	}
	unix.Close(place)
	if err := refuse(info.Kind); err != nil {
		return nil, err
	}
	fd, through, err := s.openBeneath(path, readFlags)
	if err != nil {
		return nil, err
	}
	f, err := newLocalFile(fd, s.full(path))
	if err == nil {
		f.info.Mode = through.restrict(f.info.Mode, f.info.UID, f.info.GID)
	}
	return f, err
}

// ReadStart describes what path leads to, and reads the beginning of a file, as
// Stat, Open, ReadAt and File.Stat would.
func (s *LocalStore) ReadStart(ctx context.Context, path string, p []byte) (Info, int, error) {
	place, info, err := s.look(ctx, path) // before it is opened: see openFile
	if err != nil {
		return Info{}, 0, s.failed("look at", path, err)
	}
	unix.Close(place)
	if info.Kind != Regular {
		return info, 0, nil
	}
	fd, through, err := s.openBeneath(path, readFlags)
	if err != nil {
		return Info{}, 0, s.failed("open", path, err)
	}
	defer unix.Close(fd)
	info, n, err := readStart(fd, p)
	if err != nil {
		return Info{}, 0, s.failed("read", path, err)
	}
	info.Mode = through.restrict(info.Mode, info.UID, info.GID)
	return info, n, nil
}

// readStart reads the beginning of an open file, which stays the same meanwhile.
func readStart(fd int, p []byte) (Info, int, error) {
	info, err := infoOf(fd)
	if err == nil {
		err = refuse(info.Kind)
	}
	if err != nil {
		return Info{}, 0, err
	}
	p = p[:min(int64(len(p)), info.Size)]
	n := 0
	for n < len(p) {
		got, err := unix.Pread(fd, p[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Info{}, 0, err
		}
		if got == 0 {
			break // it was cut, which is told below
		}
		n += got
	}
	now, err := infoOf(fd)
	if err == nil && now.ID != info.ID {
		err = fmt.Errorf("%w while it was being read", ErrChanged)
	}
	return info, n, err
}

// refuse says why something of a kind is not opened as a file.
func refuse(k Kind) error {
	switch k {
	case Regular:
		return nil
	case Dir:
		return unix.EISDIR
	}
	return ErrSpecial
}

// look opens what path leads to as a place and describes it.
func (s *LocalStore) look(ctx context.Context, path string) (int, Info, error) {
	if err := ctx.Err(); err != nil {
		return -1, Info{}, err
	}
	if err := checkPath(path); err != nil {
		return -1, Info{}, err
	}
	fd, through, err := s.openBeneath(path, unix.O_PATH)
	if err != nil {
		return -1, Info{}, err
	}
	info, err := infoOf(fd)
	if err != nil {
		unix.Close(fd)
		return -1, Info{}, err
	}
	info.Mode = through.restrict(info.Mode, info.UID, info.GID)
	return fd, info, nil
}

// openBeneath opens a path. The folder stays open until it has done so.
func (s *LocalStore) openBeneath(path string, flags int) (fd int, through passage, err error) {
	if closed := s.within(func(b *beneath) { fd, through, err = b.open(path, flags) }); closed != nil {
		return -1, nil, closed
	}
	return fd, through, err
}

// full returns a path of the store as the machine knows it, for messages.
func (s *LocalStore) full(path string) string {
	if path == "" {
		return s.dir
	}
	return strings.TrimSuffix(s.dir, "/") + "/" + path
}

func (s *LocalStore) failed(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: s.full(path), Err: err}
}

// reason takes what went wrong out of an error that names a path of its own.
func reason(err error) error {
	if pathErr, ok := err.(*fs.PathError); ok {
		return pathErr.Err
	}
	return err
}

// checkPath refuses what is no path of a store.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0 {
			return fs.ErrInvalid
		}
	}
	return nil
}

// LocalFile is an open file of a LocalStore.
type LocalFile struct {
	f    *os.File
	conn syscall.RawConn // of f
	info Info
}

var _ File = (*LocalFile)(nil)

// newLocalFile makes a file of a descriptor, and owns it, error or not.
func newLocalFile(fd int, name string) (*LocalFile, error) {
	info, err := infoOf(fd)
	if err == nil {
		err = refuse(info.Kind)
	}
	if err == nil {
		// The runtime would try to poll a descriptor that does not block.
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &LocalFile{f: f, conn: conn, info: info}, nil
}

// ReadAt reads as io.ReaderAt has it.
func (f *LocalFile) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// Fd returns the descriptor, which is valid until Close. It is closed on exec.
func (f *LocalFile) Fd() uintptr { return f.f.Fd() }

// Close closes the file; reads under way are finished.
func (f *LocalFile) Close() error { return f.f.Close() }

// Info describes the file as it was found when it was opened.
func (f *LocalFile) Info() Info { return f.info }

// Stat describes the file as it is now.
func (f *LocalFile) Stat() (info Info, err error) {
	if f.conn.Control(func(fd uintptr) { info, err = infoOf(int(fd)) }) != nil {
		err = fs.ErrClosed // the only reason that Control has
	}
	if err != nil {
		return Info{}, &fs.PathError{Op: "look again at", Path: f.f.Name(), Err: err}
	}
	return info, nil
}

// infoOf describes what a descriptor stands for.
func infoOf(fd int) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(fd, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return Info{}, err
		}
	}
	return infoFrom(&st), nil
}

func infoFrom(st *unix.Stat_t) Info {
	return Info{
		Kind: kindOf(st.Mode),
		Size: st.Size,
		Mode: fs.FileMode(st.Mode & 0o777),
		UID:  st.Uid,
		GID:  st.Gid,
		ID: Identity{
			Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size,
			MTimeNS: st.Mtim.Nano(), CTimeNS: st.Ctim.Nano(),
		},
	}
}

func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return Regular
	case unix.S_IFDIR:
		return Dir
	}
	return Special
}
