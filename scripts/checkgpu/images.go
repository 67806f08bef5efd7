package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"prismfs/l3"
	"prismfs/raster"
)

// A sample is an image, its file, and what it is called.
type sample struct {
	name  string
	image raster.Image
	file  []byte
	plan  l3.Plan
}

func newSample(name string, img raster.Image, mode l3.Mode) (*sample, error) {
	file, err := l3.Encode(img, l3.EncodeOptions{Mode: mode, Effort: 1})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &sample{name: name, image: img, file: file}
	return s, s.plan.Parse(file, l3.DefaultLimits)
}

func shapeOf(height, width, channels int, d raster.DType) raster.Shape {
	colors := [...]raster.Color{1: raster.Grey, 2: raster.GreyAlpha, 3: raster.RGB, 4: raster.RGBA}
	return raster.Shape{Height: height, Width: width, Channels: channels, DType: d, Color: colors[channels]}
}

// draw makes an image out of values from 0 to 1.
func draw(s raster.Shape, value func(x, y, c int) float64) raster.Image {
	img := raster.Image{Shape: s, Pix: make([]byte, 0, s.Bytes())}
	for y := range s.Height {
		for x := range s.Width {
			for c := range s.Channels {
				v := min(max(value(x, y, c), 0), 1)
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

// photograph has slow waves and some noise.
func photograph(s raster.Shape, seed uint64) raster.Image {
	rng := rand.New(rand.NewPCG(seed, 1))
	a, b := 20+20*rng.Float64(), 20+20*rng.Float64()
	return draw(s, func(x, y, c int) float64 {
		return 0.5 + 0.3*math.Sin(float64(x)/a+float64(c))*math.Cos(float64(y)/b) + 0.015*rng.NormFloat64()
	})
}

// mixed has a photograph on the left, noise in the middle, and nothing on the
// right: patches that are coded, raw and constant.
func mixed(s raster.Shape) raster.Image {
	rng := rand.New(rand.NewPCG(5, 1))
	return draw(s, func(x, y, c int) float64 {
		switch {
		case x < s.Width/3:
			return 0.5 + 0.3*math.Sin(float64(x+y)/30) + 0.01*rng.NormFloat64()
		case x < s.Width*2/3:
			return rng.Float64()
		}
		return 0.25
	})
}

// labels is a map of regions with stray pixels.
func labels(height, width int, seed uint64) raster.Image {
	rng := rand.New(rand.NewPCG(seed, 2))
	return draw(shapeOf(height, width, 1, raster.Uint8), func(x, y, _ int) float64 {
		if rng.IntN(300) == 0 {
			return rng.Float64()
		}
		return float64((x*x/91+y*y/83)/40%7) / 8
	})
}

// makeSamples makes images of all codings, depths and numbers of channels, in sizes
// that leave narrow patches.
func makeSamples(quick bool) ([]*sample, error) {
	sizes := [][2]int{{2, 3}, {1, 67}, {65, 63}, {20, 129}, {66, 131}, {200, 190}, {300, 515}}
	if quick {
		sizes = [][2]int{{2, 3}, {66, 131}}
	}
	m := new(maker)
	for _, size := range sizes {
		for channels := 1; channels <= raster.MaxChannels; channels++ {
			for _, d := range []raster.DType{raster.Uint8, raster.Uint16, raster.Int16} {
				img := photograph(shapeOf(size[0], size[1], channels, d), uint64(len(m.made)))
				m.add(img, l3.ModeFast)
				m.add(img, l3.ModeDense)
			}
		}
		m.add(labels(size[0], size[1], 3), l3.ModeLabels)
	}
	for _, d := range []raster.DType{raster.Uint8, raster.Uint16} {
		img := mixed(shapeOf(130, 390, 1, d))
		m.add(img, l3.ModeFast)
		m.add(img, l3.ModeDense)
	}
	m.add(labels(270, 300, 4), l3.ModeLabels)
	m.add(photograph(shapeOf(128, 192, 3, raster.Uint8), 9), l3.ModePublished)
	m.add(mixed(shapeOf(64, 192, 3, raster.Uint8)), l3.ModePublished)
	return m.made, m.err
}

// A maker collects samples, and the first error.
type maker struct {
	made []*sample
	err  error
}

func (m *maker) add(img raster.Image, mode l3.Mode) {
	if m.err != nil {
		return
	}
	var s *sample
	name := fmt.Sprintf("image %d, %v, mode %d", len(m.made), img.Shape, mode)
	if s, m.err = newSample(name, img, mode); m.err == nil {
		m.made = append(m.made, s)
	}
}
