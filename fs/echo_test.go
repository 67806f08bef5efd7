package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unique"

	"prismfs/cache"
	"prismfs/dataset"
	"prismfs/order"
	"prismfs/raster"
	"prismfs/tensor"
)

// echoTree is a mount that nobody has mounted, of two classes whose images have
// many shapes, and what its log says.
type echoTree struct {
	*mount
	source string
	log    bytes.Buffer
	view   View
	names  []string // of samples
}

func newEchoTree(t *testing.T, view string, budget int64) *echoTree {
	t.Helper()
	x := &echoTree{source: t.TempDir()}
	for _, class := range []string{"cat", "dog"} {
		for i := range 12 {
			name := fmt.Sprintf("train/%s/%02d.l3", class, i)
			shape := raster.Shape{Height: 10 + i, Width: 20, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
			if class == "dog" {
				shape.Width = 23
			}
			writeSample(t, filepath.Join(x.source, name), shape, "")
			x.names = append(x.names, name)
		}
	}
	store, err := dataset.OpenLocal(x.source)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Source: x.source, View: DefaultView, Logger: slog.New(slog.NewTextHandler(&x.log, nil)), TableDir: dataset.NoTables, ReadAhead: -1}
	setDefaults(&opt)
	if x.mount, err = newMount(opt, store); err != nil {
		t.Fatal(err)
	}
	if x.cache, err = cache.New[bufferKey](cache.Options{Budget: budget, Medium: cache.NewMemory(0), Scarce: x.echo.echoes.Release}); err != nil {
		t.Fatal(err)
	}
	x.echo.setBudget(budget)
	t.Cleanup(func() {
		x.echo.close()
		if s := x.cache.Stats(); s.Pinned != 0 {
			t.Errorf("%d buffers are pinned when all is closed", s.Pinned)
		}
		x.cache.Close()
		x.decoder.Close()
		store.Close()
	})
	target, err := walk(x.mount.names, DefaultView, "train+"+view)
	if err != nil {
		t.Fatal(err)
	}
	x.view = target.at.view
	return x
}

// lookup does what a lookup of a sample's name does.
func (x *echoTree) lookup(t *testing.T, name string, thread uint64) *sampleNode {
	t.Helper()
	target, err := x.mount.names.sampleAt(context.Background(), name, x.view)
	if err != nil {
		t.Fatal(err)
	}
	own := target.sample.key()
	return &sampleNode{m: x.mount, content: x.echo.lookup(target.view, target.sample, thread), view: unique.Make(target.view), named: &own}
}

// opened is an open file.
type opened struct {
	node *sampleNode
	buf  *buffer
	last *lastRequest
}

func (x *echoTree) open(t *testing.T, n *sampleNode, thread uint64) opened {
	t.Helper()
	r := x.echo.take(n.named, n.view.Value(), n.content, thread)
	buf, _, err := x.filled(n.content, asked{by: thread})
	if err != nil {
		t.Fatal(r.failed(err))
	}
	return opened{n, buf, r.served(buf)}
}

func (x *echoTree) close(f opened) {
	x.echo.released(f.last)
	f.buf.Unpin()
}

// read looks a name up, opens and closes it, and returns what it got.
func (x *echoTree) read(t *testing.T, name string, thread uint64) string {
	t.Helper()
	f := x.open(t, x.lookup(t, name, thread), thread)
	defer x.close(f)
	if f.buf.Size() != f.node.content.size {
		t.Fatalf("%s has %d bytes, its attributes say %d", name, f.buf.Size(), f.node.content.size)
	}
	return f.node.content.sample.Path
}

// readAll reads every name once, others than before one after the other.
func (x *echoTree) readAll(t *testing.T, thread uint64) {
	t.Helper()
	for i := range x.names {
		name := x.names[(i*7)%len(x.names)]
		if got := x.read(t, name, thread); path.Dir(got) != path.Dir(name) {
			t.Fatalf("%s gets %s", name, got)
		}
	}
}

const manyBytes = 64 << 20

// TestEchoReads: half of the opens of echo2 are fresh, of echoes of one folder.
func TestEchoReads(t *testing.T) {
	for view, want := range map[string]int{"echo2": 24, "echo3": 16, "echo1.5+seed3": 32, "echo1": 48} {
		x := newEchoTree(t, view, manyBytes)
		for range 2 {
			x.readAll(t, 1)
		}
		if view == "echo3" {
			x.readAll(t, 1)
			want = 24
		}
		if view == "echo1.5+seed3" {
			x.readAll(t, 1)
			want = 48
		}
		s := x.stats()
		if int(s.EchoFresh) != want || s.EchoForced != 0 {
			t.Errorf("%s: %d requests were fresh, %d of them forced; want %d and 0", view, s.EchoFresh, s.EchoForced, want)
		}
		if len(s.EchoViews) != 1 || s.EchoViews[0].Fresh != s.EchoFresh || !strings.HasPrefix(s.EchoViews[0].View, "train+") {
			t.Errorf("%s: the views are %+v", view, s.EchoViews)
		}
	}
}

// TestEchoSmallCaches: pools give way to files that are open, and nothing fails.
func TestEchoSmallCaches(t *testing.T) {
	for _, budget := range []int64{8 << 10, 32 << 10, 128 << 10} {
		x := newEchoTree(t, "echo2", budget)
		for range 4 {
			x.readAll(t, 1)
			if s := x.cache.Stats(); s.PinnedBytes > budget {
				t.Errorf("a cache of %d bytes has %d pinned", budget, s.PinnedBytes)
			}
		}
	}
}

// TestEchoGivesWay: pools end their pins for a file that needs the room, and when
// the budget shrinks.
func TestEchoGivesWay(t *testing.T) {
	const budget = 256 << 10
	x := newEchoTree(t, "echo2", budget)
	x.readAll(t, 1)
	if x.stats().EchoBuffered < 4 {
		t.Fatalf("pools hold %d images, want some", x.stats().EchoBuffered)
	}
	start := time.Now()
	buf, err := x.cache.Get(bufferKey{path: "large"}, budget-16<<10, func([]byte) error { return nil })
	if err != nil {
		t.Fatalf("a large file beside pools: %v", err)
	}
	buf.Unpin()
	if waited := time.Since(start); waited > 5*time.Second {
		t.Errorf("a large file waited %v for pools to give way", waited)
	}
	x.readAll(t, 1)
	x.cache.SetBudget(16 << 10)
	x.echo.setBudget(16 << 10)
	if got := x.stats().EchoBytes; got > 8<<10 {
		t.Errorf("pools hold %d bytes after the budget has shrunk to %d", got, 16<<10)
	}
	x.readAll(t, 1)
}

// TestEchoStatsAgree: what a stat says is what the next open gets, whoever looks
// in between, and in whatever order.
func TestEchoStatsAgree(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	x.readAll(t, 1)
	sizes := map[string]int64{}
	for _, name := range x.names {
		sizes[name] = x.lookup(t, name, 2).content.size
	}
	for _, name := range x.names {
		if again := x.lookup(t, name, 3).content.size; again != sizes[name] {
			t.Fatalf("%s had %d bytes, and has %d before it was opened", name, sizes[name], again)
		}
		n := x.lookup(t, name, 1)
		f := x.open(t, n, 1)
		if f.buf.Size() != sizes[name] {
			t.Errorf("%s has %d bytes, its attributes said %d", name, f.buf.Size(), sizes[name])
		}
		x.close(f)
	}
	if s := x.stats(); s.EchoFresh != 24 || s.EchoEchoes != 24 {
		t.Errorf("%d fresh and %d echoes of 48 requests", s.EchoFresh, s.EchoEchoes)
	}
}

// TestEchoSettledIsBounded: who stats very many names leaves no more behind than
// is remembered, and takes no echo from anybody.
func TestEchoSettledIsBounded(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	x.readAll(t, 1)
	target, err := x.mount.names.sampleAt(context.Background(), x.names[0], x.view)
	if err != nil {
		t.Fatal(err)
	}
	s := *target.sample.sample
	for i := range maxSettled + 500 {
		s.Path = fmt.Sprintf("train/cat/other-%d.l3", i)
		c := target.sample
		copied := s
		c.sample = &copied
		x.echo.lookup(x.view, c, 9)
	}
	if got := x.echo.settled.Len(); got != maxSettled {
		t.Errorf("%d settlements are remembered, want %d", got, maxSettled)
	}
	x.readAll(t, 1)
	if s := x.stats(); s.EchoFresh+s.EchoEchoes != 48 {
		t.Errorf("%d requests are counted, want 48", s.EchoFresh+s.EchoEchoes)
	}
}

// TestEchoSeveralOpens: opens of one thread in a row are one request where the
// file is open, or where the thread is known to open each name again; else they
// are requests of their own.
func TestEchoSeveralOpens(t *testing.T) {
	requests := func(x *echoTree) uint64 { s := x.stats(); return s.EchoFresh + s.EchoEchoes }
	x := newEchoTree(t, "echo2", manyBytes)
	x.readAll(t, 1) // a habit of one open
	for thread, wantSame := range map[uint64]bool{1: true, 0: true} {
		before := requests(x)
		for _, name := range x.names {
			first := x.open(t, x.lookup(t, name, thread), thread)
			for range 2 { // np.load with mmap_mode
				next := x.open(t, x.lookup(t, name, thread), thread)
				if same := next.buf == first.buf; same != wantSame {
					t.Fatalf("thread %d: an open of a name that is open gets the same: %v", thread, same)
				}
				x.close(next)
			}
			x.close(first)
		}
		if got := requests(x) - before; got != uint64(len(x.names)) {
			t.Errorf("thread %d: %d requests, want %d", thread, got, len(x.names))
		}
	}

	x = newEchoTree(t, "echo2", manyBytes)
	x.readAll(t, 1)
	before := requests(x)
	for range 4 {
		x.read(t, x.names[0], 1)
	}
	if got := requests(x) - before; got != 4 {
		t.Errorf("a thread that opens each name once: four reads of one are %d requests", got)
	}

	x = newEchoTree(t, "echo2", manyBytes)
	for _, name := range x.names { // OpenCV, from the first image on
		if first, second := x.read(t, name, 5), x.read(t, name, 5); first != second {
			t.Fatalf("two opens of %s get %s and %s", name, first, second)
		}
	}
	if got := requests(x); got != uint64(len(x.names)) {
		t.Errorf("%d names that are opened twice in a row are %d requests", len(x.names), got)
	}
	if first, second := x.read(t, x.names[0], 6), x.read(t, x.names[0], 6); first != second {
		t.Error("a new thread does not have the habit of the others")
	}
	first := x.read(t, x.names[3], 5)
	x.echo.now = func() time.Time { return time.Now().Add(time.Minute) }
	before = requests(x)
	x.read(t, x.names[3], 5)
	if requests(x) == before {
		t.Errorf("%s is one request with what was read a minute before", first)
	}
}

// TestEchoOverlappingReaders: two readers who were told of one settlement are two
// requests.
func TestEchoOverlappingReaders(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	for _, name := range x.names {
		a, b := x.lookup(t, name, 1), x.lookup(t, name, 2)
		if a.content.key() != b.content.key() {
			t.Fatal("two lookups before an open differ")
		}
		fa := x.open(t, a, 1)
		fb := x.open(t, b, 2)
		x.close(fa)
		x.close(fb)
	}
	// What a name has missed by that, it makes up for.
	x.readAll(t, 1)
	x.readAll(t, 1)
	if s := x.stats(); s.EchoFresh != 48 || s.EchoEchoes != 48 {
		t.Errorf("%d fresh, %d echoes; want 48 of each", s.EchoFresh, s.EchoEchoes)
	}
}

// TestEchoReplacedSource: an image that was replaced is served no more, and those
// who were told of it get another one.
func TestEchoReplacedSource(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	x.readAll(t, 1)
	for _, name := range x.names {
		n := x.lookup(t, name, 1)
		served := n.content.sample.Path
		if served == name {
			x.close(x.open(t, n, 1))
			continue
		}
		writeSample(t, filepath.Join(x.source, served), raster.Shape{Height: 50, Width: 50, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, "new")
		r := x.echo.take(n.named, n.view.Value(), n.content, 1)
		err := n.unchanged()
		if !errors.Is(err, dataset.ErrChanged) {
			t.Fatalf("a replaced image: %v", err)
		}
		if got := toErrno(r.failed(err)); got != syscall.ESTALE {
			t.Fatalf("the open of a replaced echo fails with %v", got)
		}
		again := x.lookup(t, name, 1)
		if again.content.key() == n.content.key() {
			t.Fatalf("%s is served once more, though it was replaced", served)
		}
		return
	}
	t.Fatal("there was no echo")
}

// TestEchoViewsAreApart: views that differ in anything share no pool.
func TestEchoViewsAreApart(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	x.readAll(t, 1)
	plain := x.view
	for _, words := range []string{"echo2+seed1", "echo2+png", "echo3", "echo2+chw"} {
		target, err := walk(x.mount.names, DefaultView, "train+"+words)
		if err != nil {
			t.Fatal(err)
		}
		x.view = target.at.view
		if got := x.read(t, x.names[0], 1); got != x.names[0] {
			t.Errorf("%s: the first read of a view gets %s", words, got)
		}
	}
	x.view = plain
	if got := len(x.stats().EchoViews); got != 5 {
		t.Errorf("%d views are known, want 5", got)
	}
}

// TestNextFresh: what a plan is told will be decoded is decoded, and that is every
// name once in a cycle, but for those that are fresh early.
func TestNextFresh(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	told := 0
	for range 2 {
		for _, name := range x.names {
			target, err := x.mount.names.sampleAt(context.Background(), name, x.view)
			if err != nil {
				t.Fatal(err)
			}
			fresh := x.nextFresh(target.view, target.sample)
			if fresh {
				told++
			}
			if got := x.read(t, name, 1); fresh && got != name {
				t.Errorf("%s gets %s, though a plan was told that it is fresh", name, got)
			}
		}
	}
	if most := len(x.names); told < most/2 || told > most {
		t.Errorf("a plan was told of %d names of %d", told, most)
	}
	if !x.nextFresh(DefaultView, content{}) {
		t.Error("a name of an ordinary view is not decoded")
	}
}

// TestEchoConcurrency: many threads, while the budget goes up and down.
func TestEchoConcurrency(t *testing.T) {
	x := newEchoTree(t, "echo2", 1<<20)
	var group sync.WaitGroup
	for thread := range uint64(8) {
		group.Go(func() {
			for range 6 {
				x.readAll(t, thread+1)
			}
		})
	}
	group.Go(func() {
		for i := range 50 {
			x.echo.setBudget(int64(i%5) << 16)
			x.stats()
		}
		x.echo.setBudget(1 << 20)
	})
	group.Wait()
	s := x.stats()
	if got := s.EchoFresh + s.EchoEchoes; got != 8*6*24 {
		t.Errorf("%d requests, want %d", got, 8*6*24)
	}
}

// TestEchoListings: a folder whose images cannot be served is not listed either;
// one of class folders is, whatever else is in it.
func TestEchoListings(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	at := func(name string) string { return filepath.Join(x.source, name) }
	for _, name := range []string{"flat/a.l3", "side/cat/a.l3", "side/dog/b.l3", "stray/a.l3", "stray/cat/a.l3", "pairs/images/a.l3", "pairs/masks/a.l3"} {
		writeSample(t, at(name), rgb8, "")
	}
	if err := os.WriteFile(at("side/cat/a.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("none"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		view, folder string
		refused      bool
	}{
		{"train", "train", false}, {"train", "train/cat", false}, {"", "", false}, {"none", "none", false},
		{"flat", "flat", true}, {"", "flat", false}, {"side", "side", false}, {"side", "side/cat", true}, {"side", "side/dog", false},
		{"stray", "stray", false}, {"stray", "stray/cat", false}, {"", "stray", false},
		{"pairs", "pairs", false}, {"pairs", "pairs/masks", true},
	} {
		v := DefaultView
		v.Echo = order.EchoView{Folder: c.view, Factor: 200}
		x.log.Reset()
		for range 3 {
			err := x.echo.labels.allowListing(place{source: c.folder, view: v})
			if got := toErrno(err); (got == syscall.EOPNOTSUPP) != c.refused || !c.refused && err != nil {
				t.Errorf("%q in a view of %q: %v", c.folder, c.view, err)
			}
		}
		if got := strings.Count(x.log.String(), "\n"); got > 1 || (got == 1) != c.refused {
			t.Errorf("%q in a view of %q is logged as %q", c.folder, c.view, x.log.String())
		}
	}
	v := DefaultView
	v.Echo, v.Form.Container = order.EchoView{Folder: "flat", Factor: 200}, tensor.JPG
	if err := x.echo.labels.allowListing(place{source: "flat", view: v}); err != nil {
		t.Errorf("a view that shows none of the images: %v", err)
	}
}

// TestEchoRefusals: where labels would be wrong nothing is served, and the log
// says why.
func TestEchoRefusals(t *testing.T) {
	x := newEchoTree(t, "echo2", manyBytes)
	at := func(name string) string { return filepath.Join(x.source, name) }
	for _, name := range []string{
		"flat/a.l3", "pairs/images/a.l3", "pairs/masks/a.l3", "side/cat/a.l3", "side/dog/b.l3", "both/one/a.l3", "both/one/a_mask.l3",
		"double/cat/a.l3", "named/mask/a.l3", "named/no-mask/b.l3", "deep/cat/sub/a.l3",
	} {
		writeSample(t, at(name), rgb8, "")
	}
	for _, name := range []string{"side/cat/a.txt", "double/cat/a.png", "named/labels.csv", "deep/cat/README"} {
		if err := os.WriteFile(at(name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ view, sample, why string }{
		{"flat", "flat/a.l3", "folder above"},
		{"pairs", "pairs/images/a.l3", "beside masks"},
		{"pairs/images", "pairs/images/a.l3", "folder above"},
		{"", "pairs/masks/a.l3", "beside images"},
		{"side", "side/cat/a.l3", "a.txt"},
		{"both", "both/one/a.l3", "a_mask"},
		{"double", "double/cat/a.l3", "a.png"},
		{"side", "side/dog/b.l3", ""},
		{"named", "named/mask/a.l3", ""},
		{"named", "named/no-mask/b.l3", ""},
		{"deep", "deep/cat/sub/a.l3", ""},
		{"", "deep/cat/sub/a.l3", ""},
		{"train", "train/cat/00.l3", ""},
	} {
		s, err := x.ds.Sample(context.Background(), c.sample)
		if err != nil {
			t.Fatal(err)
		}
		x.log.Reset()
		for range 3 {
			err = x.echo.labels.allow(c.view, s)
		}
		if c.why == "" {
			if err != nil {
				t.Errorf("%s in a view of %s: %v", c.sample, c.view, err)
			}
			continue
		}
		if toErrno(err) != syscall.EOPNOTSUPP || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s in a view of %s: %v, want %q", c.sample, c.view, err, c.why)
		}
		if got := strings.Count(x.log.String(), "\n"); got != 1 || !strings.Contains(x.log.String(), c.why) {
			t.Errorf("%s in a view of %s is logged as %q", c.sample, c.view, x.log.String())
		}
	}
	s, err := x.ds.Sample(context.Background(), "train/cat/00.l3")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		file  string
		want  bool
	}{{0, "", true}, {2 * labelCheckEvery, "train/cat/00.txt", false}, {2 * labelCheckEvery, "", false}} {
		if c.file != "" {
			if err := os.WriteFile(at(c.file), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := x.echo.labels.now()
		x.echo.labels.now = func() time.Time { return before.Add(c.after) }
		if err := x.echo.labels.allow("train", s); (err == nil) != c.want {
			t.Errorf("%v after the last look, with %q beside the images: %v", c.after, c.file, err)
		}
	}
	label := 3
	if err := x.echo.labels.allow("flat", &dataset.Sample{Path: "flat/a.pcr", Format: dataset.PCR, Label: &label}); err != nil {
		t.Errorf("an image that has its label with it: %v", err)
	}
	if _, err := walk(x.mount.names, DefaultView, "train+l3+echo2"); err == nil || !strings.Contains(err.Error(), "l3") {
		t.Errorf("an echo view of stored files: %v", err)
	}
}
