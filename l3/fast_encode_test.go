package l3

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"prismfs/raster"
)

// checkEncodersAgree encodes every patch of img by vector code and without, and
// compares the bytes.
func checkEncodersAgree(t testing.TB, img raster.Image, ranks *[1 << 16]uint16) {
	t.Helper()
	plain, vector := newPatchEncoder(img, ranks), newPatchEncoder(img, ranks)
	plain.simd, vector.simd = false, true
	g := newGrid(img.Shape, minLogEdge)
	for i := range g.patches() {
		before := []byte("what stands before")
		want, wantKind := plain.appendPatch(bytes.Clone(before), i, g.region(i))
		got, gotKind := vector.appendPatch(bytes.Clone(before), i, g.region(i))
		if wantKind != gotKind || !bytes.Equal(want, got) {
			t.Fatalf("%v, patch %d: kinds %d and %d, %d and %d bytes, first different at %d", img.Shape, i,
				wantKind, gotKind, len(want), len(got), firstDifference(want, got))
		}
		if _, ok := vector.appendVectorCoded(nil, g.region(i)); !ok {
			t.Fatalf("%v, patch %d: vector code does not take it", img.Shape, i)
		}
		if vector.encoderScratch != nil {
			t.Fatalf("%v, patch %d: scratch memory is left", img.Shape, i)
		}
	}
}

// ranksOf is the rank of each value that occurs in img, as encoders want it.
func ranksOf(m *rankMap) *[1 << 16]uint16 {
	var ranks [1 << 16]uint16
	for rank, v := range m.values[:m.count] {
		ranks[v] = uint16(rank)
	}
	return &ranks
}

func TestEncodersAgree(t *testing.T) {
	needSIMD(t)
	rng := rand.New(rand.NewPCG(37, 38))
	for i := range 300 {
		s := shapeOf(1+rng.IntN(70), 1+i%130, 1+rng.IntN(4), sampleTypes[rng.IntN(3)])
		checkEncodersAgree(t, draw(pictures[rng.IntN(len(pictures))], s), nil)
		if s.DType.Size() == 2 && i%3 == 0 {
			if m := usefulRanks(steps(rng, s)); m != nil {
				checkEncodersAgree(t, steps(rng, s), ranksOf(m))
			}
		}
	}
}

// TestEncodersAgreeOnPhotographs encodes a corner of each.
func TestEncodersAgreeOnPhotographs(t *testing.T) {
	needSIMD(t)
	for _, img := range loadFolder(t, "data/kodak") {
		s := img.Shape
		s.Height, s.Width = 140, 200
		corner := raster.Image{Shape: s}
		for y := range s.Height {
			row := img.Pix[y*img.RowBytes():]
			corner.Pix = append(corner.Pix, row[:s.RowBytes()]...)
		}
		checkEncodersAgree(t, corner, nil)
	}
}

// FuzzEncodersAgree encodes any samples of any small size and kind.
func FuzzEncodersAgree(f *testing.F) {
	rng := rand.New(rand.NewPCG(39, 40))
	for i := range 24 {
		img := draw(pictures[i%len(pictures)], shapeOf(1+i*5%20, 1+i*11%66, 1+i%4, sampleTypes[i%3]))
		f.Add(uint8(img.Height), uint8(img.Width), uint8(i), img.Pix)
	}
	f.Add(uint8(1), uint8(65), uint8(9), steps(rng, shapeOf(1, 65, 2, raster.Uint16)).Pix)
	f.Fuzz(func(t *testing.T, height, width, kind uint8, pix []byte) {
		needSIMD(t)
		s := shapeOf(1+int(height)%70, 1+int(width)%70, 1+int(kind)%4, sampleTypes[kind/4%3])
		img := raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}
		for i := range img.Pix {
			if len(pix) > 0 {
				img.Pix[i] = pix[i%len(pix)]
			}
		}
		checkEncodersAgree(t, img, nil)
		if m := usefulRanks(img); m != nil {
			checkEncodersAgree(t, img, ranksOf(m))
		}
	})
}
