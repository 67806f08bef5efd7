package l3

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"prismfs/raster"
)

// A denseForm is what the head of a dense file says about its patches.
type denseForm struct {
	logEdge, logStreams int
	tables              *tableSet // nil for the first built-in set
}

// randomDenseTables is a set of tables that no encoder would make. Some contexts
// never occur, and some tables have one token only.
func randomDenseTables(rng *rand.Rand) *tableSet {
	counts := make([][maxTokens]uint32, dense8Shape.contexts())
	for context := range counts {
		for range rng.IntN(6) {
			counts[context][rng.IntN(dense8Shape.tokens)] = 1 << rng.IntN(16)
		}
	}
	var ids [maxTokens]uint32
	for range 1 + rng.IntN(8) {
		ids[rng.IntN(maxIDTokens)] = 1 << rng.IntN(10)
	}
	return clusterTables(counts, &ids, &dense8Shape)
}

func randomForm(rng *rand.Rand) denseForm {
	f := denseForm{logEdge: minLogEdge + rng.IntN(2), logStreams: rng.IntN(maxLogStreams + 1)}
	if rng.IntN(2) == 0 {
		f.logStreams = maxLogStreams
	}
	if rng.IntN(2) == 0 {
		f.tables = randomDenseTables(rng)
	}
	return f
}

// draft returns the draft of a file without patches.
func (f denseForm) draft() *draft {
	d := &draft{coding: Dense8, logEdge: f.logEdge, logStreams: f.logStreams}
	if f.tables != nil {
		d.tableSet = tableSetOwn
		d.sections = appendSection(nil, sectionTables, sectionCritical, f.tables.appendTo(nil))
	}
	return d
}

// file returns a file of coded patches whose checksums agree with them, but for
// that of the samples. Their lengths are multiples of 4.
func (f denseForm) file(t testing.TB, s raster.Shape, patches [][]byte) []byte {
	t.Helper()
	return assembleCoded(t, f.draft(), s, patches)
}

// decoder returns the plain decoder for patches of images of a shape.
func (f denseForm) decoder(t testing.TB, s raster.Shape) *dense8Decoder {
	t.Helper()
	d := f.draft()
	h := header{shape: s, coding: Dense8, logEdge: f.logEdge, logStreams: f.logStreams, tableSet: d.tableSet}
	p := new(dense8Decoder)
	if err := p.reset(&h, d.sections); err != nil {
		t.Fatal(err)
	}
	return p
}

// randomDensePatch returns a patch of random states and words, as long as what
// they stand for makes it.
func randomDensePatch(t testing.TB, rng *rand.Rand, p *dense8Decoder, r region) []byte {
	t.Helper()
	channels := p.shape.Channels
	constants := rng.IntN(1<<channels) & rng.IntN(1<<channels)
	coded := codedPlanes(uint8(constants), channels)
	patch := make([]byte, 256+2*channels*r.height*(1+r.width))
	for i := range patch {
		patch[i] = byte(rng.Uint32())
	}
	patch[0] = byte(rng.IntN(transformLimit(channels)))
	patch[1] = byte(constants | rng.IntN(1+min(maxFreeRows, coded*r.height))<<4)
	if coded == 0 {
		return patch[:padded(preludeBytes(channels, p.d))]
	}
	prelude, err := p.open(patch, 0, len(patch), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.begin(p, coded*r.height, r); err != nil {
		t.Fatal(err)
	}
	row := 0
	for y := range r.height {
		for i := range channels {
			if !p.planes[i].constant {
				p.row(i, y, r, int(p.ids[row]), row < coded*r.height-prelude.freeRows)
				row++
			}
		}
	}
	return patch[:padded(p.words.at)]
}

// randomDensePatches returns patches for a whole image.
func randomDensePatches(t testing.TB, rng *rand.Rand, f denseForm, s raster.Shape) [][]byte {
	t.Helper()
	p, g := f.decoder(t, s), newGrid(s, f.logEdge)
	patches := make([][]byte, g.patches())
	for k := range patches {
		patches[k] = randomDensePatch(t, rng, p, g.region(k))
	}
	return patches
}

// decodeRepaired decodes a file twice, the second time with the checksum of the
// samples that it has, and returns the samples and the error of that.
func decodeRepaired(t testing.TB, file []byte, s raster.Shape, lim Limits) ([]byte, error) {
	t.Helper()
	pix := make([]byte, s.Bytes())
	if _, err := decodeEach(t, pix, file, lim); err != nil {
		checkOneKind(t, err)
	}
	_, err := decodeEach(t, pix, repairSamples(file, pix), lim)
	return pix, err
}

func TestDense8SIMDTakesPatches(t *testing.T) {
	needSIMD(t)
	rng := rand.New(rand.NewPCG(41, 42))
	for i := range 120 {
		s := shapeOf(1+rng.IntN(150), 1+rng.IntN(300), 1+i%4, raster.Uint8)
		if i < 8 {
			s.Width, s.Height = 128, 128
		}
		f := randomForm(rng)
		file := f.file(t, s, randomDensePatches(t, rng, f, s))
		want, err := decodeRepaired(t, file, s, DefaultLimits)
		if err != nil {
			t.Fatalf("%v, %d streams, edge 2^%d: %v", s, 1<<f.logStreams, f.logEdge, err)
		}
		pix := make([]byte, len(want))
		if taken, coded := vectorPatches(t, pix, file); taken != coded || coded == 0 {
			t.Errorf("%v: vector code took %d of %d patches", s, taken, coded)
		}
		if !bytes.Equal(pix, want) {
			t.Errorf("%v: samples differ, first at %d", s, firstDifference(pix, want))
		}
	}
}

// TestDense8BackendsOnSizes goes through widths up to that of two patches, with
// contents from constant to noise, and any number of streams.
func TestDense8BackendsOnSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for i := range 130 {
		s := shapeOf(1+rng.IntN(70), 1+i, 1+rng.IntN(4), raster.Uint8)
		img := draw(pictures[rng.IntN(len(pictures))], s)
		f := dense8EdgeDraft(img, EncodeOptions{}, minLogEdge+i%2, dense8Searches[1])
		file, err := f.assemble(img, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
			t.Fatalf("%v: samples differ, first at %d", s, firstDifference(pix, img.Pix))
		}
	}
}

// TestDense8BackendsOnJunk decodes patches of junk, as TestBackendsOnJunk does.
func TestDense8BackendsOnJunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	outcomes := make(map[bool]int) // by whether all patches were decoded
	for i := range 800 {
		s := shapeOf(1+rng.IntN(70), 1+rng.IntN(140), 1+i%4, raster.Uint8)
		f := randomForm(rng)
		patches := randomDensePatches(t, rng, f, s)
		for k := range patches {
			patches[k] = junk(rng, patches[k], i/4%6)
		}
		_, err := decodeRepaired(t, f.file(t, s, patches), s, DefaultLimits)
		if err != nil {
			checkOneKind(t, err)
		}
		outcomes[err == nil]++
	}
	if outcomes[true] < 50 || outcomes[false] < 50 {
		t.Errorf("the junk is too much alike: %v", outcomes)
	}
}

// TestDense8SIMDLeavesTooManyFreeRows checks the one field that fast patches do not
// have: more plane rows than there are.
func TestDense8SIMDLeavesTooManyFreeRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 48))
	s, f := shapeOf(2, 20, 3, raster.Uint8), denseForm{logEdge: minLogEdge, logStreams: 4}
	p, r := f.decoder(t, s), region{width: 20, height: 2}
	for freeRows := range 16 {
		patch := randomDensePatch(t, rng, p, r)
		for codedPlanes(patch[1]&0xf, 3) != 2 {
			patch = randomDensePatch(t, rng, p, r)
		}
		patch[1] = patch[1]&0xf | byte(freeRows<<4)
		file := f.file(t, s, [][]byte{patch})
		_, err := decodeEach(t, make([]byte, s.Bytes()), file, DefaultLimits)
		if refused := err != nil && bytes.Contains([]byte(err.Error()), []byte("do not renormalise")); refused != (freeRows > 4) {
			t.Errorf("%d free rows of 4: %v", freeRows, err)
		}
	}
}
