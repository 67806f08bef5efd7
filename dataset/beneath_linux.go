package dataset

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// This file turns a path into a descriptor without ever leaving the source,
// whatever the links in it say and whoever moves things meanwhile.
//
// openat2(2) with RESOLVE_BENEATH does the common case in one system call. It
// refuses every link that starts with a slash or passes above the root, also
// those that come back into the source (an absolute link to a neighbour, say);
// and it is missing before Linux 5.6 and behind some seccomp filters. Both are
// left to a walk in this process, one component at a time, which opens nothing
// outside the source but folders, and these as mere places (O_PATH).

const (
	// maxLinks is the number of links that Linux follows in one path
	// (MAXSYMLINKS in include/linux/namei.h).
	maxLinks = 40

	// maxBeneathTries is how often openat2 is asked again when somebody renames
	// a folder on the way at that very moment, before the walk takes over.
	maxBeneathTries = 4
)

const resolveFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// place is the identity of a folder while it exists.
type place struct{ dev, ino uint64 }

func placeOf(st *unix.Stat_t) place { return place{uint64(st.Dev), st.Ino} }

// beneath opens paths below a root folder.
type beneath struct {
	root     int    // O_PATH descriptor of the root, not owned
	at       place  // what root is
	realDir  string // where root was when it was opened, absolute, free of links
	walkOnly bool   // openat2 is not there
	watched  bool   // folders that links lead through are told of
}

// openat2Works finds out whether the kernel, and whatever filters its calls,
// lets us use openat2.
func openat2Works(root int) bool {
	fd, err := openat2(root, ".", unix.O_PATH, resolveFlags)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// open returns a descriptor of what path leads to. Flags are O_PATH or the
// flags of a reading open. The error is ErrOutside or a bare error number. Where
// the folders that links lead through are watched, through is what they allow.
func (b *beneath) open(path string, flags int) (fd int, through passage, err error) {
	if path == "" {
		path = "."
	}
	if fd, err, ok := b.atOnce(path, flags); ok {
		return fd, nil, err
	}
	return b.walk(path, flags)
}

// atOnce is open in one system call, and not ok where only a walk can tell. With
// watched folders it takes paths without links only.
func (b *beneath) atOnce(path string, flags int) (fd int, err error, ok bool) {
	// A path of more than PATH_MAX bytes is too long for the kernel, not for us.
	if b.walkOnly || len(path) >= unix.PathMax {
		return -1, nil, false
	}
	resolve := uint64(resolveFlags)
	if b.watched {
		resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	for range maxBeneathTries {
		if fd, err = openat2(b.root, path, flags, resolve); err != unix.EAGAIN {
			break
		}
	}
	if b.watched && err == unix.ELOOP {
		return -1, nil, false // there is a link in it, or a loop of links
	}
	return fd, err, err != unix.EAGAIN && err != unix.EXDEV
}

// openat2 opens a path beneath a folder.
func openat2(dir int, path string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// openat opens one component, which must not be a link unless flags has O_PATH.
func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// walker is a walk in progress. It stands inside, at the last of dirs, or
// outside, at out. It gets outside by a link only, and a path that ends there is
// an error; but on its way a link may lead through the outside and come back.
type walker struct {
	b     *beneath
	dirs  []int // the folders from the root (not owned) to here; none when outside
	out   int   // the folder outside; -1 when inside
	links int

	through passage // of a watched walk
}

func (b *beneath) walk(path string, flags int) (int, passage, error) {
	w := &walker{b: b, dirs: []int{b.root}, out: -1}
	defer w.leave()
	fd, err := w.follow(path, flags)
	// What is outside stays unknown: whether it exists, is a folder, is a loop.
	if err != nil && w.out >= 0 && !isScarcity(err) {
		return -1, nil, ErrOutside
	}
	return fd, w.through, err
}

// follow walks path to its end and opens what is there.
func (w *walker) follow(path string, flags int) (int, error) {
	for {
		name, rest, more := strings.Cut(path, "/")
		path = rest
		switch name {
		case "", ".":
		case "..":
			if err := w.up(); err != nil {
				return -1, err
			}
		default:
			fd, target, err := w.look(name)
			if err != nil {
				return -1, err
			}
			switch {
			case target != "":
				var atRoot bool
				if path, atRoot, err = w.turn(target, rest, more); err != nil {
					return -1, err
				}
				if atRoot && !w.b.watched {
					if fd, err, ok := w.b.atOnce(path, flags); ok {
						return fd, err
					}
				}
				continue
			case more:
				err = w.pass(fd)
			default:
				return w.arrive(fd, name, flags)
			}
			if err != nil {
				return -1, err
			}
		}
		if !more {
			return w.openHere(flags)
		}
	}
}

// here returns the descriptor of the folder in which the walk stands.
func (w *walker) here() int {
	if w.out >= 0 {
		return w.out
	}
	return w.dirs[len(w.dirs)-1]
}

// look opens a component as a place or, if it is a link, reads its target.
func (w *walker) look(name string) (fd int, target string, err error) {
	if fd, err = openat(w.here(), name, unix.O_PATH); err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fd, "", nil
	}
	defer unix.Close(fd)
	if w.links++; w.links > maxLinks {
		return -1, "", unix.ELOOP
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return -1, "", err
	}
	return -1, string(buf[:n]), nil
}

// turn goes to where a link's target counts from, and returns the path that
// remains to be walked from there, and whether that is the root.
func (w *walker) turn(target, rest string, more bool) (path string, atRoot bool, err error) {
	if target[0] == '/' {
		if path, atRoot = w.b.insidePart(target); atRoot {
			w.toRoot()
			target = "." + path
		} else if err := w.toSlash(); err != nil {
			return "", false, err
		}
	}
	if more {
		target += "/" + rest
	}
	return target, atRoot, nil
}

// insidePart cuts the path of the root off an absolute one. That this path is
// the root's still is checked; the walk from "/" would find the same.
func (b *beneath) insidePart(target string) (string, bool) {
	inside, ok := strings.CutPrefix(target, strings.TrimSuffix(b.realDir, "/"))
	if !ok || (inside != "" && inside[0] != '/') {
		return "", false
	}
	var st unix.Stat_t
	err := unix.Fstatat(unix.AT_FDCWD, b.realDir, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || placeOf(&st) != b.at {
		return "", false
	}
	return inside, true
}

// toRoot goes to the root of the source.
func (w *walker) toRoot() {
	w.leave()
	w.dirs = append(w.dirs, w.b.root)
}

// toSlash goes to the root of the file system.
func (w *walker) toSlash() error {
	fd, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	w.leave()
	w.out = fd
	return w.notice()
}

// leave closes the folders of the walk that are its own.
func (w *walker) leave() {
	for _, fd := range w.dirs {
		if fd != w.b.root {
			unix.Close(fd)
		}
	}
	w.dirs = w.dirs[:0]
	if w.out >= 0 {
		unix.Close(w.out)
		w.out = -1
	}
}

// pass is enter for a folder that is not the end of the path.
func (w *walker) pass(fd int) error {
	if w.b.watched && w.links > 0 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return err
		}
		w.through = append(w.through, gate{mode: st.Mode, uid: st.Uid, gid: st.Gid})
	}
	return w.enter(fd)
}

// enter goes into the folder fd, and owns it from then on, error or not.
func (w *walker) enter(fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	if w.out < 0 {
		w.dirs = append(w.dirs, fd)
		return nil
	}
	unix.Close(w.out)
	w.out = fd
	return w.notice()
}

// notice turns outside into inside when the walk has come upon the root.
func (w *walker) notice() error {
	var st unix.Stat_t
	if err := unix.Fstat(w.out, &st); err != nil {
		return err
	}
	if placeOf(&st) == w.b.at {
		w.toRoot()
	}
	return nil
}

// up goes to the folder above. Inside that is the one from which the walk came,
// so that moving a folder out of the source under way leads nowhere.
func (w *walker) up() error {
	if n := len(w.dirs); n > 1 {
		unix.Close(w.dirs[n-1])
		w.dirs = w.dirs[:n-1]
		return nil
	}
	fd, err := openat(w.here(), "..", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	w.leave()
	w.out = fd
	return w.notice()
}

// arrive ends the walk at fd, which it closes, a thing called name in the folder
// where the walk stands.
func (w *walker) arrive(fd int, name string, flags int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := w.enter(fd); err != nil {
			return -1, err
		}
		return w.openHere(flags)
	}
	if w.out >= 0 {
		unix.Close(fd)
		return -1, ErrOutside
	}
	if flags&unix.O_PATH != 0 {
		return fd, nil
	}
	defer unix.Close(fd)
	return openat(w.here(), name, flags)
}

// openHere ends the walk at the folder where it stands.
func (w *walker) openHere(flags int) (int, error) {
	if w.out >= 0 {
		return -1, ErrOutside
	}
	return openat(w.here(), ".", flags)
}

// isScarcity says whether an error is for want of something in this process or
// machine, and so says nothing of the path.
func isScarcity(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
