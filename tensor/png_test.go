package tensor

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"testing"

	"pgregory.net/rapid"

	"prismfs/raster"
)

// TestPNGThroughAnotherReader: Go's reader, which checks every checksum, gives
// each sample back.
func TestPNGThroughAnotherReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Form{Container: rapid.SampledFrom([]Container{PNG, Orig}).Draw(t, "container"), RGB: rapid.Bool().Draw(t, "rgb")}
		img := raster.Image{Shape: drawShape(t)}
		img.Pix = noise(img.Bytes())
		file, err := render(f, img)
		if err != nil {
			return // what is refused is tested elsewhere
		}
		if err := checkDecodedPNG(file, referenceArray(f, img)); err != nil {
			t.Fatalf("%v as %v: %v", img.Shape, f, err)
		}
	})
}

// checkDecodedPNG compares a PNG file, as image/png reads it, with an array.
func checkDecodedPNG(file []byte, want array) error {
	got, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return err
	}
	if got.Bounds() != image.Rect(0, 0, want.width, want.height) {
		return fmt.Errorf("bounds %v", got.Bounds())
	}
	for y := range want.height {
		for x := range want.width {
			px := pixelOf(got.At(x, y), want.channels)
			for c := range want.channels {
				v := want.at(y, x, c)
				if want.bytes == 1 {
					v *= 257 // as pixelOf widens 8 bits
				}
				if px[c] != v {
					return fmt.Errorf("row %d, column %d: %v, channel %d should be %d", y, x, px, c, v)
				}
			}
		}
	}
	return nil
}

// pixelOf returns the samples of a pixel, not multiplied by its alpha, in 16
// bits. (image/png widens grey with alpha to colour.)
func pixelOf(c color.Color, channels int) [4]uint16 {
	var p color.NRGBA64
	switch c := c.(type) {
	case color.NRGBA:
		p = color.NRGBA64{R: uint16(c.R) * 257, G: uint16(c.G) * 257, B: uint16(c.B) * 257, A: uint16(c.A) * 257}
	case color.NRGBA64:
		p = c
	default: // without alpha
		r, g, b, a := c.RGBA()
		p = color.NRGBA64{R: uint16(r), G: uint16(g), B: uint16(b), A: uint16(a)}
	}
	if channels == 2 {
		return [4]uint16{p.R, p.A}
	}
	return [4]uint16{p.R, p.G, p.B, p.A}
}
