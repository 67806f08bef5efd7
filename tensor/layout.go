package tensor

import (
	"errors"
	"fmt"
	"math"

	"prismfs/raster"
)

// ErrCannotHold is wrapped by the errors of Form.Layout that say that an image
// of this shape cannot be given in this form without loss or guessing.
var ErrCannotHold = errors.New("the form cannot hold the image")

// ErrLength is wrapped by the errors of Layout.Render, all of which are of the
// lengths of its arguments.
var ErrLength = errors.New("buffer of the wrong length")

// Layout is the file that images of one shape become in one form. The zero
// value is of no use; Form.Layout makes them. Layouts are small values without
// pointers and can be compared.
type Layout struct {
	container Container    // NPY, PNG, PPM or Raw
	in        raster.Shape // of the image that is rendered
	out       raster.Shape // of the array that a reader sees
	planar    bool         // channels first
	pixel     shuffle      // how a pixel of the file is made from one of the image
	head      int64        // bytes before the samples; 0 for PNG, where they lie in pieces
	size      int64        // bytes of the file
}

// Layout fits the form to images of a shape. Its errors wrap ErrForm,
// raster.ErrShape or ErrCannotHold; the forms that are not decoded have no
// layout (ErrForm).
func (f Form) Layout(s raster.Shape) (Layout, error) {
	if err := f.Check(); err != nil {
		return Layout{}, err
	}
	if !f.Decoded() {
		return Layout{}, fmt.Errorf("%w: %v has no layout, its files are the stored bytes", ErrForm, f)
	}
	if err := s.Check(); err != nil {
		return Layout{}, fmt.Errorf("lay out %v: %w", f, err)
	}
	out, err := f.array(s)
	if err != nil {
		return Layout{}, fmt.Errorf("%v as %v: %w", s, f, err)
	}
	l := Layout{container: f.Container, in: s, out: out, planar: f.CHW}
	if f.Container == Orig {
		l.container = PNG
	}
	bigEndian := l.container == PNG || l.container == PPM
	l.pixel = newShuffle(s, out, bigEndian)
	if err := l.measure(); err != nil {
		return Layout{}, fmt.Errorf("%v as %v: %w", s, f, err)
	}
	return l, nil
}

// array returns the shape of what a reader sees of an image of shape s.
func (f Form) array(s raster.Shape) (raster.Shape, error) {
	if f.Container == NPY || f.Container == Raw {
		if !f.RGB {
			return s, nil
		}
	}
	if s.DType == raster.Int16 {
		return s, fmt.Errorf("%w: samples with a sign", ErrCannotHold)
	}
	unnamed := s.Color == raster.Other && (s.Channels == 2 || s.Channels == 4)
	if unnamed && (f.RGB || f.Container == PPM) {
		return s, fmt.Errorf("%w: nothing says which of the %d channels are colours", ErrCannotHold, s.Channels)
	}
	switch {
	case f.RGB:
		s.Channels, s.DType = 3, raster.Uint8
	case f.Container == PPM:
		if s.DType == raster.Uint16 && !f.Wide {
			return s, fmt.Errorf("%w: samples of 16 bits need the term 16, since many readers clip them", ErrCannotHold)
		}
		s.Channels = withoutAlpha(s.Channels)
	}
	s.Color = raster.Color(s.Channels)
	return s, nil
}

// withoutAlpha returns the number of channels that are colours, where the last
// of two and of four is alpha.
func withoutAlpha(channels int) int {
	if channels%2 == 0 {
		return channels - 1
	}
	return channels
}

// measure sets head and size. The sums are unsigned, in which they cannot
// overflow: samples take less than 2⁶³ bytes, all else less than 2⁵⁰.
func (l *Layout) measure() error {
	samples := uint64(l.out.Bytes())
	var size uint64
	switch l.container {
	case NPY:
		l.head = npyHeaderBytes
		size = npyHeaderBytes + samples
	case PPM:
		var buf [ppmHeaderBytesMax]byte
		l.head = int64(len(l.appendPPMHeader(buf[:0])))
		size = uint64(l.head) + samples
	case Raw:
		size = samples
	case PNG:
		size = pngBytes(samples + uint64(l.out.Height))
	}
	if size > math.MaxInt64 {
		return fmt.Errorf("%w: the file would have %d bytes", ErrCannotHold, size)
	}
	l.size = int64(size)
	return nil
}

// Size returns the bytes of the file, exactly.
func (l Layout) Size() int64 { return l.size }

// Direct reports whether the samples of the image appear in the file unchanged
// and in one piece, and where: a decoder that writes them there has nothing
// left but the header, which Render adds.
func (l Layout) Direct() (offset int64, ok bool) {
	if l.container == PNG || !l.keepsPixels() {
		return 0, false
	}
	return l.head, true
}

// InPlace returns where in the buffer of the file the samples of the image may
// lie when Render is called, so that a decoder needs no buffer of its own:
// pix is then dst[offset:offset+Shape.Bytes()] of the image. It includes all
// that is Direct, and the forms in which samples move without growing.
func (l Layout) InPlace() (offset int64, ok bool) {
	if offset, ok = l.Direct(); ok {
		return offset, true
	}
	if l.pixel.in != l.pixel.out || (l.planar && l.out.Channels > 1) {
		return 0, false
	}
	return l.size - l.in.Bytes(), true
}

// keepsPixels reports whether the samples are the same bytes in the same order
// as those of the image.
func (l Layout) keepsPixels() bool {
	return l.pixel.identity() && (!l.planar || l.out.Channels == 1)
}

// Shape returns the shape of the array that a reader gets, as NumPy writes it:
// (H, W) for one channel, else (H, W, C); with chw (C, H, W), also for grey.
func (l Layout) Shape() []int {
	s := l.out
	switch {
	case l.planar:
		return []int{s.Channels, s.Height, s.Width}
	case s.Channels == 1:
		return []int{s.Height, s.Width}
	}
	return []int{s.Height, s.Width, s.Channels}
}

// DType returns NumPy's name of the samples that a reader gets: "|u1", "<u2"
// or "<i2". (16-bit samples of PNG and Netpbm are big-endian in the file and in
// the machine's order in every reader.)
func (l Layout) DType() string { return dtypeName(l.out.DType) }

// Render writes the whole file into dst, of Size bytes, from the samples pix
// of the image: H×W×C, interleaved, little-endian. pix is left as it is unless
// it lies in dst, where it may lie at the offset of Direct or InPlace and
// nowhere else. The error wraps ErrLength; nothing is allocated without one.
func (l Layout) Render(dst, pix []byte) error {
	if l.size == 0 || int64(len(dst)) != l.size {
		return fmt.Errorf("render a file of %d bytes into %d: %w", l.size, len(dst), ErrLength)
	}
	if int64(len(pix)) != l.in.Bytes() {
		return fmt.Errorf("render %d bytes of samples as %v, which has %d: %w", len(pix), l.in, l.in.Bytes(), ErrLength)
	}
	switch l.container {
	case NPY:
		l.appendNPYHeader(dst[:0])
	case PPM:
		l.appendPPMHeader(dst[:0])
	case PNG:
		l.renderPNG(dst, pix)
		return nil
	}
	l.arrange(dst[l.head:], pix)
	return nil
}

// arrange writes the samples of the file, in one piece, from those of the
// image. Where both are of one size, dst and pix may be the same memory.
func (l Layout) arrange(dst, pix []byte) {
	switch {
	case l.keepsPixels():
		if &dst[0] != &pix[0] {
			copy(dst, pix)
		}
	case l.planar && l.out.Channels > 1:
		l.pixel.planes(dst, pix, l.out.DType.Size())
	default:
		l.pixel.apply(dst, pix)
	}
}
