package l3

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"prismfs/l3/internal/avx2"
	"prismfs/raster"
)

func TestDense16RoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			for i := range 24 {
				s := shapeOf(1+rng.IntN(100), 1+rng.IntN(130), 1+i%4, types16[i/4%2])
				if i < len(edges) {
					s.Width, s.Height = edges[i], edges[(i*5+3)%len(edges)]
				}
				opt := EncodeOptions{Mode: ModeDense, Workers: 1 + i%3, Effort: i % (MaxEffort + 1)}
				file := checkRoundTrip(t, draw(p, s), opt)
				checkGrowth(t, s, len(file))
			}
		})
	}
}

// sectionsOf returns the sections of a version 2 file.
func sectionsOf(t testing.TB, file []byte) []byte {
	t.Helper()
	h, err := parseHeader(file, int64(len(file)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return h.sections(file[:h.headBytes])
}

// TestDense16Choices has images for which ranks and a hole value are worth it, and
// such for which they are not.
func TestDense16Choices(t *testing.T) {
	depth := shapeOf(200, 250, 1, raster.Uint16)
	signed := shapeOf(200, 250, 1, raster.Int16)
	tests := []struct {
		name        string
		img         raster.Image
		ranks, hole bool
	}{
		{"depth", depthPicture(depth, 0), true, true},
		{"signed depth, lowest value", depthPicture(signed, 0x8000), true, true},
		{"depth of several channels", depthPicture(shapeOf(150, 100, 3, raster.Uint16), 0), true, true},
		{"photo", draw(pictures[3], depth), false, false},
		{"signed photo", draw(pictures[3], signed), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := checkRoundTrip(t, test.img, EncodeOptions{Mode: ModeDense})
			sections := sectionsOf(t, file)
			if got := findSection(sections, sectionRankMap) != nil; got != test.ranks {
				t.Errorf("a rank map: %v", got)
			}
			if got := findSection(sections, sectionHole) != nil; got != test.hole {
				t.Errorf("a hole value: %v", got)
			}
		})
	}
}

// TestDense16Example decodes the worked example of docs/format-l3.md.
func TestDense16Example(t *testing.T) {
	file, err := hex.DecodeString(strings.Join(strings.Fields(`
		4c4c4c3202000004 0400000002000000 0110100107ff0300 a000000068000000
		ac00000000000000 ef3def1da4aa0500 0100010051000000 0100000000000000
		0000000000000000 0000000000000000 0000000000000000 9080800000000000
		0000004000200000 0000000000000000 1200000000400100 0000800200000000
		0000000000000000 0000000003000100 0200000000000000 0c0000006e68209e
		0020f40183080400 842a3002`), ""))
	if err != nil {
		t.Fatal(err)
	}
	_, pix := mustDecode(t, file)
	var want []byte
	for _, v := range []uint16{500, 502, 540, 0, 501, 503, 541, 0} {
		want = binary.LittleEndian.AppendUint16(want, v)
	}
	if !bytes.Equal(pix, want) || !bytes.Equal(slowDecode(file), want) {
		t.Errorf("% x", pix)
	}
}

// TestDense16Workers encodes by one and by several workers.
func TestDense16Workers(t *testing.T) {
	for _, img := range []raster.Image{
		depthPicture(shapeOf(300, 400, 1, raster.Uint16), 0), draw(pictures[3], shapeOf(150, 200, 3, raster.Int16)),
	} {
		one := checkRoundTrip(t, img, EncodeOptions{Mode: ModeDense})
		for _, workers := range []int{2, 7} {
			if !bytes.Equal(one, checkRoundTrip(t, img, EncodeOptions{Mode: ModeDense, Workers: workers})) {
				t.Errorf("%v: %d workers give another file", img.Shape, workers)
			}
		}
	}
}

// TestDense16SmallTables checks that a small image has no tables of its own.
func TestDense16SmallTables(t *testing.T) {
	file := checkRoundTrip(t, draw(pictures[3], shapeOf(24, 24, 1, raster.Uint16)), EncodeOptions{Mode: ModeDense})
	if Coding(file[atCoding]) != Dense16 || file[atTableSet] == tableSetOwn {
		t.Errorf("%v coding, table set %d", Coding(file[atCoding]), file[atTableSet])
	}
}

// TestDense16Levels checks order and limits of levels.
func TestDense16Levels(t *testing.T) {
	last := 0
	for sum := range 1 << 16 {
		level := level16(uint16(sum))
		if level < last || level > last+1 || level >= levels16 || level != slowLevel16(sum) {
			t.Fatalf("level %d of %d after %d", level, sum, last)
		}
		last = level
	}
	if last != levels16-1 {
		t.Errorf("the last level is %d", last)
	}
}

// TestDense16Slots checks that the slot of a token gives back its values.
func TestDense16Slots(t *testing.T) {
	for v := range uint32(1 << 16) {
		token, rawBits, raw := valueToken(v)
		slot := slot16(token, 5, 77)
		first := slot >> slotRaw16 & 7
		mask := uint32(1)<<first - 1
		rest := slot & mask
		if first+rest != rawBits || first > firstRawBits16 {
			t.Fatalf("value %d: %d + %d raw bits instead of %d", v, first, rest, rawBits)
		}
		if got := (slot&0xff&^mask|raw>>rest)<<rest | raw&(1<<rest-1); got != v {
			t.Fatalf("value %d came back as %d", v, got)
		}
		if slot>>slotOffset16&1023 != 5 || slot>>slotFrequency16 != 77 {
			t.Fatalf("slot %#x", slot)
		}
	}
	if slot := slot16(holeToken16, 1023, 1024); slot>>slotRaw16&7 != slotHole || slot&0xff != 0 || slot>>slotFrequency16 != 1024 {
		t.Errorf("the slot of a hole is %#x", slot)
	}
}

// dense16Small is a small file with a rank map, a hole value and tables of its own.
func dense16Small(t testing.TB) ([]byte, raster.Image) {
	img := depthPicture(shapeOf(20, 30, 1, raster.Uint16), 0)
	c := choice16{logEdge: maxLogEdge, logStreams: 3, own: true, hole: 0, ranks: true}
	return dense16File(t, img, c, EncodeOptions{}), img
}

func TestDense16Lies(t *testing.T) {
	good, img := dense16Small(t)
	patch := int(binary.LittleEndian.Uint32(good[atHeadBytes:]))
	sectionAt := func(kind uint16) int { // of the data
		at := headerBytes
		for binary.LittleEndian.Uint16(good[at:]) != kind {
			at += sectionHeaderBytes + padded(int(binary.LittleEndian.Uint32(good[at+4:])))
		}
		return at + sectionHeaderBytes
	}
	set := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	tests := []struct {
		name   string
		change func([]byte) []byte
		want   error
		says   string
	}{
		{"transform of one channel", set(patch, 1), ErrCorrupt, "transform 1 of 1 channels"},
		{"constant plane that is not", set(patch+1, 2), ErrCorrupt, "constant planes 0x2"},
		{"only constant planes", set(patch+1, 1), ErrCorrupt, "bytes for constant planes"},
		{"a built-in set that is not", set(atTableSet, 0), ErrCorrupt, "entropy tables true, table set 0"},
		{"64 streams", set(atLogStreams, 6), ErrUnsupported, "2^6 entropy coder streams"},
		{"fewer streams", set(atLogStreams, 2), ErrCorrupt, "patch 0"},
		{"as many streams as pairs", set(atLogStreams, 5), ErrCorrupt, "patch 0"},
		{"tables in the fast coding", func(b []byte) []byte {
			b[atCoding], b[atTableSet], b[atLogStreams] = byte(Fast16), 0, 0
			return b
		}, ErrCorrupt, "entropy tables in the fast 16-bit coding"},
		{"a hole value of one byte", set(sectionAt(sectionHole)-4, 1), ErrCorrupt, "section 3: 1 bytes"},
		{"a hole value beyond the ranks", set(sectionAt(sectionHole), 0xff, 0xff), ErrCorrupt, "beyond the rank map"},
		{"no tables", set(sectionAt(sectionTables), 0), ErrCorrupt, "entropy tables"},
		{"other tables", set(sectionAt(sectionTables)+20, 0xff, 0xff), ErrCorrupt, ""},
		{"fewer ranks", func(b []byte) []byte { // the last run
			at := sectionAt(sectionRankMap)
			b[at+int(binary.LittleEndian.Uint32(b[at-4:]))-2] ^= 1
			return b
		}, ErrCorrupt, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readBoth(t, repair(test.change(bytes.Clone(good))), make([]byte, len(img.Pix)))
			if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v\nwant %v, saying %q", err, test.want, test.says)
			}
		})
	}
	t.Run("plane rows that do not renormalise", func(t *testing.T) {
		img := draw(pictures[3], shapeOf(3, 9, 1, raster.Uint16))
		file := dense16File(t, img, choice16{logEdge: minLogEdge, logStreams: 3, hole: noHole}, EncodeOptions{})
		at := int(binary.LittleEndian.Uint32(file[atHeadBytes:])) + 1
		file[at] = file[at]&0xf | 4<<4
		_, err := readBoth(t, repair(file), make([]byte, len(img.Pix)))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "4 of 3 plane rows") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a hole value in the fast coding", func(t *testing.T) {
		img := draw(pictures[8], shapeOf(40, 40, 1, raster.Int16))
		file, err := Encode(img, EncodeOptions{})
		if err != nil || binary.LittleEndian.Uint16(file[headerBytes:]) != sectionRankMap {
			t.Fatal("no rank map", err)
		}
		file[headerBytes] = sectionHole
		_, err = readBoth(t, repair(file), make([]byte, len(img.Pix)))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "a hole value in the fast 16-bit coding") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a transform beside a hole value", func(t *testing.T) {
		img := depthPicture(shapeOf(60, 60, 3, raster.Uint16), 0)
		file := dense16File(t, img, choice16{logEdge: minLogEdge, logStreams: 3, own: true, hole: 0}, EncodeOptions{})
		file[binary.LittleEndian.Uint32(file[atHeadBytes:])] = 0
		_, err := readBoth(t, repair(file), make([]byte, len(img.Pix)))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "transform 0 of an image with a hole value") {
			t.Errorf("%v", err)
		}
	})
}

// TestDense16Damage cuts a small file off at each byte, and flips each of its bits,
// with checksums that agree with the damage and with such that do not.
func TestDense16Damage(t *testing.T) {
	file, img := dense16Small(t)
	pix := make([]byte, len(img.Pix))
	for n := range file {
		if _, err := readBoth(t, file[:n], pix); err == nil {
			t.Fatalf("decoded %d of %d bytes", n, len(file))
		}
	}
	for bit := range len(file) * 8 {
		bad := bytes.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := readBoth(t, bad, pix); err == nil {
			t.Fatalf("bit %d of byte %d changes nothing", bit%8, bit/8)
		}
		if _, err := readBoth(t, repair(bad), pix); err == nil && !bytes.Equal(pix, img.Pix) {
			t.Fatalf("bit %d of byte %d: other samples without an error", bit%8, bit/8)
		}
	}
}

// A form16 is what the patches of a random file have in common.
type form16 struct {
	logEdge, logStreams, hole int
	section                   []byte // of tables, nil for those built in
}

func randomForm16(rng *rand.Rand) form16 {
	f := form16{logEdge: minLogEdge + rng.IntN(2), logStreams: 3 + rng.IntN(3), hole: noHole}
	if rng.IntN(4) == 0 {
		f.logStreams = rng.IntN(3)
	}
	shape := &dense16Shape
	if rng.IntN(2) == 0 {
		shape, f.hole = &dense16HoleShape, rng.IntN(1<<16)
	}
	if rng.IntN(3) > 0 {
		f.section = randomTableSection(rng, shape)
	}
	return f
}

func (f form16) tables() *slowTables {
	number := 0
	if f.section != nil {
		number = tableSetOwn
	}
	return slowDense16Tables(number, f.section, f.hole)
}

// randomPatches returns patches for a whole image.
func (f form16) randomPatches(rng *rand.Rand, s raster.Shape) [][]byte {
	g, tables := newGrid(s, f.logEdge), f.tables()
	patches := make([][]byte, g.patches())
	for k := range patches {
		patches[k] = randomDense16Patch(rng, g.region(k), s.Channels, f.logStreams, f.hole, tables)
	}
	return patches
}

// file returns a file of coded patches whose checksums agree with them, but for
// that of the samples. Their lengths are multiples of 4.
func (f form16) file(t testing.TB, s raster.Shape, patches [][]byte) []byte {
	t.Helper()
	d := &draft{coding: Dense16, logEdge: f.logEdge, logStreams: f.logStreams}
	if f.section != nil {
		d.tableSet = tableSetOwn
		d.sections = appendSection(nil, sectionTables, sectionCritical, f.section)
	}
	if f.hole != noHole {
		d.sections = appendSection(d.sections, sectionHole, sectionCritical, []byte{byte(f.hole), byte(f.hole >> 8)})
	}
	return assembleCoded(t, d, s, patches)
}

// TestDense16BackendsOnJunk decodes patches of junk: random bytes, and good patches
// cut off, prolonged or changed.
func TestDense16BackendsOnJunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 25))
	outcomes := make(map[bool]int) // by whether all patches were decoded
	for i := range 300 {
		s := shapeOf(1+rng.IntN(40), 1+rng.IntN(130), 1+i%4, types16[i/4%2])
		f := randomForm16(rng)
		patches := f.randomPatches(rng, s)
		for k := range patches {
			patches[k] = junk(rng, patches[k], i/4%6)
		}
		_, err := decodeEach(t, make([]byte, s.Bytes()), f.file(t, s, patches), DefaultLimits)
		checkOneKind(t, err)
		outcomes[strings.Contains(err.Error(), "checksum of the samples")]++
	}
	if outcomes[true] < 20 || outcomes[false] < 20 {
		t.Errorf("the junk is too much alike: %v", outcomes)
	}
}

// TestDense16SIMDTakesPatches checks that it is vector code that is held to the
// plain decoder.
func TestDense16SIMDTakesPatches(t *testing.T) {
	needSIMD(t)
	for channels := 1; channels <= 4; channels++ {
		for _, size := range [][2]int{{64, 64}, {130, 150}, {3, 7}, {1, 1}, {128, 129}} {
			for hole := noHole; hole <= 0; hole++ {
				img := depthPicture(shapeOf(size[0], size[1], channels, raster.Uint16), 0)
				file := dense16File(t, img, choice16{logEdge: maxLogEdge, logStreams: 4, hole: hole}, EncodeOptions{})
				if taken, coded := vectorPatches16(t, img, file); taken != coded || coded == 0 && size[0] > 3 {
					t.Errorf("%v, hole %d: vector code took %d of %d patches", img.Shape, hole, taken, coded)
				}
			}
		}
	}
}

// vectorPatches16 decodes the coded patches of a file by vector code alone and
// returns how many it took and how many there are.
func vectorPatches16(t testing.TB, img raster.Image, file []byte) (taken, coded int) {
	t.Helper()
	h, err := parseHeader(file, int64(len(file)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	var d dense16Decoder
	if err := d.reset(&h, sectionsOf(t, file)); err != nil {
		t.Fatal(err)
	}
	pix := make([]byte, len(img.Pix))
	g, table, at := newGrid(h.shape, h.logEdge), h.table(file[:h.headBytes]), int(h.headBytes)
	to := avx2.Image{Pix: pix, RowBytes: h.shape.RowBytes(), Channels: h.shape.Channels}
	for i := range g.patches() {
		e, r := parseEntry(table, i), g.region(i)
		if e.kind == kindCoded {
			coded++
			run := []avx2.Patch{{
				Start: int64(at), End: int64(at + e.length), At: int64(r.start(0, h.shape)),
				Width: int32(r.width), Height: int32(r.height), Checksum: e.crc,
			}}
			n := d.decodeRun(to, file, run)
			taken += n
			for y := 0; n == 1 && y < r.height; y++ {
				if !bytes.Equal(r.row(pix, y, h.shape), r.row(img.Pix, y, h.shape)) {
					t.Fatalf("%v: patch %d, row %d differs", img.Shape, i, y)
				}
			}
		}
		at += e.length
	}
	return taken, coded
}

// TestDense16Allocations decodes without allocating.
func TestDense16Allocations(t *testing.T) {
	file, img := dense16Small(t)
	small := checkRoundTrip(t, draw(pictures[3], shapeOf(32, 32, 1, raster.Uint16)), EncodeOptions{Mode: ModeDense})
	pix := make([]byte, max(len(img.Pix), 32*32*2))
	for _, d := range eachBackend(DefaultLimits) {
		n := testing.AllocsPerRun(20, func() {
			if _, err := d.Decode(pix[:len(img.Pix)], file); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Decode(pix[:32*32*2], small); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations", d.Backend(), n)
		}
	}
}

// TestDense16Sizes keeps files from growing. The limits are shares of the PNG
// sizes that Pillow's default level gives.
func TestDense16Sizes(t *testing.T) {
	sizes := map[string]int64{"depth_0.png": 82_640, "depth_1.png": 83_325}
	for name, img := range loadFolder(t, "data/deep16") {
		png, known := sizes[name]
		if !known {
			continue
		}
		delete(sizes, name)
		file, err := Encode(img, EncodeOptions{Mode: ModeDense, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		share := float64(len(file)) / float64(png)
		t.Logf("%s: %d bytes, %.3f of PNG", name, len(file), share)
		if share > 0.54 {
			t.Errorf("%s: %.3f of PNG", name, share)
		}
	}
	if len(sizes) != 0 {
		t.Errorf("not found: %v", sizes)
	}
}

// addGoldenDense16 adds files of the dense coding of 16 bits.
func addGoldenDense16(t testing.TB, files map[string][]byte) {
	rng := rand.New(rand.NewPCG(2, 16))
	photo, sparse := pictures[3], pictures[8]
	for channels := 1; channels <= 4; channels++ {
		img := draw(photo, shapeOf(40, 67, channels, types16[channels%2]))
		files[fmt.Sprintf("dense16-%d.l3", channels)] = checkRoundTrip(t, img, EncodeOptions{Mode: ModeDense})
		for edge := minLogEdge; edge <= maxLogEdge; edge++ {
			name := fmt.Sprintf("any-dense16-%d-edge%d.l3", channels, 1<<edge)
			files[name], _ = randomDense16File(t, rng, shapeOf(13, 50*edge-200+channels, channels, types16[edge%2]), edge)
		}
	}
	files["dense16-depth.l3"] = checkRoundTrip(t, depthPicture(shapeOf(90, 150, 1, raster.Uint16), 0), EncodeOptions{Mode: ModeDense})
	files["dense16-depth-small.l3"] = checkRoundTrip(t, depthPicture(shapeOf(32, 32, 1, raster.Uint16), 0), EncodeOptions{Mode: ModeDense})
	files["dense16-holes-3.l3"] = dense16File(t, depthPicture(shapeOf(20, 33, 3, raster.Int16), 7),
		choice16{logEdge: minLogEdge, logStreams: 2, hole: 7}, EncodeOptions{})
	files["dense16-ranks-signed.l3"] = checkRoundTrip(t, draw(sparse, shapeOf(50, 60, 1, raster.Int16)), EncodeOptions{Mode: ModeDense})
}

// FuzzDense16FastPathEqualsPlain decodes patches of any bytes in images of any small
// size.
func FuzzDense16FastPathEqualsPlain(f *testing.F) {
	rng := rand.New(rand.NewPCG(16, 30))
	for i := range 30 {
		form := randomForm16(rand.New(rand.NewPCG(uint64(i), 16)))
		r := region{width: 1 + i*7%128, height: 1 + i*3%12}
		patch := randomDense16Patch(rng, r, 1+i%4, form.logStreams, form.hole, form.tables())
		f.Add(uint8(r.height), uint8(r.width), uint8(i%4), uint8(i), patch)
	}
	addGoldenPatches(f, "dense16*.l3")
	f.Fuzz(func(t *testing.T, height, width, channels, seed uint8, data []byte) {
		s := shapeOf(1+int(height-1)%140, 1+int(width-1)%140, 1+int(channels)%4, types16[seed%2])
		form := randomForm16(rand.New(rand.NewPCG(uint64(seed), 16)))
		patches := splitPatches(data, newGrid(s, form.logEdge).patches())
		file := form.file(t, s, patches)
		pix := make([]byte, s.Bytes())
		if _, err := decodeEach(t, pix, file, fuzzLimits); err != nil {
			checkOneKind(t, err)
		}
		if _, err := decodeEach(t, pix, repairSamples(file, pix), fuzzLimits); err != nil {
			checkOneKind(t, err)
		}
	})
}
