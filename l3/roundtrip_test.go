package l3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prismfs/raster"
)

// mustDecode decodes a file that is good, with every backend.
func mustDecode(t testing.TB, file []byte) (Info, []byte) {
	t.Helper()
	info, err := ReadInfo(bytes.NewReader(file), int64(len(file)), DefaultLimits)
	if err != nil {
		t.Fatalf("ReadInfo: %v", err)
	}
	pix := bytes.Repeat([]byte{0xa5}, int(info.Shape.Bytes()))
	got, err := decodeEach(t, pix, file, DefaultLimits)
	if err != nil {
		t.Fatalf("Decode of %v, %v coding: %v", info.Shape, info.Coding, err)
	}
	plain := info
	plain.Meta = Metadata{}
	if diff := cmp.Diff(plain, got); diff != "" {
		t.Fatalf("Decode's Info is not ReadInfo's (-ReadInfo +Decode):\n%s", diff)
	}
	return info, pix
}

// checkRoundTrip encodes and decodes img and returns the file.
func checkRoundTrip(t testing.TB, img raster.Image, opt EncodeOptions) []byte {
	t.Helper()
	file, err := Encode(img, opt)
	if err != nil {
		t.Fatalf("Encode %v: %v", img.Shape, err)
	}
	info, pix := mustDecode(t, file)
	if info.Shape != img.Shape {
		t.Fatalf("encoded %v, decoded %v", img.Shape, info.Shape)
	}
	if !bytes.Equal(pix, img.Pix) {
		t.Fatalf("%v in %v coding: samples differ, first at %d", img.Shape, info.Coding, firstDifference(pix, img.Pix))
	}
	return file
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// shapeOf returns a shape of the colour that its number of channels suggests.
func shapeOf(height, width, channels int, t raster.DType) raster.Shape {
	return raster.Shape{Height: height, Width: width, Channels: channels, DType: t, Color: raster.Color(channels)}
}

// A picture makes the sample of channel c at (x, y), 0 to 65,535.
type picture struct {
	name   string
	sample func(rng *rand.Rand, x, y, c int) int
}

var pictures = []picture{
	{"constant", func(_ *rand.Rand, _, _, c int) int { return 1000 * (c + 1) * 17 }},
	{"black", func(*rand.Rand, int, int, int) int { return 0 }},
	{"smooth", func(_ *rand.Rand, x, y, c int) int { return (x*x/3 + y*300 + x*y*7 + c*9000) % 65536 }},
	{"photo", func(rng *rand.Rand, x, y, c int) int {
		return (x*400 + y*250 + c*3000 + (x*y%37)*90 + rng.IntN(1500)) % 65536
	}},
	{"noise", func(rng *rand.Rand, _, _, _ int) int { return rng.IntN(65536) }},
	{"extremes", func(rng *rand.Rand, _, _, _ int) int { return 65535 * rng.IntN(2) }},
	{"checks", func(_ *rand.Rand, x, y, c int) int { return 65535 * ((x + y + c) & 1) }},
	{"columns", func(_ *rand.Rand, x, _, _ int) int { return 65535 * (x & 1) }},
	{"sparse", func(rng *rand.Rand, x, y, _ int) int {
		if rng.IntN(40) == 0 {
			return 0
		}
		return (x/8 + y/8) * 640 % 65536
	}},
	{"opaque", func(rng *rand.Rand, x, y, c int) int {
		if c&1 == 1 {
			return 65535
		}
		return x*300 + rng.IntN(900)
	}},
}

// draw returns a picture of a shape. 8-bit samples are the high bytes.
func draw(p picture, s raster.Shape) raster.Image {
	rng := rand.New(rand.NewPCG(uint64(s.Width), uint64(s.Height)))
	img := raster.Image{Shape: s, Pix: make([]byte, 0, s.Bytes())}
	for y := range s.Height {
		for x := range s.Width {
			for c := range s.Channels {
				v := p.sample(rng, x, y, c)
				if s.DType.Size() == 2 {
					img.Pix = append(img.Pix, byte(v))
				}
				img.Pix = append(img.Pix, byte(v>>8))
			}
		}
	}
	return img
}

var sampleTypes = []raster.DType{raster.Uint8, raster.Uint16, raster.Int16}

// edges are heights and widths around everything that counts columns.
var edges = []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 130}

func TestRoundTripSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, width := range edges {
				height := edges[(width*7+len(p.name))%len(edges)]
				for channels := 1; channels <= 4; channels++ {
					for _, dtype := range sampleTypes {
						s := shapeOf(height, width, channels, dtype)
						file := checkRoundTrip(t, draw(p, s), EncodeOptions{Workers: 1 + width%3})
						checkGrowth(t, s, len(file))
					}
				}
			}
		})
	}
	t.Run("any", func(t *testing.T) {
		for range 150 {
			s := shapeOf(1+rng.IntN(130), 1+rng.IntN(130), 1+rng.IntN(4), sampleTypes[rng.IntN(3)])
			file := checkRoundTrip(t, draw(pictures[rng.IntN(len(pictures))], s), EncodeOptions{})
			checkGrowth(t, s, len(file))
		}
	})
}

// checkGrowth checks the promise that nothing grows by more than 1 % and 128
// bytes.
func checkGrowth(t testing.TB, s raster.Shape, size int) {
	t.Helper()
	if limit := s.Bytes() + s.Bytes()/100 + 128; int64(size) > limit {
		t.Errorf("%v: %d bytes of samples became %d, the limit is %d", s, s.Bytes(), size, limit)
	}
}

func TestNoiseDoesNotGrow(t *testing.T) {
	noise := pictures[4]
	for _, size := range [][2]int{{1, 1}, {1, 30_000}, {30_000, 1}, {3, 10_000}, {65, 65}, {129, 129}, {250, 300}} {
		for channels := 1; channels <= 4; channels += 3 {
			for _, dtype := range sampleTypes[:2] {
				s := shapeOf(size[0], size[1], channels, dtype)
				t.Run(fmt.Sprint(s), func(t *testing.T) {
					checkGrowth(t, s, len(checkRoundTrip(t, draw(noise, s), EncodeOptions{Workers: 2})))
				})
			}
		}
	}
}

// TestRawChunks stores raw images that end at, just before and just after a
// chunk.
func TestRawChunks(t *testing.T) {
	for _, n := range []int{rawChunkBytes - 1, rawChunkBytes, rawChunkBytes + 1, 2*rawChunkBytes + 2} {
		img := raster.Image{Shape: shapeOf(1, n, 1, raster.Uint8), Pix: make([]byte, n)}
		for i := range img.Pix {
			img.Pix[i] = byte(i ^ i>>7 ^ i>>13)
		}
		file := checkRoundTrip(t, img, EncodeOptions{Mode: ModeRaw})
		checkGrowth(t, img.Shape, len(file))
		if info, _ := mustDecode(t, file); info.Patches != (n+rawChunkBytes-1)/rawChunkBytes {
			t.Errorf("%d bytes in %d chunks", n, info.Patches)
		}
	}
}

func TestWorkersWriteTheSameFile(t *testing.T) {
	img := draw(pictures[3], shapeOf(300, 500, 3, raster.Uint8))
	want := checkRoundTrip(t, img, EncodeOptions{})
	for _, workers := range []int{1, 2, 5, 100} {
		if got := checkRoundTrip(t, img, EncodeOptions{Workers: workers}); !bytes.Equal(got, want) {
			t.Errorf("%d workers write another file", workers)
		}
	}
}

// drawImage draws any small image, with samples that are mostly near each
// other.
func drawImage(t *rapid.T) raster.Image {
	s := raster.Shape{
		Height:   rapid.IntRange(1, 140).Draw(t, "height"),
		Width:    rapid.IntRange(1, 140).Draw(t, "width"),
		Channels: rapid.IntRange(1, 4).Draw(t, "channels"),
		DType:    rapid.SampledFrom(sampleTypes).Draw(t, "type"),
	}
	if rapid.Bool().Draw(t, "coloured") {
		s.Color = raster.Color(s.Channels)
	}
	seed := rapid.Uint64().Draw(t, "seed")
	step := rapid.IntRange(1, 65536).Draw(t, "step")
	rng := rand.New(rand.NewPCG(seed, 0))
	at := 0
	return draw(picture{sample: func(*rand.Rand, int, int, int) int {
		if rng.IntN(50) == 0 {
			at = rng.IntN(65536)
		}
		at = (at + rng.IntN(step) - step/2) & 0xffff
		return at
	}}, s)
}

func TestRoundTripProperty(t *testing.T) {
	decoder := NewDecoder(Limits{}) // one for all images: nothing of one may show in the next
	rapid.Check(t, func(t *rapid.T) {
		img := drawImage(t)
		opt := EncodeOptions{
			Workers:         rapid.IntRange(0, 3).Draw(t, "workers"),
			SignificantBits: rapid.IntRange(0, 8).Draw(t, "significant"),
			Mode:            rapid.SampledFrom([]Mode{ModeFast, ModeRaw, ModeDense, ModeAuto}).Draw(t, "mode"),
		}
		file, err := Encode(img, opt)
		if err != nil {
			t.Fatal(err)
		}
		pix := make([]byte, len(img.Pix))
		info, err := decoder.Decode(pix, file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pix, img.Pix) || info.Shape != img.Shape {
			t.Fatalf("%v came back as %v with other samples", img.Shape, info.Shape)
		}
		if limit := len(img.Pix) + len(img.Pix)/100 + 128; len(file) > limit {
			t.Fatalf("%d bytes of samples became %d", len(img.Pix), len(file))
		}
	})
}
