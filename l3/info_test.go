package l3

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prismfs/raster"
)

func checkMetadata(t testing.TB, got, want Metadata) {
	t.Helper()
	if !bytes.Equal(want.ColourProfile, got.ColourProfile) { // too long for cmp
		t.Errorf("colour profile of %d bytes became another of %d", len(want.ColourProfile), len(got.ColourProfile))
	}
	want.ColourProfile, got.ColourProfile = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestIsL3(t *testing.T) {
	for prefix, want := range map[string]bool{
		"": false, "LLL": false, "LLL.": true, "LLL2": true, "LLL2\x09": true, "LLL3": false, "\x89PNG": false, "lll.": false,
	} {
		if got := IsL3([]byte(prefix)); got != want {
			t.Errorf("%q: %v", prefix, got)
		}
	}
	for _, file := range []string{"", "LL", "GIF89a and more"} {
		_, infoErr := ReadInfo(strings.NewReader(file), int64(len(file)), DefaultLimits)
		_, pixErr := NewDecoder(DefaultLimits).Decode(nil, []byte(file))
		if !errors.Is(infoErr, ErrNotL3) || !errors.Is(pixErr, ErrNotL3) {
			t.Errorf("%q: %v, %v", file, infoErr, pixErr)
		}
		if says := strings.Contains(infoErr.Error(), "empty"); says != (file == "") {
			t.Errorf("%q: %v", file, infoErr)
		}
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	img := draw(pictures[3], shapeOf(3, 5, 3, raster.Uint8))
	name := rapid.StringMatching(`[^\x00/]{1,20}x`)
	rapid.Check(t, func(t *rapid.T) {
		var want Metadata
		if rapid.Bool().Draw(t, "labelled") {
			label := rapid.Int64().Draw(t, "label")
			want.Label = &label
		}
		if rapid.Bool().Draw(t, "named") {
			want.Class = name.Draw(t, "class")
			want.OriginalName = name.Draw(t, "original name")
			want.SourceDecoder = name.Draw(t, "source decoder")
		}
		if rapid.Bool().Draw(t, "profiled") {
			want.ColourProfile = rapid.SliceOfN(rapid.Byte(), 1, 10_000).Draw(t, "colour profile")
		}
		mode := rapid.SampledFrom([]Mode{ModeFast, ModeRaw}).Draw(t, "mode")
		file, err := Encode(img, EncodeOptions{Mode: mode, Meta: want})
		if err != nil {
			t.Fatal(err)
		}
		info, err := ReadInfo(bytes.NewReader(file), int64(len(file)), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, info.Meta); diff != "" {
			t.Fatalf("metadata (-want +got):\n%s", diff)
		}
	})
}

func TestMetadataLimits(t *testing.T) {
	img := draw(pictures[3], shapeOf(3, 5, 3, raster.Uint8))
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name string
		meta Metadata
		want error // nil: it fits
	}{
		{"class", Metadata{Class: long(MaxClassBytes)}, nil},
		{"long class", Metadata{Class: long(MaxClassBytes + 1)}, ErrTooLarge},
		{"NUL in a class", Metadata{Class: "a\x00b"}, ErrUnsupported},
		{"name", Metadata{OriginalName: long(MaxOriginalNameBytes)}, nil},
		{"long name", Metadata{OriginalName: long(MaxOriginalNameBytes + 1)}, ErrTooLarge},
		{"path", Metadata{OriginalName: "a/b"}, ErrUnsupported},
		{"parent", Metadata{OriginalName: ".."}, ErrUnsupported},
		{"NUL in a name", Metadata{OriginalName: "\x00"}, ErrUnsupported},
		{"source", Metadata{SourceDecoder: long(MaxSourceDecoderBytes)}, nil},
		{"long source", Metadata{SourceDecoder: long(MaxSourceDecoderBytes + 1)}, ErrTooLarge},
		{"profile", Metadata{ColourProfile: make([]byte, MaxColourProfileBytes)}, nil},
		{"long profile", Metadata{ColourProfile: make([]byte, MaxColourProfileBytes+1)}, ErrTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file, err := Encode(img, EncodeOptions{Meta: test.meta})
			if test.want != nil {
				if !errors.Is(err, test.want) {
					t.Errorf("%v, want %v", err, test.want)
				}
				checkOneKind(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			info, _ := mustDecode(t, file)
			checkMetadata(t, info.Meta, test.meta)
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	good := draw(pictures[3], shapeOf(3, 5, 3, raster.Uint8))
	tests := []struct {
		name string
		img  raster.Image
		opt  EncodeOptions
	}{
		{"no size", raster.Image{}, EncodeOptions{}},
		{"too few samples", raster.Image{Shape: good.Shape, Pix: good.Pix[1:]}, EncodeOptions{}},
		{"9 significant bits", good, EncodeOptions{SignificantBits: 9}},
		{"-1 significant bits", good, EncodeOptions{SignificantBits: -1}},
		{"mode 99", good, EncodeOptions{Mode: 99}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Encode(test.img, test.opt); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%v", err)
			}
		})
	}
}

// countingReader counts reads and bytes.
type countingReader struct {
	io.ReaderAt
	reads int
	bytes int
}

func (c *countingReader) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	c.bytes += len(b)
	return c.ReaderAt.ReadAt(b, off)
}

func TestReadInfoReadsTheHeadAlone(t *testing.T) {
	img := draw(pictures[3], shapeOf(512, 768, 3, raster.Uint8))
	for _, test := range []struct {
		name    string
		opt     EncodeOptions
		profile int
		reads   int
	}{
		{"short head", EncodeOptions{Workers: 2}, 3000, 1},
		{"long head", EncodeOptions{Workers: 2}, 100_000, 2},
		{"published", EncodeOptions{Mode: ModePublished}, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.opt.Meta.ColourProfile = make([]byte, test.profile)
			file, err := Encode(img, test.opt)
			if err != nil {
				t.Fatal(err)
			}
			r := &countingReader{ReaderAt: bytes.NewReader(file)}
			info, err := ReadInfo(r, int64(len(file)), DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			if want := max(PrefixBytes, int(info.HeadBytes)); r.reads != test.reads || r.bytes != want {
				t.Errorf("%d reads of %d bytes, want %d of %d", r.reads, r.bytes, test.reads, want)
			}
		})
	}
}

// failingReader fails as a disk does.
type failingReader struct{}

var errDisk = errors.New("disk on fire")

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

func TestReadInfoPassesReadErrorsOn(t *testing.T) {
	if _, err := ReadInfo(failingReader{}, 100, DefaultLimits); !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
}

func TestLimits(t *testing.T) {
	for _, mode := range []Mode{ModeFast, ModePublished, ModeRaw} {
		img := draw(pictures[3], shapeOf(64, 128, 3, raster.Uint8))
		file := checkRoundTrip(t, img, EncodeOptions{Mode: mode})
		for _, test := range []struct {
			limits Limits
			want   error
		}{
			{Limits{}, nil},
			{Limits{MaxPixels: 64 * 128}, nil},
			{Limits{MaxPixels: 64*128 - 1}, ErrTooLarge},
			{Limits{MaxBytes: 3 * 64 * 128}, nil},
			{Limits{MaxBytes: 3*64*128 - 1}, ErrTooLarge},
		} {
			_, infoErr := ReadInfo(bytes.NewReader(file), int64(len(file)), test.limits)
			_, pixErr := NewDecoder(test.limits).Decode(make([]byte, len(img.Pix)), file)
			if !errors.Is(infoErr, test.want) || !errors.Is(pixErr, test.want) {
				t.Errorf("mode %d, %+v: %v, %v", mode, test.limits, infoErr, pixErr)
			}
		}
	}
}

func TestWrongDestination(t *testing.T) {
	for _, mode := range []Mode{ModeFast, ModePublished} {
		file := checkRoundTrip(t, draw(pictures[3], shapeOf(64, 64, 3, raster.Uint8)), EncodeOptions{Mode: mode})
		for _, n := range []int{0, 64*64*3 - 1, 64*64*3 + 1} {
			if _, err := NewDecoder(DefaultLimits).Decode(make([]byte, n), file); !errors.Is(err, ErrDestination) {
				t.Errorf("mode %d, %d bytes: %v", mode, n, err)
			}
		}
	}
}

// TestDecoderAllocatesNothing decodes files of all codings in turn with one
// Decoder, and is satisfied from the second time on.
func TestDecoderAllocatesNothing(t *testing.T) {
	files := smallFiles(t)
	d := NewDecoder(DefaultLimits)
	decodeAll := func() {
		for name, f := range files {
			if _, err := d.Decode(f.pix, f.file); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	decodeAll()
	if n := testing.AllocsPerRun(20, decodeAll); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
