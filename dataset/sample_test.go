package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"prismfs/internal/testfiles"
	"prismfs/l3"
	"prismfs/raster"
)

// image makes a file of height × width RGB pixels, different for every seed.
func image(t testing.TB, height, width int, seed uint64, opt l3.EncodeOptions) []byte {
	t.Helper()
	shape := raster.Shape{Height: height, Width: width, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	img := raster.Image{Shape: shape, Pix: make([]byte, shape.Bytes())}
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range img.Pix {
		img.Pix[i] = byte(random.Uint32())
	}
	file, err := l3.Encode(img, opt)
	must(t, err)
	return file
}

// replace puts a new file in the place of what is at path.
func replace(t testing.TB, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", content, 0o644))
	must(t, os.Rename(path+".new", path))
}

// hookStore calls functions before what it passes on.
type hookStore struct {
	Store
	opens  atomic.Int64
	onStat func(path string) error
	onOpen func(path string) error
	onRead func(p []byte, off int64) (n int, err error, done bool)
}

func (s *hookStore) Stat(ctx context.Context, path string) (Info, error) {
	if s.onStat != nil {
		if err := s.onStat(path); err != nil {
			return Info{}, err
		}
	}
	return s.Store.Stat(ctx, path)
}

func (s *hookStore) Open(ctx context.Context, path string) (File, error) {
	s.opens.Add(1)
	if s.onOpen != nil {
		if err := s.onOpen(path); err != nil {
			return nil, err
		}
	}
	f, err := s.Store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return hookFile{f, s}, nil
}

type hookFile struct {
	File
	s *hookStore
}

func (f hookFile) ReadAt(p []byte, off int64) (int, error) {
	if f.s.onRead != nil {
		if n, err, done := f.s.onRead(p, off); done {
			return n, err
		}
	}
	return f.File.ReadAt(p, off)
}

// openDataset makes a dataset of a folder, and gives the store to hook into.
func openDataset(t testing.TB, dir string, opt Options) (*Dataset, *hookStore) {
	t.Helper()
	s := &hookStore{Store: openLocal(t, dir)}
	return Open(s, opt), s
}

func TestIsSample(t *testing.T) {
	for name, want := range map[string]bool{
		"a.l3": true, "a/b.l3": true, "0007/PCR_0-00012.pcr": true, "a.l3/b.l3": true, "\xff.l3": true, " .l3": true, "..l3": true, "x.png.l3": true,
		"": false, ".l3": false, ".pcr": false, "a/.l3": false, "l3": false, "a.L3": false, "a.l3x": false, "a.l3/b": false, "a.l3/": false,
	} {
		if got := IsSample(name); got != want {
			t.Errorf("IsSample(%q) = %v", name, got)
		}
	}
}

func TestSample(t *testing.T) {
	dir := t.TempDir()
	label := int64(7)
	meta := l3.Metadata{
		Label: &label, Class: "cat", OriginalName: "n01_12.JPEG", SourceDecoder: "none",
		ColourProfile: bytes.Repeat([]byte{1, 2, 3}, 5000), // a head of more than one read
	}
	file := image(t, 30, 20, 1, l3.EncodeOptions{Meta: meta})
	must(t, os.Mkdir(dir+"/cat", 0o755))
	replace(t, dir+"/cat/001.l3", file)
	d, _ := openDataset(t, dir, Options{})
	ctx := context.Background()
	s, err := d.Sample(ctx, "cat/001.l3")
	must(t, err)
	info, err := d.Stat(ctx, "cat/001.l3")
	must(t, err)
	head, err := l3.ReadInfo(bytes.NewReader(file), int64(len(file)), l3.Limits{})
	must(t, err)
	number := int(label)
	want := &Sample{
		Path: "cat/001.l3", Stem: "001", Info: info, Format: L3, Shape: head.Shape, Levels: 1, Coding: head.Coding,
		Label: &number, Class: "cat", OriginalName: "n01_12.JPEG", Source: "cat/001.l3",
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(Sample{})); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
	got, err := d.ReadEncoded(ctx, s, 0, nil)
	if err != nil || !bytes.Equal(got, file) {
		t.Errorf("read %d bytes, %v; want the %d of the file", len(got), err, len(file))
	}
	stats := d.Stats()
	size := uint64(len(file))
	if stats.StoreBytesRead != size || stats.StoreBytesNeeded != size {
		t.Errorf("%+v for a file of %d bytes", stats, size)
	}
	if stats.StoreBytesIndex < 15000 || stats.StoreBytesIndex > size {
		t.Errorf("%+v for a head of at least 15,000 bytes", stats)
	}
}

func TestPublishedSamples(t *testing.T) {
	dir := testfiles.Shared(t, "fixtures/l3-reference")
	files, err := filepath.Glob(dir + "/ok-*.l3")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no ok-*.l3 among the fixtures")
	}
	d, _ := openDataset(t, dir, Options{})
	for _, file := range files {
		s, err := d.Sample(context.Background(), filepath.Base(file))
		if err != nil {
			t.Error(err)
			continue
		}
		want, err := os.ReadFile(file)
		must(t, err)
		got, err := d.ReadEncoded(context.Background(), s, 0, nil)
		if err != nil || !bytes.Equal(got, want) || s.fileBytes != 0 || s.OriginalName != "" {
			t.Errorf("%s: version %d, original name %q, %d of %d bytes, %v",
				file, s.fileBytes, s.OriginalName, len(got), len(want), err)
		}
	}
}

func TestSampleErrors(t *testing.T) {
	dir := t.TempDir()
	good := image(t, 64, 64, 1, l3.EncodeOptions{})
	broken := bytes.Clone(good)
	broken[30] ^= 0x10
	must(t, os.Mkdir(dir+"/folder.l3", 0o755))
	must(t, unix.Mkfifo(dir+"/fifo.l3", 0o644))
	for name, content := range map[string][]byte{
		"empty.l3": {}, "text.l3": []byte("no picture"), "short.l3": good[:len(good)-1], "tiny.l3": good[:5],
		"broken.l3": broken, "long.l3": append(bytes.Clone(good), 0), "image.png": good, "good.l3": good,
	} {
		must(t, os.WriteFile(dir+"/"+name, content, 0o644))
	}
	symlink(t, "/etc/passwd", dir+"/out.l3")
	symlink(t, "good.l3", dir+"/link.l3")
	d, _ := openDataset(t, dir, Options{})
	anyOfL3 := []error{l3.ErrNotL3, l3.ErrTruncated, l3.ErrCorrupt, l3.ErrUnsupported}
	for name, want := range map[string][]error{
		"folder.l3": {ErrNotSample}, "image.png": {ErrNotSample}, "fifo.l3": {ErrSpecial}, "out.l3": {ErrOutside},
		"none.l3": {fs.ErrNotExist}, "image.png/x.l3": {unix.ENOTDIR}, "text.l3": {l3.ErrNotL3},
		"empty.l3": {l3.ErrNotL3, l3.ErrTruncated}, "tiny.l3": {l3.ErrNotL3, l3.ErrTruncated}, "short.l3": {l3.ErrTruncated},
		"broken.l3": anyOfL3, "long.l3": anyOfL3, "good.l3": nil, "link.l3": nil,
	} {
		_, err := d.Sample(context.Background(), name)
		if want == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		matches := 0
		for _, w := range want {
			if errors.Is(err, w) {
				matches++
			}
		}
		if matches == 0 || !strings.Contains(fmt.Sprint(err), filepath.Join(dir, name)) {
			t.Errorf("%s: %v, want one of %v and the path", name, err, want)
		}
	}
	small, _ := openDataset(t, dir, Options{Limits: l3.Limits{MaxPixels: 64*64 - 1}})
	if _, err := small.Sample(context.Background(), "good.l3"); !errors.Is(err, l3.ErrTooLarge) {
		t.Errorf("an image over the limit: %v", err)
	}
}

// A header is read once while 32 wait for it, and not again while the file stays
// the same.
func TestHeaderReadOnce(t *testing.T) {
	dir := t.TempDir()
	replace(t, dir+"/a.l3", image(t, 10, 10, 1, l3.EncodeOptions{}))
	d, store := openDataset(t, dir, Options{})
	const readers = 32
	waiting := make(chan struct{}, readers)
	release := make(chan struct{})
	store.onOpen = func(string) error { <-release; return nil }
	samples := make([]*Sample, readers)
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			waiting <- struct{}{}
			s, err := d.Sample(context.Background(), "a.l3")
			if err != nil {
				t.Error(err)
			}
			samples[i] = s
		})
	}
	for range readers {
		<-waiting
	}
	close(release)
	wg.Wait()
	for _, s := range samples {
		if s != samples[0] {
			t.Error("readers have different samples")
		}
	}
	if n := store.opens.Load(); n != 1 {
		t.Errorf("%d opens for one header", n)
	}
	// One who found nothing remembered and comes when the flight has landed.
	late, err := d.sampleOnce(context.Background(), "a.l3", samples[0].Info.ID)
	if err != nil || late != samples[0] || store.opens.Load() != 1 {
		t.Errorf("a late reader: %v, after %d opens", err, store.opens.Load())
	}
	replace(t, dir+"/a.l3", image(t, 20, 10, 2, l3.EncodeOptions{}))
	for range 3 {
		s, err := d.Sample(context.Background(), "a.l3")
		must(t, err)
		if s.Shape.Height != 20 {
			t.Errorf("the old header, %v, of a replaced file", s.Shape)
		}
	}
	must(t, os.Chtimes(dir+"/a.l3", time.Time{}, time.Unix(1, 0)))
	_, err = d.Sample(context.Background(), "a.l3")
	must(t, err)
	if n := store.opens.Load(); n != 3 {
		t.Errorf("%d opens for three identities", n)
	}
}

// The one who began to read may go; the others still get the answer.
func TestHeaderReaderGoesAway(t *testing.T) {
	dir := t.TempDir()
	replace(t, dir+"/a.l3", image(t, 10, 10, 1, l3.EncodeOptions{}))
	d, store := openDataset(t, dir, Options{})
	opened, release := make(chan struct{}), make(chan struct{})
	store.onOpen = func(string) error { close(opened); <-release; return nil }
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := d.Sample(ctx, "a.l3")
		first <- err
	}()
	<-opened
	go func() {
		_, err := d.Sample(context.Background(), "a.l3")
		second <- err
	}()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "a.l3") {
		t.Errorf("the one who went: %v", err)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("the one who stayed: %v", err)
	}
	if n := store.opens.Load(); n != 1 {
		t.Errorf("%d opens", n)
	}
}

// A failure is not remembered.
func TestHeaderFailsOnce(t *testing.T) {
	dir := t.TempDir()
	replace(t, dir+"/a.l3", image(t, 10, 10, 1, l3.EncodeOptions{}))
	d, store := openDataset(t, dir, Options{})
	fault := errors.New("cable pulled")
	store.onRead = func([]byte, int64) (int, error, bool) { return 0, fault, true }
	if _, err := d.Sample(context.Background(), "a.l3"); !errors.Is(err, fault) || !strings.Contains(err.Error(), dir+"/a.l3") {
		t.Errorf("the fault comes as %v", err)
	}
	store.onRead = nil
	if _, err := d.Sample(context.Background(), "a.l3"); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}

func TestReadEncodedBuffers(t *testing.T) {
	dir := t.TempDir()
	large, small := image(t, 100, 100, 1, l3.EncodeOptions{}), image(t, 5, 5, 2, l3.EncodeOptions{})
	replace(t, dir+"/large.l3", large)
	replace(t, dir+"/small.l3", small)
	d, _ := openDataset(t, dir, Options{})
	ctx := context.Background()
	var buf []byte
	var first *byte
	for i, c := range []struct {
		name string
		want []byte
	}{{"large.l3", large}, {"small.l3", small}, {"large.l3", large}} {
		s, err := d.Sample(ctx, c.name)
		must(t, err)
		buf, err = d.ReadEncoded(ctx, s, 0, buf)
		must(t, err)
		if !bytes.Equal(buf, c.want) {
			t.Errorf("round %d: other bytes", i)
		}
		if first == nil {
			first = &buf[0]
		}
		if &buf[0] != first {
			t.Errorf("round %d: a new buffer where the old one was large enough", i)
		}
	}
	s, err := d.Sample(ctx, "small.l3")
	must(t, err)
	must(t, os.Remove(dir+"/small.l3"))
	back, err := d.ReadEncoded(ctx, s, 0, buf)
	if !errors.Is(err, fs.ErrNotExist) || len(back) != 0 || cap(back) != cap(buf) {
		t.Errorf("a removed file: %v, a buffer of %d, capacity %d of %d", err, len(back), cap(back), cap(buf))
	}
}

func TestReplacedBetween(t *testing.T) {
	dir := t.TempDir()
	file, other := image(t, 10, 10, 1, l3.EncodeOptions{}), image(t, 10, 10, 2, l3.EncodeOptions{})
	d, _ := openDataset(t, dir, Options{})
	ctx := context.Background()
	for name, change := range map[string]func(path string) error{
		"renamed over": func(path string) error { replace(t, path, other); return nil },
		"written to":   func(path string) error { return os.WriteFile(path, other, 0o644) },
		"cut":          func(path string) error { return os.Truncate(path, 100) },
		"grown":        func(path string) error { return os.Truncate(path, int64(len(file))+1) },
		"touched":      func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	} {
		replace(t, dir+"/a.l3", file)
		s, err := d.Sample(ctx, "a.l3")
		must(t, err)
		time.Sleep(20 * time.Millisecond) // longer than a tick of a coarse clock
		must(t, change(dir+"/a.l3"))
		read := d.Stats().StoreBytesRead
		got, err := d.ReadEncoded(ctx, s, 0, nil)
		if !errors.Is(err, ErrChanged) || len(got) != 0 || !strings.Contains(err.Error(), dir+"/a.l3") {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if d.Stats().StoreBytesRead != read {
			t.Errorf("%s: bytes of the wrong file were read", name)
		}
	}
}

func TestChangedWhileRead(t *testing.T) {
	dir := t.TempDir()
	file, other := image(t, 200, 200, 1, l3.EncodeOptions{}), image(t, 200, 200, 2, l3.EncodeOptions{})
	path := dir + "/a.l3"
	for name, change := range map[string]func() error{
		"written to": func() error { return os.WriteFile(path, other, 0o644) },
		"cut":        func() error { return os.Truncate(path, 100) },
		"grown":      func() error { return os.Truncate(path, int64(len(file))+1) },
	} {
		for _, during := range []string{"header", "samples"} {
			replace(t, path, file)
			d, store := openDataset(t, dir, Options{})
			ctx := context.Background()
			var s *Sample
			if during == "samples" {
				var err error
				s, err = d.Sample(ctx, "a.l3")
				must(t, err)
			}
			time.Sleep(20 * time.Millisecond) // longer than a tick of a coarse clock
			store.onRead = func([]byte, int64) (int, error, bool) {
				store.onRead = nil
				must(t, change())
				return 0, nil, false
			}
			var err error
			if during == "samples" {
				_, err = d.ReadEncoded(ctx, s, 0, nil)
			} else {
				_, err = d.Sample(ctx, "a.l3")
			}
			if !errors.Is(err, ErrChanged) {
				t.Errorf("%s while the %s was read: %v", name, during, err)
			}
		}
	}
	// A file that has lost its name while it was read is whole, or refused.
	replace(t, path, file)
	d, store := openDataset(t, dir, Options{})
	s, err := d.Sample(context.Background(), "a.l3")
	must(t, err)
	store.onRead = func([]byte, int64) (int, error, bool) {
		store.onRead = nil
		replace(t, path, other)
		return 0, nil, false
	}
	got, err := d.ReadEncoded(context.Background(), s, 0, nil)
	if !errors.Is(err, ErrChanged) && !bytes.Equal(got, file) {
		t.Errorf("renamed over while read: %d bytes, %v", len(got), err)
	}
}

func TestFaultyReads(t *testing.T) {
	dir := t.TempDir()
	file := image(t, 50, 50, 1, l3.EncodeOptions{})
	replace(t, dir+"/a.l3", file)
	d, store := openDataset(t, dir, Options{})
	s, err := d.Sample(context.Background(), "a.l3")
	must(t, err)
	for _, c := range []struct {
		name string
		read func(p []byte, off int64) (int, error, bool)
		want error
	}{
		{"an error", func([]byte, int64) (int, error, bool) { return 0, unix.EIO, true }, unix.EIO},
		{"part and an error", func(p []byte, _ int64) (int, error, bool) { return 10, unix.EIO, true }, unix.EIO},
		{"an early end", func([]byte, int64) (int, error, bool) { return 10, io.EOF, true }, io.ErrUnexpectedEOF},
		{"nothing", func([]byte, int64) (int, error, bool) { return 0, nil, true }, io.ErrNoProgress},
		{"the end with the last bytes", func(p []byte, off int64) (int, error, bool) {
			return copy(p, file[off:]), io.EOF, true
		}, nil},
	} {
		store.onRead = c.read
		got, err := d.ReadEncoded(context.Background(), s, 0, nil)
		if !errors.Is(err, c.want) || (c.want == nil) != bytes.Equal(got, file) {
			t.Errorf("%s: %d bytes, %v; want %v", c.name, len(got), err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), dir+"/a.l3") {
			t.Errorf("%s: error without the path: %v", c.name, err)
		}
	}
}

func TestCancelledRead(t *testing.T) {
	dir := t.TempDir()
	file := image(t, 1200, 1200, 1, l3.EncodeOptions{Mode: l3.ModeRaw})
	if len(file) <= readBytes {
		t.Fatalf("a file of %d bytes is read at once", len(file))
	}
	replace(t, dir+"/a.l3", file)
	d, store := openDataset(t, dir, Options{})
	s, err := d.Sample(context.Background(), "a.l3")
	must(t, err)
	got, err := d.ReadEncoded(context.Background(), s, 0, nil)
	if err != nil || !bytes.Equal(got, file) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	before := d.Stats()
	ctx, cancel := context.WithCancel(context.Background())
	store.onRead = func([]byte, int64) (int, error, bool) { cancel(); return 0, nil, false }
	if _, err := d.ReadEncoded(ctx, s, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it read: %v", err)
	}
	after := d.Stats()
	if n := after.StoreBytesRead - before.StoreBytesRead; n != readBytes || after.StoreBytesNeeded != before.StoreBytesNeeded {
		t.Errorf("%d bytes read after the caller had gone, %+v", n, after)
	}
	opens := store.opens.Load()
	if _, err := d.ReadEncoded(ctx, s, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, err := d.Sample(ctx, "a.l3"); !errors.Is(err, context.Canceled) {
		t.Errorf("Sample cancelled before: %v", err)
	}
	if d.Stats() != after || store.opens.Load() != opens+1 {
		t.Errorf("%+v, %d opens after a cancelled call", d.Stats(), store.opens.Load()-opens)
	}
}

// A size that does not fit the header is refused before memory is taken for it.
func TestEncodedSize(t *testing.T) {
	shape := raster.Shape{Height: 10, Width: 10, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	for _, c := range []struct {
		size, fileBytes int64 // 0: the header does not say
		want            error
	}{
		{300, 300, nil},
		{299, 300, l3.ErrTruncated},
		{301, 300, l3.ErrCorrupt},
		{1 << 60, 1 << 60, l3.ErrTooLarge},
		{1 << 60, 0, l3.ErrTooLarge},
		{100 + 4096 + 4*300, 0, nil},
		{100 + 4096 + 4*301, 0, l3.ErrTooLarge},
		{0, 0, nil},
	} {
		s := &Sample{Path: "x.l3", Info: Info{Size: c.size}, Shape: shape, headBytes: 100, fileBytes: c.fileBytes}
		if err := checkEncodedSize(s); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	d, store := openDataset(t, t.TempDir(), Options{})
	s := &Sample{Path: "x.l3", Info: Info{Size: 1 << 60}, Shape: shape}
	if _, err := d.ReadEncoded(context.Background(), s, 0, nil); !errors.Is(err, l3.ErrTooLarge) || store.opens.Load() != 0 {
		t.Errorf("%d opens, %v", store.opens.Load(), err)
	}
}

func TestListing(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/d/sub", 0o755))
	must(t, unix.Mkfifo(dir+"/d/fifo", 0o644))
	symlink(t, "/etc/passwd", dir+"/d/out")
	symlink(t, "none", dir+"/d/dangling")
	writeFile(t, dir+"/d/README", "x")
	writeFile(t, dir+"/d/a.l3", "not looked at")
	symlink(t, "a.l3", dir+"/d/b.l3")
	var log bytes.Buffer
	d, store := openDataset(t, dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	want := map[string]Kind{"sub": Dir, "README": Regular, "a.l3": Regular, "b.l3": Regular}
	for i := range 3 {
		got := map[string]Kind{}
		must(t, d.ReadDir(context.Background(), "d", func(e DirEntry) bool { got[e.Name] = e.Kind; return true }))
		if !maps.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		stats := d.Stats()
		if stats.Specials != 1 || stats.BrokenLinks != 2 {
			t.Errorf("%+v after %d listings", stats, i+1)
		}
	}
	if d.String() != dir {
		t.Errorf("the dataset calls itself %s, not %s", d, dir)
	}
	text := log.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, dir+"/d") || !strings.Contains(text, "broken_links=2") {
		t.Errorf("the log says\n%s", text)
	}
	if n := store.opens.Load(); n != 0 {
		t.Errorf("%d files were opened for listings", n)
	}
	f, err := d.Open(context.Background(), "d/README")
	must(t, err)
	defer f.Close()
	p := make([]byte, 1)
	if _, err := f.ReadAt(p, 0); err != nil || p[0] != 'x' || d.Stats().StoreBytesRead != 0 {
		t.Errorf("a file passed through: %q, %v, %+v", p, err, d.Stats())
	}
}

func TestHeadersAreBounded(t *testing.T) {
	const maxBytes = 1 << 20
	h := newHeaders(maxBytes)
	add := func(i int) {
		h.add(&Sample{Path: fmt.Sprintf("folder/%06d.l3", i), Info: Info{ID: Identity{Ino: uint64(i)}}})
	}
	for i := range 10_000 {
		add(i)
		if h.bytes > maxBytes {
			t.Fatalf("%d bytes after %d samples", h.bytes, i)
		}
	}
	kept := h.lru.Len()
	each := headerBytes(&Sample{Path: "folder/000000.l3"})
	if int64(kept) != maxBytes/each {
		t.Errorf("%d samples of %d bytes each are kept", kept, each)
	}
	last := fmt.Sprintf("folder/%06d.l3", 9999)
	if h.get(last, Identity{Ino: 9999}) == nil || h.get(last, Identity{Ino: 1}) != nil {
		t.Error("the last sample is not known by its identity, and by that alone")
	}
	// The same again takes no more; a larger one pushes others out, the oldest first.
	before := h.bytes
	add(9999)
	if h.bytes != before || h.lru.Len() != kept {
		t.Errorf("%d bytes, %d samples after adding one twice", h.bytes, h.lru.Len())
	}
	oldest := fmt.Sprintf("folder/%06d.l3", 10_000-kept)
	second := fmt.Sprintf("folder/%06d.l3", 10_001-kept)
	if h.get(oldest, Identity{Ino: uint64(10_000 - kept)}) == nil {
		t.Error("the oldest has gone early")
	}
	add(10_000)
	if h.lru.Contains(second) || !h.lru.Contains(oldest) {
		t.Error("a sample that was just used went before another")
	}
	// One that is larger than everything is not kept, nor is anything else.
	h.add(&Sample{Path: strings.Repeat("x", maxBytes)})
	if h.bytes != 0 || h.lru.Len() != 0 {
		t.Errorf("%d bytes, %d samples", h.bytes, h.lru.Len())
	}
}

// What an entry is said to take is what it takes.
func TestHeaderBytesAreTrue(t *testing.T) {
	const n = 40_000
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	h := newHeaders(1 << 30)
	before := heap()
	for i := range n {
		h.add(&Sample{Path: fmt.Sprintf("folder/%06d.l3", i)})
	}
	real := heap() - before
	if h.bytes < real*95/100 || h.bytes > real*13/10 {
		t.Errorf("%d samples are said to take %d bytes each and take %d", n, h.bytes/n, real/n)
	}
	t.Logf("%d bytes each, said to be %d", real/n, h.bytes/n)
	runtime.KeepAlive(h)
}

// Whatever happens to files, a sample and its bytes are those of one file.
func TestSamplesBelongTogether(t *testing.T) {
	var files [][]byte
	for i := range 4 {
		files = append(files, image(t, 5+i, 7, uint64(i), l3.EncodeOptions{}))
	}
	heightOf := func(file int) int { return 5 + file }
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		d, _ := openDataset(t, dir, Options{HeaderBytes: rapid.SampledFrom([]int64{1, 2000, 1 << 20}).Draw(rt, "memory")})
		ctx := context.Background()
		now := map[string]int{}                                          // what is in the folder
		seen := map[string]*Sample{}                                     // what was seen last
		clock := time.Unix(1_700_000_000, 0)                             // a tick for every change
		names := rapid.SampledFrom([]string{"a.l3", "b.l3", "c.l3"})     // of samples
		contents := rapid.IntRange(0, len(files)-1)                      // of files
		change := func(rt *rapid.T, write func(path string, b []byte)) { // puts a content at a name
			name, content := names.Draw(rt, "name"), contents.Draw(rt, "content")
			write(dir+"/"+name, files[content])
			clock = clock.Add(time.Second)
			must(t, os.Chtimes(dir+"/"+name, clock, clock))
			now[name] = content
		}
		rt.Repeat(map[string]func(*rapid.T){
			"replace": func(rt *rapid.T) { change(rt, func(path string, b []byte) { replace(t, path, b) }) },
			"rewrite": func(rt *rapid.T) { change(rt, func(path string, b []byte) { must(t, os.WriteFile(path, b, 0o644)) }) },
			"remove": func(rt *rapid.T) {
				name := names.Draw(rt, "name")
				if err := os.Remove(dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					rt.Fatal(err)
				}
				delete(now, name)
			},
			"look": func(rt *rapid.T) {
				name := names.Draw(rt, "name")
				s, err := d.Sample(ctx, name)
				content, there := now[name]
				switch {
				case !there && !errors.Is(err, fs.ErrNotExist):
					rt.Fatalf("%s, which is not there: %v", name, err)
				case there && err != nil:
					rt.Fatal(err)
				case there && s.Shape.Height != heightOf(content):
					rt.Fatalf("%s has %v, not the height %d", name, s.Shape, heightOf(content))
				case there:
					seen[name] = s
				}
			},
			"read": func(rt *rapid.T) {
				name := names.Draw(rt, "name")
				s := seen[name]
				if s == nil {
					return
				}
				got, err := d.ReadEncoded(ctx, s, 0, nil)
				content, there := now[name]
				info, statErr := d.Stat(ctx, name)
				switch {
				case !there:
					if !errors.Is(err, fs.ErrNotExist) {
						rt.Fatalf("%s, which is not there: %v", name, err)
					}
				case statErr != nil:
					rt.Fatal(statErr)
				case info.ID != s.Info.ID:
					if !errors.Is(err, ErrChanged) {
						rt.Fatalf("%s, which changed: %v", name, err)
					}
				case err != nil || !bytes.Equal(got, files[content]):
					rt.Fatalf("%s: %d bytes, %v", name, len(got), err)
				}
			},
		})
	})
}

func TestDatasetDescriptorsStayFlat(t *testing.T) {
	dir := t.TempDir()
	file := image(t, 10, 10, 1, l3.EncodeOptions{})
	replace(t, dir+"/a.l3", file)
	writeFile(t, dir+"/bad.l3", "bad")
	d, store := openDataset(t, dir, Options{HeaderBytes: 1})
	ctx := context.Background()
	before := descriptors(t)
	for i := range 100 {
		s, err := d.Sample(ctx, "a.l3")
		must(t, err)
		if i%2 == 1 {
			store.onRead = func([]byte, int64) (int, error, bool) { return 0, unix.EIO, true }
		}
		if _, err := d.ReadEncoded(ctx, s, 0, nil); (err != nil) != (i%2 == 1) {
			t.Fatal(err)
		}
		store.onRead = nil
		if _, err := d.Sample(ctx, "bad.l3"); !errors.Is(err, l3.ErrNotL3) {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func BenchmarkSample(b *testing.B) {
	dir := b.TempDir()
	file := image(b, 512, 768, 1, l3.EncodeOptions{})
	replace(b, dir+"/a.l3", file)
	for name, memory := range map[string]int64{"remembered": 1 << 20, "read": 1} {
		d, _ := openDataset(b, dir, Options{HeaderBytes: memory})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Sample(context.Background(), "a.l3"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	d, _ := openDataset(b, dir, Options{})
	s, err := d.Sample(context.Background(), "a.l3")
	must(b, err)
	b.Run("encoded", func(b *testing.B) {
		var buf []byte
		b.ReportAllocs()
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			if buf, err = d.ReadEncoded(context.Background(), s, 0, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
