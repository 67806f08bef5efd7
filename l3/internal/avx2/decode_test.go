//go:build amd64 && cgo

package avx2

import (
	"bytes"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"
)

// The tests of package l3 hold Decode to the plain decoder. Here stands what
// that package never does: places that are not in the file or the image.

// file is a patch of one plane, which is 7 everywhere.
var file = []byte{0, 1, 7, 0}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decode is Decode8 for those who have no use for sums.
func decode(img Image, file []byte, patches []Patch) int {
	return Decode8(img, file, patches, new(RowSums))
}

func needAVX2(t *testing.T) {
	t.Helper()
	if !Available() {
		t.Skip("this processor has no fast AVX2 and BMI2")
	}
}

// good is the lower right quarter of an image of 8×8 pixels.
func good() (Image, Patch) {
	return Image{Pix: make([]byte, 64), RowBytes: 8, Channels: 1},
		Patch{Start: 0, End: 4, At: 4*8 + 4, Width: 4, Height: 4, Checksum: crc32.Checksum(file, castagnoli)}
}

func TestDecode(t *testing.T) {
	needAVX2(t)
	img, p := good()
	if n := decode(img, file, []Patch{p}); n != 1 {
		t.Fatalf("decoded %d patches", n)
	}
	for i, v := range img.Pix {
		if inside := i/8 >= 4 && i%8 >= 4; (v == 7) != inside || !inside && v != 0 {
			t.Errorf("row %d, column %d: %d", i/8, i%8, v)
		}
	}
}

func TestDecodeNothing(t *testing.T) {
	needAVX2(t)
	if n := decode(Image{RowBytes: 1, Channels: 1}, nil, nil); n != 0 {
		t.Errorf("decoded %d of no patches", n)
	}
}

func TestRefusedPlaces(t *testing.T) {
	needAVX2(t)
	tests := map[string]func(*Image, *Patch){
		"no channels":         func(m *Image, _ *Patch) { m.Channels = 0 },
		"five channels":       func(m *Image, _ *Patch) { m.Channels = 5 },
		"no bytes a row":      func(m *Image, _ *Patch) { m.RowBytes = 0 },
		"longer rows":         func(m *Image, _ *Patch) { m.RowBytes = 9 },
		"more channels":       func(m *Image, _ *Patch) { m.Channels = 2 },
		"no samples":          func(m *Image, _ *Patch) { m.Pix = nil },
		"a sample less":       func(m *Image, _ *Patch) { m.Pix = m.Pix[:63] },
		"before the file":     func(_ *Image, p *Patch) { p.Start = -1 },
		"past the file":       func(_ *Image, p *Patch) { p.End = 5 },
		"a wrong checksum":    func(_ *Image, p *Patch) { p.Checksum ^= 1 },
		"ends at its start":   func(_ *Image, p *Patch) { p.Start, p.End = 4, 4 },
		"ends before":         func(_ *Image, p *Patch) { p.Start, p.End = 4, 0 },
		"before the image":    func(_ *Image, p *Patch) { p.At = -1 },
		"one pixel on":        func(_ *Image, p *Patch) { p.At++ },
		"as far as can be":    func(_ *Image, p *Patch) { p.At = math.MaxInt64 },
		"no width":            func(_ *Image, p *Patch) { p.Width = 0 },
		"no height":           func(_ *Image, p *Patch) { p.Height = 0 },
		"negative width":      func(_ *Image, p *Patch) { p.Width = -4 },
		"one row more":        func(_ *Image, p *Patch) { p.Height = 5 },
		"wider than a patch":  func(m *Image, p *Patch) { m.Pix, m.RowBytes, p.Width = make([]byte, 1<<16), 129, 129 },
		"higher than a patch": func(m *Image, p *Patch) { m.Pix, p.Height = make([]byte, 1<<16), 129 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			img, bad := good()
			_, first := good()
			change(&img, &bad)
			if n := decode(img, file, []Patch{bad, first}); n != 0 {
				t.Errorf("decoded %d patches", n)
			}
			if bytes.Count(img.Pix, []byte{0}) != len(img.Pix) {
				t.Error("something was written")
			}
		})
	}
	t.Run("after a good one", func(t *testing.T) {
		img, p := good()
		bad := p
		bad.At++
		if n := decode(img, file, []Patch{p, p, bad, p}); n != 2 {
			t.Errorf("decoded %d patches, want 2", n)
		}
	})
}

// TestSums decodes patches side by side, of all widths and some heights, and
// compares the sums of their rows with those of package hash/crc32.
func TestSums(t *testing.T) {
	needAVX2(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= MaxEdge; width++ {
		height, others := 1+rng.IntN(MaxEdge), 1+rng.IntN(MaxEdge)
		img := Image{Pix: make([]byte, height*(width+others)), RowBytes: width + others, Channels: 1}
		file := []byte{0, 1, 7, 0, 0, 1, 200, 0}
		patches := []Patch{
			{Start: 0, End: 4, Width: int32(width), Height: int32(height)},
			{Start: 4, End: 8, At: int64(width), Width: int32(others), Height: int32(height)},
		}
		for i := range patches {
			patches[i].Checksum = crc32.Checksum(file[patches[i].Start:patches[i].End], castagnoli)
		}
		var sums RowSums
		if n := Decode8(img, file, patches, &sums); n != len(patches) {
			t.Fatalf("%d×%d and %d: decoded %d patches", height, width, others, n)
		}
		before := []byte("what stands before")
		got := AppendRows(crc32.Checksum(before, castagnoli), &sums, height, img.RowBytes)
		if want := crc32.Checksum(append(before, img.Pix...), castagnoli); got != want {
			t.Errorf("%d×%d and %d: the sum is %08x, not %08x", height, width, others, got, want)
		}
	}
}

// TestChecksum compares the checksums of random bytes with those of package
// hash/crc32.
func TestChecksum(t *testing.T) {
	needAVX2(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for size := range 3000 {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if got, want := Checksum(b), crc32.Checksum(b, castagnoli); got != want {
			t.Fatalf("%d bytes: %08x, not %08x", size, got, want)
		}
	}
}

func TestRefusedToEncode(t *testing.T) {
	needAVX2(t)
	for name, test := range map[string]struct {
		at            int64
		width, height int
	}{
		"no width":         {0, 0, 4},
		"no height":        {0, 4, 0},
		"too wide":         {0, EncodedEdge + 1, 4},
		"too high":         {0, 4, EncodedEdge + 1},
		"before the image": {-1, 4, 4},
		"past the image":   {100*99 + 97, 4, 1},
		"one row more":     {96 * 100, 4, 5},
	} {
		t.Run(name, func(t *testing.T) {
			before := []byte("what stands before")
			for size := 1; size <= 2; size++ {
				img := Image{Pix: make([]byte, 100*100*size), RowBytes: 100 * size, Channels: 1}
				b, ok := AppendPatch8(before, img, test.at, test.width, test.height)
				if size == 2 {
					b, ok = AppendPatch16(before, img, 2*test.at, test.width, test.height, nil, 0)
				}
				if ok || !bytes.Equal(b, before) {
					t.Errorf("%d bytes a sample: appended %d bytes, %v", size, len(b)-len(before), ok)
				}
			}
		})
	}
}
