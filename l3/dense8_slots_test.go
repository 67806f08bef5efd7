//go:build linux

package l3

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"prismfs/l3/internal/avx2"
	"prismfs/raster"
)

// TestFencedSlots decodes patches with fewer streams than pairs, slots of tables
// right beside pages whose touch ends the process. Vector code looks up a slot for
// lanes that wait as well, so what it takes for their tables counts, too: before
// each image, others are decoded that leave noise on the stack of C.
func TestFencedSlots(t *testing.T) {
	needSIMD(t)
	slots := fencedSlots(t)
	tested := 0
	rng := rand.New(rand.NewPCG(51, 52))
	noise := draw(pictures[len(pictures)-1], shapeOf(128, 128, 3, raster.Uint16))
	for i := range noise.Pix {
		noise.Pix[i] = byte(rng.Uint32())
	}
	soiling := [][]byte{encodeEdge(t, noise, minLogEdge), encodeEdge(t, noise, maxLogEdge)}
	soiled := make([]byte, len(noise.Pix))
	d := eachBackend(DefaultLimits)[1]
	for i := range 60 {
		img := draw(pictures[3], shapeOf(20+rng.IntN(50), 33+rng.IntN(32), 1+i%4, raster.Uint8))
		file := checkRoundTrip(t, img, EncodeOptions{Mode: ModeDense})
		h, err := parseHeader(file, int64(len(file)), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		if h.coding != Dense8 || 1<<h.logStreams >= 32 {
			continue
		}
		if _, err := d.Decode(soiled, soiling[i%2]); err != nil {
			t.Fatal(err)
		}
		p := new(dense8Decoder)
		if err := p.reset(&h, h.sections(file[:h.headBytes])); err != nil {
			t.Fatal(err)
		}
		copy(slots, p.set.slots)
		set := *p.set
		set.slots = slots
		p.set = &set
		pix := make([]byte, len(img.Pix))
		place := avx2.Image{Pix: pix, RowBytes: h.shape.RowBytes(), Channels: h.shape.Channels}
		run := []avx2.Patch{firstPatch(&h, file)}
		if n := p.decodeRun(place, file, run); n != 1 {
			t.Fatalf("%v: vector code took %d patches", h.shape, n)
		}
		tested++
	}
	if tested < 30 {
		t.Errorf("only %d images had fewer streams than pairs", tested)
	}
}

// fencedSlots is memory for all slots, behind which nothing may be touched as far
// as any place of 16 bits reaches.
func fencedSlots(t *testing.T) []uint32 {
	t.Helper()
	const inside, reach = avx2.Dense8Slots * 4, 1 << 16 * 4
	whole, err := unix.Mmap(-1, 0, inside+reach, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(whole); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(whole[inside:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&whole[0])), avx2.Dense8Slots)
}

// firstPatch is the first patch of a file as vector code is told of it.
func firstPatch(h *header, file []byte) avx2.Patch {
	e, r := parseEntry(h.table(file[:h.headBytes]), 0), newGrid(h.shape, h.logEdge).region(0)
	return avx2.Patch{
		Start: h.headBytes, End: h.headBytes + int64(e.length),
		Width: int32(r.width), Height: int32(r.height), Checksum: e.crc,
	}
}
