//go:build amd64 && cgo

package avx2

import (
	"bytes"
	"testing"
)

// The tests of package l3 hold DecodeDense8 to the plain decoder. Here stands what
// that package never does. To this coding, too, file is a patch that is 7
// everywhere.

func TestDense8RefusedPlaces(t *testing.T) {
	needAVX2(t)
	slots, contexts := new([Dense8Slots]uint32), make([]uint8, dense8Classes*Dense8Levels)
	var d Dense8
	d.SetTables(contexts)
	tests := map[string]func(*Image, *Patch){
		"no channels":     func(m *Image, _ *Patch) { m.Channels = 0 },
		"five channels":   func(m *Image, _ *Patch) { m.Channels = 5 },
		"longer rows":     func(m *Image, _ *Patch) { m.RowBytes = 9 },
		"a sample less":   func(m *Image, _ *Patch) { m.Pix = m.Pix[:63] },
		"before the file": func(_ *Image, p *Patch) { p.Start = -1 },
		"past the file":   func(_ *Image, p *Patch) { p.End = 5 },
		"one pixel on":    func(_ *Image, p *Patch) { p.At++ },
		"no width":        func(_ *Image, p *Patch) { p.Width = 0 },
		"too wide":        func(m *Image, p *Patch) { m.Pix, m.RowBytes, p.Width = make([]byte, 1<<16), 200, 129 },
		"too high":        func(m *Image, p *Patch) { m.Pix, p.Height = make([]byte, 1<<16), 129 },
		"a wrong sum":     func(_ *Image, p *Patch) { p.Checksum++ },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			img, bad := good()
			change(&img, &bad)
			if n := DecodeDense8(img, &d, slots, file, []Patch{bad, bad}, new(RowSums)); n != 0 {
				t.Errorf("decoded %d patches", n)
			}
			if bytes.Count(img.Pix, []byte{0}) != len(img.Pix) {
				t.Error("something was written")
			}
		})
	}
	img, p := good()
	if n := DecodeDense8(img, &d, slots, file, []Patch{p}, new(RowSums)); n != 1 || bytes.Count(img.Pix, []byte{7}) != 16 {
		t.Errorf("decoded %d patches, pixels are %v", n, img.Pix)
	}
}

// TestDense8Bounds gives what would make the C code look beside the tables, if it
// came as far as there.
func TestDense8Bounds(t *testing.T) {
	var d Dense8
	contexts := bytes.Repeat([]byte{255}, dense8Classes*Dense8Levels)
	d.SetTables(contexts)
	for class := range d.tables {
		for _, v := range d.tables[class] {
			if v%2 != 0 || v >= 2*dense8Tables {
				t.Fatalf("class %d has table %d/2", class, v)
			}
		}
	}
	for log, want := range map[int]int64{-1: 0, 0: 0, 5: 5, 6: 5, 64: 5} {
		if d.SetStreams(log); d.logStreams != want {
			t.Errorf("%d streams became %d", log, d.logStreams)
		}
	}
}
