package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"prismfs/dataset"
)

// fickleFolder is a source folder that is as it is told to be.
type fickleFolder struct{ root, reopen error }

func (f *fickleFolder) Root() error { return f.root }

func (f *fickleFolder) Reopen() error {
	if f.reopen == nil {
		f.root = nil
	}
	return f.reopen
}

// TestSourceWatch: the log has one line when the source folder has gone, and one when
// it is back, however long it takes.
func TestSourceWatch(t *testing.T) {
	removed := fmt.Errorf("look: %w", dataset.ErrRemoved)
	missing, broken := errors.New("nothing there"), fmt.Errorf("look: %w", syscall.EIO)
	folder := &fickleFolder{reopen: missing}
	log := new(lockedBuffer)
	w := &sourceWatch{folder: folder, log: slog.New(slog.NewTextHandler(log, nil)), name: "/data/photos", state: new(lostSource)}
	gone, back := 0, 0
	for i, step := range []struct {
		root, reopen error
		looks        int
		gone, back   int // lines that come
	}{
		{nil, missing, 5, 0, 0},
		{removed, missing, 5, 1, 0},
		{removed, nil, 1, 0, 1},
		{nil, nil, 5, 0, 0},
		{removed, nil, 5, 0, 1}, // made anew between two looks
		{broken, nil, patientLooks - 1, 0, 0},
		{nil, nil, 1, 0, 0},
		{broken, nil, patientLooks - 1, 0, 0},
		{broken, nil, 5, 1, 0},
		{nil, nil, 5, 0, 1},
	} {
		folder.root, folder.reopen = step.root, step.reopen
		for range step.looks {
			w.look()
		}
		if why := w.state.why(); (why != "") != w.gone || w.gone && !strings.Contains(why, step.root.Error()+": ") {
			t.Errorf("step %d: who asks is told %q", i, why)
		}
		gone, back = gone+step.gone, back+step.back
		text := log.String()
		if a, b := strings.Count(text, "is gone"), strings.Count(text, "is back"); a != gone || b != back {
			t.Errorf("step %d: %d lines that it is gone and %d that it is back, want %d and %d:\n%s", i, a, b, gone, back, text)
		}
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "source=/data/photos") {
			t.Errorf("the line does not name the source: %s", line)
		}
	}
}

// TestNumberOfARemovedFolder: a folder that has the inode number of one above it, as that
// was before it was removed, is no loop.
func TestNumberOfARemovedFolder(t *testing.T) {
	source := t.TempDir()
	writeSample(t, filepath.Join(source, "cat", "a.l3"), rgb8, "")
	if err := os.Symlink(".", filepath.Join(source, "loop")); err != nil {
		t.Fatal(err)
	}
	m := spokenMount(t, source)
	target := func(name string) target {
		t.Helper()
		found, err := m.names.resolve(background, place{view: DefaultView}, name)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	cat := target("cat")
	reused := &dirNode{m: m, at: place{view: DefaultView}, id: cat.info.ID}
	if err := reused.loop(cat); err != nil {
		t.Errorf("a folder with the number of one that is gone: %v", err)
	}
	loop := target("loop")
	root := &dirNode{m: m, at: place{view: DefaultView}, id: loop.info.ID}
	if err := root.loop(loop); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to the folder that it is in: %v", err)
	}
}
