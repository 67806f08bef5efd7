package imagefile

import (
	"encoding/binary"
	"image"
	"image/color"

	"prismfs/raster"
)

// stored describes the memory of an image of package image.
type stored struct {
	pix      []byte
	stride   int // bytes from row to row
	channels int
	wide     bool // 16-bit samples, big-endian
}

// storedSamples returns the memory of the kinds of images that the decoders
// return. Kinds with alpha are expected to hold it unmultiplied, or to be
// opaque.
func storedSamples(img image.Image) (stored, bool) {
	switch m := img.(type) {
	case *image.Gray:
		return stored{m.Pix, m.Stride, 1, false}, true
	case *image.Gray16:
		return stored{m.Pix, m.Stride, 1, true}, true
	case *image.RGBA:
		return stored{m.Pix, m.Stride, 4, false}, true
	case *image.RGBA64:
		return stored{m.Pix, m.Stride, 4, true}, true
	case *image.NRGBA:
		return stored{m.Pix, m.Stride, 4, false}, true
	case *image.NRGBA64:
		return stored{m.Pix, m.Stride, 4, true}, true
	}
	return stored{}, false
}

// positions says at which channels of R, G, B, A the channels of a colour
// stand; grey is repeated in R, G and B, so that the first of them has it.
var positions = map[raster.Color][]int{
	raster.Grey:      {0},
	raster.GreyAlpha: {0, 3},
	raster.RGB:       {0, 1, 2},
	raster.RGBA:      {0, 1, 2, 3},
}

// pick copies the channels of a colour out of an image.
func pick(f Format, img image.Image, c raster.Color, lim Limits) (raster.Image, error) {
	src, ok := storedSamples(img)
	from := positions[c]
	if !ok || from[len(from)-1] >= src.channels {
		return raster.Image{}, refuse(f, ErrUnsupported, "decoded as %T, which does not hold %v", img, c)
	}
	size := img.Bounds().Size()
	shape := raster.Shape{Height: size.Y, Width: size.X, Channels: len(from), DType: raster.Uint8, Color: c}
	if src.wide {
		shape.DType = raster.Uint16
	}
	out, err := newImage(f, shape, lim)
	if err != nil {
		return raster.Image{}, err
	}
	for y := range size.Y {
		dst := out.Pix[y*shape.RowBytes():][:shape.RowBytes()]
		row := src.pix[y*src.stride:][:size.X*src.channels*shape.DType.Size()]
		if src.wide {
			pickWideRow(dst, row, src.channels, from)
		} else {
			pickRow(dst, row, src.channels, from)
		}
	}
	return out, nil
}

func pickRow(dst, src []byte, channels int, from []int) {
	if len(from) == channels {
		copy(dst, src)
		return
	}
	for d := 0; d < len(dst); d, src = d+len(from), src[channels:] {
		for i, c := range from {
			dst[d+i] = src[c]
		}
	}
}

// pickWideRow also turns big-endian samples into little-endian ones.
func pickWideRow(dst, src []byte, channels int, from []int) {
	for d := 0; d < len(dst); src = src[2*channels:] {
		for _, c := range from {
			dst[d], dst[d+1] = src[2*c+1], src[2*c]
			d += 2
		}
	}
}

// straightRGBA returns a palette's colour as 8-bit samples, not multiplied
// with alpha; of 16-bit samples the high byte counts, as for PIL.
func straightRGBA(c color.Color) ([4]byte, bool) {
	switch c := c.(type) {
	case color.NRGBA:
		return [4]byte{c.R, c.G, c.B, c.A}, true
	case color.RGBA:
		return [4]byte{c.R, c.G, c.B, c.A}, c.A == 255
	case color.RGBA64:
		return [4]byte{byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8), 255}, c.A == 0xffff
	}
	return [4]byte{}, false
}

// lookUp replaces indices by the entries of a palette. The colour is Grey, RGB
// or RGBA. An index outside the palette is a refusal.
func lookUp(f Format, indices []byte, width, height int, entries [][4]byte, c raster.Color, lim Limits) (raster.Image, error) {
	shape := raster.Shape{Height: height, Width: width, Channels: c.Channels(), DType: raster.Uint8, Color: c}
	out, err := newImage(f, shape, lim)
	if err != nil {
		return raster.Image{}, err
	}
	dst := out.Pix
	for i, index := range indices {
		if int(index) >= len(entries) {
			return raster.Image{}, refuse(f, ErrDamaged, "colour %d in line %d is outside the palette of %d colours",
				index, i/width+1, len(entries))
		}
		dst = dst[copy(dst, entries[index][:shape.Channels]):]
	}
	return out, nil
}

// swapPairs turns big-endian 16-bit samples into little-endian ones, or back.
func swapPairs(b []byte) {
	for i := 0; i+2 <= len(b); i += 2 {
		binary.LittleEndian.PutUint16(b[i:], binary.BigEndian.Uint16(b[i:]))
	}
}
