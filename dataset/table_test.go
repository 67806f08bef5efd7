package dataset

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// contents reads every sample at every fidelity.
func contents(t testing.TB, d *Dataset) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range samplePaths(t, d, "") {
		for k := 1; k <= 4; k++ {
			all[path] += string(readAt(t, d, path, k))
		}
	}
	return all
}

// tableOf returns the one table in a folder.
func tableOf(t testing.TB, dir string) string {
	t.Helper()
	found, err := filepath.Glob(dir + "/*" + tableSuffix)
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%d tables in %s", len(found), dir)
	}
	return found[0]
}

// Whatever happens to a table, what is read is right.
func TestDamagedTables(t *testing.T) {
	dir := t.TempDir()
	bareFolder(t, dir, 3, 10, 2)
	tables := t.TempDir()
	first, _ := openPCR(t, dir, Options{TableDir: tables})
	must(t, first.BuildTables(context.Background(), "", nil))
	want := contents(t, first)
	path := tableOf(t, tables)
	whole, err := os.ReadFile(path)
	must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	changes := map[string]func(b []byte) []byte{
		"nothing":   func(b []byte) []byte { return b },
		"empty":     func(b []byte) []byte { return nil },
		"header":    func(b []byte) []byte { b[20] ^= 1; return b },
		"magic":     func(b []byte) []byte { b[0] = 'P'; return b },
		"cut":       func(b []byte) []byte { return b[:len(b)-1] },
		"cut short": func(b []byte) []byte { return b[:tableHeaderBytes+100] },
		"longer":    func(b []byte) []byte { return append(b, 0) },
		"tree":      func(b []byte) []byte { b[len(b)-20] ^= 4; return b },
		"zeros":     func(b []byte) []byte { clear(b); return b },
		"no blocks": func(b []byte) []byte { clear(b[tableHeaderBytes : tableHeaderBytes+3*10*(8+4*5)]); return b },
	}
	for i := range 8 {
		changes["bits "+string(rune('a'+i))] = func(b []byte) []byte {
			for range 10 {
				b[random.IntN(len(b))] ^= byte(1 << random.IntN(8))
			}
			return b
		}
		changes["zeros "+string(rune('a'+i))] = func(b []byte) []byte { // as after a crash
			at := tableHeaderBytes + random.IntN(len(b)-tableHeaderBytes)
			clear(b[at:min(len(b), at+random.IntN(300))])
			return b
		}
	}
	for name, change := range changes {
		replace(t, path, change(bytes.Clone(whole)))
		for range 2 {
			d, _ := openPCR(t, dir, Options{TableDir: tables})
			if got := contents(t, d); !maps.Equal(got, want) {
				t.Fatalf("%s: other images, or other bytes", name)
			}
			if s := d.Stats(); name == "nothing" && s.StoreBytesIndex != 0 {
				t.Errorf("a table that is right is not used: %+v", s)
			}
		}
		last, _ := openPCR(t, dir, Options{TableDir: tables})
		listed(t, last, "")
		if s := last.Stats(); s.StoreBytesIndex != 0 {
			t.Errorf("%s: the table was not put right: %+v", name, s)
		}
	}
}

// A table that is cut, or whose disk fails, while it is in use.
func TestTableLost(t *testing.T) {
	for _, names := range []bool{false, true} {
		dir := t.TempDir()
		if names {
			(&maker{dir: dir}).fill(t, 2, 30, 2)
		} else {
			bareFolder(t, dir, 2, 30, 2)
		}
		tables := t.TempDir()
		d, _ := openPCR(t, dir, Options{TableDir: tables})
		must(t, d.BuildTables(context.Background(), "", nil))
		want := contents(t, d)
		var held []*Sample
		for path := range want {
			s, err := d.Sample(context.Background(), path)
			must(t, err)
			held = append(held, s)
		}
		must(t, os.Truncate(tableOf(t, tables), 0))
		for _, s := range held {
			var got string
			for k := 1; k <= 4; k++ {
				b, err := d.ReadEncoded(context.Background(), s, k, nil)
				must(t, err)
				got += string(b)
			}
			if got != want[s.Path] {
				t.Errorf("%s has other bytes", s.Path)
			}
		}
		if got := contents(t, d); !maps.Equal(got, want) {
			t.Error("other images, or other bytes")
		}
		// A listing that comes upon it first.
		d, _ = openPCR(t, dir, Options{TableDir: tables})
		must(t, d.BuildTables(context.Background(), "", nil))
		class := "0"
		if names {
			class = "class0"
		}
		before := len(listed(t, d, class))
		must(t, os.Truncate(tableOf(t, tables), 0))
		if err := d.ReadDir(context.Background(), class, func(DirEntry) bool { return true }); err != nil && !errors.Is(err, errTableLost) {
			t.Error(err)
		}
		if got := len(listed(t, d, class)); got != before {
			t.Errorf("%d images are listed of %d", got, before)
		}
	}
}

// A full disk is no reason not to serve.
func TestTableCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	bareFolder(t, dir, 3, 10, 2)
	want := func() map[string]string {
		d, _ := openPCR(t, dir, Options{TableDir: NoTables})
		return contents(t, d)
	}()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	d, _ := openPCR(t, dir, Options{Logger: logger})
	listed(t, d, "")
	f, err := d.folderAt(context.Background(), "")
	must(t, err)
	must(t, f.table.file.Close()) // every write fails from now on
	if got := contents(t, d); !maps.Equal(got, want) {
		t.Error("other images, or other bytes")
	}
	if s := summary(t, d, ""); s.Table != "" || !strings.Contains(log.String(), "cannot be written to") {
		t.Errorf("%+v\n%s", s, log.String())
	}
	// No folder for tables.
	writeFile(t, dir+"/file", "")
	d, _ = openPCR(t, dir, Options{TableDir: dir + "/file/tables", Logger: logger})
	if got := contents(t, d); !maps.Equal(got, want) {
		t.Error("other images, or other bytes without a folder")
	}
	if s := summary(t, d, ""); s.Table != "" || !strings.Contains(log.String(), "no table is kept") {
		t.Errorf("%+v\n%s", s, log.String())
	}
}

// A disk that is full from the beginning is said once for each folder, with the
// reason, whether the table does not fit as a whole or already its first blocks.
func TestNoRoomForATable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small tmpfs")
	}
	tables := t.TempDir()
	if err := unix.Mount("tmpfs", tables, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(tables, unix.MNT_DETACH) })
	for name, fill := range map[string]func(dir string){
		"with lengths":    func(dir string) { (&maker{dir: dir}).fill(t, 20, 100, 2) },
		"without lengths": func(dir string) { bareFolder(t, dir, 20, 100, 2) },
	} {
		dir := t.TempDir()
		fill(dir)
		var log bytes.Buffer
		d, _ := openPCR(t, dir, Options{TableDir: tables, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		listed(t, d, "")
		listed(t, d, "")
		if n := strings.Count(log.String(), "no table is kept"); n != 1 || !strings.Contains(log.String(), "no space left on device") {
			t.Errorf("%s: said %d times:\n%s", name, n, log.String())
		}
		if s := summary(t, d, ""); s.Table != "" || !errors.Is(s.NoTable, unix.ENOSPC) {
			t.Errorf("%s: table %q, %v", name, s.Table, s.NoTable)
		}
	}
	if left, err := os.ReadDir(tables); err != nil || len(left) > 0 {
		t.Errorf("left there: %v, %v", left, err)
	}
}

// A table that may only be read is used as far as it goes.
func TestReadOnlyTable(t *testing.T) {
	dir, tables := t.TempDir(), t.TempDir()
	bareFolder(t, dir, 2, 10, 1)
	d, _ := openPCR(t, dir, Options{TableDir: tables})
	readEach(t, d, samplePaths(t, d, ""), 2)
	path := tableOf(t, tables)
	whole, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Chmod(tables, 0o555))
	must(t, os.Chmod(path, 0o444))
	must(t, os.Chmod(filepath.Dir(tables), 0o755))
	defer os.Chmod(tables, 0o755)
	asNobody(t, func() {
		d, _ := openPCR(t, dir, Options{TableDir: tables})
		readEach(t, d, samplePaths(t, d, ""), 2)
		if s := d.Stats(); s.StoreBytesIndex != 0 {
			t.Errorf("%+v", s)
		}
		readEach(t, d, samplePaths(t, d, ""), 4)
		readEach(t, d, samplePaths(t, d, ""), 4)
		if s := d.Stats(); s.StoreBytesIndex == 0 || s.StoreBytesIndex > 2*10*(2*16+2) {
			t.Errorf("%+v", s)
		}
	})
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, whole) {
		t.Error("the table has changed")
	}
}

// In memory, tables are bounded: what was forgotten is found again.
func TestMemoryTables(t *testing.T) {
	dir := t.TempDir()
	(&maker{dir: dir}).fill(t, 4, 10, 2)
	d, _ := openPCR(t, dir, Options{TableDir: NoTables})
	want := contents(t, d)
	f, err := d.folderAt(context.Background(), "")
	must(t, err)
	f.table.inBytes = maxMemoryTables // the next block does not fit
	for _, r := range f.records {
		r.memory.Store(nil)
	}
	if got := contents(t, d); !maps.Equal(got, want) {
		t.Error("other images, or other bytes")
	}
	if n := f.table.inBytes; n <= 0 || n > maxMemoryTables {
		t.Errorf("%d bytes", n)
	}
}

// Several processes with one table: each has a mapping of its own.
func TestTablesAreShared(t *testing.T) {
	dir := t.TempDir()
	bareFolder(t, dir, 4, 25, 3)
	alone, _ := openPCR(t, dir, Options{TableDir: NoTables})
	want := contents(t, alone)
	tables := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			store := openLocal(t, dir)
			for range 2 {
				d := Open(store, Options{TableDir: tables})
				for path, bytes := range want {
					var got string
					for k := 1; k <= 4; k++ {
						s, err := d.Sample(context.Background(), path)
						if err != nil {
							t.Error(err)
							return
						}
						b, err := d.ReadEncoded(context.Background(), s, k, nil)
						if err != nil {
							t.Error(err)
							return
						}
						got += string(b)
					}
					if got != bytes {
						t.Errorf("%s has other bytes", path)
					}
				}
			}
		})
	}
	wg.Wait()
	last, _ := openPCR(t, dir, Options{TableDir: tables})
	if got := contents(t, last); !maps.Equal(got, want) || last.Stats().StoreBytesIndex != 0 {
		t.Errorf("%+v after others have found everything", last.Stats())
	}
}

func TestOldTablesAreRemoved(t *testing.T) {
	dir, tables := t.TempDir(), t.TempDir()
	bareFolder(t, dir, 1, 3, 1)
	long := time.Now().Add(-tableAge - time.Hour)
	for name, at := range map[string]time.Time{
		"old" + tableSuffix: long, "new-1": long, "young" + tableSuffix: time.Now(), "other": long, "new-2": time.Now(),
		"new-3" + tableSuffix: time.Now(),
	} {
		writeFile(t, tables+"/"+name, "x")
		must(t, os.Chtimes(tables+"/"+name, at, at))
	}
	written, err := createUnfinished(tables) // by another process, say, just now
	must(t, err)
	defer written.Close()
	d, _ := openPCR(t, dir, Options{TableDir: tables})
	s := summary(t, d, "")
	for name, want := range map[string]bool{"old" + tableSuffix: false, "new-1": false, "young" + tableSuffix: true, "other": true, "new-2": true,
		"new-3" + tableSuffix: false, filepath.Base(written.Name()): true} {
		if _, err := os.Stat(tables + "/" + name); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Using a table makes it young.
	must(t, os.Chtimes(s.Table, long, long))
	again, _ := openPCR(t, dir, Options{TableDir: tables})
	listed(t, again, "")
	if info, err := os.Stat(s.Table); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("%v, %v", info.ModTime(), err)
	}
}

// A table belongs to a path, and to one state of the records.
func TestTablesAreKeyed(t *testing.T) {
	a, b, tables := t.TempDir(), t.TempDir(), t.TempDir()
	bareFolder(t, a, 2, 5, 1)
	bareFolder(t, b, 2, 6, 1)
	for range 2 {
		for dir, want := range map[string]int{a: 10, b: 12} {
			d, _ := openPCR(t, dir, Options{TableDir: tables})
			if got := len(contents(t, d)); got != want {
				t.Errorf("%d images, want %d", got, want)
			}
		}
	}
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(a+"/PCR_1.pcr", later, later))
	d, _ := openPCR(t, a, Options{TableDir: tables})
	if contents(t, d); d.Stats().StoreBytesIndex == 0 {
		t.Error("the table of another state of the folder is used")
	}
}

// A table takes about 64 bytes an image with ten groups.
func TestTableSize(t *testing.T) {
	f := readFixture(t, "pb")
	d, _ := openPCR(t, f.dir, Options{})
	s := summary(t, d, "")
	each := float64(s.TableBytes-tableHeaderBytes) / float64(s.Images+s.RepeatedImages)
	if each > 72 { // with what a record takes, of 32 images here
		t.Errorf("%.1f bytes an image", each)
	}
	t.Logf("%.1f bytes an image", each)
}

// Whatever a table has in it, images are what they are, or an error.
func FuzzTable(f *testing.F) {
	dir, tables := f.TempDir(), f.TempDir()
	(&maker{dir: dir}).fill(f, 2, 2, 1)
	d, _ := openPCR(f, dir, Options{TableDir: tables})
	must(f, d.BuildTables(context.Background(), "", nil))
	want := contents(f, d)
	path := tableOf(f, tables)
	whole, err := os.ReadFile(path)
	must(f, err)
	store := openLocal(f, dir)
	f.Add(uint16(0), []byte{}, uint16(0))
	f.Add(uint16(20), []byte{1}, uint16(0))
	f.Add(uint16(tableHeaderBytes), []byte{0xff, 0xff}, uint16(0))
	f.Add(uint16(len(whole)-50), []byte{4, 0, 7}, uint16(0))
	f.Add(uint16(0), []byte{}, uint16(900))
	f.Fuzz(func(t *testing.T, at uint16, flips []byte, cut uint16) {
		b := bytes.Clone(whole[:max(0, len(whole)-int(cut))])
		for i, flip := range flips {
			if n := int(at) + i; n < len(b) {
				b[n] ^= flip
			}
		}
		replace(t, path, b)
		d := Open(store, Options{TableDir: tables})
		if got := contents(t, d); !maps.Equal(got, want) {
			t.Fatal("other images, or other bytes")
		}
	})
}
