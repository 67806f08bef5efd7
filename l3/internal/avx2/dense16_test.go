//go:build amd64 && cgo

package avx2

import (
	"bytes"
	"math"
	"testing"
)

// dense16Patch is a patch of one plane, 4×4 pixels: transform, constants, base value,
// two states, no words. Its one token is 0 in all tables.
var dense16Patch = []byte{0, 0, 7, 1, 0, 0, 1, 0, 0, 0, 1, 0}

// goodDense16 is the lower right quarter of an image of 8×8 pixels.
func goodDense16() (Image, Dense16, Patch) {
	d := Dense16{Slots: make([]uint32, dense16Slots), Tables: make([]uint8, 8*dense16Levels), LogStreams: 3, Hole: -1}
	for i := range d.Slots {
		d.Slots[i] = 1024<<21 | uint32(i%1024)<<11
	}
	return Image{Pix: make([]byte, 128), RowBytes: 16, Channels: 1}, d,
		Patch{Start: 0, End: 12, At: 4*16 + 8, Width: 4, Height: 4}
}

func TestDecodeDense16(t *testing.T) {
	needAVX2(t)
	img, d, p := goodDense16()
	if n := DecodeDense16(img, &d, dense16Patch, []Patch{p}); n != 1 {
		t.Fatalf("decoded %d patches", n)
	}
	for i := range 64 {
		want := []byte{0, 0}
		if i/8 >= 4 && i%8 >= 4 {
			want = []byte{7, 1}
		}
		if !bytes.Equal(img.Pix[2*i:2*i+2], want) {
			t.Errorf("row %d, column %d: %v", i/8, i%8, img.Pix[2*i:2*i+2])
		}
	}
}

func TestDense16RefusedPlaces(t *testing.T) {
	needAVX2(t)
	tests := map[string]func(*Image, *Dense16, *Patch){
		"no channels":            func(m *Image, _ *Dense16, _ *Patch) { m.Channels = 0 },
		"five channels":          func(m *Image, _ *Dense16, _ *Patch) { m.Channels = 5 },
		"no bytes a row":         func(m *Image, _ *Dense16, _ *Patch) { m.RowBytes = 0 },
		"longer rows":            func(m *Image, _ *Dense16, _ *Patch) { m.RowBytes = 17 },
		"more channels":          func(m *Image, _ *Dense16, _ *Patch) { m.Channels = 2 },
		"no samples":             func(m *Image, _ *Dense16, _ *Patch) { m.Pix = nil },
		"a byte less":            func(m *Image, _ *Dense16, _ *Patch) { m.Pix = m.Pix[:127] },
		"before the file":        func(_ *Image, _ *Dense16, p *Patch) { p.Start = -1 },
		"past the file":          func(_ *Image, _ *Dense16, p *Patch) { p.End = 13 },
		"ends at its start":      func(_ *Image, _ *Dense16, p *Patch) { p.Start, p.End = 4, 4 },
		"ends before":            func(_ *Image, _ *Dense16, p *Patch) { p.Start, p.End = 4, 0 },
		"one state":              func(_ *Image, _ *Dense16, p *Patch) { p.End = 8 },
		"before the image":       func(_ *Image, _ *Dense16, p *Patch) { p.At = -1 },
		"one byte on":            func(_ *Image, _ *Dense16, p *Patch) { p.At++ },
		"as far as can be":       func(_ *Image, _ *Dense16, p *Patch) { p.At = math.MaxInt64 },
		"no width":               func(_ *Image, _ *Dense16, p *Patch) { p.Width = 0 },
		"no height":              func(_ *Image, _ *Dense16, p *Patch) { p.Height = 0 },
		"negative width":         func(_ *Image, _ *Dense16, p *Patch) { p.Width = -4 },
		"one row more":           func(_ *Image, _ *Dense16, p *Patch) { p.Height = 5 },
		"wider than a patch":     func(m *Image, _ *Dense16, p *Patch) { m.Pix, m.RowBytes, p.Width = make([]byte, 1<<16), 258, 129 },
		"higher than a patch":    func(m *Image, _ *Dense16, p *Patch) { m.Pix, p.Height = make([]byte, 1<<16), 129 },
		"a slot less":            func(_ *Image, d *Dense16, _ *Patch) { d.Slots = d.Slots[1:] },
		"a context less":         func(m *Image, d *Dense16, _ *Patch) { d.Tables = d.Tables[:63] },
		"contexts without zones": func(_ *Image, d *Dense16, _ *Patch) { d.Hole, d.Tables = 0, d.Tables[:255] },
		"table 16":               func(_ *Image, d *Dense16, _ *Patch) { d.Tables[40] = 16 },
		"64 streams":             func(_ *Image, d *Dense16, _ *Patch) { d.LogStreams = 6 },
		"too few streams":        func(_ *Image, d *Dense16, _ *Patch) { d.LogStreams = 0 },
		"a hole of 17 bits":      func(_ *Image, d *Dense16, _ *Patch) { d.Hole = 1 << 16 },
		"ranks without a count":  func(_ *Image, d *Dense16, _ *Patch) { d.Ranks = make([]uint16, 1<<16) },
		"a count without ranks":  func(_ *Image, d *Dense16, _ *Patch) { d.RankCount = 5 },
		"too few ranks":          func(_ *Image, d *Dense16, _ *Patch) { d.Ranks, d.RankCount = make([]uint16, 300), 300 },
		"more ranks than values": func(_ *Image, d *Dense16, _ *Patch) { d.Ranks, d.RankCount = make([]uint16, 1<<16), 1<<16+1 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			img, d, bad := goodDense16()
			first := bad
			change(&img, &d, &bad)
			if n := DecodeDense16(img, &d, dense16Patch, []Patch{bad, first}); n != 0 {
				t.Errorf("decoded %d patches", n)
			}
			if bytes.Count(img.Pix, []byte{0}) != len(img.Pix) {
				t.Error("something was written")
			}
		})
	}
	t.Run("after a good one", func(t *testing.T) {
		img, d, p := goodDense16()
		bad := p
		bad.At++
		if n := DecodeDense16(img, &d, dense16Patch, []Patch{p, p, bad, p}); n != 2 {
			t.Errorf("decoded %d patches, want 2", n)
		}
	})
}
