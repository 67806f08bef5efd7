package l3

// Samples are worked on several at once, in the lanes of a 64-bit word: eight
// of 8 bits or four of 16, the first in the least significant bits. Every
// operation keeps to its lane, so the same lines serve both depths, and each
// has a counterpart in vector instructions (named in brackets for 8 bits).
// All of it is arithmetic on unsigned lanes, modulo 2^bits.

// A depth describes lanes of one width.
type depth struct {
	bits      uint   // of a lane: 8 or 16
	perWord   int    // lanes in a word
	logLanes  uint   // log2 of perWord: row loops must not divide
	widthBits uint   // of the code of a group's width in a phase header
	high      uint64 // the top bit of each lane
	low       uint64 // the bottom bit of each lane
	alternate uint64 // all bits of the first, third, … lane
}

var (
	depth8 = depth{
		bits: 8, perWord: 8, logLanes: 3, widthBits: 3,
		high: 0x8080808080808080, low: 0x0101010101010101, alternate: 0x00ff00ff00ff00ff,
	}
	depth16 = depth{
		bits: 16, perWord: 4, logLanes: 2, widthBits: 4,
		high: 0x8000800080008000, low: 0x0001000100010001, alternate: 0x0000ffff0000ffff,
	}
)

// words returns how many words n lanes take.
func (d *depth) words(n int) int { return (n + d.perWord - 1) >> (d.logLanes & 63) }

// place returns the word that holds lane i and how far up in it.
func (d *depth) place(i int) (word int, shift uint) {
	return i >> (d.logLanes & 63), uint(i&(d.perWord-1)) * d.bits & 63
}

// laneMask has all bits of the first n lanes of a word.
func (d *depth) laneMask(n int) uint64 {
	if n >= d.perWord {
		return ^uint64(0)
	}
	return 1<<(uint(n)*d.bits) - 1
}

// add is x + y [vpaddb].
func add(x, y, high uint64) uint64 {
	return ((x &^ high) + (y &^ high)) ^ ((x ^ y) & high)
}

// sub is x − y [vpsubb].
func sub(x, y, high uint64) uint64 {
	return ((x | high) - (y &^ high)) ^ ((x ^ ^y) & high)
}

// avg is (x + y + 1) >> 1, computed without overflow [vpavgb].
func avg(x, y, high uint64) uint64 {
	return (x | y) - (((x ^ y) >> 1) &^ high)
}

// half is x >> 1.
func half(x, high uint64) uint64 { return (x >> 1) &^ high }

// halfDifference is (x − y) >> 1, the difference being a signed number of one
// bit more than a lane and the shift towards minus infinity.
func halfDifference(x, y, high uint64) uint64 { return avg(x, ^y, high) ^ high }

// spread turns the top bit of each lane into all bits of that lane.
func spread(top uint64, bits uint) uint64 {
	return (top - top>>((bits-1)&63)) | top
}

// addSaturated is min(x + y, largest value of a lane) [vpaddusb].
func addSaturated(x, y, high uint64, bits uint) uint64 {
	s := add(x, y, high)
	carry := ((x & y) | ((x | y) &^ s)) & high
	return s | spread(carry, bits)
}

// subSaturated is max(x − y, 0) [vpsubusb].
func subSaturated(x, y, high uint64, bits uint) uint64 {
	s := sub(x, y, high)
	borrow := ((^x & y) | (^(x ^ y) & s)) & high
	return s &^ spread(borrow, bits)
}

// zigzag maps the signed values 0, −1, 1, −2, … of lanes to 0, 1, 2, 3, …
func zigzag(x, high, low uint64, bits uint) uint64 {
	return ((x << 1) &^ low) ^ spread(x&high, bits)
}

// unzigzag is the inverse of zigzag.
func unzigzag(x, high, low uint64, bits uint) uint64 {
	odd := x & low
	return half(x, high) ^ (odd<<(bits&63) - odd)
}

// prefixSum replaces each lane by the sum of itself and all lanes before it.
func prefixSum(x, high uint64, bits uint) uint64 {
	for s := bits; s < 64; s <<= 1 {
		x = add(x, x<<s, high)
	}
	return x
}
