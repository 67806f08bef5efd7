package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prismfs/l3"
	"prismfs/pcr"
)

// fakeJPEG makes what has the form of a progressive JPEG of scans that are as
// long as is said, and random bytes in them. Nobody here decodes it.
func fakeJPEG(width, height, components int, seed uint64, scans ...int) []byte {
	random := rand.New(rand.NewPCG(seed, 7))
	b := []byte{0xff, 0xd8, 0xff, 0xe0, 0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0}
	b = append(b, 0xff, 0xdb, 0, 67, 0)
	for range 64 {
		b = append(b, byte(random.IntN(200)+1))
	}
	b = append(b, 0xff, 0xc2, 0, byte(8+3*components), 8)
	b = binary.BigEndian.AppendUint16(b, uint16(height))
	b = binary.BigEndian.AppendUint16(b, uint16(width))
	b = append(b, byte(components))
	for c := range components {
		b = append(b, byte(c+1), 0x11, 0)
	}
	for i, n := range scans {
		low, high := 0, 0
		if i > 0 {
			low, high = i, i
		}
		b = append(b, 0xff, 0xda, 0, 8, 1, 1, 0, byte(low), byte(high), 0)
		for range n {
			b = append(b, byte(random.IntN(255))) // never 0xff
		}
	}
	return append(b, 0xff, 0xd9)
}

// maker makes PCR folders.
type maker struct {
	dir     string
	info    pcr.RecordInfo
	entries []pcr.IndexEntry
}

// picture is an image for a record, different for every seed.
func picture(label int, seed uint64) pcr.Image {
	random := rand.New(rand.NewPCG(seed, 3))
	components := 3
	if seed%5 == 0 {
		components = 1
	}
	width, height := 20+int(seed%50), 30+int(seed%7)
	scans := make([]int, 4)
	for i := range scans {
		scans[i] = 200 + random.IntN(1000)
	}
	return pcr.Image{
		JPEG: fakeJPEG(width, height, components, seed, scans...), Label: int32(label), Width: width, Height: height, Components: components,
	}
}

// encode makes the bytes of a record.
func (m *maker) encode(t testing.TB, name string, images []pcr.Image) ([]byte, pcr.IndexEntry) {
	t.Helper()
	b, entry, err := pcr.AppendRecord(nil, images, m.info)
	must(t, err)
	entry.Name = name
	return b, entry
}

// add writes a record.
func (m *maker) add(t testing.TB, name string, images ...pcr.Image) {
	t.Helper()
	b, entry := m.encode(t, name, images)
	must(t, os.WriteFile(filepath.Join(m.dir, name), b, 0o644))
	m.entries = append(m.entries, entry)
}

// finish writes the index.
func (m *maker) finish(t testing.TB) {
	t.Helper()
	b, err := pcr.AppendIndex(nil, m.entries)
	must(t, err)
	replace(t, filepath.Join(m.dir, pcr.IndexNamePB), b)
}

// bareFolder makes a folder of records as others write them: without names.
func bareFolder(t testing.TB, dir string, records, each, classes int) *maker {
	t.Helper()
	m := &maker{dir: dir, info: pcr.RecordInfo{Bare: true}}
	m.fill(t, records, each, classes)
	return m
}

func (m *maker) fill(t testing.TB, records, each, classes int) {
	t.Helper()
	for r := range records {
		var images []pcr.Image
		for i := range each {
			n := r*each + i
			img := picture((n*7+r)%classes, uint64(n+1))
			if !m.info.Bare {
				img.Class, img.Name = fmt.Sprintf("class%d", img.Label), fmt.Sprintf("n%04d.JPEG", n)
			}
			images = append(images, img)
		}
		m.add(t, fmt.Sprintf("PCR_%d.pcr", r), images...)
	}
	m.finish(t)
}

// wantJPEG returns the first k scans of an image and EOI.
func wantJPEG(t testing.TB, jpeg []byte, k int) []byte {
	t.Helper()
	scans, err := pcr.SplitScans(jpeg)
	must(t, err)
	return append(bytes.Join(scans[:min(k, len(scans))], nil), 0xff, 0xd9)
}

// readAt reads a sample.
func readAt(t testing.TB, d *Dataset, path string, k int) []byte {
	t.Helper()
	s, err := d.Sample(context.Background(), path)
	must(t, err)
	b, err := d.ReadEncoded(context.Background(), s, k, nil)
	must(t, err)
	return b
}

// listed returns the entries of a folder.
func listed(t testing.TB, d *Dataset, path string) map[string]Kind {
	t.Helper()
	got := map[string]Kind{}
	must(t, d.ReadDir(context.Background(), path, func(e DirEntry) bool {
		if got[e.Name] != 0 {
			t.Errorf("%s is listed twice in %q", e.Name, path)
		}
		got[e.Name] = e.Kind
		return true
	}))
	return got
}

func summary(t testing.TB, d *Dataset, path string) *PCRSummary {
	t.Helper()
	s, err := d.PCRFolder(context.Background(), path)
	must(t, err)
	return s
}

// A source with PCR folders in it, and other files beside records.
func TestTreeOfARecordFolder(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"train", "val", "train/docs", "train/0005", "empty"} {
		must(t, os.MkdirAll(dir+"/"+sub, 0o755))
	}
	bareFolder(t, dir+"/train", 3, 10, 12)
	bareFolder(t, dir+"/val", 1, 5, 3)
	writeFile(t, dir+"/train/README", "read me")
	writeFile(t, dir+"/train/docs/x.pcr.txt", "x")
	replace(t, dir+"/train/a.l3", image(t, 5, 6, 1, l3.EncodeOptions{}))
	var log bytes.Buffer
	d, _ := openPCR(t, dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got, want := listed(t, d, ""), (map[string]Kind{"train": Dir, "val": Dir, "empty": Dir}); !maps.Equal(got, want) {
		t.Errorf("the source has %v", got)
	}
	want := map[string]Kind{"README": Regular, "docs": Dir, "0005": Dir, "a.l3": Regular}
	for label := range 12 {
		want[fmt.Sprintf("%02d", label)] = Dir
	}
	if got := listed(t, d, "train"); !maps.Equal(got, want) {
		t.Errorf("train has %v, want %v", got, want)
	}
	if got, want := listed(t, d, "val"), (map[string]Kind{"0": Dir, "1": Dir, "2": Dir}); !maps.Equal(got, want) {
		t.Errorf("val has %v", got)
	}
	if got := samplePaths(t, d, "val"); len(got) != 5 || got[0] != "val/0/PCR_0-00000.pcr" {
		t.Errorf("the samples of val are %v", got)
	}
	ctx := context.Background()
	folder, err := d.Stat(ctx, "train")
	must(t, err)
	virtual, err := d.Stat(ctx, "train/07")
	must(t, err)
	if virtual.Kind != Dir || virtual.ID.Ino == folder.ID.Ino || virtual.ID.Dev != folder.ID.Dev || virtual.Mode != folder.Mode {
		t.Errorf("a class folder is %+v, its PCR folder %+v", virtual, folder)
	}
	record, err := os.Stat(dir + "/train/PCR_0.pcr")
	must(t, err)
	path := samplePaths(t, d, "train/07")[0]
	info, err := d.Stat(ctx, path)
	must(t, err)
	if info.Kind != Regular || info.ID.Size != record.Size() || info.ID.MTimeNS != record.ModTime().UnixNano() || info.Size != 0 {
		t.Errorf("%s is %+v", path, info)
	}
	for _, path := range []string{
		"train/PCR_0.pcr", "train/PCR_index.pb", "train/00/PCR_0.pcr", "train/12", "train/7", "train/007", "train/00/PCR_0-1.pcr",
		"train/00/PCR_0-00001.pcr/x", "train/00/PCR_0-000000.pcr", "train/00/PCR_9-00000.pcr", "train/00/PCR_0-00010.pcr", "train/00/PCR_0-00000",
	} {
		if _, err := d.Stat(ctx, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := d.Open(ctx, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening %s: %v", path, err)
		}
		if _, err := d.Sample(ctx, path); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrNotSample) {
			t.Errorf("the sample %s: %v", path, err)
		}
	}
	for path, want := range map[string]error{"train/README": ErrNotSample, "train/07": ErrNotSample, "train/docs/none.pcr": fs.ErrNotExist} {
		if _, err := d.Sample(ctx, path); !errors.Is(err, want) {
			t.Errorf("the sample %s: %v", path, err)
		}
	}
	if _, err := d.Sample(ctx, "train/a.l3"); err != nil {
		t.Errorf("an L3 file beside records: %v", err)
	}
	f, err := d.Open(ctx, "train/README")
	must(t, err)
	f.Close()
	if _, err := d.Open(ctx, path); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("an image opened as a file: %v", err)
	}
	if err := d.ReadDir(ctx, path, func(DirEntry) bool { return true }); err == nil {
		t.Errorf("an image is listed as a folder")
	}
	bareFolder(t, dir+"/empty", 1, 4, 1)
	must(t, os.Mkdir(dir+"/empty/0", 0o755)) // hides the only class
	if got := listed(t, d, "empty/0"); len(got) != 0 {
		t.Errorf("a real folder shows %v", got)
	}
	if got := listed(t, d, "empty"); !maps.Equal(got, map[string]Kind{"0": Dir}) {
		t.Errorf("a folder that became one of records has %v", got)
	}
	if text := log.String(); !strings.Contains(text, "hide classes") {
		t.Errorf("the log does not tell that a folder hides a class:\n%s", text)
	}
}

// longName is longer than a path in a class may be.
var longName = strings.Repeat(strings.Repeat("x", 250)+"/", 5) + "a.jpg"

// Names that records tell, whatever they are.
func TestNamesOfImages(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  map[string]string // path in the class folder, without suffix, of each name; by number where it is "#"
	}{
		"plain":    {[]string{"a.jpg", "b.JPEG", "c"}, map[string]string{"a.jpg": "a", "b.JPEG": "b", "c": "c"}},
		"suffixes": {[]string{"a.jpg", "a.png", "a.b.c", ".jpg"}, map[string]string{"a.jpg": "a.jpg", "a.png": "a.png", "a.b.c": "a.b", ".jpg": ".jpg"}},
		"chain":    {[]string{"a.jpg", "a.png", "a.jpg.png"}, map[string]string{"a.jpg": "a.jpg-PCR_0-00000", "a.png": "a.png", "a.jpg.png": "a.jpg.png"}},
		"folders":  {[]string{"s/a.jpg", "s/t/a.jpg", "s.jpg", "a.jpg"}, map[string]string{"s/a.jpg": "s/a", "s/t/a.jpg": "s/t/a", "s.jpg": "s", "a.jpg": "a"}},
		"a folder with the name of an image": {[]string{"s.pcr/a.jpg", "s.jpg"},
			map[string]string{"s.pcr/a.jpg": "s.pcr/a", "s.jpg": "s.jpg"}},
		"as if by number": {[]string{"PCR_0-00001.jpg", "b.jpg"}, map[string]string{"PCR_0-00001.jpg": "PCR_0-00001", "b.jpg": "b"}},
		"reserved":        {[]string{"~image-1.jpg", "b.jpg"}, map[string]string{"~image-1.jpg": "#", "b.jpg": "b"}},
		"long":            {[]string{longName, "b.jpg"}, map[string]string{longName: "#", "b.jpg": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := &maker{dir: dir}
			var images []pcr.Image
			for i, name := range c.names {
				img := picture(0, uint64(i+1))
				img.Class, img.Name = "cat", name
				images = append(images, img)
			}
			m.add(t, "PCR_0.pcr", images...)
			m.finish(t)
			d, _ := openPCR(t, dir, Options{})
			var want []string
			for i, name := range c.names {
				path, original := c.want[name], filepath.Base(name)
				if path == "#" {
					path, original = fmt.Sprintf("PCR_0-%05d", i), ""
				}
				path = "cat/" + path + RecordSuffix
				want = append(want, path)
				s, err := d.Sample(context.Background(), path)
				if err != nil {
					t.Error(err)
					continue
				}
				if s.OriginalName != original || s.Class != "cat" || *s.Label != 0 {
					t.Errorf("%s: %+v", path, s)
				}
				if got := readAt(t, d, path, 2); !bytes.Equal(got, wantJPEG(t, images[i].JPEG, 2)) {
					t.Errorf("%s has other bytes", path)
				}
			}
			got := samplePaths(t, d, "")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("listed %q, want %q", got, want)
			}
		})
	}
}
