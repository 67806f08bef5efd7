package l3

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// TestReferenceFiles reads files that the published format's own programs
// wrote, and gives the pixels that their decoder gives.
func TestReferenceFiles(t *testing.T) {
	folder := testfiles.Shared(t, "fixtures/l3-reference")
	tests := []struct {
		name string
		want error    // nil: the pixels of the .rgb file
		says []string // in the error
	}{
		{name: "ok-aitzgorri-half-256x192"},
		{name: "ok-dragonfly-raw-128x128"},
		{name: "ok-garden-raw-256x192"},
		{name: "ok-synth-widths123457-192x128"},
		{name: "ok-wine-raw-512x384"},
		{name: "fixed-garden-256x192"},
		{name: "fixed-life-128x128"},
		{name: "fixed-synth-allwidths-128x128"},
		{"bad-garden-256x192", ErrCorrupt, []string{"channel ", "patch ", "row "}},
		{"bad-life-128x128", ErrCorrupt, []string{"channel ", "patch ", "row "}},
		{"badheight-kleiber-128x168", ErrTruncated, []string{"height 168, width 128", "patches of 64"}},
	}
	known := make(map[string]bool)
	for _, test := range tests {
		known[test.name] = true
		t.Run(test.name, func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join(folder, test.name+".l3"))
			if err != nil {
				t.Fatal(err)
			}
			pix, err := os.ReadFile(filepath.Join(folder, test.name+".rgb"))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(pix))
			info, err := NewDecoder(DefaultLimits).Decode(got, file)
			if test.want == nil {
				checkReference(t, file, info, err, got, pix)
				return
			}
			if !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			t.Log(err)
		})
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.l3"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if !known[strings.TrimSuffix(filepath.Base(path), ".l3")] {
			t.Errorf("%s is not in the table", path)
		}
	}
}

func checkReference(t *testing.T, file []byte, info Info, err error, got, want []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("samples differ from the reference decoder's, first at %d", firstDifference(got, want))
	}
	head, err := ReadInfo(bytes.NewReader(file), int64(len(file)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if head.Version != 1 || head.Coding != Published || head.HasPixelCRC || head.Shape != info.Shape {
		t.Errorf("ReadInfo: %+v", head)
	}
	// What we write of the same samples is no larger, and decodes.
	again := checkRoundTrip(t, raster.Image{Shape: info.Shape, Pix: got}, EncodeOptions{Mode: ModePublished})
	if len(again) > len(file) {
		t.Errorf("%d bytes became %d", len(file), len(again))
	}
}

// TestPublishedWidths writes rows of every width, by hand and by our encoder.
func TestPublishedWidths(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for width := range publishedMaxWidth + 1 {
		for _, edge := range []int{8, 16, 64, 128, 248} {
			residuals := make([]uint8, edge)
			base := uint8(rng.Uint32())
			for i := range residuals {
				residuals[i] = base + uint8(rng.IntN(1<<width))
			}
			residuals[0], residuals[1] = base, base+uint8(1<<width-1)
			row := appendPublishedRow(nil, residuals)
			if len(row) != publishedRowBytes(edge, width) {
				t.Errorf("width %d, edge %d: %d bytes", width, edge, len(row))
			}
			got := make([]uint8, edge)
			unpackPublished(got, row, 0, uint(row[0]&15))
			if !bytes.Equal(got, residuals) {
				t.Errorf("width %d, edge %d: residuals differ", width, edge)
			}
			bits := &slowBits{b: row}
			if w, b := bits.take(4), uint8(bits.take(8)); w != int(row[0]&15) || b+uint8(bits.take(w)) != residuals[0] {
				t.Errorf("width %d, edge %d: not packed least significant bit first", width, edge)
			}
		}
	}
}

// TestPublishedPredictor holds the predictor to its published wording.
func TestPublishedPredictor(t *testing.T) {
	abs := func(v int) int { return max(v, -v) }
	for a := range 256 {
		for b := range 256 {
			for c := range 256 {
				p := a + c - b
				var want int
				switch {
				case a == 0 && abs(p-b) <= abs(p-c):
					want = b
				case a == 0:
					want = c
				case c == 0 && abs(p-a) <= abs(p-b):
					want = a
				case c == 0:
					want = b
				case abs(p-a) <= abs(p-b) && abs(p-a) <= abs(p-c):
					want = a
				case abs(p-a) <= abs(p-c):
					want = b
				default:
					want = c
				}
				row := [3]uint8{}
				if predictPublished(row[:], []uint8{uint8(a), uint8(b), uint8(c)}); int(row[1]) != want {
					t.Fatalf("a %d, b %d, c %d: %d, want %d", a, b, c, row[1], want)
				}
			}
		}
	}
}

func TestPublishedRoundTrip(t *testing.T) {
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			checkRoundTrip(t, draw(p, shapeOf(128, 192, 3, raster.Uint8)), EncodeOptions{Mode: ModePublished})
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		s := shapeOf(64*rapid.IntRange(1, 3).Draw(t, "rows"), 64*rapid.IntRange(1, 3).Draw(t, "columns"), 3, raster.Uint8)
		seed := rapid.Uint64().Draw(t, "seed")
		spread := rapid.IntRange(1, 65536).Draw(t, "spread")
		rng := rand.New(rand.NewPCG(seed, 1))
		img := draw(picture{sample: func(_ *rand.Rand, x, y, _ int) int { return (x*300 + y*500 + rng.IntN(spread)) & 0xffff }}, s)
		file, err := Encode(img, EncodeOptions{Mode: ModePublished})
		if err != nil {
			t.Fatal(err)
		}
		pix := make([]byte, len(img.Pix))
		if _, err := NewDecoder(Limits{}).Decode(pix, file); err != nil || !bytes.Equal(pix, img.Pix) {
			t.Fatalf("error %v, or samples differ", err)
		}
	})
}

func TestPublishedRefusesOtherImages(t *testing.T) {
	for _, s := range []raster.Shape{
		shapeOf(64, 65, 3, raster.Uint8),
		shapeOf(63, 64, 3, raster.Uint8),
		shapeOf(64, 64, 4, raster.Uint8),
		shapeOf(64, 64, 1, raster.Uint8),
		shapeOf(64, 64, 3, raster.Uint16),
		{Height: 64, Width: 64, Channels: 3, DType: raster.Uint8, Color: raster.Other},
	} {
		_, err := Encode(raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}, EncodeOptions{Mode: ModePublished})
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// publishedFile is one patch of constant rows.
func publishedFile() []byte {
	s := shapeOf(64, 64, 3, raster.Uint8)
	return encodePublished(raster.Image{Shape: s, Pix: make([]byte, s.Bytes())})
}

func TestPublishedDamage(t *testing.T) {
	const head = publishedHeaderBytes + 6
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	tests := []struct {
		name   string
		change func(b []byte) []byte
		want   error
		says   string
	}{
		{"shorter", func(b []byte) []byte { return b[:len(b)-1] }, ErrTruncated, "add up"},
		{"longer", func(b []byte) []byte { return append(b, 0) }, ErrCorrupt, "1 bytes follow"},
		{"only the magic", func(b []byte) []byte { return b[:4] }, ErrTruncated, "4 bytes of a header"},
		{"no sizes", func(b []byte) []byte { return b[:15] }, ErrTruncated, "alone take 19"},
		{"edge 0", func(b []byte) []byte { b[12] = 0; return b }, ErrUnsupported, "edge of 0"},
		{"edge 12", func(b []byte) []byte { b[12] = 12; return b }, ErrUnsupported, "edge of 12"},
		{"edge 128 of 64 pixels", func(b []byte) []byte { b[12] = 128; return b }, ErrTruncated, "not whole patches"},
		{"width 0", put32(4, 0), ErrCorrupt, "64×0 pixels"},
		{"width -64", put32(4, 0xffffffc0), ErrCorrupt, "64×-64 pixels"},
		{"width 65", put32(4, 65), ErrTruncated, "not whole patches"},
		{"width 2^29", put32(4, 1<<29), ErrTooLarge, "the limit is"},
		{"width 128", put32(4, 128), ErrTruncated, "add up"},
		{"width code 9", func(b []byte) []byte { b[head+2] = 9; return b }, ErrCorrupt, "channel R, patch 0: corrupt L3 file: row 1 has a width of 9"},
		{"wider row", func(b []byte) []byte { b[head+2*60] = 8; return b }, ErrCorrupt, "row 60 of width 8 takes 66 bytes, 8 are left"},
		{"size moved", func(b []byte) []byte { b[13], b[15] = b[13]+1, b[15]-1; return b }, ErrCorrupt, "row 63 ends 1 bytes before"},
		{"size moved back", func(b []byte) []byte { b[15], b[17] = b[15]-2, b[17]+2; return b }, ErrCorrupt, "channel G, patch 0: corrupt L3 file: row 63 begins past"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := test.change(publishedFile())
			pix := make([]byte, 64*64*3)
			_, err := NewDecoder(DefaultLimits).Decode(pix, file)
			if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v\nwant %v, saying %q", err, test.want, test.says)
			}
			checkOneKind(t, err)
		})
	}
}
