package dataset

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prismfs/pcr"
)

// returning is a dataset of records that go and come back.
type returning struct {
	d     *Dataset
	dir   string
	image string // of PCR_1.pcr
	all   int
	log   *bytes.Buffer
}

func newReturning(t *testing.T) *returning {
	t.Helper()
	r := &returning{dir: t.TempDir() + "/train"}
	must(t, os.Mkdir(r.dir, 0o755))
	ownFolder(t, r.dir)
	d, log := logged(t, r.dir, Options{})
	r.d, r.log = d, log
	for _, path := range samplePaths(t, d, "") {
		r.all++
		if s, err := d.Sample(context.Background(), path); err == nil && s.Source == "PCR_1.pcr" {
			r.image = path
		}
	}
	if r.image == "" {
		t.Fatal("no image is in PCR_1.pcr")
	}
	return r
}

// says counts what the log says.
func (r *returning) says(t *testing.T, text string, want int) {
	t.Helper()
	if n := strings.Count(r.log.String(), text); n != want {
		t.Errorf("the log says %q %d times, want %d:\n%s", text, n, want, r.log.String())
	}
}

func (r *returning) isThere(t *testing.T, want bool) {
	t.Helper()
	_, err := r.d.Sample(context.Background(), r.image)
	if want && err != nil || !want && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for an image of the record: %v, want it to be there: %v", err, want)
	}
}

const back = "records that were missing or damaged are back"

// A record that is moved away is missing, and back as soon as it is; the log says both.
func TestRecordsComeBack(t *testing.T) {
	r := newReturning(t)
	for i := range 3 {
		must(t, os.Rename(r.dir+"/PCR_1.pcr", r.dir+".away"))
		r.isThere(t, false)
		r.isThere(t, false)
		must(t, os.Rename(r.dir+".away", r.dir+"/PCR_1.pcr"))
		r.isThere(t, true)
		r.says(t, "records that the index names are missing", i+1)
		r.says(t, back, i+1)
	}
}

// An index that is damaged and repaired is no record that was missing.
func TestIndexComesBack(t *testing.T) {
	r := newReturning(t)
	f, _, err := r.d.pcrFolderOf(context.Background(), r.image)
	must(t, err)
	index := r.dir + "/" + f.index
	whole, err := os.ReadFile(index)
	must(t, err)
	replace := func(data []byte) {
		t.Helper()
		must(t, os.WriteFile(index+".new", data, 0o644))
		must(t, os.Rename(index+".new", index))
		time.Sleep(2 * tickOfStore)
		r.isThere(t, true)
	}
	for i := range 2 {
		replace(bytes.Repeat([]byte{0xff}, len(whole)))
		r.says(t, "an index cannot be read", i+1)
		replace(whole)
		r.says(t, "the index of a dataset is read again", i+1)
	}
	r.says(t, back, 0)
}

// A record that is copied back, which takes time, is looked at when that is over: its
// folder does not change any more by then.
func TestRecordsAreCopiedBack(t *testing.T) {
	r := newReturning(t)
	name := r.dir + "/PCR_1.pcr"
	whole, err := os.ReadFile(name)
	must(t, err)
	must(t, os.Remove(name))
	r.isThere(t, false)
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	from := 0
	for _, to := range []int{5, 15, 30, len(whole)} { // metadata alone take more than 30
		_, err := f.Write(whole[from:to])
		must(t, err)
		from = to
		time.Sleep(2 * tickOfStore)
		r.isThere(t, false) // it was written to since the last look
	}
	r.isThere(t, true)
	r.says(t, "cannot be used", 1)
	r.says(t, back, 1)
	if n := len(samplePaths(t, r.d, "")); n != r.all {
		t.Errorf("%d images are back, want %d", n, r.all)
	}
}

// A store that fails does not make records missing that are as they were, and those that
// could not be read come back with it.
func TestRecordsComeBackWithTheirStore(t *testing.T) {
	dir := t.TempDir()
	ownFolder(t, dir)
	time.Sleep(2 * tickOfStore)
	for _, operation := range []string{"stat", "open"} {
		d, store := openPCR(t, dir, Options{})
		all := samplePaths(t, d, "")
		failing := true
		fail := func(path string) error {
			if failing && path == "PCR_1.pcr" {
				return unix.EIO
			}
			return nil
		}
		// What is known is only asked for again.
		store.onStat, store.onOpen = fail, fail
		images := 0
		for _, path := range all {
			_, err := d.Sample(context.Background(), path)
			switch {
			case errors.Is(err, unix.EIO):
				images++
			case err != nil:
				t.Errorf("%s: %v", path, err)
			}
		}
		if images == 0 || len(samplePaths(t, d, "")) != len(all) {
			t.Errorf("%d of %d images cannot be read, and %d are listed", images, len(all), len(samplePaths(t, d, "")))
		}
		// What is new has to be looked into.
		fresh, store := openPCR(t, dir, Options{})
		if operation == "stat" {
			store.onStat = fail
		} else {
			store.onOpen = fail
		}
		if n := len(samplePaths(t, fresh, "")); n != len(all)-images {
			t.Errorf("%s: %d images are listed while a record cannot be read, want %d", operation, n, len(all)-images)
		}
		if s := summary(t, fresh, ""); len(s.Missing) != 0 || len(s.Bad) != 1 || !strings.Contains(s.Bad[0].Reason, "input/output error") {
			t.Errorf("%s: %+v", operation, s)
		}
		f, err := fresh.folderAt(context.Background(), "")
		must(t, err)
		f.loaded = f.loaded.Add(-f.patience)
		if again, err := fresh.folderAt(context.Background(), ""); err != nil || again != f {
			t.Errorf("%s: a folder is looked into again (%v) whose record still cannot be read", operation, err)
		}
		failing = false
		if n := len(samplePaths(t, fresh, "")); n != len(all) {
			t.Errorf("%s: %d images are listed when the record can be read again, want %d", operation, n, len(all))
		}
	}
}

// A dataset that is moved away and back is told of once each, and its table serves again.
func TestDatasetsComeBack(t *testing.T) {
	top := t.TempDir()
	must(t, os.Mkdir(top+"/train", 0o755))
	ownFolder(t, top+"/train")
	d, log := logged(t, top, Options{TableDir: t.TempDir()})
	all := samplePaths(t, d, "")
	read := d.Stats().StoreBytesIndex
	must(t, os.Rename(top+"/train", top+"/../away-"+t.Name()))
	defer os.RemoveAll(top + "/../away-" + t.Name())
	for range 3 {
		if _, err := d.Sample(context.Background(), all[0]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an image of a dataset that is gone: %v", err)
		}
	}
	must(t, os.Rename(top+"/../away-"+t.Name(), top+"/train"))
	for range 3 {
		if got := samplePaths(t, d, ""); len(got) != len(all) {
			t.Errorf("%d images are back, want %d", len(got), len(all))
		}
	}
	if now := d.Stats().StoreBytesIndex; now != read {
		t.Errorf("%d bytes of index were read anew", now-read)
	}
	for _, said := range []string{"a dataset is gone from the source", "a dataset is back"} {
		if n := strings.Count(log.String(), said); n != 1 {
			t.Errorf("the log says %q %d times:\n%s", said, n, log.String())
		}
	}
}

// A folder that changes within one tick of the store's clock after it was looked into
// is looked into again.
func TestFolderOfOneTick(t *testing.T) {
	now := time.Now()
	of := func(age time.Duration) Identity { return Identity{MTimeNS: now.Add(-age).UnixNano()} }
	for age, want := range map[time.Duration]bool{time.Hour: true, tickOfStore: true, tickOfStore / 2: false, -time.Second: false, -time.Hour: true} {
		if got := isSettled(of(age), now); got != want {
			t.Errorf("a folder of an age of %v is settled: %v", age, got)
		}
	}
	dir := t.TempDir()
	ownFolder(t, dir)
	d, _ := openPCR(t, dir, Options{})
	before := summary(t, d, "")
	state, ok := d.folders.Peek("")
	if !ok || before.Images == 0 {
		t.Fatal("nothing is known of the folder")
	}
	must(t, os.Remove(dir+"/PCR_1.pcr"))
	info, err := d.store.Stat(context.Background(), "")
	must(t, err)
	state.dir, state.settled = info.ID, false // as if it had been looked at in the same tick
	if s := summary(t, d, ""); len(s.Missing) != 1 || s.Index != pcr.IndexNamePB {
		t.Errorf("a record that went in the tick of the last look is still there: %+v", s)
	}
}
