// Package raster describes what a decoded image is in memory: its shape, the
// type of its samples and the samples themselves. Codecs produce rasters, file
// forms present them.
//
// Samples are stored row by row, channels interleaved (H×W×C, as NumPy's C
// order), little-endian, without padding. A raster knows nothing of files,
// codecs or colour management: samples are numbers as they were stored.
package raster

import (
	"errors"
	"fmt"
	"math"
)

// DType is the type of a sample.
type DType uint8

// The sample types. The zero value is no type.
const (
	Uint8 DType = iota + 1
	Uint16
	Int16
)

// Size returns the bytes of one sample, 0 for an unknown type.
func (t DType) Size() int {
	switch t {
	case Uint8:
		return 1
	case Uint16, Int16:
		return 2
	}
	return 0
}

// String returns NumPy's name of the type: uint8, uint16 or int16.
func (t DType) String() string {
	switch t {
	case Uint8:
		return "uint8"
	case Uint16:
		return "uint16"
	case Int16:
		return "int16"
	}
	return fmt.Sprintf("DType(%d)", uint8(t))
}

// Color says what the channels of a raster mean.
type Color uint8

// The meanings of channels. Other is said of arrays whose channels have no
// meaning that an image format could name (two or four planes of a .npy file).
const (
	Other Color = iota
	Grey
	GreyAlpha
	RGB
	RGBA
)

// String returns a short name for people.
func (c Color) String() string {
	switch c {
	case Other:
		return "other"
	case Grey:
		return "grey"
	case GreyAlpha:
		return "grey+alpha"
	case RGB:
		return "RGB"
	case RGBA:
		return "RGBA"
	}
	return fmt.Sprintf("Color(%d)", uint8(c))
}

// Channels returns the number of channels that a colour has, 0 for Other.
func (c Color) Channels() int {
	if c >= Grey && c <= RGBA {
		return int(c)
	}
	return 0
}

// MaxChannels is the largest number of channels of a raster.
const MaxChannels = 4

// MaxEdge is the largest height or width, in pixels, of a raster.
const MaxEdge = 1 << 30

// ErrShape says that a shape is none that a raster can have.
var ErrShape = errors.New("impossible image shape")

// Shape is the size and meaning of a raster, without its samples.
type Shape struct {
	Height, Width int // pixels, at least 1
	Channels      int // 1 to MaxChannels
	DType         DType
	Color         Color
}

// String returns the shape for people, such as 512×768×3 uint8 RGB.
func (s Shape) String() string {
	return fmt.Sprintf("%d×%d×%d %v %v", s.Height, s.Width, s.Channels, s.DType, s.Color)
}

// Check returns an error that wraps ErrShape unless the shape is one that a
// raster can have and Bytes fits an int64.
func (s Shape) Check() error {
	switch {
	case s.Height < 1 || s.Width < 1 || s.Height > MaxEdge || s.Width > MaxEdge:
		return fmt.Errorf("%w: %d×%d pixels", ErrShape, s.Height, s.Width)
	case s.Channels < 1 || s.Channels > MaxChannels:
		return fmt.Errorf("%w: %d channels", ErrShape, s.Channels)
	case s.DType.Size() == 0:
		return fmt.Errorf("%w: sample type %d", ErrShape, uint8(s.DType))
	case s.Color > RGBA:
		return fmt.Errorf("%w: colour %d", ErrShape, uint8(s.Color))
	case s.Color != Other && s.Color.Channels() != s.Channels:
		return fmt.Errorf("%w: %v in %d channels", ErrShape, s.Color, s.Channels)
	case s.Pixels() > math.MaxInt64/8:
		return fmt.Errorf("%w: %d×%d pixels", ErrShape, s.Height, s.Width)
	}
	return nil
}

// Pixels returns Height × Width.
func (s Shape) Pixels() int64 { return int64(s.Height) * int64(s.Width) }

// Bytes returns the size of all samples.
func (s Shape) Bytes() int64 {
	return s.Pixels() * int64(s.Channels) * int64(s.DType.Size())
}

// RowBytes returns the size of the samples of one row.
func (s Shape) RowBytes() int { return s.Width * s.Channels * s.DType.Size() }

// Image is a raster with its samples: len(Pix) is Shape.Bytes().
type Image struct {
	Shape
	Pix []byte
}
