//go:build amd64 && cgo

package avx2

import (
	"bytes"
	"math"
	"testing"
)

// The tests of package l3 hold Decode to the plain decoder. Here stands what
// that package never does: places that are not in the file or the image.

// file is a patch of one plane, which is 7 everywhere.
var file = []byte{0, 1, 7, 0}

func needAVX2(t *testing.T) {
	t.Helper()
	if !Available() {
		t.Skip("this processor has no fast AVX2 and BMI2")
	}
}

// good is the lower right quarter of an image of 8×8 pixels.
func good() (Image, Patch) {
	return Image{Pix: make([]byte, 64), RowBytes: 8, Channels: 1},
		Patch{Start: 0, End: 4, At: 4*8 + 4, Width: 4, Height: 4}
}

func TestDecode(t *testing.T) {
	needAVX2(t)
	img, p := good()
	if n := Decode(img, file, []Patch{p}); n != 1 {
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
	if n := Decode(Image{RowBytes: 1, Channels: 1}, nil, nil); n != 0 {
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
		"ends at its start":   func(_ *Image, p *Patch) { p.Start, p.End = 4, 4 },
		"ends before":         func(_ *Image, p *Patch) { p.Start, p.End = 4, 0 },
		"before the image":    func(_ *Image, p *Patch) { p.At = -1 },
		"one pixel on":        func(_ *Image, p *Patch) { p.At++ },
		"as far as can be":    func(_ *Image, p *Patch) { p.At = math.MaxInt64 },
		"no width":            func(_ *Image, p *Patch) { p.Width = 0 },
		"no height":           func(_ *Image, p *Patch) { p.Height = 0 },
		"negative width":      func(_ *Image, p *Patch) { p.Width = -4 },
		"one row more":        func(_ *Image, p *Patch) { p.Height = 5 },
		"wider than a vector": func(m *Image, p *Patch) { m.Pix, m.RowBytes, p.Width = make([]byte, 1<<16), 65, 65 },
		"higher than a patch": func(m *Image, p *Patch) { m.Pix, p.Height = make([]byte, 1<<16), 65 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			img, bad := good()
			_, first := good()
			change(&img, &bad)
			if n := Decode(img, file, []Patch{bad, first}); n != 0 {
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
		if n := Decode(img, file, []Patch{p, p, bad, p}); n != 2 {
			t.Errorf("decoded %d patches, want 2", n)
		}
	})
}
