package tensor

import (
	"strconv"

	"prismfs/raster"
)

// npyHeaderBytes is the size of the header of format 1.0, a multiple of 64:
// numpy.save pads the description so that its first edge could grow to 21
// digits, and with edges of at most ten digits and four channels this comes to
// 128 bytes for every image.
const npyHeaderBytes = 128

// npyMagic is the signature, version 1.0 and the length of the description
// that follows, little-endian.
const npyMagic = "\x93NUMPY\x01\x00" + string(rune(npyHeaderBytes-10)) + "\x00"

// dtypeName returns how NumPy writes a type of samples.
func dtypeName(t raster.DType) string {
	switch t {
	case raster.Uint16:
		return "<u2"
	case raster.Int16:
		return "<i2"
	}
	return "|u1"
}

// appendNPYHeader appends the header of NumPy's format 1.0: magic, length, and
// a Python dictionary ended by spaces and a newline (numpy/lib/format.py).
func (l Layout) appendNPYHeader(b []byte) []byte {
	b = append(b, npyMagic...)
	b = append(b, "{'descr': '"...)
	b = append(b, dtypeName(l.out.DType)...)
	b = append(b, "', 'fortran_order': False, 'shape': ("...)
	if l.planar {
		b = strconv.AppendInt(b, int64(l.out.Channels), 10)
		b = append(b, ", "...)
	}
	b = strconv.AppendInt(b, int64(l.out.Height), 10)
	b = append(b, ", "...)
	b = strconv.AppendInt(b, int64(l.out.Width), 10)
	if !l.planar && l.out.Channels > 1 {
		b = append(b, ", "...)
		b = strconv.AppendInt(b, int64(l.out.Channels), 10)
	}
	b = append(b, "), }"...)
	for len(b) < npyHeaderBytes-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}
