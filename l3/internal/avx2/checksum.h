// CRC-32C (Castagnoli), as package hash/crc32 has it: of whole patches, and of
// rows of pixels piece by piece.
//
// A state is a polynomial over GF(2) modulo the CRC's own, the coefficient of
// x^31 in bit 0. To append n bytes multiplies it by x^(8n) and adds what the
// bytes contribute, which is their checksum from state 0; so sums of pieces are
// computed side by side, and joined by multiplications.

#ifndef L3_AVX2_CHECKSUM_H
#define L3_AVX2_CHECKSUM_H

#include "vector.h"

// crc_multiply returns a · b · x^32. The carry-less product is one bit short of
// 64; the instruction for eight bytes multiplies by x^32 and reduces.
INLINE uint32_t crc_multiply(uint32_t a, uint32_t b)
{
	__m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0);
	return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product) << 1);
}

// crc_shifts[k] is x^(8·2^k − 32): times this, by crc_multiply, a state moves on
// by 2^k bytes. Each is the square of the one before.
static const uint32_t crc_shifts[31] = {
	0xdd36fbfc, 0xbef0965e, 0x80000000, 0x82f63b78, 0xa66805eb, 0x5d27e147, 0x4f256efc, 0x069db049,
	0x5cf015c3, 0x6ebf1d86, 0x0b803b7d, 0xd07b8be2, 0xc38a7543, 0x2a543193, 0x0ee201e6, 0xaf85baad,
	0x62809d1b, 0xd4e35816, 0xcf5531ac, 0xb6b0b548, 0x7b578a73, 0x5b7ff1c3, 0xd97d9a55, 0x23c58698,
	0xa8900a0a, 0x3d908177, 0xc7baed8f, 0xd15d7d3f, 0x6b086b3f, 0xb7720ee7, 0xee51a57d,
};

// crc_shift is the factor that moves a state on by n bytes.
INLINE uint32_t crc_shift(uint64_t n)
{
	uint32_t factor = 0xd610d67e; // x^(−32), which crc_multiply leaves as 1
	for (unsigned k = 0; n != 0; k++, n >>= 1)
		if (n & 1)
			factor = crc_multiply(factor, crc_shifts[k % 31]);
	return factor;
}

// crc_append moves a state on over n bytes.
INLINE uint32_t crc_append(uint32_t state, const uint8_t *from, size_t n)
{
	uint64_t s = state;
	for (; n >= 8; from += 8, n -= 8)
		s = _mm_crc32_u64(s, load64(from));
	for (; n > 0; from++, n--)
		s = _mm_crc32_u8((uint32_t)s, *from);
	return (uint32_t)s;
}

// crc_of is the checksum of n bytes. The instruction takes a step every cycle
// but three cycles for each, so three parts are summed at once.
INLINE uint32_t crc_of(const uint8_t *from, size_t n)
{
	size_t part = n / 24 * 8;
	uint64_t first = 0xffffffff, second = 0, third = 0;
	for (const uint8_t *end = from + part; from < end; from += 8) {
		first = _mm_crc32_u64(first, load64(from));
		second = _mm_crc32_u64(second, load64(from + part));
		third = _mm_crc32_u64(third, load64(from + 2 * part));
	}
	uint32_t shift = crc_shift(part);
	uint32_t state = crc_multiply((uint32_t)first, shift) ^ (uint32_t)second;
	state = crc_multiply(state, shift) ^ (uint32_t)third;
	return ~crc_append(state, from + 2 * part, n - 3 * part);
}

// crc_append_rows moves the states of count rows, row_bytes apart, on over n
// bytes each, four rows at once.
INLINE void crc_append_rows(uint32_t *states, const uint8_t *from, int64_t row_bytes, int count, size_t n)
{
	while (count >= 4) {
		uint64_t s0 = states[0], s1 = states[1], s2 = states[2], s3 = states[3];
		const uint8_t *from2 = from + 2 * row_bytes;
		size_t at = 0;
		for (; at + 8 <= n; at += 8) {
			s0 = _mm_crc32_u64(s0, load64(from + at));
			s1 = _mm_crc32_u64(s1, load64(from + row_bytes + at));
			s2 = _mm_crc32_u64(s2, load64(from2 + at));
			s3 = _mm_crc32_u64(s3, load64(from2 + row_bytes + at));
		}
		states[0] = crc_append((uint32_t)s0, from + at, n - at);
		states[1] = crc_append((uint32_t)s1, from + row_bytes + at, n - at);
		states[2] = crc_append((uint32_t)s2, from2 + at, n - at);
		states[3] = crc_append((uint32_t)s3, from2 + row_bytes + at, n - at);
		states += 4, from += 4 * row_bytes, count -= 4;
	}
	for (; count > 0; count--, states++, from += row_bytes)
		*states = crc_append(*states, from, n);
}

#endif
