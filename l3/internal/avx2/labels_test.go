//go:build amd64 && cgo

package avx2

import (
	"math"
	"testing"
)

// labelsPatch is a map of one label: no exceptions, label 7, one state, no words.
var labelsPatch = []byte{0, 0, 7, 0, 0, 0, 1, 0}

// goodLabels is the lower right quarter of an image of 8×8 pixels.
func goodLabels() (Image, Labels, Patch) {
	l := Labels{TableOf: new([LabelContexts]uint8), PaletteSize: 256, RawBits: 8}
	for i := range l.Tables {
		l.Tables[i] = [LabelBounds]uint16{4093, 4094, 4095}
	}
	return Image{Pix: make([]byte, 64), RowBytes: 8, Channels: 1}, l,
		Patch{Start: 0, End: 8, At: 4*8 + 4, Width: 4, Height: 4}
}

func TestDecodeLabels(t *testing.T) {
	needAVX2(t)
	img, l, p := goodLabels()
	if n := DecodeLabels(img, &l, labelsPatch, []Patch{p}); n != 1 {
		t.Fatalf("decoded %d patches", n)
	}
	for i, v := range img.Pix {
		if inside := i/8 >= 4 && i%8 >= 4; (v == 7) != inside || !inside && v != 0 {
			t.Errorf("row %d, column %d: %d", i/8, i%8, v)
		}
	}
}

func TestLabelsRefusedPlaces(t *testing.T) {
	needAVX2(t)
	tests := map[string]func(*Image, *Labels, *Patch){
		"no channels":         func(m *Image, _ *Labels, _ *Patch) { m.Channels = 0 },
		"two channels":        func(m *Image, _ *Labels, _ *Patch) { m.Channels = 2 },
		"no bytes a row":      func(m *Image, _ *Labels, _ *Patch) { m.RowBytes = 0 },
		"longer rows":         func(m *Image, _ *Labels, _ *Patch) { m.RowBytes = 9 },
		"no samples":          func(m *Image, _ *Labels, _ *Patch) { m.Pix = nil },
		"a byte less":         func(m *Image, _ *Labels, _ *Patch) { m.Pix = m.Pix[:63] },
		"before the file":     func(_ *Image, _ *Labels, p *Patch) { p.Start = -1 },
		"past the file":       func(_ *Image, _ *Labels, p *Patch) { p.End = 9 },
		"ends at its start":   func(_ *Image, _ *Labels, p *Patch) { p.Start, p.End = 4, 4 },
		"ends before":         func(_ *Image, _ *Labels, p *Patch) { p.Start, p.End = 4, 0 },
		"no state":            func(_ *Image, _ *Labels, p *Patch) { p.End = 4 },
		"before the image":    func(_ *Image, _ *Labels, p *Patch) { p.At = -1 },
		"one byte on":         func(_ *Image, _ *Labels, p *Patch) { p.At++ },
		"as far as can be":    func(_ *Image, _ *Labels, p *Patch) { p.At = math.MaxInt64 },
		"no width":            func(_ *Image, _ *Labels, p *Patch) { p.Width = 0 },
		"no height":           func(_ *Image, _ *Labels, p *Patch) { p.Height = 0 },
		"negative width":      func(_ *Image, _ *Labels, p *Patch) { p.Width = -4 },
		"one row more":        func(_ *Image, _ *Labels, p *Patch) { p.Height = 5 },
		"wider than a patch":  func(m *Image, _ *Labels, p *Patch) { m.Pix, m.RowBytes, p.Width = make([]byte, 1<<16), 257, 257 },
		"higher than a patch": func(m *Image, _ *Labels, p *Patch) { m.Pix, p.Height = make([]byte, 1<<16), 257 },
		"no contexts":         func(_ *Image, l *Labels, _ *Patch) { l.TableOf = nil },
		"64 streams":          func(_ *Image, l *Labels, _ *Patch) { l.LogStreams = 6 },
		"minus one stream":    func(_ *Image, l *Labels, _ *Patch) { l.LogStreams = -1 },
		"no labels":           func(_ *Image, l *Labels, _ *Patch) { l.PaletteSize = 0 },
		"257 labels":          func(_ *Image, l *Labels, _ *Patch) { l.PaletteSize = 257 },
		"ranks of 9 bits":     func(_ *Image, l *Labels, _ *Patch) { l.RawBits = 9 },
		"ranks of −1 bits":    func(_ *Image, l *Labels, _ *Patch) { l.RawBits = -1 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			img, l, bad := goodLabels()
			good := bad
			change(&img, &l, &bad)
			if n := DecodeLabels(img, &l, labelsPatch, []Patch{bad, good}); n != 0 {
				t.Errorf("decoded %d patches", n)
			}
		})
	}
}

// TestLabelsTablesThatLie decodes with tables that no reader lets through: nothing
// but the labels depends on them.
func TestLabelsTablesThatLie(t *testing.T) {
	needAVX2(t)
	for _, bounds := range [][LabelBounds]uint16{{0, 0, 0}, {1, 0, 1}, {65535, 65535, 65535}, {4095, 1, 0}, {0, 65535, 3}} {
		img, l, p := goodLabels()
		for i := range l.TableOf {
			l.TableOf[i] = uint8(i)
		}
		for i := range l.Tables {
			l.Tables[i] = bounds
		}
		patch := append([]byte{0, 0, 7, 0, 0x34, 0x12, 1, 0}, make([]byte, 256)...)
		for i := range patch[8:] {
			patch[8+i] = byte(i * 37)
		}
		p.End = int64(len(patch))
		if n := DecodeLabels(img, &l, patch, []Patch{p}); n != 0 && n != 1 {
			t.Errorf("bounds %d: decoded %d patches", bounds, n)
		}
		for i, v := range img.Pix {
			if (i/8 < 4 || i%8 < 4) && v != 0 {
				t.Errorf("bounds %d: row %d, column %d was written", bounds, i/8, i%8)
			}
		}
	}
}
