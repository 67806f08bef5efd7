package tensor

import (
	"strconv"

	"prismfs/raster"
)

// ppmHeaderBytesMax is the longest header: magic, two edges of ten digits, a
// largest value of five, and the white space between them.
const ppmHeaderBytesMax = 2 + 1 + 10 + 1 + 10 + 1 + 5 + 1

// appendPPMHeader appends the header of a binary Netpbm file: P6 (colour) or
// P5 (grey), width, height and the largest value, which says whether samples
// have one byte or two, the high one first (netpbm's ppm(5) and pgm(5)).
func (l Layout) appendPPMHeader(b []byte) []byte {
	if l.out.Channels == 1 {
		b = append(b, "P5\n"...)
	} else {
		b = append(b, "P6\n"...)
	}
	b = strconv.AppendInt(b, int64(l.out.Width), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(l.out.Height), 10)
	if l.out.DType == raster.Uint16 {
		return append(b, "\n65535\n"...)
	}
	return append(b, "\n255\n"...)
}
