package l3

import "prismfs/raster"

// A patch of the fast codings, as bytes:
//
//	transform      1 byte
//	constants      1 byte, bit p set: plane p has the same value everywhere
//	base values    one sample a plane: the value of a constant plane, else what
//	               stands in the two rows above the first
//	phase headers  bits, least significant first; for each row, each plane that is
//	               not constant: the even predictor, the width codes of the even
//	               groups, the odd predictor, the width codes of the odd groups
//	residuals      from the next byte on; in the same order, groups
//	zeros          to a multiple of 4

// preludeBytes is the size of a patch before its phase headers.
func preludeBytes(channels int, d *depth) int { return 2 + channels*int(d.bits)/8 }

// phaseBits is the size of the header of a phase with count residuals.
func phaseBits(idBits, count int, d *depth) int {
	return idBits + groups(count)*int(d.widthBits)
}

// rowBits is the size of the two phase headers of one row of one plane.
func rowBits(width int, d *depth) int {
	return phaseBits(evenIDBits, (width+1)/2, d) + phaseBits(oddIDBits, width/2, d)
}

// padded rounds a size up to a multiple of 4.
func padded(n int) int { return (n + 3) &^ 3 }

// signFlip is what 16-bit samples are xored with before they are coded, so
// that the order of signed ones is that of unsigned numbers.
func signFlip(t raster.DType) uint16 {
	if t == raster.Int16 {
		return 0x8000
	}
	return 0
}
