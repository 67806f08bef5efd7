package dataset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"
)

// A folder that is removed is known to be, and one that is made in its place is taken,
// but not by a link.
func TestReopen(t *testing.T) {
	top := t.TempDir()
	dir := top + "/source"
	create := func(text string) {
		must(t, os.Mkdir(dir, 0o755))
		writeFile(t, dir+"/a", text)
	}
	create("old")
	s, err := OpenLocal(dir)
	must(t, err)
	defer s.Close()
	if s.root.Load().b.walkOnly {
		t.Skip("no openat2 here")
	}
	ctx := context.Background()
	read := func() (string, error) {
		f, err := s.Open(ctx, "a")
		if err != nil {
			return "", err
		}
		defer f.Close()
		var text [3]byte
		_, err = f.ReadAt(text[:], 0)
		return string(text[:]), err
	}
	must(t, s.Root())
	must(t, os.Rename(dir, top+"/renamed"))
	must(t, s.Root()) // which does not disturb it
	must(t, os.Rename(top+"/renamed", dir))

	must(t, os.RemoveAll(dir))
	if err := s.Root(); !errors.Is(err, ErrRemoved) {
		t.Errorf("a folder that was removed: %v", err)
	}
	if err := s.Reopen(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a folder that is not there: %v", err)
	}
	symlink(t, "/etc", dir)
	if err := s.Reopen(); err == nil {
		t.Error("a link is taken for the folder")
	}
	must(t, os.Remove(dir))
	create("new")
	if _, err := read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is opened again: %v", err)
	}
	var readers sync.WaitGroup
	for range 4 { // who look while it is opened see the old folder or the new one
		readers.Go(func() {
			for range 300 {
				if text, err := read(); text != "new" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("read %q, %v", text, err)
				}
			}
		})
	}
	for range 20 {
		must(t, s.Reopen())
	}
	readers.Wait()
	must(t, s.Root())
	if text, err := read(); text != "new" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	must(t, s.Close())
	if err := s.Reopen(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("opening a store that is closed: %v", err)
	}
	if err := s.Root(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("looking at a store that is closed: %v", err)
	}
}
