package pack

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"prismfs/dataset"
)

// Marker is the name of the file that stands in a destination while a run
// writes there, and stays after a run that did not come to its end. It is locked
// by the run that owns it.
const Marker = dataset.PackMarker

// tempPrefix begins the names of outputs that are not finished.
const tempPrefix = dataset.PackTempPrefix

const markerText = `prismfs is writing into this folder, or was killed before it had finished.
Run the same command again to go on. This file goes away when the work is done.
`

// interruptedText is what the marker says after a run that was ended in order,
// whose outputs are on the disk.
const interruptedText = `prismfs was ended before it had finished what it writes into this folder.
Run the same command again to go on. This file goes away when the work is done.
`

// ErrSource says that a source cannot be used, ErrDestination that a
// destination cannot.
var (
	ErrSource      = errors.New("source not usable")
	ErrDestination = errors.New("destination not usable")
)

// A target is the folder that a run writes to. Writes cannot leave it, whatever
// links lie in it.
type target struct {
	path   string
	root   *os.Root
	marker *os.File
	// unfinished: an earlier run did not come to its end.
	unfinished bool
	// unclean: nor did it end in order, so that its outputs may not have reached
	// the disk before a crash of the machine.
	unclean bool
}

// openTarget makes the folder dst where it is missing, locks it and clears away
// what a killed run left. Close or abandon must be called.
func openTarget(dst string) (*target, error) {
	if err := os.MkdirAll(dst, 0o777); err != nil {
		return nil, fmt.Errorf("%w: making it: %w", ErrDestination, err)
	}
	root, err := os.OpenRoot(dst)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDestination, err)
	}
	t := &target{path: dst, root: root}
	if err := t.mark(); err != nil {
		root.Close()
		return nil, fmt.Errorf("%w: %w", ErrDestination, err)
	}
	if t.unclean {
		if err := t.clear("."); err != nil {
			t.marker.Close()
			root.Close()
			return nil, fmt.Errorf("%w: clearing what a killed run left: %w", ErrDestination, err)
		}
	}
	return t, nil
}

// mark makes the marker and locks it.
func (t *target) mark() error {
	for {
		_, err := t.root.Lstat(Marker)
		t.unfinished = err == nil
		f, err := t.root.OpenFile(Marker, os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return fmt.Errorf("it cannot be written to: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return fmt.Errorf("another run of prismfs is writing to %s: wait for it, or end it", Printable(t.path))
		}
		// Other errors come from file systems without locks: go on without.
		mine, err1 := f.Stat()
		there, err2 := t.root.Lstat(Marker)
		if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
			// A run that has just ended took its marker away between our
			// opening and locking it.
			f.Close()
			continue
		}
		t.marker = f
		t.unclean = t.unfinished && !t.markerSays(interruptedText)
		if !t.unclean {
			return t.writeMarker(markerText)
		}
		return nil
	}
}

func (t *target) markerSays(text string) bool {
	said, err := io.ReadAll(io.NewSectionReader(t.marker, 0, int64(len(text))+1))
	return err == nil && string(said) == text
}

// writeMarker replaces the text of the marker, on the disk: what it says of the
// outputs must not come later than they do.
func (t *target) writeMarker(text string) error {
	err := t.marker.Truncate(0)
	if err == nil {
		_, err = t.marker.WriteAt([]byte(text), 0)
	}
	if err == nil {
		err = t.marker.Sync()
	}
	return err
}

// clear removes the unfinished outputs of a run that was killed, below a folder
// of the target.
func (t *target) clear(dir string) error {
	entries, err := t.readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := e.Name()
		if dir != "." {
			path = dir + "/" + path
		}
		switch {
		case e.IsDir():
			err = t.clear(path)
		case e.Type().IsRegular() && strings.HasPrefix(e.Name(), tempPrefix):
			err = named(t.root.Remove(path), path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDir returns what stands in a folder of the target, "." for itself, by name. It
// is not fs.ReadDir of root.FS, which refuses names that are not UTF-8.
func (t *target) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := t.root.Open(dir)
	if err != nil {
		return nil, named(err, dir)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, named(err, dir)
}

// named is an error about a path in a form that can be printed, whatever bytes the
// path has.
func named(err error, path string) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", Printable(path), err)
}

// close ends a run that has done its work: all outputs are brought to the disk,
// then the marker goes.
func (t *target) close() error {
	err := unix.Syncfs(int(t.marker.Fd()))
	if err == nil {
		err = t.root.Remove(Marker)
	}
	return t.free(err)
}

// abandon ends a run that has not. The marker stays, unless neither this run nor
// one before it has touched the folder.
func (t *target) abandon(touched bool) error {
	var err error
	switch {
	case !touched && !t.unfinished:
		err = t.root.Remove(Marker)
	case !t.unclean: // else there may be outputs that nobody has brought to the disk
		if err = unix.Syncfs(int(t.marker.Fd())); err == nil {
			err = t.writeMarker(interruptedText)
		}
	}
	return t.free(err)
}

// free closes the folder, and wraps the error of what came before.
func (t *target) free(err error) error {
	t.marker.Close()
	t.root.Close()
	if err != nil {
		return fmt.Errorf("ending the run in %s: %w", Printable(t.path), err)
	}
	return nil
}

// removeEmptyFolder removes a folder directly in the target. Whatever holds
// anything, or is no folder, is an error and stays.
func (t *target) removeEmptyFolder(name string) error {
	root, err := t.root.Open(".")
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unix.Unlinkat(int(root.Fd()), name, unix.AT_REMOVEDIR); err != nil {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// mkdir makes a folder like one of the source, whose parent has been made.
// Its owner can write to it whatever the source allows, else nothing could be
// put there.
func (t *target) mkdir(path string, mode fs.FileMode) error {
	err := t.root.Mkdir(path, mode.Perm()|0o700)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("making a folder in the destination: %w", named(err, path))
	}
	if info, err := t.root.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	return fmt.Errorf("%w: %s in it stands where a folder of that name belongs, and is none: remove it, or choose another destination",
		ErrDestination, Printable(path))
}

// A pending output has no name yet.
type pending struct {
	*os.File
	t    *target
	temp string
}

// create begins an output in folder dir of the target.
func (t *target) create(dir string) (*pending, error) {
	temp := tempPrefix + rand.Text()
	if dir != "" {
		temp = dir + "/" + temp
	}
	f, err := t.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &pending{File: f, t: t, temp: temp}, nil
}

// discard removes the output; after a commit it does nothing.
func (p *pending) discard() {
	if p.temp != "" {
		p.Close()
		p.t.root.Remove(p.temp)
	}
}

// commit gives the output its name, the permissions and the time of the
// source. An existing file of that name is replaced only if replace is set,
// else the error is fs.ErrExist.
func (p *pending) commit(path string, source fs.FileInfo, replace bool) error {
	if err := p.Chmod(source.Mode().Perm()); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if err := p.t.root.Chtimes(p.temp, time.Time{}, source.ModTime()); err != nil {
		return err
	}
	if err := p.rename(path, replace); err != nil {
		return err
	}
	p.temp = ""
	return nil
}

func (p *pending) rename(path string, replace bool) error {
	if replace {
		return p.t.root.Rename(p.temp, path)
	}
	// A link fails where the name exists, a renaming does not.
	err := p.t.root.Link(p.temp, path)
	switch {
	case err == nil:
		return p.t.root.Remove(p.temp)
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENAMETOOLONG):
		return err
	}
	// The file system has no hard links.
	if _, err := p.t.root.Lstat(path); err == nil {
		return &fs.PathError{Op: "rename", Path: path, Err: fs.ErrExist}
	}
	return p.t.root.Rename(p.temp, path)
}

// writeOutput writes a file of the destination.
func writeOutput(t *target, dir, path string, data []byte, info fs.FileInfo, replace bool, o outcome) (outcome, error) {
	p, err := t.create(dir)
	if err != nil {
		return outcome{}, fmt.Errorf("writing to the destination: %w", err)
	}
	defer p.discard()
	if _, err := p.Write(data); err != nil {
		return outcome{}, fmt.Errorf("writing to the destination: %w", err)
	}
	return commit(p, path, info, replace, o)
}

// commit names a finished output. A name that the destination cannot hold is
// a refusal, any other failure ends the run.
func commit(p *pending, path string, info fs.FileInfo, replace bool, o outcome) (outcome, error) {
	err := p.commit(path, info, replace)
	switch {
	case err == nil:
		o.replaced = replace
		return o, nil
	case errors.Is(err, fs.ErrExist):
		return refusal("a file of the name " + Printable(path) + " has just appeared in the destination"), nil
	case costsOnlyItself(err):
		return refusal(fmt.Sprintf("the destination cannot hold the name %s: %v", Printable(path), err)), nil
	}
	return outcome{}, fmt.Errorf("writing to the destination: %w", err)
}

// costsOnlyItself tells whether a failure to write concerns one output and
// not the destination as a whole: a name that its file system cannot hold.
func costsOnlyItself(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EILSEQ) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrExist)
}
