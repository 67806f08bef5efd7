package tensor

import "encoding/binary"

// adlerModulus is the largest prime below 2¹⁶ (RFC 1950, section 8.2).
const adlerModulus = 65521

// adler32Update returns the Adler-32 checksum of what gave sum, followed by p;
// the checksum of nothing is 1. It gives what hash/adler32 does in a third of
// the time, for which most of a PNG file's rendering would else be spent: sums
// of 64 bytes are made in the four 16-bit lanes of a word.
func adler32Update(sum uint32, p []byte) uint32 {
	// In 64 bits the sums of segmentBytes cannot overflow: the second one
	// grows to about 255·n²/2.
	const segmentBytes = 1 << 20
	s1, s2 := uint64(sum&0xffff), uint64(sum>>16)
	for len(p) > 0 {
		segment := p[:min(len(p), segmentBytes)]
		p = p[len(segment):]
		for len(segment) >= 64 {
			plain, weighted := adlerSums((*[64]byte)(segment))
			s2 += 64*s1 + weighted
			s1 += plain
			segment = segment[64:]
		}
		for _, b := range segment {
			s1 += uint64(b)
			s2 += s1
		}
		s1 %= adlerModulus
		s2 %= adlerModulus
	}
	return uint32(s2<<16 | s1)
}

// adlerSums returns Σ b[i] and Σ (64−i)·b[i].
//
// Multiplying a word of four lanes by another leaves the sum of products, lane
// 0 of the one with lane 3 of the other and so on, in the upper lane, as long
// as no lane overflows. The largest values are noted beside each.
func adlerSums(b *[64]byte) (plain, weighted uint64) {
	const (
		ones        = 0x0001000100010001
		evenWeights = 0x0008000600040002 // of bytes 0, 2, 4, 6 of a word, from the upper lane down
		oddWeights  = 0x0007000500030001 // of bytes 1, 3, 5, 7
	)
	// before sums up, for each word, all that is before it. Unrolled by hand,
	// which is worth a third.
	even, odd := adlerLanes(b[0:])
	before := even + odd
	e, o := adlerLanes(b[8:])
	even, odd, before = even+e, odd+o, before+even+odd+e+o
	e, o = adlerLanes(b[16:])
	even, odd, before = even+e, odd+o, before+even+odd+e+o
	e, o = adlerLanes(b[24:])
	even, odd, before = even+e, odd+o, before+even+odd+e+o
	e, o = adlerLanes(b[32:])
	even, odd, before = even+e, odd+o, before+even+odd+e+o
	e, o = adlerLanes(b[40:])
	even, odd, before = even+e, odd+o, before+even+odd+e+o
	e, o = adlerLanes(b[48:])
	even, odd, before = even+e, odd+o, before+even+odd+e+o // 28·510 = 14,280
	e, o = adlerLanes(b[56:])
	even, odd = even+e, odd+o // 8·255 = 2,040

	plain = (even + odd) * ones >> 48    // 4·4,080 = 16,320
	weighted = 8 * (before * ones >> 48) // 4·14,280 = 57,120
	weighted += even * evenWeights >> 48 // 20·2,040 = 40,800
	weighted += odd * oddWeights >> 48   // 16·2,040 = 32,640
	return plain, weighted
}

// adlerLanes returns bytes 0, 2, 4, 6 and bytes 1, 3, 5, 7 of p, each in a lane
// of 16 bits.
func adlerLanes(p []byte) (even, odd uint64) {
	const lanes = 0x00ff00ff00ff00ff
	v := binary.LittleEndian.Uint64(p)
	return v & lanes, v >> 8 & lanes
}
