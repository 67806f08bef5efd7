package dataset

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"prismfs/l3"
)

// A header that is read at once gives the same sample, or error, as one that is
// read by Stat, Open and ReadAt.
func TestFirstLook(t *testing.T) {
	dir := t.TempDir()
	short := image(t, 5, 7, 1, l3.EncodeOptions{})
	long := image(t, 90, 70, 2, l3.EncodeOptions{})
	head := image(t, 9, 7, 3, l3.EncodeOptions{Meta: l3.Metadata{Class: "dog", ColourProfile: make([]byte, 2*l3.PrefixBytes)}})
	for name, content := range map[string][]byte{
		"short.l3": short, "long.l3": long, "head.l3": head, "cut.l3": short[:30], "cuthead.l3": head[:l3.PrefixBytes+9],
		"none.l3": nil, "text.l3": []byte("no image"), "in/a.l3": long,
	} {
		writeFile(t, dir+"/"+name, string(content))
	}
	must(t, os.Mkdir(dir+"/folder.l3", 0o755))
	must(t, unix.Mkfifo(dir+"/fifo.l3", 0o644))
	symlink(t, "long.l3", dir+"/link.l3")
	symlink(t, dir+"/in", dir+"/away")
	symlink(t, "/etc/hostname", dir+"/outside.l3")
	symlink(t, "nowhere", dir+"/dangling.l3")
	ctx := context.Background()
	eachStore(t, dir, func(t *testing.T, store *LocalStore) {
		store.WatchLinks()
		for _, path := range []string{
			"short.l3", "long.l3", "head.l3", "cut.l3", "cuthead.l3", "none.l3", "text.l3", "in/a.l3", "folder.l3",
			"fifo.l3", "link.l3", "away/a.l3", "outside.l3", "dangling.l3", "missing.l3", "short.l3/a.l3",
		} {
			near := Open(store, Options{TableDir: NoTables})
			far := Open(&hookStore{Store: store}, Options{TableDir: NoTables})
			got, gotErr := near.Sample(ctx, path)
			want, wantErr := far.Sample(ctx, path)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Sample{})); diff != "" {
				t.Errorf("%s (-far +near):\n%s", path, diff)
			}
			if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
				t.Errorf("%s: %v, by parts: %v", path, gotErr, wantErr)
			}
			for _, kind := range []error{ErrNotSample, ErrSpecial, ErrOutside, ErrChanged, fs.ErrNotExist, l3.ErrTruncated, l3.ErrNotL3} {
				if errors.Is(gotErr, kind) != errors.Is(wantErr, kind) {
					t.Errorf("%s: %v, by parts: %v", path, gotErr, wantErr)
				}
			}
			again, err := near.Sample(ctx, path)
			if got != nil && (err != nil || again != got) {
				t.Errorf("%s was not remembered: %v", path, err)
			}
		}
	})
}

// Whoever comes, and whenever the file is replaced: what is said of it belongs
// together, and who asks after it was replaced is told of the new one.
func TestFirstLookAtReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	files := [][]byte{image(t, 5, 7, 1, l3.EncodeOptions{}), image(t, 90, 70, 2, l3.EncodeOptions{})}
	replace(t, dir+"/a.l3", files[0])
	store := openLocal(t, dir)
	ctx := context.Background()
	for i := range 200 {
		d := Open(store, Options{TableDir: NoTables})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				s, err := d.Sample(ctx, "a.l3")
				if err != nil {
					if !errors.Is(err, ErrChanged) && !errors.Is(err, l3.ErrTruncated) {
						t.Error(err)
					}
					return
				}
				want := 5
				if s.Info.Size == int64(len(files[1])) {
					want = 90
				}
				if s.Shape.Height != want {
					t.Errorf("a file of %d bytes has height %d", s.Info.Size, s.Shape.Height)
				}
			})
		}
		next := files[(i+1)%2]
		replace(t, dir+"/a.l3", next)
		wg.Wait()
		s, err := d.Sample(ctx, "a.l3")
		must(t, err)
		if got, err := d.ReadEncoded(ctx, s, 0, nil); err != nil || !bytes.Equal(got, next) {
			t.Fatalf("round %d: another file than the last one: %v", i, err)
		}
	}
}

// A file that is written to while its beginning is read is told of.
func TestReadStartOfAChangedFile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/a"
	writeFile(t, path, "content")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	done := make(chan struct{})
	changed := 0
	go func() {
		defer close(done)
		for i := range 20000 {
			if err := f.Truncate(int64(4096 + i%2*100)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	store := openLocal(t, dir)
	buf := make([]byte, 4096)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		info, n, err := store.ReadStart(context.Background(), "a", buf)
		switch {
		case errors.Is(err, ErrChanged):
			changed++
		case err != nil:
			t.Fatal(err)
		case int64(n) != min(info.Size, int64(len(buf))):
			t.Fatalf("%d of %d bytes", n, info.Size)
		}
	}
	if changed == 0 {
		t.Log("no change fell into a reading")
	}
}
