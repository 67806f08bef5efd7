//go:build linux

package l3

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"prismfs/raster"
)

// TestFencedLabels decodes label maps, good ones and junk, with file and samples
// right beside pages whose touch ends the process, and checks that what lies on
// the other side of the samples stays as it is.
func TestFencedLabels(t *testing.T) {
	const maxFile, maxPix = 500_000, 300 * 300
	files, samples := newFence(t, maxFile), newFence(t, maxPix)
	rng := rand.New(rand.NewPCG(69, 70))
	decode := func(file []byte, shape raster.Shape) {
		t.Helper()
		n := int(shape.Bytes())
		for _, place := range []func(*fence, int) []byte{(*fence).atEnd, (*fence).atStart} {
			fenced, pix := place(files, len(file)), place(samples, n)
			copy(fenced, file)
			for i := range samples.inside {
				samples.inside[i] = 0xc3
			}
			for _, d := range eachBackend(DefaultLimits) {
				if _, err := d.Decode(pix, fenced); err != nil {
					checkOneKind(t, err)
				}
			}
			if others := len(samples.inside) - n; bytes.Count(samples.inside, []byte{0xc3})-bytes.Count(pix, []byte{0xc3}) != others {
				t.Fatalf("%v: something was written beside the samples", shape)
			}
		}
	}
	for i := range 100 {
		s := shapeOf(1+rng.IntN(70), 1+i, 1, raster.Uint8)
		if i%20 == 19 {
			s.Height, s.Width = 256+rng.IntN(40), 256+rng.IntN(40)
		}
		f := randomLabelForm(rng)
		patches := randomLabelsPatches(t, rng, f, s)
		pix, err := decodeRepaired(t, f.file(t, s, patches), s, DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		decode(repairSamples(f.file(t, s, patches), pix), s)
		for way := range 5 {
			damaged := make([][]byte, len(patches))
			for k := range patches {
				damaged[k] = junk(rng, bytes.Clone(patches[k]), way)
			}
			decode(f.file(t, s, damaged), s)
		}
	}
}
