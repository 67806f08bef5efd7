package tensor

import "prismfs/raster"

// shuffle makes a pixel of the file from a pixel of the image: byte j of the
// one is byte from[j] of the other. Every change of samples that the forms
// make is one: alpha is left out, grey repeated, 16 bits are turned round or
// lose their low byte.
type shuffle struct {
	in, out uint8    // bytes of a pixel, at most 8
	from    [8]uint8 // of which the first out count
}

// newShuffle returns the shuffle from samples of an image of shape in to those
// of a file that shows it as shape out.
func newShuffle(in, out raster.Shape, bigEndian bool) shuffle {
	inSize, outSize := in.DType.Size(), out.DType.Size()
	s := shuffle{in: uint8(in.Channels * inSize), out: uint8(out.Channels * outSize)}
	for c := range out.Channels {
		from := c * inSize
		if in.Channels < 3 && out.Channels == 3 {
			from = 0 // grey repeated, alpha not
		}
		switch {
		case inSize == 1:
			s.from[c] = uint8(from)
		case outSize == 1:
			s.from[c] = uint8(from + 1) // the high byte
		case bigEndian:
			s.from[2*c], s.from[2*c+1] = uint8(from+1), uint8(from)
		default:
			s.from[2*c], s.from[2*c+1] = uint8(from), uint8(from+1)
		}
	}
	return s
}

// identity reports whether pixels stay as they are.
func (s shuffle) identity() bool {
	if s.in != s.out {
		return false
	}
	for j := range s.out {
		if s.from[j] != j {
			return false
		}
	}
	return true
}

// swaps reports whether all that happens is that the bytes of every 16-bit
// sample change places.
func (s shuffle) swaps() bool {
	if s.in != s.out || s.in%2 != 0 {
		return false
	}
	for j := range s.out {
		if s.from[j] != j^1 {
			return false
		}
	}
	return true
}

// apply writes all pixels to dst. It may be called with the same memory twice
// where pixels do not change their size.
//
// applyAny says what the others do; they are there for speed alone.
func (s shuffle) apply(dst, pix []byte) {
	switch {
	case s.swaps():
		swapBytes(dst, pix)
	case s.out == 1:
		pick(dst, pix[s.from[0]:], int(s.in))
	case s == greyToRGB:
		spread3(dst, pix)
	case s == dropAlpha:
		drop4th(dst, pix)
	case s.out == 3:
		s.apply3(dst, pix)
	default:
		s.applyAny(dst, pix)
	}
}

// The shuffles that have loops of their own.
var (
	greyToRGB = shuffle{in: 1, out: 3}
	dropAlpha = shuffle{in: 4, out: 3, from: [8]uint8{0, 1, 2}}
)

// applyAny is apply for every shuffle.
func (s shuffle) applyAny(dst, pix []byte) {
	in, out := int(s.in), int(s.out)
	for i, o := 0, 0; i+in <= len(pix); i, o = i+in, o+out {
		px, d := pix[i:i+in:i+in], dst[o:o+out:o+out]
		for j := range d {
			d[j] = px[s.from[j&7]]
		}
	}
}

// apply3 is apply for pixels that become three bytes.
func (s shuffle) apply3(dst, pix []byte) {
	a, b, c, in := int(s.from[0]), int(s.from[1]), int(s.from[2]), int(s.in)
	for i, o := 0, 0; i+in <= len(pix); i, o = i+in, o+3 {
		px, d := pix[i:i+in:i+in], dst[o:o+3:o+3]
		d[0], d[1], d[2] = px[a], px[b], px[c]
	}
}

// planePixels is how many pixels are put into planes at a time: few enough
// that they stay in the first cache while each channel is picked from them.
const planePixels = 1024

// planes writes the pixels to dst channel by channel, samples of size bytes.
func (s shuffle) planes(dst, pix []byte, size int) {
	in, channels := int(s.in), int(s.out)/size
	pixels := len(pix) / in
	if in == 3 && s.identity() {
		planes3(dst[:pixels], dst[pixels:2*pixels], dst[2*pixels:], pix)
		return
	}
	for first := 0; first < pixels; first += planePixels {
		n := min(planePixels, pixels-first)
		src := pix[first*in:][:n*in]
		for c := range channels {
			part := dst[(c*pixels+first)*size:][:n*size]
			if size == 2 {
				pick16(part, src[s.from[2*c]:], in)
			} else {
				pick(part, src[s.from[c]:], in)
			}
		}
	}
}
