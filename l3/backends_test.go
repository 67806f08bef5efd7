package l3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"prismfs/l3/internal/avx2"
	"prismfs/raster"
)

// The plain Go decoder is the specification of the vector decoder. Nearly all
// tests of this package decode by decodeEach, and so hold one to the other.

// eachBackend returns the plain decoder and, where there is one, the vector
// decoder, whatever the environment says.
func eachBackend(lim Limits) []*Decoder {
	ds := []*Decoder{NewDecoder(lim, WithoutSIMD())}
	if avx2.Available() {
		d := NewDecoder(lim)
		d.simd = true
		ds = append(ds, d)
	}
	return ds
}

// decodeEach decodes file into pix with every backend. All must agree on Info,
// error and, unless there is an error, samples.
func decodeEach(t testing.TB, pix, file []byte, lim Limits) (Info, error) {
	t.Helper()
	backends := eachBackend(lim)
	info, err := backends[0].Decode(pix, file)
	for _, d := range backends[1:] {
		other := bytes.Repeat([]byte{0x5a}, len(pix))
		otherInfo, otherErr := d.Decode(other, file)
		if fmt.Sprint(err) != fmt.Sprint(otherErr) {
			t.Fatalf("%v: errors differ:\n%s: %v\n%s: %v", info.Shape, backends[0].Backend(), err, d.Backend(), otherErr)
		}
		if info.Shape != otherInfo.Shape || info.Coding != otherInfo.Coding || info.PixelCRC != otherInfo.PixelCRC {
			t.Fatalf("%s has %+v, %s %+v", backends[0].Backend(), info, d.Backend(), otherInfo)
		}
		if err == nil && !bytes.Equal(pix, other) {
			t.Fatalf("%v: samples differ, first at %d", info.Shape, firstDifference(pix, other))
		}
	}
	return info, err
}

// needSIMD skips where there is no vector code to test.
func needSIMD(t testing.TB) {
	t.Helper()
	if !avx2.Available() {
		t.Skip("no vector code on this processor or in this build")
	}
}

// vectorPatches decodes all coded patches of a file by vector code alone and
// returns how many it took and how many there are.
func vectorPatches(t testing.TB, pix, file []byte) (taken, coded int) {
	t.Helper()
	h, err := parseHeader(file, int64(len(file)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	d := eachBackend(DefaultLimits)[1]
	if err := d.begin(&h, h.sections(file[:h.headBytes])); err != nil {
		t.Fatal(err)
	}
	g, table, at := newGrid(h.shape, h.logEdge), h.table(file[:h.headBytes]), int(h.headBytes)
	img := avx2.Image{Pix: pix, RowBytes: h.shape.RowBytes(), Channels: h.shape.Channels}
	for i := range g.patches() {
		e := parseEntry(table, i)
		if e.kind == kindCoded {
			coded++
		}
		if d.takes(e, g.region(i)) {
			d.run.n = 0
			d.enqueue(i, at, e, g.region(i))
			taken += d.vector.decodeRun(img, file, d.run.patches[:1])
		}
		at += e.length
	}
	return taken, coded
}

// TestSIMDTakesPatches checks that it is vector code that is held to the plain
// decoder, not the plain decoder to itself.
func TestSIMDTakesPatches(t *testing.T) {
	needSIMD(t)
	for i := range 96 {
		channels, dtype, logEdge := 1+i%4, sampleTypes[i/4%3], minLogEdge+i/12%2
		size := [][2]int{{64, 64}, {130, 250}, {3, 7}, {129, 65}}[i/24]
		img := draw(pictures[3], shapeOf(size[0], size[1], channels, dtype))
		file := encodeEdge(t, img, logEdge)
		pix := make([]byte, len(img.Pix))
		taken, coded := vectorPatches(t, pix, file)
		if taken != coded {
			t.Errorf("%v, edge 2^%d: vector code took %d of %d patches", img.Shape, logEdge, taken, coded)
		}
		if coded == newGrid(img.Shape, logEdge).patches() && !bytes.Equal(pix, img.Pix) {
			t.Errorf("%v, edge 2^%d: samples differ, first at %d", img.Shape, logEdge, firstDifference(pix, img.Pix))
		}
	}
}

// steps is an image whose values lie far apart, so that their ranks are coded.
func steps(rng *rand.Rand, s raster.Shape) raster.Image {
	img := draw(pictures[3], s)
	step := uint16(40 + rng.IntN(900))
	for at := 0; at < len(img.Pix); at += 2 {
		v := binary.LittleEndian.Uint16(img.Pix[at:])
		binary.LittleEndian.PutUint16(img.Pix[at:], v/step*step)
	}
	return img
}

// TestBackendsOnRanks decodes images with rank maps, and such whose map is too
// short for some of their ranks.
func TestBackendsOnRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	beyond := 0
	for i := range 120 {
		s := shapeOf(1+rng.IntN(140), 1+rng.IntN(140), 1+i%4, sampleTypes[1+i/4%2])
		img := steps(rng, s)
		ranks := usefulRanks(img)
		if ranks == nil {
			continue
		}
		file, err := fastDraft(img, ranks, minLogEdge+i/8%2, EncodeOptions{}).assemble(img, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
			t.Fatalf("%v: samples differ, first at %d", s, firstDifference(pix, img.Pix))
		}
		if ranks.count < 3 {
			continue
		}
		short := fastDraft(img, ranks, minLogEdge, EncodeOptions{})
		ranks.count -= 1 + rng.IntN(2)
		short.sections = appendSection(nil, sectionRankMap, sectionCritical, ranks.appendTo(nil))
		if file, err = short.assemble(img, EncodeOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := decodeEach(t, make([]byte, s.Bytes()), file, DefaultLimits); err != nil {
			checkOneKind(t, err)
			beyond++
		}
	}
	if beyond < 60 {
		t.Errorf("only %d images with ranks beyond their map were refused", beyond)
	}
}

func TestBackendNames(t *testing.T) {
	if got := NewDecoder(Limits{}, WithoutSIMD()).Backend(); got != "go" {
		t.Errorf("without SIMD the backend is %q", got)
	}
	if got := NewDecoder(Limits{}).Backend(); (got == "avx2") != useSIMD {
		t.Errorf("the backend is %q, though useSIMD is %v", got, useSIMD)
	}
}

// TestSIMDVariable asks a process of its own, since the variable is read once.
func TestSIMDVariable(t *testing.T) {
	const asks = "L3_TEST_PRINTS_BACKEND"
	if os.Getenv(asks) != "" {
		fmt.Printf("backend %s\n", NewDecoder(Limits{}).Backend())
		return
	}
	best := "go"
	if avx2.Available() {
		best = "avx2"
	}
	for value, want := range map[string]string{"": best, "on": best, "off": "go"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSIMDVariable$")
		cmd.Env = append(os.Environ(), asks+"=1", simdVariable+"="+value)
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("backend "+want+"\n")) {
			t.Errorf("%s=%q: want %s, %v:\n%s", simdVariable, value, want, err, out)
		}
	}
}

// TestBackendsOnSizes goes through sizes up to three patches, with contents
// from constant to noise.
func TestBackendsOnSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for i := range 520 {
		s := shapeOf(1+rng.IntN(130), 1+i%130, 1+rng.IntN(4), sampleTypes[rng.IntN(3)])
		img := draw(pictures[rng.IntN(len(pictures))], s)
		if _, pix := mustDecode(t, encodeEdge(t, img, minLogEdge+rng.IntN(2))); !bytes.Equal(pix, img.Pix) {
			t.Fatalf("%v: samples differ, first at %d", s, firstDifference(pix, img.Pix))
		}
	}
}

// TestBackendsOnAnyPatch decodes patches that no encoder would write, of every
// width.
func TestBackendsOnAnyPatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	for i := range 390 {
		s := shapeOf(1+rng.IntN(66), 1+i%130, 1+rng.IntN(4), sampleTypes[rng.IntN(3)])
		file, want := randomFile(t, rng, s, minLogEdge+rng.IntN(2))
		if _, pix := mustDecode(t, file); !bytes.Equal(pix, want) {
			t.Fatalf("%v: byte %d is not what the specification says", s, firstDifference(pix, want))
		}
	}
}

// patchFile returns a file whose coded patches are the given bytes, of any
// length that is a multiple of 4, and whose checksums agree with them, but for
// that of the samples.
func patchFile(t testing.TB, s raster.Shape, logEdge int, patches [][]byte) []byte {
	t.Helper()
	f := &draft{coding: Fast8, logEdge: logEdge}
	if s.DType.Size() == 2 {
		f.coding = Fast16
	}
	return assembleCoded(t, f, s, patches)
}

// TestBackendsOnJunk decodes patches of junk: random bytes, and good patches
// cut off, prolonged or changed. Mostly that gives errors, and where it does
// not, the checksum of the samples in the error tells whether both decoders
// have the same.
func TestBackendsOnJunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	outcomes := make(map[bool]int) // by whether all patches were decoded
	for i := range 1500 {
		s := shapeOf(1+rng.IntN(130), 1+rng.IntN(130), 1+i%4, sampleTypes[rng.IntN(2)])
		logEdge := minLogEdge + rng.IntN(2)
		_, err := decodeEach(t, make([]byte, s.Bytes()), junkFile(t, rng, s, logEdge, i/4%6), DefaultLimits)
		checkOneKind(t, err)
		outcomes[bytes.Contains([]byte(err.Error()), []byte("checksum of the samples"))]++
	}
	if outcomes[true] < 100 || outcomes[false] < 100 {
		t.Errorf("the junk is too much alike: %v", outcomes)
	}
}

// junkFile returns a file of junk.
func junkFile(t testing.TB, rng *rand.Rand, s raster.Shape, logEdge, way int) []byte {
	g, d := newGrid(s, logEdge), &depth8
	if s.DType.Size() == 2 {
		d = &depth16
	}
	patches := make([][]byte, g.patches())
	for k := range patches {
		patches[k] = junk(rng, randomPatch(rng, g.region(k), s.Channels, d), way)
	}
	return patchFile(t, s, logEdge, patches)
}

// junk changes a patch in one of six ways, some of them rarely, so that bad
// patches stand behind good ones, too.
func junk(rng *rand.Rand, patch []byte, way int) []byte {
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	switch way {
	case 0: // all is junk, but for the transform and the constants now and then
		b := random(4 * rng.IntN(300))
		if len(b) > 0 && rng.IntN(4) > 0 {
			b[0], b[1] = patch[0], patch[1]
		}
		return b
	case 1:
		return patch[:4*rng.IntN(len(patch)/4+1)]
	case 2:
		return append(patch, random(4*rng.IntN(20))...)
	case 3: // some bits flipped anywhere
		for range rng.IntN(3) {
			patch[rng.IntN(len(patch))] ^= 1 << rng.IntN(8)
		}
	case 4: // 4 bytes too short or too long
		if rng.IntN(3) == 0 {
			return patch[:len(patch)-4]
		} else if rng.IntN(3) == 0 {
			return append(patch, 0, 0, 0, 0)
		}
	case 5: // much too long: more than any patch can be
		return append(patch, random(200_000)...)
	}
	return patch
}

// TestFirstErrorWins has several errors in one file: a checksum that is wrong
// stands behind a patch that is, and the other way round.
func TestFirstErrorWins(t *testing.T) {
	s := shapeOf(64, 64*40, 3, raster.Uint8)
	rng := rand.New(rand.NewPCG(27, 28))
	g := newGrid(s, minLogEdge)
	for range 60 {
		patches := make([][]byte, g.patches())
		for k := range patches {
			patches[k] = randomPatch(rng, g.region(k), 3, &depth8)
		}
		first := g.patches()
		for range 3 {
			k := rng.IntN(g.patches())
			patches[k][0] = 99 // no such transform
			first = min(first, k)
		}
		file := patchFile(t, s, minLogEdge, patches)
		at, wrong := int(binary.LittleEndian.Uint32(file[atHeadBytes:])), rng.IntN(g.patches())
		for k := range wrong {
			at += len(patches[k])
		}
		file[at+5] ^= 1
		first = min(first, wrong)
		_, err := decodeEach(t, make([]byte, s.Bytes()), file, DefaultLimits)
		if want := fmt.Sprintf("patch %d: ", first); err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
			t.Fatalf("%v, want %s", err, want)
		}
	}
}

// TestBackendsOnPhotographs decodes photographs.
func TestBackendsOnPhotographs(t *testing.T) {
	for name, img := range loadFolder(t, "data/kodak") {
		file, err := Encode(img, EncodeOptions{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
			t.Errorf("%s: samples differ, first at %d", name, firstDifference(pix, img.Pix))
		}
	}
}

// corners are values at which a published prediction takes another branch or a
// distance overflows, as a picture.
var corners = picture{"corners", func(rng *rand.Rand, _, _, _ int) int {
	values := [...]int{0, 1, 2, 126, 127, 128, 129, 253, 254, 255}
	return values[rng.IntN(len(values))] << 8
}}

// TestPublishedBackends decodes published files of 400,000 samples each, among
// whose neighbours are all kinds of triples.
func TestPublishedBackends(t *testing.T) {
	for _, p := range append(pictures[:len(pictures):len(pictures)], corners) {
		s := shapeOf(320, 448, 3, raster.Uint8)
		if file := checkRoundTrip(t, draw(p, s), EncodeOptions{Mode: ModePublished}); avx2.Available() {
			h, err := parsePublished(file, int64(len(file)), DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			if !eachBackend(DefaultLimits)[1].decodePublishedSIMD(make([]byte, s.Bytes()), file, h) {
				t.Errorf("%s: vector code does not take the file", p.name)
			}
		}
	}
}

// damagePublished damages a published file in one of four ways, some of them
// rarely, so that bad patches stand behind good ones, too.
func damagePublished(rng *rand.Rand, file []byte, way int) []byte {
	file = bytes.Clone(file)
	body := file[publishedHeaderBytes:]
	switch way {
	case 0:
		for range rng.IntN(4) {
			body[rng.IntN(len(body))] ^= 1 << rng.IntN(8)
		}
	case 1: // any bytes
		from := rng.IntN(len(body))
		for i := range body[from:] {
			body[from+i] = byte(rng.Uint32())
		}
	case 2: // rows of any width where a row begins, mostly of another one
		body[len(body)-1-rng.IntN(min(len(body), 200))] = byte(rng.IntN(16))
	case 3: // bytes that move from one patch to another
		n := (len(body) - 1) / publishedSizeBytes
		from, to := rng.IntN(min(n, 6)), rng.IntN(min(n, 6))
		body[2*from]--
		body[2*to]++
	}
	return file
}

// TestPublishedBackendsOnDamage compares samples and errors of published files
// that are damaged; without checksums, some of them can be decoded.
func TestPublishedBackendsOnDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	outcomes := make(map[bool]int)
	for i := range 600 {
		s := shapeOf(64*(1+rng.IntN(2)), 64*(1+rng.IntN(3)), 3, raster.Uint8)
		img := draw(pictures[rng.IntN(len(pictures))], s)
		file := damagePublished(rng, encodePublished(img), i%4)
		_, err := decodeEach(t, make([]byte, s.Bytes()), file, DefaultLimits)
		if err != nil {
			checkOneKind(t, err)
		}
		outcomes[err == nil]++
	}
	if outcomes[true] < 25 || outcomes[false] < 25 {
		t.Errorf("the damage is too much alike: %v", outcomes)
	}
}

// addGoldenPatches adds the patches of golden files as seeds of a fuzz target that
// takes height, width, two bytes and patches.
func addGoldenPatches(f *testing.F, pattern string) {
	f.Helper()
	golden, err := filepath.Glob(filepath.Join(goldenFolder, pattern))
	if err != nil || len(golden) == 0 {
		f.Fatal("no golden files", err)
	}
	for _, path := range golden {
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file[atHeight], file[atWidth], file[atChannels]-1, uint8(0), file[binary.LittleEndian.Uint32(file[atHeadBytes:]):])
	}
}

// FuzzFastPathEqualsPlain decodes patches of any bytes in images of any small
// size, depth and edge of patches.
func FuzzFastPathEqualsPlain(f *testing.F) {
	rng := rand.New(rand.NewPCG(29, 30))
	for i := range 40 {
		r := region{width: 1 + i*5%64, height: 1 + i*3%20}
		f.Add(uint8(r.height), uint8(r.width), uint8(i%4), uint8(0), randomPatch(rng, r, 1+i%4, &depth8))
		r = region{width: 1 + i*7%128, height: 1 + i%10}
		f.Add(uint8(r.height), uint8(r.width), uint8(i%4|i%3<<2), uint8(0), randomPatch(rng, r, 1+i%4, []*depth{&depth8, &depth16}[i%3&1]))
	}
	addGoldenPatches(f, "*uint8*.l3")
	f.Fuzz(func(t *testing.T, height, width, kind, split uint8, data []byte) {
		// kind: channels less one, 16 bits, patches of the larger edge, signed.
		dtype := []raster.DType{raster.Uint8, raster.Uint16, raster.Uint8, raster.Int16}[kind>>2&1|kind>>3&2]
		s := shapeOf(1+int(height-1)%140, 1+int(width-1)%140, 1+int(kind)%4, dtype)
		logEdge := minLogEdge + int(kind>>3&1)
		n := newGrid(s, logEdge).patches()
		data = appendPadding(bytes.Clone(data), 0)
		patches := make([][]byte, n)
		for k := range patches { // all but the last are of one size, or as split says
			size := min(len(data), max(len(data)/(n-k), 4*int(split))&^3)
			if k == n-1 {
				size = len(data)
			}
			patches[k], data = data[:size], data[size:]
		}
		file := patchFile(t, s, logEdge, patches)
		pix := make([]byte, s.Bytes())
		if _, err := decodeEach(t, pix, file, fuzzLimits); err != nil {
			checkOneKind(t, err)
		}
		if _, err := decodeEach(t, pix, repairSamples(file, pix), fuzzLimits); err != nil {
			checkOneKind(t, err)
		}
	})
}
