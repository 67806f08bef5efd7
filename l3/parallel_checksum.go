package l3

import "math/bits"

// A CRC is the remainder of a polynomial over GF(2), and what comes after a
// text multiplies its polynomial by a power of x. So the checksum of two texts
// in a row follows from their checksums and the length of the second, without
// reading either again. (The ones with which a CRC begins and ends cancel out.)
//
// Polynomials are of degree 31 at most and stored as CRC-32C is: the lowest bit
// is the coefficient of x³¹.

const (
	polynomialOne = 1 << 31
	polynomialX8  = 1 << (31 - 8)
	castagnoliLow = 0x82f63b78 // x³² modulo the polynomial of CRC-32C
)

// multiply returns a·b modulo the polynomial of CRC-32C.
func multiply(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		// The top bit of a is its coefficient of x⁰, and b has been multiplied
		// by x as often as a was shifted.
		product ^= b & -(a >> 31)
		b = b>>1 ^ castagnoliLow&-(b&1)
	}
	return product
}

// zeros returns the polynomial by which a checksum is multiplied when n bytes
// follow: x⁸ⁿ.
func zeros(n int64) uint32 {
	power := uint32(polynomialOne)
	for i := bits.Len64(uint64(n)) - 1; i >= 0; i-- {
		power = multiply(power, power)
		if n>>i&1 != 0 {
			power = multiply(power, polynomialX8)
		}
	}
	return power
}

// joinChecksums returns the checksum of size bytes from those of its parts,
// each of part bytes but the last, which is what is left.
func joinChecksums(sums []uint32, part, size int64) uint32 {
	sum, whole := sums[0], zeros(part)
	for i, next := range sums[1:] {
		shift := whole
		if last := size - int64(i+1)*part; last < part {
			shift = zeros(last)
		}
		sum = multiply(sum, shift) ^ next
	}
	return sum
}
