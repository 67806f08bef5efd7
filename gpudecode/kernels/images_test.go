package kernels

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"prismfs/l3"
	"prismfs/raster"
)

// A picture gives the samples of an image, 0 to 1.
type picture func(rng *rand.Rand, x, y, channel int) float64

var pictures = map[string]picture{
	"smooth": func(rng *rand.Rand, x, y, c int) float64 {
		return 0.3 + 0.004*float64(x) + 0.003*float64(y) + 0.02*float64(c) + 0.01*rng.Float64()
	},
	"edges": func(rng *rand.Rand, x, y, c int) float64 {
		return float64((x/7+y/5+c)%3)/2.5 + 0.05*rng.Float64()
	},
	"spikes": func(rng *rand.Rand, x, y, c int) float64 {
		if rng.IntN(40) == 0 {
			return rng.Float64()
		}
		return float64(x%9) / 20
	},
	"one channel only": func(rng *rand.Rand, x, y, c int) float64 {
		if c != 0 {
			return 0.7
		}
		return 0.5 + 0.1*rng.Float64()
	},
}

// pictureNames in the order in which tests take them.
var pictureNames = []string{"smooth", "edges", "spikes", "one channel only"}

func shapeOf(height, width, channels int, d raster.DType) raster.Shape {
	colors := [...]raster.Color{1: raster.Grey, 2: raster.GreyAlpha, 3: raster.RGB, 4: raster.RGBA}
	return raster.Shape{Height: height, Width: width, Channels: channels, DType: d, Color: colors[channels]}
}

func draw(rng *rand.Rand, p picture, s raster.Shape) raster.Image {
	img := raster.Image{Shape: s, Pix: make([]byte, 0, s.Bytes())}
	for y := range s.Height {
		for x := range s.Width {
			for c := range s.Channels {
				v := min(max(p(rng, x, y, c), 0), 1)
				if s.DType.Size() == 1 {
					img.Pix = append(img.Pix, uint8(255*v))
				} else {
					img.Pix = binary.LittleEndian.AppendUint16(img.Pix, uint16(65535*v))
				}
			}
		}
	}
	return img
}

// drawDepth is a depth map: few values, and holes where nothing was seen.
func drawDepth(rng *rand.Rand, s raster.Shape) raster.Image {
	img := raster.Image{Shape: s}
	for i := range s.Height * s.Width * s.Channels {
		x, y := i/s.Channels%s.Width, i/s.Channels/s.Width
		v := uint16(1000 + 50*(x/11) + 20*(y/9) + 10*rng.IntN(3))
		if (x/13+y/6)%4 == 0 || rng.IntN(30) == 0 {
			v = 0
		}
		img.Pix = binary.LittleEndian.AppendUint16(img.Pix, v)
	}
	return img
}

// drawLabels is a map of areas with some stray pixels.
func drawLabels(rng *rand.Rand, s raster.Shape) raster.Image {
	img := raster.Image{Shape: s}
	for y := range s.Height {
		for x := range s.Width {
			v := uint8((x*x/37+y*y/53)/40%5) * 3
			if rng.IntN(150) == 0 {
				v = uint8(rng.IntN(256))
			}
			img.Pix = append(img.Pix, v)
		}
	}
	return img
}

func encode(t testing.TB, img raster.Image, mode l3.Mode) []byte {
	t.Helper()
	file, err := l3.Encode(img, l3.EncodeOptions{Mode: mode, Effort: 1})
	check(t, err)
	return file
}

// codingOf is the coding that a file has.
func codingOf(t testing.TB, file []byte) l3.Coding {
	t.Helper()
	plan := new(l3.Plan)
	check(t, plan.Parse(file, l3.DefaultLimits))
	return plan.Info.Coding
}

// sizes of images, of which some are narrower than a warp, wider than a patch, odd.
var sizes = []struct{ height, width int }{
	{1, 1}, {2, 3}, {5, 1}, {1, 67}, {33, 40}, {65, 63}, {20, 129}, {66, 131}, {130, 30},
}

// modes in the order in which drawnFiles takes them.
var modes = []l3.Mode{l3.ModeFast, l3.ModeDense, l3.ModeDense, l3.ModeFast, l3.ModeDense}

// drawnFiles are files of all codings, sizes, depths and numbers of channels.
func drawnFiles(t testing.TB, rng *rand.Rand) [][]byte {
	t.Helper()
	var files [][]byte
	n := 0
	add := func(img raster.Image, mode l3.Mode) {
		if file := encode(t, img, mode); Takes(codingOf(t, file)) {
			files = append(files, file)
		}
	}
	for _, size := range sizes {
		for channels := 1; channels <= raster.MaxChannels; channels++ {
			for _, d := range []raster.DType{raster.Uint8, raster.Uint16, raster.Int16} {
				// There are five modes, which divide no other count: over all
				// sizes, each depth and number of channels has fast and dense.
				p := pictures[pictureNames[n%len(pictureNames)]]
				img := draw(rng, p, shapeOf(size.height, size.width, channels, d))
				add(img, modes[n%len(modes)])
				n++
			}
			add(drawDepth(rng, shapeOf(size.height, size.width, channels, raster.Uint16)), l3.ModeDense)
		}
		add(drawLabels(rng, shapeOf(size.height, size.width, 1, raster.Uint8)), l3.ModeLabels)
	}
	add(drawLabels(rng, shapeOf(270, 300, 1, raster.Uint8)), l3.ModeLabels)
	add(draw(rng, pictures["edges"], shapeOf(64, 192, 3, raster.Uint8)), l3.ModePublished)
	add(draw(rng, pictures["spikes"], shapeOf(128, 64, 3, raster.Uint8)), l3.ModePublished)
	return files
}
