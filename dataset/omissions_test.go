package dataset

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"prismfs/pcr"
)

// What pack lays beside its outputs while it works is no part of a dataset, in a
// folder of L3 files, in one of records, and below.
func TestPacksOwnFilesAreNotShown(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(top+"/photos/cat", 0o755))
	must(t, os.Mkdir(top+"/train", 0o755))
	must(t, os.MkdirAll(top+"/folder/"+PackMarker, 0o755)) // somebody's own
	ownFolder(t, top+"/train")
	own := []string{"photos/" + PackMarker, "photos/" + PackTempPrefix + "X", "photos/cat/" + PackTempPrefix + "Y",
		"train/" + PackMarker, "train/" + PackTempPrefix + "Z"}
	for _, path := range append(own, "photos/README", "train/README") {
		writeFile(t, top+"/"+path, "x")
	}
	d, _ := openPCR(t, top, Options{})
	ctx := context.Background()
	for _, path := range own {
		folder, name := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
		if _, ok := listed(t, d, folder)[name]; ok {
			t.Errorf("%s is listed", path)
		}
		must(t, d.Scan(ctx, folder, func(e DirEntry) bool {
			if e.Name == name {
				t.Errorf("%s is seen by a scan", path)
			}
			return true
		}))
		if _, err := d.Stat(ctx, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("looking at %s: %v", path, err)
		}
		if _, err := d.Open(ctx, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening %s: %v", path, err)
		}
	}
	for path, kind := range map[string]Kind{"photos/README": Regular, "train/README": Regular, "folder/" + PackMarker: Dir} {
		if info, err := d.Stat(ctx, path); err != nil || info.Kind != kind {
			t.Errorf("%s: %+v, %v", path, info, err)
		}
		folder, name, _ := strings.Cut(path, "/")
		if listed(t, d, folder)[name] != kind {
			t.Errorf("%s is not listed", path)
		}
	}
	if s := summary(t, d, "train"); !s.Unfinished {
		t.Error("the marker is not seen by who asks for it")
	}
}

// A folder of L3 files that pack has not finished is warned of once, and one that it
// has, not at all.
func TestCheckOfUnfinishedL3(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(top+"/train/cat", 0o755))
	writeFile(t, top+"/train/cat/a.l3", "x")
	d, _ := openPCR(t, top, Options{})
	check := func(want ...string) {
		t.Helper()
		lines, err := d.Check(context.Background(), "")
		must(t, err)
		if len(lines) != len(want) {
			t.Fatalf("%q, want %q", lines, want)
		}
		for i, line := range lines {
			if !strings.HasPrefix(line, want[i]+": unfinished: ") {
				t.Errorf("%q, want that %s is unfinished", line, want[i])
			}
		}
	}
	check()
	writeFile(t, top+"/"+PackMarker, "")
	check(top)
	writeFile(t, top+"/train/"+PackMarker, "")
	check(top, top+"/train")
	must(t, os.Remove(top+"/"+PackMarker))
	ownFolder(t, top)
	if lines, err := d.Check(context.Background(), ""); err != nil || len(lines) != 0 {
		t.Errorf("%s of records is looked at by itself: %q, %v", pcr.IndexNamePB, lines, err)
	}
}

// What is left out counts once, however often a folder is listed, and no more when it
// is gone.
func TestOmissionsAreCountedOnce(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(top+"/a", 0o755))
	must(t, os.MkdirAll(top+"/b", 0o755))
	must(t, unix.Mkfifo(top+"/a/fifo", 0o644))
	must(t, unix.Mkfifo(top+"/b/one", 0o644))
	must(t, unix.Mkfifo(top+"/b/two", 0o644))
	symlink(t, "none", top+"/b/dangling")
	writeFile(t, top+"/b/README", "x")
	var log bytes.Buffer
	d, _ := openDataset(t, top, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	list := func(folder string, most int) {
		t.Helper()
		must(t, d.ReadDir(context.Background(), folder, func(DirEntry) bool { most--; return most > 0 }))
	}
	expect := func(specials, broken uint64) {
		t.Helper()
		if s := d.Stats(); s.Specials != specials || s.BrokenLinks != broken {
			t.Errorf("%d special files and %d broken links are left out, want %d and %d", s.Specials, s.BrokenLinks, specials, broken)
		}
	}
	for range 3 {
		list("a", 9)
		list("b", 9)
		list("", 9)
		expect(3, 1)
	}
	must(t, os.Remove(top+"/b/one"))
	list("b", 1) // ends somewhere
	expect(3, 1)
	list("b", 9)
	expect(2, 1)
	must(t, os.Remove(top+"/a/fifo"))
	list("a", 9)
	expect(1, 1)
	if n := strings.Count(log.String(), "are left out of a folder"); n != 2 {
		t.Errorf("the log tells of %d folders, want 2:\n%s", n, log.String())
	}
}
