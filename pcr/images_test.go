package pcr

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prismfs/internal/jpeg"
)

// sampleFiles are pictures of package jpeg's, with the number of scans that
// they have as progressive ones.
var sampleFiles = []struct {
	name  string
	scans int
}{
	{"rgb-420.jpg", 10},
	{"grey.jpg", 6},
	{"cmyk.jpg", 18},
	{"rgb-coded.jpg", 14},
	{"one.jpg", 10},
	{"ycck.jpg", 18},
	{"restarts.jpg", 10},
	{"profile.jpg", 10},
}

// sampleImages returns images of different kinds and numbers of scans.
func sampleImages(tb testing.TB) []Image {
	tb.Helper()
	var out []Image
	for i, f := range sampleFiles {
		src, err := os.ReadFile(filepath.Join("..", "internal", "jpeg", "testdata", f.name))
		if err != nil {
			tb.Fatal(err)
		}
		data, err := jpeg.Transcode(src, jpeg.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		d, err := jpeg.Decode(data, jpeg.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		class := Class{Label: int32(i % 3), Name: []string{"B", "a", "ä b"}[i%3]}
		out = append(out, Image{
			JPEG: data, Label: class.Label, Class: class.Name, Name: filepath.Join("sub", f.name),
			Width: d.Width, Height: d.Height, Components: d.Header.Components,
		})
	}
	return out
}

// rawRecord makes a record of version 2 of images.
func rawRecord(tb testing.TB, images []Image) ([]byte, IndexEntry, [][]Span) {
	tb.Helper()
	var scans [][][]byte
	levels := 0
	for _, img := range images {
		s, err := SplitScans(img.JPEG)
		if err != nil {
			tb.Fatal(err)
		}
		scans = append(scans, s)
		levels = max(levels, len(s))
	}
	var out []byte
	for _, img := range images {
		out = append(out, 0x08, byte(img.Label))
	}
	out = append(out, 0x10, byte(levels), 0x18, 2)
	e := IndexEntry{Name: "PCR_0.pcr", Lengths: []int64{int64(len(out))}}
	spans := make([][]Span, levels)
	for g := range spans {
		begin := int64(len(out))
		for i := range images {
			at := int64(len(out))
			if g < len(scans[i]) {
				out = append(out, scans[i][g]...)
			}
			spans[g] = append(spans[g], Span{Off: at - begin, Len: int64(len(out)) - at})
		}
		e.Lengths = append(e.Lengths, int64(len(out))-begin)
	}
	return out, e, spans
}

func TestSplitScans(t *testing.T) {
	for i, img := range sampleImages(t) {
		scans, err := SplitScans(img.JPEG)
		if err != nil {
			t.Errorf("%s: %v", img.Name, err)
			continue
		}
		if len(scans) != sampleFiles[i].scans {
			t.Errorf("%s: %d scans, want %d", img.Name, len(scans), sampleFiles[i].scans)
		}
		if joined := append(slices.Concat(scans...), 0xff, 0xd9); !bytes.Equal(joined, img.JPEG) {
			t.Errorf("%s: the scans and EOI are not the file", img.Name)
		}
		// Appending to a scan must not write over the next one.
		before := bytes.Clone(img.JPEG)
		for _, s := range scans {
			_ = append(s, 0xaa)
		}
		if !bytes.Equal(before, img.JPEG) {
			t.Errorf("%s: appending to a scan changes the file", img.Name)
		}
	}
}

// What stands around the scans: fill bytes, junk after EOI, a picture within an
// APP segment, a segment between the last scan and EOI.
func TestSplitScansOddities(t *testing.T) {
	base := sampleImages(t)[0].JPEG
	want, err := SplitScans(base)
	if err != nil {
		t.Fatal(err)
	}
	body := base[:len(base)-2]
	thumbnail := slices.Concat([]byte{0xff, 0xd8, 0xff, 0xe1}, []byte{byte((len(base) + 2) >> 8), byte(len(base) + 2)}, base, base[2:])
	for _, c := range []struct {
		name        string
		data        []byte
		first, last int // bytes that the first and the last scan have more
	}{
		{"junk after EOI", append(bytes.Clone(base), base...), 0, 0},
		{"a picture in a segment", thumbnail, len(base) + 4, 0},
		{"a comment before EOI", append(bytes.Clone(body), 0xff, 0xfe, 0, 3, 'x', 0xff, 0xd9), 0, 5},
		{"a fill byte before EOI", append(bytes.Clone(body), 0xff, 0xff, 0xd9), 0, 1},
	} {
		got, err := SplitScans(c.data)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %d scans, %v", c.name, len(got), err)
			continue
		}
		last := len(want) - 1
		if len(got[0]) != len(want[0])+c.first || len(got[last]) != len(want[last])+c.last {
			t.Errorf("%s: %d and %d bytes, want %d and %d more", c.name, len(got[0])-len(want[0]), len(got[last])-len(want[last]), c.first, c.last)
		}
	}
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"no JPEG":            []byte("no JPEG"),
		"no scan":            {0xff, 0xd8, 0xff, 0xd9},
		"SOI alone":          {0xff, 0xd8},
		"no EOI":             body,
		"cut in a header":    base[:30],
		"cut in a scan":      base[:len(base)-40],
		"a segment of one":   {0xff, 0xd8, 0xff, 0xfe, 0, 1, 0xff, 0xd9},
		"no marker":          {0xff, 0xd8, 0x12, 0xff, 0xd9},
		"zero for a marker":  {0xff, 0xd8, 0xff, 0, 0xff, 0xd9},
		"fill bytes and end": {0xff, 0xd8, 0xff, 0xff},
		"a short SOS":        {0xff, 0xd8, 0xff, 0xda, 0, 2, 0xff, 0xd9},
	} {
		if scans, err := SplitScans(data); err == nil {
			t.Errorf("%s: %d scans", name, len(scans))
		}
	}
}

func TestAppendEOI(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "\xff\xd9"},
		{"a", "a\xff\xd9"},
		{"a\xff", "a\xff\xff\xd9"},
		{"a\xff\xd9", "a\xff\xd9"},
		{"\xd9", "\xd9\xff\xd9"},
	} {
		if got := AppendEOI([]byte(c.in)); string(got) != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}

// Records of version 2 are split at markers: images with fewer scans than the
// others have nothing in the last groups.
func TestSplitter(t *testing.T) {
	images := sampleImages(t)
	for _, order := range [][]int{{0}, {1}, {0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 1}, {2, 1, 0}, {1, 1, 0, 3, 3}} {
		var chosen []Image
		for _, i := range order {
			chosen = append(chosen, images[i])
		}
		record, e, want := rawRecord(t, chosen)
		s := NewSplitter(len(chosen))
		for g := range want {
			got, err := s.Next(record[e.GroupOffset(g+1):][:e.Lengths[g+1]])
			if err != nil || !slices.Equal(got, want[g]) {
				t.Fatalf("images %v, group %d: %v, %v, want %v", order, g+1, got, err, want[g])
			}
		}
		if got, err := s.Next(nil); err != nil || len(got) != len(chosen) {
			t.Errorf("images %v: an empty group after the last: %v, %v", order, got, err)
		}
	}
}

func TestSplitterRefuses(t *testing.T) {
	images := sampleImages(t)[:3]
	record, e, _ := rawRecord(t, images)
	group := func(g int) []byte { return record[e.GroupOffset(g):][:e.Lengths[g]] }
	for name, c := range map[string]struct {
		n      int
		groups [][]byte
	}{
		"too few images":          {2, [][]byte{group(1)}},
		"too many images":         {4, [][]byte{group(1)}},
		"no bytes":                {3, [][]byte{nil}},
		"groups in another order": {3, [][]byte{group(1), group(3), group(1)}},
		"the second group first":  {3, [][]byte{group(2)}},
		"the first group twice":   {3, [][]byte{group(1), group(1)}},
		"cut":                     {3, [][]byte{group(1)[:len(group(1))/2]}},
		"a scan too many":         {3, [][]byte{group(1), append(bytes.Clone(group(2)), group(2)...)}},
		"junk":                    {3, [][]byte{append(bytes.Clone(group(1)), "junk"...), group(2)}},
	} {
		s := NewSplitter(c.n)
		var err error
		for _, g := range c.groups {
			if _, err = s.Next(g); err != nil {
				break
			}
		}
		// Junk behind the last image is a part of its entropy-coded data.
		if want := name != "junk"; (err != nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			if _, again := s.Next(group(1)); again == nil {
				t.Errorf("%s: the splitter goes on after its error", name)
			}
		}
	}
}
