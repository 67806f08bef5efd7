package l3

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prismfs/internal/imagefile"
	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// A labelPicture makes a label map.
type labelPicture struct {
	name  string
	label func(rng *rand.Rand, s raster.Shape) func(y, x int) int
}

// labelPictures are maps of all kinds, the last of which are none.
var labelPictures = []labelPicture{
	{"constant", func(*rand.Rand, raster.Shape) func(y, x int) int { return func(int, int) int { return 7 } }},
	{"regions", func(rng *rand.Rand, s raster.Shape) func(y, x int) int { return nearestOf(rng, s, 30, 30) }},
	{"all labels", func(rng *rand.Rand, s raster.Shape) func(y, x int) int { return nearestOf(rng, s, 400, 256) }},
	{"borders", func(rng *rand.Rand, s raster.Shape) func(y, x int) int {
		region := nearestOf(rng, s, 8, 21)
		return func(y, x int) int {
			for d := range 3 {
				if region(y, x) != region(y+d, x) || region(y, x) != region(y, x+d) {
					return 255
				}
			}
			return region(y, x)
		}
	}},
	{"lines", func(_ *rand.Rand, _ raster.Shape) func(y, x int) int {
		return func(y, x int) int {
			if (x+2*y)%37 == 0 || y%61 == 5 {
				return 255
			}
			return x / 50
		}
	}},
	{"specks", func(rng *rand.Rand, s raster.Shape) func(y, x int) int {
		region := nearestOf(rng, s, 5, 5)
		return func(y, x int) int {
			if rng.IntN(300) == 0 {
				return rng.IntN(256)
			}
			return region(y, x)
		}
	}},
	{"checks", func(*rand.Rand, raster.Shape) func(y, x int) int { return func(y, x int) int { return (x + y) & 1 } }},
	{"columns", func(*rand.Rand, raster.Shape) func(y, x int) int { return func(_, x int) int { return x & 255 } }},
	{"two-valued noise", func(rng *rand.Rand, _ raster.Shape) func(y, x int) int {
		return func(int, int) int { return rng.IntN(2) }
	}},
	{"noise", func(rng *rand.Rand, _ raster.Shape) func(y, x int) int {
		return func(int, int) int { return rng.IntN(256) }
	}},
}

// nearestOf returns a map of the cells of points.
func nearestOf(rng *rand.Rand, s raster.Shape, points, labels int) func(y, x int) int {
	type point struct{ y, x, label int }
	ps := make([]point, points)
	for i := range ps {
		ps[i] = point{rng.IntN(s.Height), rng.IntN(s.Width), rng.IntN(labels)}
	}
	return func(y, x int) int {
		best, least := 0, 1<<60
		for _, p := range ps {
			if d := (p.y-y)*(p.y-y) + (p.x-x)*(p.x-x); d < least {
				best, least = p.label, d
			}
		}
		return best
	}
}

func (p labelPicture) draw(s raster.Shape) raster.Image {
	rng := rand.New(rand.NewPCG(uint64(s.Width), uint64(s.Height)))
	label := p.label(rng, s)
	img := raster.Image{Shape: s, Pix: make([]byte, 0, s.Bytes())}
	for y := range s.Height {
		for x := range s.Width {
			img.Pix = append(img.Pix, byte(label(y, x)))
		}
	}
	return img
}

// labelsFile encodes with an edge and a number of lanes.
func labelsFile(t testing.TB, img raster.Image, f labelForm, effort int) []byte {
	t.Helper()
	d := labelsDraftEdge(img, f.logEdge, f.logStreams, EncodeOptions{Effort: effort})
	file, err := d.assemble(img, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
		t.Fatalf("%v: samples differ, first at %d", img.Shape, firstDifference(pix, img.Pix))
	}
	return file
}

// TestLabelsRoundTripSizes encodes maps of 1 to 300 pixels a side.
func TestLabelsRoundTripSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 64))
	for i := range 300 {
		s := shapeOf(1+rng.IntN(60), 1+i, 1, raster.Uint8)
		if i%2 == 0 {
			s.Height, s.Width = s.Width, s.Height
		}
		p := labelPictures[rng.IntN(len(labelPictures))]
		f := labelForm{logEdge: minLabelsLogEdge + rng.IntN(3), logStreams: rng.IntN(maxLogStreams + 1)}
		labelsFile(t, p.draw(s), f, 1+i%MaxEffort)
	}
	for i := range 8 {
		checkRoundTrip(t, labelPictures[i].draw(shapeOf(257+i, 513-i, 1, raster.Uint8)), EncodeOptions{Mode: ModeLabels})
	}
}

// TestLabelsWorkers checks that the number of workers does not change a file.
func TestLabelsWorkers(t *testing.T) {
	for _, p := range labelPictures[1:6] {
		img := p.draw(shapeOf(300, 520, 1, raster.Uint8))
		for effort := 1; effort <= MaxEffort; effort++ {
			opt := EncodeOptions{Mode: ModeLabels, Effort: effort}
			one := checkRoundTrip(t, img, opt)
			opt.Workers = 3
			if !bytes.Equal(checkRoundTrip(t, img, opt), one) {
				t.Errorf("%s, effort %d: three workers make another file", p.name, effort)
			}
		}
	}
}

// TestLabelsChoices checks what is chosen for kinds of images.
func TestLabelsChoices(t *testing.T) {
	s := shapeOf(200, 300, 1, raster.Uint8)
	for _, test := range []struct {
		picture string
		mode    Mode
		want    Coding
	}{
		{"noise", ModeLabels, Raw},
		{"regions", ModeLabels, Labels},
		{"regions", ModeAuto, Labels},
		{"borders", ModeAuto, Labels},
		{"all labels", ModeLabels, Labels},
	} {
		for _, p := range labelPictures {
			if p.name != test.picture {
				continue
			}
			file := checkRoundTrip(t, p.draw(s), EncodeOptions{Mode: test.mode})
			if info, _ := mustDecode(t, file); info.Coding != test.want {
				t.Errorf("%s, mode %d: %v coding, want %v", p.name, test.mode, info.Coding, test.want)
			}
		}
	}
	for _, shape := range []raster.Shape{shapeOf(3, 3, 3, raster.Uint8), shapeOf(3, 3, 1, raster.Uint16)} {
		if _, err := Encode(raster.Image{Shape: shape, Pix: make([]byte, shape.Bytes())}, EncodeOptions{Mode: ModeLabels}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("labels of %v: %v", shape, err)
		}
	}
}

// TestLabelsEffort checks that more effort never makes a larger file.
func TestLabelsEffort(t *testing.T) {
	for _, p := range labelPictures {
		img := p.draw(shapeOf(400, 400, 1, raster.Uint8))
		last := 1 << 30
		for effort := 1; effort <= MaxEffort; effort++ {
			file := checkRoundTrip(t, img, EncodeOptions{Mode: ModeLabels, Effort: effort})
			if len(file) > last {
				t.Errorf("%s: effort %d makes %d bytes, less effort %d", p.name, effort, len(file), last)
			}
			last = len(file)
		}
	}
}

// TestLabelsCompression keeps label maps small.
func TestLabelsCompression(t *testing.T) {
	s := shapeOf(512, 512, 1, raster.Uint8)
	for _, test := range []struct {
		picture string
		most    int
	}{{"regions", 1090}, {"borders", 1080}, {"all labels", 4440}} {
		for _, p := range labelPictures {
			if p.name == test.picture {
				if n := len(checkRoundTrip(t, p.draw(s), EncodeOptions{Mode: ModeLabels})); n > test.most {
					t.Errorf("%s: %d bytes, at most %d were expected", p.name, n, test.most)
				}
			}
		}
	}
}

// TestLabelsOfPhotographs encodes what the labels coding is not for.
func TestLabelsOfPhotographs(t *testing.T) {
	folder := testfiles.Shared(t, "data/kodak")
	paths, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil || len(paths) == 0 {
		t.Fatal(err, len(paths))
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	photo, err := imagefile.Decode(data, imagefile.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	img := raster.Image{Shape: shapeOf(photo.Image.Height, photo.Image.Width, 1, raster.Uint8)}
	for i := 0; i < len(photo.Image.Pix); i += photo.Image.Channels {
		img.Pix = append(img.Pix, photo.Image.Pix[i])
	}
	if seemsLabels(img) {
		t.Error("a photograph seems to be a label map")
	}
	checkRoundTrip(t, img, EncodeOptions{Mode: ModeLabels})
}

func TestLabelsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shapeOf(rapid.IntRange(1, 40).Draw(t, "height"), rapid.IntRange(1, 40).Draw(t, "width"), 1, raster.Uint8)
		labels := rapid.IntRange(1, 256).Draw(t, "labels")
		runs := rapid.SliceOfN(rapid.IntRange(0, labels-1), 1, 60).Draw(t, "runs")
		img := raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}
		for i := range img.Pix {
			img.Pix[i] = byte(runs[i/7%len(runs)])
		}
		file, err := Encode(img, EncodeOptions{Mode: ModeLabels, Effort: rapid.IntRange(1, MaxEffort).Draw(t, "effort")})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range eachBackend(DefaultLimits) {
			pix := make([]byte, s.Bytes())
			if _, err := d.Decode(pix, file); err != nil || !bytes.Equal(pix, img.Pix) {
				t.Fatalf("%s: %v, or samples differ", d.Backend(), err)
			}
		}
	})
}

// TestLabelsSIMDTakesPatches checks that it is vector code that is held to the
// plain decoder.
func TestLabelsSIMDTakesPatches(t *testing.T) {
	needSIMD(t)
	for i, p := range labelPictures[1:7] {
		img := p.draw(shapeOf(3+i*90, 1+i*100, 1, raster.Uint8))
		for logEdge := minLabelsLogEdge; logEdge <= maxLabelsLogEdge; logEdge++ {
			for logStreams := range maxLogStreams + 1 {
				file := labelsFile(t, img, labelForm{logEdge: logEdge, logStreams: logStreams}, 1)
				if taken, coded := vectorPatches(t, make([]byte, len(img.Pix)), file); taken != coded {
					t.Errorf("%s, edge 2^%d, 2^%d lanes: vector code took %d of %d patches", p.name, logEdge, logStreams, taken, coded)
				}
			}
		}
	}
}

// TestLabelsJunk decodes damaged and random patches with both decoders.
func TestLabelsJunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 66))
	outcomes := make(map[bool]int)
	for i := range 1200 {
		s := shapeOf(1+rng.IntN(90), 1+rng.IntN(90), 1, raster.Uint8)
		f := randomLabelForm(rng)
		patches := randomLabelsPatches(t, rng, f, s)
		for k := range patches {
			patches[k] = junk(rng, bytes.Clone(patches[k]), i%6)
		}
		_, err := decodeRepaired(t, f.file(t, s, patches), s, DefaultLimits)
		if err != nil {
			checkOneKind(t, err)
		}
		outcomes[err == nil]++
	}
	if outcomes[true] < 100 || outcomes[false] < 100 {
		t.Errorf("the junk is too much alike: %v", outcomes)
	}
}

// TestLabelsErrors damages a patch in chosen places.
func TestLabelsErrors(t *testing.T) {
	s := shapeOf(5, 9, 1, raster.Uint8)
	// One lane; the state says token 0 as often as it is asked.
	patch := func(exceptions ...byte) []byte {
		b := []byte{byte(len(exceptions) / exceptionBytes), 0, 3}
		b = append(b, exceptions...)
		if len(b)%2 != 0 {
			b = append(b, 0)
		}
		b = append(b, 0, 0, 1, 0)
		return append(b, make([]byte, 2*64+padded(len(b))-len(b))...)
	}
	tests := []struct {
		name  string
		patch []byte
		says  string
	}{
		{"empty", nil, "too few for its head"},
		{"no states", []byte{0, 0, 3, 0}, "too few for 0 exceptions and 1 states"},
		{"exceptions beyond the end", []byte{255, 255, 3, 0, 0, 0, 1, 0}, "too few for 65535 exceptions"},
		{"too many words", patch(), "bytes follow the last pixel"},
		{"too few words", []byte{0, 0, 3, 0, 0, 0, 0, 0}, "too few words"},
		{"first pixel", patch(0, 0, 9), "the first pixel is an exception"},
		{"beyond the right edge", patch(0, 9, 9), "row 0, column 9 is an exception beyond the patch"},
		{"beyond the lower edge", patch(5, 0, 9), "row 5, column 0 is an exception beyond the patch"},
		{"not in order", patch(1, 1, 9, 2, 2, 9), "row 2, column 2 is an exception of an earlier phase"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := labelForm{logEdge: minLabelsLogEdge}
			_, err := decodeEach(t, make([]byte, s.Bytes()), f.file(t, s, [][]byte{test.patch}), DefaultLimits)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v\nwant it to say %q", err, test.says)
			}
		})
	}
}

// TestLabelTables reads sections of tables.
func TestLabelTables(t *testing.T) {
	flags := func(first byte) []byte { return []byte{first, 0, 0, 0, 0, 0} }
	table := func(bounds ...uint64) []byte {
		var w bitWriter
		for _, b := range bounds {
			w.put(b, labelSlotBits)
		}
		return w.finish()
	}
	section := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	tests := []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"nothing changed", section([]byte{0, 0}, flags(0)), nil, ""},
		{"one table", section([]byte{0, 0}, flags(4), table(1, 2, 3)), nil, ""},
		{"two tables", section([]byte{0, 1, 3, 200}, flags(3), table(1000, 2000, 3000, 4093, 4094, 4095)), nil, ""},
		{"one label", section([]byte{0, 1, 255, 255}, flags(0)), nil, ""},
		{"empty", nil, ErrCorrupt, "0 bytes"},
		{"other set", section([]byte{1, 0}, flags(0)), ErrUnsupported, "set 1"},
		{"no flags", []byte{0, 0}, ErrCorrupt, "break off"},
		{"short palette", []byte{0, 4, 1, 1}, ErrCorrupt, "palette breaks off"},
		{"palette backwards", section([]byte{0, 1, 5, 4}, flags(0)), ErrCorrupt, "labels 5 to 4"},
		{"palette not in order", section([]byte{0, 2, 5, 7, 7, 9}, flags(0)), ErrCorrupt, "labels 7 to 9 after label 7"},
		{"table missing", section([]byte{0, 0}, flags(1)), ErrCorrupt, "0 bytes of 1 label tables, not 5"},
		{"too long", section([]byte{0, 0}, flags(0), []byte{0}), ErrCorrupt, "1 bytes of 0 label tables"},
		{"no slot for token 0", section([]byte{0, 0}, flags(1), table(0, 2, 3)), ErrCorrupt, "bounds"},
		{"no slot for token 1", section([]byte{0, 0}, flags(1), table(2, 2, 3)), ErrCorrupt, "bounds"},
		{"bounds fall", section([]byte{0, 0}, flags(1), table(9, 8, 10)), ErrCorrupt, "bounds"},
		{"no slot for token 2", section([]byte{0, 0}, flags(1), table(2, 3, 3)), ErrCorrupt, "bounds"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := new(labelModel)
			err := m.parse(test.data)
			if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v, want %v, saying %q", err, test.want, test.says)
			}
		})
	}
	h := header{coding: Labels, tableSet: 7}
	if err := new(labelModel).reset(&h, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("built-in set 7: %v", err)
	}
}

// TestLabelRanks refuses a rank that the palette has not.
func TestLabelRanks(t *testing.T) {
	blocks := labelPicture{label: func(*rand.Rand, raster.Shape) func(y, x int) int {
		return func(y, x int) int { return (y/16*31 + x/16*17 + y/16*(x/16)*7) % 40 }
	}}
	img := blocks.draw(shapeOf(256, 256, 1, raster.Uint8))
	file := labelsFile(t, img, labelForm{logEdge: minLabelsLogEdge, logStreams: 2}, 2)
	h, err := parseHeader(file, int64(len(file)), DefaultLimits)
	if err != nil || h.tableSet != tableSetOwn {
		t.Fatalf("%v, table set %d", err, h.tableSet)
	}
	data := findSection(h.sections(file[:h.headBytes]), sectionTables)
	// A run becomes shorter by a label, so the last rank is too much.
	for run := data[2:][:2*data[1]]; len(run) > 0; run = run[2:] {
		if run[1] > run[0] {
			run[1]--
			break
		}
	}
	_, err = decodeEach(t, make([]byte, len(img.Pix)), repair(file), DefaultLimits)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "of a palette of") {
		t.Errorf("%v, want a label beyond the palette", err)
	}
}

// TestLabelsEdges refuses edges that label maps have not.
func TestLabelsEdges(t *testing.T) {
	img := labelPictures[1].draw(shapeOf(40, 40, 1, raster.Uint8))
	file := labelsFile(t, img, labelForm{logEdge: 6, logStreams: 2}, 1)
	for _, test := range []struct {
		at    int
		value byte
		want  error
	}{
		{atLogEdge, 5, ErrUnsupported}, {atLogEdge, 9, ErrUnsupported}, {atLogStreams, 6, ErrUnsupported},
		{atTableSet, 1, ErrUnsupported}, {atTableSet, 255, ErrCorrupt}, {atReserved, 1, ErrCorrupt},
	} {
		changed := bytes.Clone(file)
		changed[test.at] = test.value
		if _, err := readBoth(t, repair(changed), make([]byte, len(img.Pix))); !errors.Is(err, test.want) {
			t.Errorf("byte %d set to %d: %v, want %v", test.at, test.value, err, test.want)
		}
	}
}

// TestLabelsExample reads the worked example of the specification.
func TestLabelsExample(t *testing.T) {
	img := raster.Image{Shape: shapeOf(4, 6, 1, raster.Uint8), Pix: []byte(
		"\x01\x01\x01\x01\x02\x02" +
			"\x01\x01\x01\x02\x02\x02" +
			"\x01\x01\x05\x02\x02\x02" +
			"\x01\x01\x02\x02\x02\x02")}
	file := labelsFile(t, img, labelForm{logEdge: maxLabelsLogEdge}, 1)
	start := int(binary.LittleEndian.Uint32(file[atHeadBytes:]))
	if want := []byte("\x01\x00\x01\x00\x04\x02\xfd\x4f\x0d\x00\x05\xc1\x26\x0f\x00\x00"); !bytes.Equal(file[start:], want) {
		t.Errorf("the patch is % x, not % x", file[start:], want)
	}
}

// addGoldenLabels adds files of the labels coding.
func addGoldenLabels(t testing.TB, files map[string][]byte) {
	rng := rand.New(rand.NewPCG(2, 5))
	for i, p := range labelPictures[1:8] {
		img := p.draw(shapeOf(40+i, 67, 1, raster.Uint8))
		files[fmt.Sprintf("labels-%d.l3", i+1)] = checkRoundTrip(t, img, EncodeOptions{Mode: ModeLabels})
		f := randomLabelForm(rng)
		f.logEdge = minLabelsLogEdge + i%3
		files[fmt.Sprintf("any-labels-%d.l3", i+1)], _ = randomLabelsFile(t, rng, f, shapeOf(20+i*7, 90-i*13, 1, raster.Uint8))
	}
	files["labels-tables.l3"] = labelsFile(t, labelPictures[1].draw(shapeOf(270, 280, 1, raster.Uint8)), labelForm{logEdge: 7, logStreams: 3}, 2)
}

// FuzzLabels decodes patches of any bytes with both decoders.
func FuzzLabels(f *testing.F) {
	rng := rand.New(rand.NewPCG(67, 68))
	for range 20 {
		s := shapeOf(1+rng.IntN(64), 1+rng.IntN(64), 1, raster.Uint8)
		form := randomLabelForm(rng)
		f.Add(uint8(s.Height-1), uint8(s.Width-1), uint8(form.logStreams), form.section, randomLabelsPatches(f, rng, form, s)[0])
	}
	f.Fuzz(func(t *testing.T, height, width, logStreams uint8, section, patch []byte) {
		s := shapeOf(1+int(height), 1+int(width), 1, raster.Uint8)
		form := labelForm{logEdge: maxLabelsLogEdge, logStreams: int(logStreams) % (maxLogStreams + 1)}
		if len(section) > 0 {
			form.section = section
		}
		patch = append(patch, make([]byte, padded(len(patch))-len(patch))...)
		file := form.file(t, s, [][]byte{patch})
		pix, err := decodeRepaired(t, file, s, fuzzLimits)
		if err != nil {
			checkOneKind(t, err)
			return
		}
		checkSlowLabels(t, form, s, [][]byte{patch}, pix)
		img := raster.Image{Shape: s, Pix: pix}
		checkRoundTrip(t, img, EncodeOptions{Mode: ModeLabels, Effort: 1 + int(height)%MaxEffort})
	})
}
