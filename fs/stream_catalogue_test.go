package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/dataset"
	"prismfs/l3"
	"prismfs/order"
	"prismfs/order/shard"
	"prismfs/raster"
	"prismfs/tensor"
)

// labelled is an L3 file that tells a class.
func labelled(t *testing.T, class string, label int64) []byte {
	t.Helper()
	meta := l3.Metadata{Class: class}
	if class != "" {
		meta.Label = &label
	}
	file, err := l3.Encode(raster.Image{Shape: rgb8, Pix: make([]byte, rgb8.Bytes())}, l3.EncodeOptions{Meta: meta})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func writeFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// streamMount is a mount that knows its source and its streams, and no kernel.
func streamMount(t *testing.T, store dataset.Store) *mount {
	t.Helper()
	m := &mount{log: slog.New(slog.DiscardHandler), ds: dataset.Open(store, dataset.Options{TableDir: dataset.NoTables}), auto: new(fidelities)}
	var err error
	if m.streams, err = newStreams(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func openLocal(t *testing.T, dir string) dataset.Store {
	t.Helper()
	store, err := dataset.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func streamView(folder string) View {
	v := DefaultView
	v.Stream = order.StreamView{Folder: folder, Factor: order.NoEchoes, Shard: 2, Ranks: 1}
	return v
}

// listOf writes the samples of a catalogue with their labels.
func listOf(c *catalogue) []string {
	var list []string
	for i := range c.samples {
		label := "none"
		if c.samples[i].label != unlabelled {
			label = fmt.Sprint(c.samples[i].label)
		}
		list = append(list, c.path(i)+" "+label)
	}
	return list
}

// TestCatalogue: all samples of a tree, in the order of the bytes of their paths,
// with the labels that ImageFolder gives them, whatever the files tell.
func TestCatalogue(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{
		"train/a/2.l3":      labelled(t, "train", 7), // packed above: the class is not train
		"train/a/1.l3":      labelled(t, "a", 40),
		"train/a/sub/0.l3":  labelled(t, "a", 40),
		"train/a.l3":        labelled(t, "train", 7), // in no class folder
		"train/a b/x.l3":    labelled(t, "", 0),
		"train/c/broken.l3": labelled(t, "c", 1)[:20],
		"train/c/x.l3":      labelled(t, "other", 9),
		"train/c/README":    []byte("text"),
		"train/c/left.PNG":  []byte("not packed"),
		"train/empty/notes": nil,
		"train/z.l3":        labelled(t, "", 0),
		"val/a/1.l3":        labelled(t, "a", 1),
	})
	if err := os.Symlink("..", filepath.Join(dir, "train", "a", "sub", "up")); err != nil {
		t.Fatal(err)
	}
	m := streamMount(t, openLocal(t, dir))
	c, err := makeCatalogue(background, m.ds, "train", streamView("train"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"train/a b/x.l3 1", "train/a.l3 none", "train/a/1.l3 0", "train/a/2.l3 0", "train/a/sub/0.l3 0", "train/c/x.l3 2", "train/z.l3 none",
	}
	if diff := cmp.Diff(want, listOf(c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !slices.IsSorted([]string{"train/a b/x.l3", "train/a.l3", "train/a/1.l3"}) {
		t.Error("the test itself is out of order")
	}
	if c.leftOut != 1 || !errors.Is(c.whyLeftOut, l3.ErrTruncated) && !errors.Is(c.whyLeftOut, l3.ErrCorrupt) || c.unpacked != 1 || !c.young {
		t.Errorf("%d left out (%v), %d not packed, young %v", c.leftOut, c.whyLeftOut, c.unpacked, c.young)
	}
	size := int64(128 + rgb8.Bytes())
	if got := c.member(2, 5); got != (shard.Sample{Key: 5, Suffix: ".npy", Bytes: size, Label: 0, Labelled: true}) {
		t.Errorf("member: %+v", got)
	}
	again, err := makeCatalogue(background, m.ds, "train", streamView("train"))
	if err != nil || again.fingerprint != c.fingerprint {
		t.Errorf("made once more it is another one (%v)", err)
	}
}

// TestCatalogueLabels: what was packed elsewhere, renamed or put beside the class
// folders has the label of the folder that it lies in now, and none without one.
func TestCatalogueLabels(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string][]byte
		want  []string
	}{
		{"packed in two runs", map[string][]byte{
			"a/x.l3": labelled(t, "a", 0), "b/x.l3": labelled(t, "b", 1), "c/x.l3": labelled(t, "c", 0), "d/x.l3": labelled(t, "d", 1),
		}, []string{"a/x.l3 0", "b/x.l3 1", "c/x.l3 2", "d/x.l3 3"}},
		{"a renamed class", map[string][]byte{"b/x.l3": labelled(t, "b", 1), "z/x.l3": labelled(t, "a", 0)}, []string{"b/x.l3 0", "z/x.l3 1"}},
		{"no class folders", map[string][]byte{"x.l3": labelled(t, "test", 0), "y.l3": labelled(t, "", 0)}, []string{"x.l3 none", "y.l3 none"}},
		{"loose beside them", map[string][]byte{"a/x.l3": labelled(t, "a", 0), "x.l3": labelled(t, "a", 0)}, []string{"a/x.l3 0", "x.l3 none"}},
		{"hidden and empty ones", map[string][]byte{".h/notes": nil, "B/notes": nil, "a/b/x.l3": labelled(t, "a", 0)}, []string{"a/b/x.l3 2"}},
	} {
		dir := t.TempDir()
		writeFiles(t, dir, c.files)
		m := streamMount(t, openLocal(t, dir))
		got, err := makeCatalogue(background, m.ds, "", streamView(""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, listOf(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.what, diff)
		}
	}
}

// TestNoEpoch: a name that is almost one of an epoch is told what is wrong.
func TestNoEpoch(t *testing.T) {
	for name, told := range map[string]bool{"epoch-3": true, "epoch-00003": true, "epoch3": true, "train": false, ".Trash": false} {
		err := noEpoch(name)
		if why := (*errWhy)(nil); errors.As(err, &why) != told || !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCatalogueLeavesOut: what a form cannot hold is no part of its streams, and a
// file under its original name ends as its content does.
func TestCatalogueLeavesOut(t *testing.T) {
	dir := t.TempDir()
	writeSample(t, filepath.Join(dir, "a.l3"), rgb8, "")
	writeSample(t, filepath.Join(dir, "s.l3"), signed, "")
	m := streamMount(t, openLocal(t, dir))
	for container, want := range map[tensor.Container]string{tensor.NPY: "2 .npy", tensor.PNG: "1 .png", tensor.Orig: "1 .png", tensor.L3: "2 .l3", tensor.JPG: "0"} {
		v := streamView("")
		v.Form = tensor.Form{Container: container}
		c, err := makeCatalogue(background, m.ds, "", v)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(len(c.samples))
		if len(c.samples) > 0 {
			got += " " + c.suffix(0)
		}
		if got != want {
			t.Errorf("%v: %s, want %s", container, got, want)
		}
	}
}

// failing fails for one path.
type failing struct {
	dataset.Store
	path string
	err  error
}

func (s failing) Stat(ctx context.Context, path string) (dataset.Info, error) {
	if path == s.path {
		return dataset.Info{}, &iofs.PathError{Op: "stat", Path: path, Err: s.err}
	}
	return s.Store.Stat(ctx, path)
}

// TestCatalogueOfAFailingStore: what may be readable the next time is not left
// out in silence.
func TestCatalogueOfAFailingStore(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"c/a.l3": labelled(t, "", 0), "c/b.l3": labelled(t, "", 0)})
	for _, path := range []string{"c/b.l3", "c"} {
		for err, leftOut := range map[error]bool{syscall.EIO: false, syscall.ETIMEDOUT: false, syscall.EACCES: true, syscall.ENOENT: true} {
			m := streamMount(t, failing{openLocal(t, dir), path, err})
			c, got := makeCatalogue(background, m.ds, "", streamView(""))
			if leftOut && (got != nil || c.leftOut != 1) || !leftOut && !errors.Is(got, err) {
				t.Errorf("%v of %s: %+v, %v", err, path, c, got)
			}
		}
	}
}

// TestStreamFollowsTheSource: a catalogue is kept while the folders stay as they
// are, and made anew when one changes or a file is found to be another one.
func TestStreamFollowsTheSource(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"c/a.l3": labelled(t, "", 0), "c/b.l3": labelled(t, "", 0)})
	past := time.Now().Add(-time.Hour)
	settle := func() {
		for _, folder := range []string{"c", ""} {
			if err := os.Chtimes(filepath.Join(dir, folder), past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	settle()
	m, v := streamMount(t, openLocal(t, dir)), streamView("")
	now := func(age time.Duration) *catalogue {
		slot := m.streams.slot(v)
		slot.checked, slot.took = slot.checked.Add(-age), 0
		c, err := m.streams.catalogue(v)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := now(0)
	if now(time.Hour) != first {
		t.Error("nothing has changed, and there is another catalogue")
	}
	writeFiles(t, dir, map[string][]byte{"c/added.l3": labelled(t, "", 0)})
	if now(0) != first {
		t.Error("it was looked at anew at once")
	}
	second := now(time.Hour)
	if len(second.samples) != 3 || second.fingerprint == first.fingerprint {
		t.Errorf("after a file was added: %q", listOf(second))
	}
	// Written to in place: the folder does not tell.
	writeFiles(t, dir, map[string][]byte{"c/a.l3": labelled(t, "longer", 3)})
	if _, err := second.content(m.ds, 0, v); !errors.Is(err, dataset.ErrChanged) {
		t.Errorf("the content of a file that was written to: %v", err)
	}
	writeFiles(t, dir, map[string][]byte{"c/b.l3": []byte("rubbish")})
	if _, err := second.content(m.ds, 2, v); !errors.Is(err, dataset.ErrChanged) {
		t.Errorf("the content of a file that became rubbish: %v", err)
	}
	m.streams.outdated(v)
	third := now(0)
	if len(third.samples) != 2 || third.fingerprint == second.fingerprint {
		t.Errorf("after a file was found to be another one: %q", listOf(third))
	}
}

// TestEpochsAreKept: orders are computed once, and only so many are kept.
func TestEpochsAreKept(t *testing.T) {
	m := streamMount(t, openLocal(t, t.TempDir()))
	v := streamView("x").Stream
	first, err := m.streams.epoch(100, v, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := v
	other.Folder, other.Shard = "y", 50
	if again, _ := m.streams.epoch(100, other, 1); again != first {
		t.Error("the order was computed anew for another folder")
	}
	for number := range uint64(maxEpochs) {
		if _, err := m.streams.epoch(100, v, 100+number); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := m.streams.epoch(100, v, 1); again == first {
		t.Error("it was kept for ever")
	}
	if want := int64(maxEpochs * 400); m.streams.epochBytes != want {
		t.Errorf("%d bytes are booked, want %d", m.streams.epochBytes, want)
	}
	if _, err := m.streams.epoch(order.MaxSamples+1, v, 1); !errors.Is(err, order.ErrEpochTooLarge) {
		t.Errorf("too large an epoch: %v", err)
	}
}

// TestAccess: who may read a shard may read all files that it is made of.
func TestAccess(t *testing.T) {
	file := func(mode iofs.FileMode, uid, gid uint32) access {
		return accessOf(dataset.Info{Mode: mode, UID: uid, GID: gid})
	}
	folder := func(mode iofs.FileMode) access { return folderAccess(dataset.Info{Mode: mode, UID: 1, GID: 1}) }
	for _, c := range []struct {
		what string
		of   []access
		want iofs.FileMode
	}{
		{"nothing", nil, 0o444},
		{"one", []access{file(0o640, 1, 1)}, 0o440},
		{"a private one among others", []access{file(0o644, 1, 1), file(0o600, 1, 1)}, 0o400},
		{"a private folder", []access{file(0o644, 1, 1), folder(0o700)}, 0o400},
		{"a folder that can be entered only", []access{file(0o644, 1, 1), folder(0o711)}, 0o400},
		{"other owners, all may read", []access{file(0o644, 1, 1), file(0o644, 2, 1)}, 0o444},
		{"other owners, the group may read", []access{file(0o640, 1, 1), file(0o640, 2, 1)}, 0o040},
		{"other groups", []access{file(0o640, 1, 1), file(0o640, 1, 2)}, 0o400},
		{"nobody", []access{file(0o644, 1, 1), file(0, 1, 1)}, 0},
	} {
		a, b := fullAccess(), fullAccess()
		for _, x := range c.of {
			a.add(x)
		}
		for _, x := range slices.Backward(c.of) {
			b.add(x)
		}
		if a.bits() != c.want || a != b {
			t.Errorf("%s: %o, want %o; the other way round %+v and %+v", c.what, a.bits(), c.want, a, b)
		}
	}
}

// manyStore is a folder of so many samples, all of them the same file.
type manyStore struct {
	file    []byte
	folders int
	each    int
}

type manyFile struct{ *manyStore }

func (s *manyStore) info(path string) dataset.Info {
	i := dataset.Info{Kind: dataset.Dir, Mode: 0o755}
	if dataset.IsSample(path) {
		i.Kind, i.Mode, i.Size = dataset.Regular, 0o644, int64(len(s.file))
	}
	i.ID = dataset.Identity{Size: i.Size, Ino: uint64(len(path))}
	return i
}

func (s *manyStore) Stat(_ context.Context, path string) (dataset.Info, error) {
	return s.info(path), nil
}

func (s *manyStore) ReadDir(_ context.Context, path string, yield func(dataset.DirEntry) bool) error {
	if path == "" {
		for i := range s.folders {
			// Another length for each, so that none is taken for one above.
			yield(dataset.DirEntry{Name: fmt.Sprintf("n%08d", i), Kind: dataset.Dir})
		}
		return nil
	}
	for i := range s.each {
		yield(dataset.DirEntry{Name: fmt.Sprintf("ILSVRC2012_%08d.l3", i), Kind: dataset.Regular})
	}
	return nil
}

func (s *manyStore) Open(_ context.Context, path string) (dataset.File, error) {
	return manyFile{s}, nil
}
func (s *manyStore) String() string { return "many" }
func (s *manyStore) Close() error   { return nil }

func (f manyFile) ReadAt(p []byte, off int64) (int, error) { return copy(p, f.file[off:]), nil }
func (f manyFile) Info() dataset.Info                      { return f.info("x.l3") }
func (f manyFile) Stat() (dataset.Info, error)             { return f.info("x.l3"), nil }
func (f manyFile) Close() error                            { return nil }

// TestManySamples: a catalogue and an epoch take little memory. With
// PRISMFS_TEST_MILLION set it is of a million samples.
func TestManySamples(t *testing.T) {
	store := &manyStore{file: labelled(t, "", 0), folders: 100, each: 300}
	if os.Getenv("PRISMFS_TEST_MILLION") != "" {
		store.folders, store.each = 1000, 1000
	}
	samples := store.folders * store.each
	m := streamMount(t, store)
	v := streamView("")
	v.Stream.Shard, v.Stream.Factor = 1000, 200
	began := time.Now()
	c, err := makeCatalogue(background, m.ds, "", v)
	if err != nil || len(c.samples) != samples {
		t.Fatalf("%d samples: %v", len(c.samples), err)
	}
	took := time.Since(began)
	bytes := int64(cap(c.samples))*32 + int64(cap(c.names)) + int64(cap(c.folders))*120
	if perSample := bytes / int64(samples); perSample > 100 {
		t.Errorf("a sample takes %d bytes", perSample)
	}
	m.streams.slot(v).now, m.streams.slot(v).checked = c, time.Now()
	began = time.Now()
	x, err := m.streams.shard(v, 7, samples/1000)
	if err != nil || x.plan.Len() != 1000 {
		t.Fatalf("the shard in the middle: %v", err)
	}
	t.Logf("%d samples: catalogue %d MB in %v, order and shard in %v, %d MB of order", samples, bytes>>20, took, time.Since(began), m.streams.epochBytes>>20)
	runtime.KeepAlive(c)
}
