package pcr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

func TestMetadata(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       string // labels, levels, version
	}{
		{"labels one by one", "\x08\x05\x08\x00\x08\x07\x10\x0a\x18\x01", "[5 0 7] 10 1"},
		{"labels packed", "\x0a\x03\x05\x00\x07\x10\x0a\x18\x01", "[5 0 7] 10 1"},
		{"both", "\x08\x05\x0a\x02\x00\x07\x10\x0a\x18\x01", "[5 0 7] 10 1"},
		{"without version", "\x08\x05\x10\x0a", "[5] 10 0"},
		{"version 2", "\x08\x05\x10\x0a\x18\x02", "[5] 10 2"},
		{"TensorFlow's, with an example", "\x08\x05\x10\x0a\x18\x64\x22\x03abc", "[5] 10 100"},
		{"unknown fields", "\x28\x01\x08\x05\x32\x01x\x10\x0a\x3d1234\x41\x31\x32\x33\x34\x35\x36\x37\x38", "[5] 10 0"},
		{"a negative label", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", "[-1] 1 0"},
		{"the largest label", "\x08\xff\xff\xff\xff\x07\x10\x01", "[2147483647] 1 0"},
		{"the last of several numbers counts", "\x10\x01\x10\x02\x18\x02\x18\x01\x08\x05", "[5] 2 1"},
		{"no images", "\x10\x01", "[] 1 0"},
	} {
		m, err := ParseMetadata([]byte(c.data))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := fmt.Sprint(m.Labels, m.Levels, m.Version); got != c.want || m.Extension != nil || m.ExtensionErr != nil {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name, data string
		want       error
	}{
		{"nothing", "", ErrDamaged},
		{"no levels", "\x08\x05", ErrDamaged},
		{"a label over 31 bits", "\x08\xff\xff\xff\xff\x0f\x10\x01", ErrDamaged},
		{"a label below", "\x08\xff\xff\xff\xff\xf7\xff\xff\xff\xff\x01\x10\x01", ErrDamaged},
		{"cut", "\x08\x05\x10\x0a\x18", ErrDamaged},
		{"packed labels that are cut", "\x0a\x02\x05\x80\x10\x01", ErrDamaged},
		{"many levels", "\x08\x05\x10\x81\x80\x02", ErrTooLarge},
		{"negative levels", "\x08\x05\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrTooLarge},
		{"another version", "\x08\x05\x10\x0a\x18\x03", ErrUnsupported},
		{"no message", "\xff\xd8\xff\xe0", ErrDamaged},
	} {
		if m, err := ParseMetadata([]byte(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v, want %v", c.name, m, err, c.want)
		}
	}
}

// reread takes a written record apart and compares it with its images.
func reread(t *testing.T, record []byte, e *IndexEntry, images []Image) *Metadata {
	t.Helper()
	m, err := ParseMetadata(record[:e.Lengths[0]])
	if err != nil {
		t.Fatal(err)
	}
	if e.Size() != int64(len(record)) || m.Version != VersionProtobuf || m.Levels != e.Levels() || len(m.Labels) != len(images) {
		t.Fatalf("%d bytes, entry %v, metadata %+v", len(record), *e, m)
	}
	spans := spansOfRecord(t, e, m, &Index{}, record)
	for i := range images {
		if m.Labels[i] != images[i].Label {
			t.Errorf("image %d: label %d, want %d", i, m.Labels[i], images[i].Label)
		}
		if got := assemble(e, record, spans, i, m.Levels); !bytes.Equal(got, images[i].JPEG) {
			t.Errorf("image %d: other bytes come back", i)
		}
	}
	checkRebuild(t, e, m, record, spans)
	return m
}

func TestWriteRecord(t *testing.T) {
	images := sampleImages(t)
	info := RecordInfo{DatasetID: 1 << 63, SourceHash: 0x0123456789abcdef, Quality: 90}
	record, e, err := AppendRecord([]byte("before"), images, info)
	if err != nil {
		t.Fatal(err)
	}
	record = record[len("before"):]
	e.Name = "PCR_0.pcr"
	m := reread(t, record, &e, images)
	x := m.Extension
	if x == nil || m.ExtensionErr != nil {
		t.Fatalf("no extension: %v", m.ExtensionErr)
	}
	if x.DatasetID != info.DatasetID || x.SourceHash != info.SourceHash || x.Quality != info.Quality {
		t.Errorf("%x, %x, %d", x.DatasetID, x.SourceHash, x.Quality)
	}
	if got := fmt.Sprintf("%q", x.Classes); got != fmt.Sprintf("%q", []Class{{0, "B"}, {1, "a"}, {2, "ä b"}}) {
		t.Errorf("classes %s", got)
	}
	if err := x.Check(&e); err != nil {
		t.Error(err)
	}
	for i, img := range images {
		if x.Names[i] != img.Name || x.Shapes[i] != img.shape() {
			t.Errorf("image %d: %q, %v", i, x.Names[i], x.Shapes[i])
		}
	}
	for g := 1; g <= m.Levels; g++ {
		group := record[e.GroupOffset(g):][:e.Lengths[g]]
		spans, err := ParseGroup(group, len(images))
		if err != nil || !slices.Equal(spans, x.Spans(g)) {
			t.Errorf("group %d: the extension has other spans, %v", g, err)
		}
		for i, s := range spans {
			if sum := Checksum(group[s.Off:][:s.Len]); sum != x.Checksums[g-1][i] || int64(x.Lengths[g-1][i]) != s.Len {
				t.Errorf("group %d, image %d: checksum %08x and %d bytes, want %08x and %d", g, i, x.Checksums[g-1][i], x.Lengths[g-1][i], sum, s.Len)
			}
		}
	}
	other := IndexEntry{Name: e.Name, Lengths: slices.Clone(e.Lengths)}
	other.Lengths[3]++
	if err := x.Check(&other); !errors.Is(err, ErrExtension) {
		t.Errorf("with another length: %v", err)
	}
	if err := x.Check(&IndexEntry{Lengths: e.Lengths[:4]}); !errors.Is(err, ErrExtension) {
		t.Errorf("with fewer groups: %v", err)
	}
}

// A record names all classes of its dataset, where they are given.
func TestWriteClasses(t *testing.T) {
	images := sampleImages(t)
	all := []Class{{2, "ä b"}, {7, "empty"}, {0, "B"}, {1, "a"}, {math.MaxInt32, "last"}}
	record, e, err := AppendRecord(nil, images, RecordInfo{Classes: all})
	if err != nil {
		t.Fatal(err)
	}
	e.Name = "PCR_0.pcr"
	m := reread(t, record, &e, images)
	want := []Class{{0, "B"}, {1, "a"}, {2, "ä b"}, {7, "empty"}, {math.MaxInt32, "last"}}
	if m.Extension == nil || !slices.Equal(m.Extension.Classes, want) {
		t.Errorf("%+v, %v", m.Extension, m.ExtensionErr)
	}
	if all[0].Label != 2 {
		t.Errorf("the classes of the caller were changed: %v", all)
	}
	for name, classes := range map[string][]Class{
		"none":              {},
		"one is missing":    all[:2],
		"another label":     {{2, "ä b"}, {0, "B"}, {3, "a"}},
		"another name":      {{2, "ä b"}, {0, "B"}, {1, "b"}},
		"a label twice":     append(slices.Clone(all), Class{7, "x"}),
		"a name twice":      append(slices.Clone(all), Class{8, "a"}),
		"a negative label":  append(slices.Clone(all), Class{-1, "x"}),
		"a name of folders": append(slices.Clone(all), Class{8, "x/y"}),
		"no name":           append(slices.Clone(all), Class{8, ""}),
	} {
		if _, _, err := AppendRecord(nil, images, RecordInfo{Classes: classes}); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkClasses(make([]Class, maxClasses+1), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too many classes: %v", err)
	}
}

// A record that has the lengths of its images needs no index.
func TestEntryOfExtension(t *testing.T) {
	images := sampleImages(t)
	record, e, err := AppendRecord(nil, images, RecordInfo{})
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(record))
	n, err := MetadataBytes(bytes.NewReader(record), size)
	if err != nil || n != e.Lengths[0] {
		t.Fatalf("metadata of %d bytes, want %d, %v", n, e.Lengths[0], err)
	}
	m, err := ParseMetadata(record[:n])
	if err != nil {
		t.Fatal(err)
	}
	if own, ok := m.Extension.Entry(n); !ok || !slices.Equal(own.Lengths, e.Lengths) || own.Size() != size {
		t.Errorf("%v, %v, want %v", own, ok, e)
	}
	if own, ok := m.Extension.Entry(0); ok {
		t.Errorf("without metadata: %v", own)
	}
	if own, ok := (&Extension{}).Entry(n); ok {
		t.Errorf("without lengths: %v", own)
	}
	for name, b := range map[string][]byte{"nothing": nil, "metadata alone": record[:n], "no record": []byte("\xff\xd8\xff\xe0")} {
		if n, err := MetadataBytes(bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

func TestWriteBareRecord(t *testing.T) {
	images := sampleImages(t)
	record, e, err := AppendRecord(nil, images, RecordInfo{Bare: true, Quality: 90})
	if err != nil {
		t.Fatal(err)
	}
	e.Name = "PCR_0.pcr"
	if m := reread(t, record, &e, images); m.Extension != nil || m.ExtensionErr != nil {
		t.Errorf("an extension: %v, %v", m.Extension, m.ExtensionErr)
	}
}

// brokenWriter takes some bytes and then fails.
type brokenWriter struct{ left int }

var errBroken = errors.New("no more")

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestWriteRecordRefuses(t *testing.T) {
	good := sampleImages(t)[0]
	with := func(change func(*Image)) []Image {
		img := good
		change(&img)
		return []Image{good, img}
	}
	for name, images := range map[string][]Image{
		"no images":               nil,
		"a negative label":        with(func(m *Image) { m.Label = -1 }),
		"no JPEG":                 with(func(m *Image) { m.JPEG = []byte("no JPEG") }),
		"a JPEG without EOI":      with(func(m *Image) { m.JPEG = m.JPEG[:len(m.JPEG)-2] }),
		"no class":                with(func(m *Image) { m.Class = "" }),
		"a class with folders":    with(func(m *Image) { m.Class = "a/b" }),
		"a class of dots":         with(func(m *Image) { m.Class = ".." }),
		"a class with two labels": with(func(m *Image) { m.Label++ }),
		"a label of two classes":  with(func(m *Image) { m.Class += "x" }),
		"no name":                 with(func(m *Image) { m.Name = "" }),
		"a name that leads out":   with(func(m *Image) { m.Name = "../x" }),
		"an absolute name":        with(func(m *Image) { m.Name = "/x" }),
		"a name with NUL":         with(func(m *Image) { m.Name = "a\x00b" }),
		"an empty folder":         with(func(m *Image) { m.Name = "a//b" }),
		"no width":                with(func(m *Image) { m.Width = 0 }),
		"a large height":          with(func(m *Image) { m.Height = 65536 }),
		"a negative height":       with(func(m *Image) { m.Height = -1 }),
		"two components":          with(func(m *Image) { m.Components = 2 }),
	} {
		record, _, err := AppendRecord(nil, images, RecordInfo{})
		if !errors.Is(err, ErrImage) || record != nil {
			t.Errorf("%s: %d bytes, %v", name, len(record), err)
		}
	}
	if _, _, err := AppendRecord(nil, []Image{good}, RecordInfo{Quality: 101}); err == nil {
		t.Error("quality 101 was written")
	}
	for _, left := range []int{0, 200, 1000} {
		if _, err := WriteRecord(&brokenWriter{left: left}, []Image{good}, RecordInfo{}); !errors.Is(err, errBroken) {
			t.Errorf("a writer that takes %d bytes: %v", left, err)
		}
	}
}

// Of the metadata that this package writes no damaged byte goes unseen: labels
// and names are right or there are none.
func TestMetadataDamage(t *testing.T) {
	images := sampleImages(t)[:3]
	record, e, err := AppendRecord(nil, images, RecordInfo{DatasetID: 7})
	if err != nil {
		t.Fatal(err)
	}
	good := record[:e.Lengths[0]]
	want, err := ParseMetadata(good)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for at := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[at] ^= 1 << bit
			m, err := ParseMetadata(b)
			if err != nil {
				continue
			}
			if m.Extension != nil || !slices.Equal(m.Labels, want.Labels) || m.Levels != want.Levels || m.Version != want.Version {
				t.Errorf("byte %d, bit %d: labels %v, levels %d, version %d, extension %v", at, bit, m.Labels, m.Levels, m.Version, m.Extension != nil)
			}
			lost++
		}
	}
	// Its tag, which makes it an unknown field, and its version.
	if lost > 40 {
		t.Errorf("the extension is lost by %d bits of %d", lost, 8*len(good))
	}
	for n := range good {
		if m, err := ParseMetadata(good[:n]); err == nil && m.Extension != nil {
			t.Errorf("the first %d of %d bytes have an extension", n, len(good))
		}
	}
}

// extended returns metadata of two images in one group with an extension of
// these fields, and the checksum.
func extended(version byte, fields ...string) []byte {
	b := []byte("\x08\x05\x08\x06\x10\x01\x18")
	b = append(b, version)
	body := strings.Join(fields, "")
	b = protowire.AppendTag(b, fieldExtension, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(body)+crcFieldBytes))
	b = append(b, body...)
	sum := Checksum(b)
	b = protowire.AppendTag(b, fieldExtCRC, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, sum)
}

func TestExtension(t *testing.T) {
	const version = "\x08\x01"
	for name, b := range map[string][]byte{
		"nothing but its version": extended(1, version),
		"names":                   extended(1, version, "\x12\x01a\x12\x03b/c"),
		"classes":                 extended(1, version, "\x1a\x05\x08\x05\x12\x01a\x1a\x05\x08\x06\x12\x01b"),
		"shapes":                  extended(1, version, "\x22\x06\x01\x01\x01\x02\x02\x03"),
		"lengths":                 extended(1, version, "\x2a\x0812345678"),
		"unknown fields":          extended(1, version, "\x50\x01\x5a\x01x"),
		"version absent":          extended(0, version),
	} {
		m, err := ParseMetadata(b)
		if err != nil || m.Extension == nil {
			t.Errorf("%s: %v, %+v", name, err, m)
			continue
		}
		if m.Extension.Lengths == nil && (m.Extension.Spans(1) != nil || m.Extension.Check(&IndexEntry{}) != nil) {
			t.Errorf("%s: spans without lengths", name)
		}
	}
	for name, b := range map[string][]byte{
		"no version":              extended(1),
		"another version":         extended(1, "\x08\x02"),
		"groups without lengths":  extended(2, version),
		"a name too few":          extended(1, version, "\x12\x01a"),
		"a name too many":         extended(1, version, "\x12\x01a\x12\x01b\x12\x01c"),
		"a name that leads out":   extended(1, version, "\x12\x01a\x12\x02.."),
		"an empty name":           extended(1, version, "\x12\x01a\x12\x00"),
		"a class too few":         extended(1, version, "\x1a\x05\x08\x05\x12\x01a"),
		"a class without a name":  extended(1, version, "\x1a\x02\x08\x05\x1a\x05\x08\x06\x12\x01b"),
		"a class twice":           extended(1, version, "\x1a\x05\x08\x05\x12\x01a\x1a\x05\x08\x06\x12\x01a"),
		"a label twice":           extended(1, version, "\x1a\x05\x08\x05\x12\x01a\x1a\x05\x08\x05\x12\x01b"),
		"a class in a folder":     extended(1, version, "\x1a\x05\x08\x05\x12\x01a\x1a\x07\x08\x06\x12\x03b/c"),
		"a shape too few":         extended(1, version, "\x22\x03\x01\x01\x01"),
		"a number too many":       extended(1, version, "\x22\x07\x01\x01\x01\x02\x02\x03\x01"),
		"a number cut":            extended(1, version, "\x22\x06\x01\x01\x01\x02\x02\x83"),
		"no pixels":               extended(1, version, "\x22\x06\x01\x01\x01\x00\x02\x03"),
		"shapes twice":            extended(1, version, strings.Repeat("\x22\x06\x01\x01\x01\x02\x02\x03", 2)),
		"lengths of three":        extended(1, version, "\x2a\x0c123456789012"),
		"lengths of two groups":   extended(1, version, strings.Repeat("\x2a\x0812345678", 2)),
		"checksums of two groups": extended(1, version, strings.Repeat("\x32\x0812345678", 2)),
		"quality 101":             extended(1, version, "\x40\x65"),
		"something behind it":     append(extended(1, version), "\x20\x01"...),
		"two of them":             slices.Concat(extended(1, version), extended(1, version)[8:]),
	} {
		m, err := ParseMetadata(b)
		if err != nil || m.Extension != nil || !errors.Is(m.ExtensionErr, ErrExtension) {
			t.Errorf("%s: %v, %+v", name, err, m)
		}
	}
	for name, b := range map[string][]byte{
		"another checksum": append(extended(1, version)[:len(extended(1, version))-1], 0xaa),
		"no checksum":      []byte("\x08\x05\x10\x01\x82\x7d\x02\x08\x01"),
	} {
		if m, err := ParseMetadata(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %+v", name, err, m)
		}
	}
}

// group returns a group of images.
func group(images ...string) []byte {
	var b []byte
	for _, s := range images {
		b = protowire.AppendTag(b, fieldImages, protowire.BytesType)
		b = protowire.AppendString(b, s)
	}
	return b
}

func TestWalkGroup(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name string
		data []byte
		n    int
		want []Span
		read int64 // at most
	}{
		{"three images", group("a", long, "bc"), 3, []Span{{2, 1}, {6, 300}, {308, 2}}, 16},
		{"empty ones", group("", long, "", ""), 4, []Span{{2, 0}, {5, 300}, {307, 0}, {309, 0}}, 16},
		{"no images", nil, 0, []Span{}, 0},
		{"unknown fields", slices.Concat([]byte("\x10\x05"), group("a"), []byte("\x1a\x02xy"), group("b"), []byte("\x25abcd\x29abcdefgh")), 2,
			[]Span{{4, 1}, {11, 1}}, 64},
		{"a tag that is longer than it must be", []byte("\x8a\x80\x80\x80\x80\x80\x80\x80\x00\x81\x80\x80\x80\x80\x80\x00x"), 1, []Span{{16, 1}}, entryWindow + longWindow},
	} {
		got, read, err := WalkGroup(bytes.NewReader(append([]byte("12345"), c.data...)), 5, int64(len(c.data)), c.n)
		if err != nil || !slices.Equal(got, c.want) || read > c.read {
			t.Errorf("%s: %v after %d bytes, %v, want %v", c.name, got, read, err, c.want)
		}
		got, err = ParseGroup(c.data, c.n)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, in memory: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		data []byte
		n    int
	}{
		"an image too many":      {group("a", "b", "c"), 2},
		"an image too few":       {group("a", "b"), 3},
		"many images":            {group("a", "b"), 1 << 40},
		"a negative number":      {group("a", "b"), -1},
		"cut":                    {group("a", "bcd")[:6], 2},
		"cut in a length":        {append(group("aaaa"), 0x0a), 2},
		"a length that lies":     {[]byte("\x0a\x01a\x0a\xff\xff\xff\xff\x0fa"), 2},
		"the longest length":     {[]byte("\x0a\x01a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"), 2},
		"field 0":                {[]byte("\x0a\x01a\x02\x01b"), 2},
		"an unknown wire type":   {[]byte("\x0a\x01a\x0f\x01b"), 2},
		"a number without end":   {append([]byte("\x0a\x01a"), bytes.Repeat([]byte{0xff}, 30)...), 2},
		"no message":             {[]byte("\xff\xd8\xff\xe0\x00\x10JFIF"), 1},
		"unknown fields, mainly": {append(bytes.Repeat([]byte("\x10\x05"), 1000), group("a")...), 1},
	} {
		if got, _, err := WalkGroup(bytes.NewReader(c.data), 0, int64(len(c.data)), c.n); err == nil {
			t.Errorf("%s: %v", name, got)
		}
		if got, err := ParseGroup(c.data, c.n); err == nil && name != "unknown fields, mainly" {
			t.Errorf("%s, in memory: %v", name, got)
		}
	}
	// A file that ends before the group does.
	if _, _, err := WalkGroup(bytes.NewReader(group(long, "b")), 0, 400, 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that is cut: %v", err)
	}
	if _, _, err := WalkGroup(failingReader{}, 0, 400, 2); !errors.Is(err, errBroken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// failingReader has nothing.
type failingReader struct{}

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

// Walking and parsing agree, and walking reads little.
func TestWalkGroupProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 300), 0, 20).Draw(t, "sizes")
		images := make([]string, len(sizes))
		for i, n := range sizes {
			images[i] = strings.Repeat("\x0a", n)
		}
		data := group(images...)
		off := rapid.Int64Range(0, 10).Draw(t, "offset")
		got, read, err := WalkGroup(bytes.NewReader(append(make([]byte, off), data...)), off, int64(len(data)), len(images))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := ParseGroup(data, len(images))
		if err != nil || !slices.Equal(got, parsed) {
			t.Fatalf("%v, parsed %v, %v", got, parsed, err)
		}
		for i, s := range got {
			if int(s.Len) != sizes[i] || string(data[s.Off:][:s.Len]) != images[i] {
				t.Errorf("image %d: %v", i, s)
			}
		}
		if read > int64(entryWindow*len(images)) {
			t.Errorf("%d bytes were read for %d images", read, len(images))
		}
	})
}

// sparse is a file of mostly zeros.
type sparse struct {
	parts map[int64][]byte // by offset
	size  int64
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	n := int(min(int64(len(p)), max(s.size-off, 0)))
	for at, b := range s.parts {
		for i := range n {
			if j := off + int64(i) - at; j >= 0 && j < int64(len(b)) {
				p[i] = b[j]
			}
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Offsets and lengths are 64 bits wide.
func TestWalkLargeRecord(t *testing.T) {
	const large = 5 << 30
	metadata := []byte("\x08\x01\x08\x02\x10\x02")
	head := protowire.AppendVarint([]byte{0x0a}, large)
	head2 := append(bytes.Clone(head), 0xff, 0xd8)
	first := int64(len(metadata))
	second := first + int64(len(head)) + large
	secondGroup := second + 3
	end := secondGroup + 2 + int64(len(head)) + large
	file := &sparse{size: end, parts: map[int64][]byte{
		0: metadata, first: head2, second: []byte("\x0a\x01x"), secondGroup: []byte("\x0a\x00"), secondGroup + 2: head,
	}}
	e, spans, err := RebuildIndexEntry(file, end, "PCR_0.pcr")
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{first, secondGroup - first, end - secondGroup}; !slices.Equal(e.Lengths, want) {
		t.Errorf("lengths %v, want %v", e.Lengths, want)
	}
	if want := (Span{Off: 2 + int64(len(head)), Len: large}); spans[1][1] != want {
		t.Errorf("the last image is at %v, want %v", spans[1][1], want)
	}
	walked, read, err := WalkGroup(file, e.GroupOffset(2), e.Lengths[2], 2)
	if err != nil || !slices.Equal(walked, spans[1]) || read > 16 {
		t.Errorf("%v after %d bytes, %v", walked, read, err)
	}
}

func TestRebuild(t *testing.T) {
	record := slices.Concat([]byte("\x08\x05\x08\x06\x10\x02\x18\x01"), group("\xff\xd8a", "b"), []byte("\x10\x05"), group("", "cd"))
	e, spans, err := RebuildIndexEntry(bytes.NewReader(record), int64(len(record)), "PCR_3.pcr")
	if err != nil || fmt.Sprint(e, spans) != "{PCR_3.pcr [8 10 6]} [[{2 3} {7 1}] [{2 0} {4 2}]]" {
		t.Errorf("%v %v %v", e, spans, err)
	}
	packed := slices.Concat([]byte("\x0a\x02\x05\x06\x10\x01"), group("\xff\xd8a", "b"))
	if e, _, err := RebuildIndexEntry(bytes.NewReader(packed), int64(len(packed)), "PCR_3.pcr"); err != nil || e.Lengths[0] != 6 {
		t.Errorf("packed labels: %v, %v", e, err)
	}
	for name, c := range map[string]struct {
		record []byte
		want   error
	}{
		"nothing":             {nil, ErrDamaged},
		"metadata alone":      {record[:8], ErrDamaged},
		"cut":                 {record[:len(record)-1], ErrDamaged},
		"a group too few":     {record[:18], ErrDamaged},
		"something behind it": {append(bytes.Clone(record), group("x")...), ErrDamaged},
		"no JPEG":             {slices.Concat([]byte("\x08\x05\x10\x01"), group("\xff\xd9a")), ErrDamaged},
		"no image":            {slices.Concat([]byte("\x10\x01"), group("\xff\xd8")), ErrDamaged},
		"version 2":           {slices.Concat([]byte("\x08\x05\x10\x01\x18\x02"), group("\xff\xd8")), ErrUnsupported},
		"many levels":         {slices.Concat([]byte("\x08\x05\x10\xe8\x07"), group("\xff\xd8")), ErrDamaged},
		"another file":        {[]byte("\x89PNG\x0d\x0a\x1a\x0a and so on"), ErrDamaged},
	} {
		if e, _, err := RebuildIndexEntry(bytes.NewReader(c.record), int64(len(c.record)), "PCR_3.pcr"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, e, err, c.want)
		}
	}
	if _, _, err := RebuildIndexEntry(bytes.NewReader(record), int64(len(record)), "../PCR_3.pcr"); err == nil {
		t.Error("a name that leads out was taken")
	}
	if _, _, err := RebuildIndexEntry(failingReader{}, 100, "PCR_3.pcr"); !errors.Is(err, errBroken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// Records and indexes of the reference are written again, byte for byte.
func TestWriterEqualsReference(t *testing.T) {
	for _, name := range []string{"pb", "edge-pb"} {
		f := loadFixture(t, name)
		idx := f.index(t)
		written, err := AppendIndex(nil, idx.Entries)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(filepath.Join(f.dir, IndexNamePB)); err != nil || !bytes.Equal(written, want) {
			t.Errorf("%s: the index is written with other bytes, %v", name, err)
		}
		for i := range idx.Entries {
			e := &idx.Entries[i]
			record, err := os.ReadFile(filepath.Join(f.dir, e.Name))
			if err != nil {
				t.Fatal(err)
			}
			m, err := ParseMetadata(record[:e.Lengths[0]])
			if err != nil {
				t.Fatal(err)
			}
			spans := spansOfRecord(t, e, m, idx, record)
			var images []Image
			for j, label := range m.Labels {
				images = append(images, Image{JPEG: assemble(e, record, spans, j, m.Levels), Label: label})
			}
			written, entry, err := AppendRecord(nil, images, RecordInfo{Bare: true})
			if err != nil || !bytes.Equal(written, record) || !slices.Equal(entry.Lengths, e.Lengths) {
				t.Errorf("%s: %s is written with other bytes, %v", name, e.Name, err)
			}
		}
	}
}

// golden says what a file in testdata/golden holds.
type golden struct {
	Labels    []int32
	Levels    int
	Extension *Extension
	Images    []string // SHA-256 of each image at full fidelity
}

// A record with the extension as it was first written is read, and written
// again, for ever.
func TestGolden(t *testing.T) {
	record, err := os.ReadFile("testdata/golden/extension-1.pcr")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/golden/extension-1.json")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("testdata/golden/PCR_index.pb")
	if err != nil {
		t.Fatal(err)
	}
	idx, err := ParseIndexPB(index)
	if err != nil || len(idx.Entries) != 1 {
		t.Fatalf("%+v, %v", idx, err)
	}
	e := &idx.Entries[0]
	m, err := ParseMetadata(record[:e.Lengths[0]])
	if err != nil || m.Extension == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	g := golden{Labels: m.Labels, Levels: m.Levels, Extension: m.Extension}
	spans := spansOfRecord(t, e, m, idx, record)
	var images []Image
	classes := map[int32]string{}
	for _, c := range m.Extension.Classes {
		classes[c.Label] = c.Name
	}
	for i, label := range m.Labels {
		x := m.Extension
		data := assemble(e, record, spans, i, m.Levels)
		g.Images = append(g.Images, hash(data))
		images = append(images, Image{
			JPEG: data, Label: label, Class: classes[label], Name: x.Names[i],
			Width: int(x.Shapes[i].Width), Height: int(x.Shapes[i].Height), Components: int(x.Shapes[i].Components),
		})
	}
	got, err := json.MarshalIndent(g, "", " ")
	if err != nil || !bytes.Equal(append(got, '\n'), text) {
		t.Errorf("%v, other content: %s", err, got)
	}
	x := m.Extension
	again, entry, err := AppendRecord(nil, images, RecordInfo{DatasetID: x.DatasetID, SourceHash: x.SourceHash, Quality: x.Quality})
	if err != nil || !bytes.Equal(again, record) {
		t.Errorf("written again it has other bytes, %v", err)
	}
	entry.Name = e.Name
	if b, err := AppendIndex(nil, []IndexEntry{entry}); err != nil || !bytes.Equal(b, index) {
		t.Errorf("the index written again has other bytes, %v", err)
	}
}
