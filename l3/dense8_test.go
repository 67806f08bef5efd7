package l3

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prismfs/raster"
)

func TestDense8RoundTripSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for i := range 260 {
		s := shapeOf(1+rng.IntN(130), 1+i%130, 1+rng.IntN(4), raster.Uint8)
		img := draw(pictures[i%len(pictures)], s)
		opt := EncodeOptions{Mode: ModeDense, Effort: i % 4, Workers: i % 3}
		checkGrowth(t, s, len(checkRoundTrip(t, img, opt)))
	}
}

func TestDense8RoundTripProperty(t *testing.T) {
	decoder := NewDecoder(Limits{}, WithoutSIMD()) // one for all: nothing of an image may show in the next
	rapid.Check(t, func(t *rapid.T) {
		img := drawImage(t)
		if img.DType != raster.Uint8 {
			t.Skip("not of 8 bits")
		}
		file, err := Encode(img, EncodeOptions{Mode: ModeDense, Effort: rapid.IntRange(1, MaxEffort).Draw(t, "effort")})
		if err != nil {
			t.Fatal(err)
		}
		pix := make([]byte, len(img.Pix))
		if _, err := decoder.Decode(pix, file); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pix, img.Pix) {
			t.Fatalf("%v came back with other samples, first at %d", img.Shape, firstDifference(pix, img.Pix))
		}
	})
}

// TestDense8Choices encodes with every number of streams, both edges and both
// kinds of tables, which the encoder would choose by the image's size.
func TestDense8Choices(t *testing.T) {
	for i, p := range pictures {
		for logStreams := range maxLogStreams + 1 {
			s := shapeOf(20+13*i, 131-logStreams, 1+(i+logStreams)%4, raster.Uint8)
			img := draw(p, s)
			for _, own := range []bool{false, true} {
				file := dense8File(t, img, minLogEdge+logStreams%2, logStreams, own, EncodeOptions{})
				if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
					t.Fatalf("%s, %v, 2^%d streams, own tables %v: samples differ", p.name, s, logStreams, own)
				}
			}
		}
	}
}

func TestDense8WorkersWriteTheSameFile(t *testing.T) {
	img := draw(pictures[3], shapeOf(200, 260, 3, raster.Uint8))
	for effort := 1; effort <= MaxEffort; effort++ {
		opt := EncodeOptions{Mode: ModeDense, Effort: effort}
		want := checkRoundTrip(t, img, opt)
		for _, workers := range []int{2, 9} {
			opt.Workers = workers
			if got := checkRoundTrip(t, img, opt); !bytes.Equal(got, want) {
				t.Errorf("effort %d: %d workers write another file", effort, workers)
			}
		}
	}
}

// TestDense8Compression keeps the sizes of the figures in docs/format-l3.md, and
// checks that more effort makes a photograph smaller.
func TestDense8Compression(t *testing.T) {
	var raw, coded int64
	photographs := loadFolder(t, "data/kodak")
	encode := func(img raster.Image, opt EncodeOptions) int {
		opt.Workers = 2
		file, err := Encode(img, opt)
		if err != nil {
			t.Fatal(err)
		}
		return len(file)
	}
	for _, img := range photographs {
		raw, coded = raw+img.Bytes(), coded+int64(encode(img, EncodeOptions{Mode: ModeDense, Effort: 1}))
	}
	share := float64(coded) / float64(raw)
	t.Logf("%d bytes of %d, %.4f", coded, raw, share)
	if share > 0.392 {
		t.Errorf("%.4f of the samples", share)
	}
	img := photographs["kodim01.png"]
	last := encode(img, EncodeOptions{})
	for effort := 1; effort <= MaxEffort; effort++ {
		size := encode(img, EncodeOptions{Mode: ModeDense, Effort: effort})
		if size >= last {
			t.Errorf("effort %d makes %d bytes, what is less effort %d", effort, size, last)
		}
		last = size
	}
}

// TestAutoTakesTheSmallest encodes pictures of which each coding is the best one.
func TestAutoTakesTheSmallest(t *testing.T) {
	for _, test := range []struct {
		picture int
		shape   raster.Shape
		want    []Coding
	}{
		{3, shapeOf(100, 100, 3, raster.Uint8), []Coding{Dense8}},
		{4, shapeOf(100, 100, 3, raster.Uint8), []Coding{Raw}},
		{0, shapeOf(100, 100, 3, raster.Uint8), []Coding{Fast8}}, // constant: as large as dense
	} {
		img := draw(pictures[test.picture], test.shape)
		file := checkRoundTrip(t, img, EncodeOptions{Mode: ModeAuto})
		info, _ := mustDecode(t, file)
		if info.Coding != test.want[0] {
			t.Errorf("%s: %v coding, want %v", pictures[test.picture].name, info.Coding, test.want)
		}
	}
}

// dense8PatchFile returns a file of patches of any bytes, as patchFile does.
func dense8PatchFile(t testing.TB, s raster.Shape, logEdge, logStreams int, section []byte, patches [][]byte) []byte {
	t.Helper()
	f := &draft{coding: Dense8, logEdge: logEdge, logStreams: logStreams}
	if section != nil {
		f.tableSet = tableSetOwn
		f.sections = appendSection(nil, sectionTables, sectionCritical, section)
	}
	return assembleCoded(t, f, s, patches)
}

// TestDense8LyingPatches damages a patch of 20×10 pixels of RGB, in 8 streams.
func TestDense8LyingPatches(t *testing.T) {
	s := shapeOf(10, 20, 3, raster.Uint8)
	tables := slowDense8Tables(0, nil)
	rng := rand.New(rand.NewPCG(61, 62))
	patch := func() []byte {
		b := make([]byte, 4096)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0], b[1] = 5, 0
		_, end := slowDense8Patch(b, 20, 10, 3, 3, tables)
		return appendPadding(b[:end], 0)
	}
	put := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	for _, test := range []struct {
		name   string
		change func([]byte) []byte
		says   string // nothing: the samples are other ones, but there is no contradiction
	}{
		{"as it is", func(b []byte) []byte { return b }, ""},
		{"empty", func(b []byte) []byte { return nil }, "0 bytes are too few for its head"},
		{"4 bytes", func(b []byte) []byte { return b[:4] }, "4 bytes are too few for its head"},
		{"half its states", func(b []byte) []byte { return b[:20] }, "14 bytes are too few for 8 states"},
		{"no words", func(b []byte) []byte { return b[:40] }, "words run out before row 0"},
		{"few words", func(b []byte) []byte { return b[:len(b)-40] }, "words run out"},
		{"four bytes less", func(b []byte) []byte { return b[:len(b)-4] }, "words run out"},
		{"four bytes more", func(b []byte) []byte { return append(b, 0, 0, 0, 0) }, "bytes follow the last word"},
		{"transform 32", put(0, 32), "transform 32 of 3 channels"},
		{"constant alpha", put(1, 8), "constant planes 0x8 of 3 channels"},
		{"all constant", put(1, 7), "bytes for constant planes"},
		{"all constant, short", func(b []byte) []byte { b[1] = 7; return b[:8] }, ""},
		{"all constant, too short", func(b []byte) []byte { b[1] = 7; return b[:4] }, "4 bytes are too few for its head"},
		{"all constant, and a row", func(b []byte) []byte { b[1] = 0x17; return b[:8] }, "1 of 0 plane rows"},
		{"byte for an even offset", put(5, 77), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := dense8PatchFile(t, s, minLogEdge, 3, nil, [][]byte{test.change(patch())})
			pix := make([]byte, s.Bytes())
			_, err := decodeEach(t, pix, file, DefaultLimits)
			checkOneKind(t, err)
			says := test.says
			if says == "" {
				says = "checksum of the samples"
			}
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want one that says %q", err, says)
			}
		})
	}
	t.Run("free rows", func(t *testing.T) {
		low := shapeOf(1, 20, 3, raster.Uint8)
		b := patch()
		b[1] = 4 << 4
		_, err := decodeEach(t, make([]byte, low.Bytes()), dense8PatchFile(t, low, minLogEdge, 3, nil, [][]byte{b}), DefaultLimits)
		if err == nil || !strings.Contains(err.Error(), "4 of 3 plane rows") {
			t.Error(err)
		}
	})
}

func TestDense8LyingHeads(t *testing.T) {
	img := draw(pictures[3], shapeOf(20, 30, 3, raster.Uint8))
	builtin := dense8File(t, img, minLogEdge, 3, false, EncodeOptions{})
	own := dense8File(t, img, minLogEdge, 3, true, EncodeOptions{})
	for _, test := range []struct {
		name string
		file []byte
		at   int
		v    byte
		want error
		says string
	}{
		{"set 1", builtin, atTableSet, 1, ErrUnsupported, "built-in table set 1"},
		{"set 254", builtin, atTableSet, 254, ErrUnsupported, "built-in table set 254"},
		{"own set without tables", builtin, atTableSet, tableSetOwn, ErrCorrupt, "entropy tables false, table set 255"},
		{"tables and a built-in set", own, atTableSet, 0, ErrCorrupt, "entropy tables true, table set 0"},
		{"64 streams", builtin, atLogStreams, 6, ErrUnsupported, "2^6 entropy coder streams"},
		{"edge 32", builtin, atLogEdge, 5, ErrUnsupported, "patch edge of 2^5"},
		{"edge 256", builtin, atLogEdge, 8, ErrUnsupported, "patch edge of 2^8"},
		{"16 bits", builtin, atStoredBits, 16, ErrCorrupt, "dense 8-bit coding of uint16"},
		{"reserved", builtin, atReserved, 1, ErrCorrupt, "not 0"},
		{"tables", own, headerBytes + sectionHeaderBytes, 0, ErrCorrupt, "entropy tables: none"},
		{"tables in the fast coding", own, atCoding, byte(Fast8), ErrCorrupt, "not 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := bytes.Clone(test.file)
			file[test.at] = test.v
			_, err := decodeEach(t, make([]byte, len(img.Pix)), repair(file), DefaultLimits)
			checkOneKind(t, err)
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v\nwant %v, saying %q", err, test.want, test.says)
			}
		})
	}
	t.Run("tables beside a fast coding", func(t *testing.T) {
		file := bytes.Clone(own)
		file[atCoding], file[atTableSet], file[atLogStreams] = byte(Fast8), 0, 0
		_, err := decodeEach(t, make([]byte, len(img.Pix)), repair(file), DefaultLimits)
		if err == nil || !strings.Contains(err.Error(), "entropy tables in the fast 8-bit coding") {
			t.Error(err)
		}
	})
}

// TestDense8OnJunk decodes patches of junk: errors are of one kind, and all
// decoders have the same.
func TestDense8OnJunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 64))
	outcomes := make(map[bool]int)
	for i := range 120 {
		s := shapeOf(1+rng.IntN(130), 1+rng.IntN(130), 1+i%4, raster.Uint8)
		logEdge, logStreams := minLogEdge+i/4%2, rng.IntN(maxLogStreams+1)
		section := randomTableSection(rng, &dense8Shape)
		tables := slowDense8Tables(tableSetOwn, section)
		g := newGrid(s, logEdge)
		patches := make([][]byte, g.patches())
		for k := range patches {
			patches[k] = junk(rng, randomDense8Patch(rng, g.region(k), s.Channels, logStreams, tables), i/8%6)
		}
		file := dense8PatchFile(t, s, logEdge, logStreams, section, patches)
		_, err := decodeEach(t, make([]byte, s.Bytes()), file, DefaultLimits)
		checkOneKind(t, err)
		outcomes[strings.Contains(err.Error(), "checksum of the samples")]++
	}
	if outcomes[true] < 15 || outcomes[false] < 15 {
		t.Errorf("the junk is too much alike: %v", outcomes)
	}
}

// patchKind is what FuzzDense8Patch has of a file's form, in a byte.
type patchKind uint8

func (k patchKind) channels() int   { return 1 + int(k)%4 }
func (k patchKind) logStreams() int { return int(k>>2) % (maxLogStreams + 1) }
func (k patchKind) logEdge() int    { return minLogEdge + int(k>>7) }

// patchKindOf returns the kind of a form.
func patchKindOf(f testing.TB, channels, logStreams, logEdge int) uint8 {
	for k := range patchKind(1 << 7) {
		k |= patchKind(logEdge-minLogEdge) << 7
		if k.channels() == channels && k.logStreams() == logStreams && k.logEdge() == logEdge {
			return uint8(k)
		}
	}
	f.Fatalf("%d channels, %d streams, edge 2^%d: no kind", channels, 1<<logStreams, logEdge)
	return 0
}

// FuzzDense8Patch decodes patches of any bytes, with tables of any bytes, in
// images of any small size, by every backend and by the specification.
func FuzzDense8Patch(f *testing.F) {
	rng := rand.New(rand.NewPCG(65, 66))
	builtin := slowDense8Tables(0, nil)
	for i := range 24 {
		r := region{width: 1 + i*5%64, height: 1 + i*3%20}
		section, tables := []byte(nil), builtin
		if i%2 != 0 {
			section = randomTableSection(rng, &dense8Shape)
			tables = slowDense8Tables(tableSetOwn, section)
		}
		kind := uint8(i%4 | i%6<<2)
		f.Add(uint8(r.height), uint8(r.width), kind, section, randomDense8Patch(rng, r, 1+i%4, int(kind>>2)%6, tables))
	}
	for i := range 40 { // several patches
		s := shapeOf(1+i*3%20, 1+i*5%130, 1+i%4, raster.Uint8)
		form := randomForm(rng)
		var section []byte
		if form.tables != nil {
			section = form.tables.appendTo(nil)
		}
		patches := bytes.Join(randomDensePatches(f, rng, form, s), nil)
		f.Add(uint8(s.Height), uint8(s.Width), patchKindOf(f, s.Channels, form.logStreams, form.logEdge), section, patches)
	}
	golden, err := filepath.Glob(filepath.Join(goldenFolder, "*dense8*.l3"))
	if err != nil || len(golden) == 0 {
		f.Fatalf("golden files: %q, %v", golden, err)
	}
	for _, path := range golden {
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		kind := patchKindOf(f, int(file[atChannels]), int(file[atLogStreams]), int(file[atLogEdge]))
		f.Add(file[atHeight], file[atWidth], kind, []byte{}, file[binary.LittleEndian.Uint32(file[atHeadBytes:]):])
	}
	f.Fuzz(func(t *testing.T, height, width, kind uint8, section, data []byte) {
		k := patchKind(kind)
		s := shapeOf(1+int(height-1)%140, 1+int(width-1)%140, k.channels(), raster.Uint8)
		logStreams, logEdge := k.logStreams(), k.logEdge()
		if len(section) == 0 || len(section) > maxTablesBytes {
			section = nil
		}
		patches := splitPatches(data, newGrid(s, logEdge).patches())
		file := dense8PatchFile(t, s, logEdge, logStreams, section, patches)
		pix := make([]byte, s.Bytes())
		if _, err := decodeEach(t, pix, file, fuzzLimits); err != nil {
			checkOneKind(t, err)
		}
		file = repairSamples(file, pix)
		if _, err := decodeEach(t, pix, file, fuzzLimits); err != nil {
			checkOneKind(t, err)
		} else if want := slowDecode(file); !bytes.Equal(pix, want) {
			t.Errorf("%v: the specification gives other samples, first at %d", s, firstDifference(pix, want))
		}
	})
}

// TestDense8AllEscapes has the largest residuals everywhere, so that every symbol
// has six raw bits.
func TestDense8AllEscapes(t *testing.T) {
	for _, size := range [][2]int{{64, 64}, {65, 63}, {128, 128}} {
		img := raster.Image{Shape: shapeOf(size[0], size[1], 3, raster.Uint8)}
		rng := rand.New(rand.NewPCG(67, 68))
		for len(img.Pix) < int(img.Shape.Bytes()) {
			img.Pix = append(img.Pix, byte(64+64*rng.IntN(3)+rng.IntN(4)))
		}
		for _, own := range []bool{false, true} {
			file := dense8File(t, img, minLogEdge, maxLogStreams, own, EncodeOptions{})
			if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
				t.Errorf("%v, own tables %v: samples differ", img.Shape, own)
			}
		}
	}
}

// TestDense8SavesFinalWords checks that an encoder lets the last rows of a patch do
// without words.
func TestDense8SavesFinalWords(t *testing.T) {
	img := draw(pictures[3], shapeOf(64, 64, 3, raster.Uint8))
	file := dense8File(t, img, minLogEdge, maxLogStreams, true, EncodeOptions{})
	patch := file[binary.LittleEndian.Uint32(file[atHeadBytes:]):]
	if free := patch[1] >> 4; free == 0 {
		t.Error("every row renormalises")
	}
}
