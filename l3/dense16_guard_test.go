//go:build linux

package l3

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestFencedDense16 decodes with file and samples right beside pages whose touch
// ends the process, and checks that what lies on the other side of the samples
// stays as it is.
func TestFencedDense16(t *testing.T) {
	files, samples := newFence(t, 1<<21), newFence(t, 40*140*4*2)
	rng := rand.New(rand.NewPCG(16, 31))
	for i := range 140 {
		s := shapeOf(1+rng.IntN(40), 1+i, 1+i%4, types16[i/4%2])
		f := randomForm16(rng)
		g, tables := newGrid(s, f.logEdge), f.tables()
		patches := make([][]byte, g.patches())
		for k := range patches {
			patches[k] = junk(rng, randomDense16Patch(rng, g.region(k), s.Channels, f.logStreams, f.hole, tables), i%7)
		}
		file := f.file(t, s, patches)
		n := int(s.Bytes())
		for _, place := range []func(*fence, int) []byte{(*fence).atEnd, (*fence).atStart} {
			fenced := place(files, len(file))
			copy(fenced, file)
			for i := range samples.inside {
				samples.inside[i] = 0xc3
			}
			pix := place(samples, n)
			for _, d := range eachBackend(DefaultLimits) {
				if _, err := d.Decode(pix, fenced); err == nil {
					t.Fatalf("%v, %s: the checksum of no samples is right", s, d.Backend())
				}
			}
			if others := len(samples.inside) - n; bytes.Count(samples.inside, []byte{0xc3})-bytes.Count(pix, []byte{0xc3}) != others {
				t.Fatalf("%v: something was written beside the samples", s)
			}
		}
	}
}
