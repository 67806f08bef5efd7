//go:build linux

package l3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"prismfs/raster"
)

// A fence is memory between two pages that nothing may touch.
type fence struct {
	whole, inside []byte
}

// newFence has room for size bytes.
func newFence(t testing.TB, size int) *fence {
	t.Helper()
	page := os.Getpagesize()
	inner := (size + page - 1) / page * page
	whole, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(whole); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{whole[:page], whole[page+inner:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return &fence{whole: whole, inside: whole[page : page+inner : page+inner]}
}

// atEnd returns n bytes that end where the upper page begins, atStart n bytes
// that begin where the lower one ends.
func (f *fence) atEnd(n int) []byte   { return f.inside[len(f.inside)-n:] }
func (f *fence) atStart(n int) []byte { return f.inside[:n:n] }

// checkFenced decodes a file with every backend, file and samples right beside
// pages whose touch ends the process, and checks that what lies on the other side
// of the samples stays as it is. Where want is nil, the file need not be good.
func checkFenced(t *testing.T, files, samples *fence, file []byte, shape raster.Shape, want []byte) {
	t.Helper()
	n := int(shape.Bytes())
	for _, place := range []func(*fence, int) []byte{(*fence).atEnd, (*fence).atStart} {
		fenced, pix := place(files, len(file)), place(samples, n)
		copy(fenced, file)
		for i := range samples.inside {
			samples.inside[i] = 0xc3
		}
		for _, d := range eachBackend(DefaultLimits) {
			_, err := d.Decode(pix, fenced)
			switch {
			case want != nil && (err != nil || !bytes.Equal(pix, want)):
				t.Fatalf("%v, %s: error %v, or samples differ", shape, d.Backend(), err)
			case err != nil:
				checkOneKind(t, err)
			}
		}
		if others := len(samples.inside) - n; bytes.Count(samples.inside, []byte{0xc3})-bytes.Count(pix, []byte{0xc3}) != others {
			t.Fatalf("%v: something was written beside the samples", shape)
		}
	}
}

func TestFencedDecode(t *testing.T) {
	const maxFile, maxPix = 1_000_000, 130 * 130 * 4 * 2
	files, samples := newFence(t, maxFile), newFence(t, maxPix)
	rng := rand.New(rand.NewPCG(31, 32))
	decode := func(file []byte, shape raster.Shape, want []byte) {
		t.Helper()
		checkFenced(t, files, samples, file, shape, want)
	}
	for i := range 130 {
		s := shapeOf(1+rng.IntN(130), 1+i, 1+rng.IntN(4), sampleTypes[rng.IntN(3)])
		logEdge := minLogEdge + rng.IntN(2)
		file, pix := randomFile(t, rng, s, logEdge)
		decode(file, s, pix)
		img := draw(pictures[rng.IntN(len(pictures))], s)
		decode(encodeEdge(t, img, logEdge), s, img.Pix)
		for way := range 5 {
			decode(junkFile(t, rng, s, logEdge, way), s, nil)
		}
		if ranks := usefulRanks(img); ranks != nil {
			file, err := fastDraft(img, ranks, logEdge, EncodeOptions{}).assemble(img, EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			decode(file, s, img.Pix)
		}
	}
	for i := range 60 {
		img := draw(pictures[i%len(pictures)], shapeOf(64, 64*(1+i%2), 3, raster.Uint8))
		file := encodePublished(img)
		decode(file, img.Shape, img.Pix)
		for way := range 4 {
			decode(damagePublished(rng, file, way), img.Shape, nil)
		}
	}
}

// TestFencedPatches does the same with random patches, and junk, of the codings
// that have an entropy coder.
func TestFencedPatches(t *testing.T) {
	type form interface {
		file(t testing.TB, s raster.Shape, patches [][]byte) []byte
	}
	const maxFile, maxPix = 2_000_000, 300 * 300
	for _, test := range []struct {
		coding Coding
		images int
		random func(rng *rand.Rand, i int) (form, raster.Shape, [][]byte)
	}{
		{Dense8, 150, func(rng *rand.Rand, i int) (form, raster.Shape, [][]byte) {
			s, f := shapeOf(1+rng.IntN(70), 1+i, 1+rng.IntN(4), raster.Uint8), randomForm(rng)
			return f, s, randomDensePatches(t, rng, f, s)
		}},
		{Dense16, 70, func(rng *rand.Rand, i int) (form, raster.Shape, [][]byte) {
			s, f := shapeOf(1+rng.IntN(40), 1+2*i, 1+i%4, types16[i/4%2]), randomForm16(rng)
			return f, s, f.randomPatches(rng, s)
		}},
		{Labels, 100, func(rng *rand.Rand, i int) (form, raster.Shape, [][]byte) {
			s, f := shapeOf(1+rng.IntN(70), 1+i, 1, raster.Uint8), randomLabelForm(rng)
			if i%20 == 19 {
				s.Height, s.Width = 256+rng.IntN(40), 256+rng.IntN(40)
			}
			return f, s, randomLabelsPatches(t, rng, f, s)
		}},
	} {
		t.Run(test.coding.String(), func(t *testing.T) {
			files, samples := newFence(t, maxFile), newFence(t, maxPix)
			rng := rand.New(rand.NewPCG(51, uint64(test.coding)))
			for i := range test.images {
				f, s, patches := test.random(rng, i)
				file := f.file(t, s, patches)
				pix, err := decodeRepaired(t, file, s, DefaultLimits)
				if err != nil {
					t.Fatal(err)
				}
				checkFenced(t, files, samples, repairSamples(file, pix), s, pix)
				for way := range 5 {
					damaged := make([][]byte, len(patches))
					for k := range patches {
						damaged[k] = junk(rng, bytes.Clone(patches[k]), way)
					}
					checkFenced(t, files, samples, f.file(t, s, damaged), s, nil)
				}
			}
		})
	}
}

// TestFencedEncode encodes samples right beside pages whose touch ends the process.
func TestFencedEncode(t *testing.T) {
	needSIMD(t)
	samples := newFence(t, 130*130*4*2)
	rng := rand.New(rand.NewPCG(41, 42))
	for i := range 130 {
		img := draw(pictures[rng.IntN(len(pictures))], shapeOf(1+rng.IntN(70), 1+i, 1+i%4, sampleTypes[rng.IntN(3)]))
		for _, place := range []func(*fence, int) []byte{(*fence).atEnd, (*fence).atStart} {
			fenced := img
			fenced.Pix = place(samples, len(img.Pix))
			copy(fenced.Pix, img.Pix)
			checkEncodersAgree(t, fenced, nil)
		}
	}
}

// TestFenceHolds checks that the pages are really closed: the kernel refuses to
// read from them.
func TestFenceHolds(t *testing.T) {
	f := newFence(t, 100)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	page := os.Getpagesize()
	for name, b := range map[string][]byte{"lower": f.whole[:page], "upper": f.whole[len(f.whole)-page:]} {
		if _, err := unix.Write(int(w.Fd()), b[:1]); err != unix.EFAULT {
			t.Errorf("the %s page: %s", name, fmt.Sprint(err))
		}
	}
	if _, err := unix.Write(int(w.Fd()), f.inside[:1]); err != nil {
		t.Errorf("inside: %v", err)
	}
}
