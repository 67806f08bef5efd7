// Phase headers and residuals: from bits to one byte a residual, still
// zigzagged, for a whole patch at once. This is the only part that reads the
// file, and all of it is integer code without a branch that depends on the
// residuals.

#ifndef L3_AVX2_RESIDUALS_H
#define L3_AVX2_RESIDUALS_H

#include "vector.h"

// Sizes in bits of the parts of phase headers.
enum { EVEN_ID_BITS = 3, ODD_ID_BITS = 2, CODE_BITS = 3 };

// A coded_row is what the file says of one row of one plane.
struct coded_row {
	_Alignas(32) uint64_t even[GROUPS];
	uint64_t odd[GROUPS];
};

// A coded_patch holds the rows in the order in which they stand in the file:
// row by row, in each all planes that are not constant.
struct coded_patch {
	struct coded_row rows[MAX_EDGE * MAX_CHANNELS];
	uint8_t even_id[MAX_EDGE * MAX_CHANNELS];
	uint8_t odd_id[MAX_EDGE * MAX_CHANNELS];
};

// Reading a row touches at most this many bytes from where it begins: two
// phases of LANES bytes, and what the last eight-byte load takes too much. A
// phase header is read by an eight-byte load as well. So of a patch in which
// each row begins no later than at its end, nothing is read that lies further
// than this behind the end.
enum { READ_AHEAD = 2 * LANES + 8 };

// field_masks have the bits of each byte that a residual of a group takes, by
// the code of the group's width.
static const uint64_t field_masks[8] = {
	0x0000000000000000, 0x0101010101010101, 0x0303030303030303, 0x0707070707070707,
	0x0f0f0f0f0f0f0f0f, 0x1f1f1f1f1f1f1f1f, 0x3f3f3f3f3f3f3f3f, 0xffffffffffffffff,
};

INLINE int groups_of(int count) { return (count + GROUP_SIZE - 1) / GROUP_SIZE; }

INLINE int row_header_bits(int width)
{
	return EVEN_ID_BITS + CODE_BITS * groups_of((width + 1) / 2) +
	       ODD_ID_BITS + CODE_BITS * groups_of(width / 2);
}

// unpack_phase spreads count residuals and sets the lanes after them to zero:
// one of them may be the odd column that an odd width lacks. It returns where
// the next group begins.
INLINE const uint8_t *unpack_phase(uint64_t out[GROUPS], const uint8_t *from, uint64_t codes, int count)
{
	// All groups at once, a byte for each: codes, widths in bits, which are
	// the sizes of whole groups in bytes (code 7 stands for 8), and, as sums
	// of those before, where they begin. Bytes of groups that do not exist
	// hold anything and change none below them.
	uint32_t code = _pdep_u32((uint32_t)codes, 0x07070707);
	uint32_t size = code + (((code + 0x01010101) >> 3) & 0x01010101);
	uint64_t begin = (uint64_t)(size * 0x01010101) << 8;

	int whole = count / GROUP_SIZE, rest = count % GROUP_SIZE;
#pragma GCC unroll 4
	for (int g = 0; g < whole; g++)
		out[g] = _pdep_u64(load64(from + (uint8_t)(begin >> 8 * g)), field_masks[(uint8_t)(code >> 8 * g)]);
	from += (uint8_t)(begin >> 8 * whole);
#pragma GCC unroll 4
	for (int g = whole; g < GROUPS; g++)
		out[g] = 0;
	if (rest > 0) {
		unsigned bits = rest * (uint8_t)(size >> 8 * whole); // at most 56
		uint64_t packed = load64(from) & (((uint64_t)1 << bits) - 1);
		out[whole] = _pdep_u64(packed, field_masks[(uint8_t)(code >> 8 * whole)]);
		from += (bits + 7) / 8;
	}
	return from;
}

// unpack_rows reads count rows of planes, the headers from one place and the
// residuals from another. It returns where the residuals end, or NULL if they
// run past end.
INLINE const uint8_t *unpack_rows(struct coded_patch *out, const uint8_t *headers, const uint8_t *from,
				  const uint8_t *end, int count, int width)
{
	int pairs = (width + 1) / 2, even_bits = CODE_BITS * groups_of(pairs);
	size_t bit = 0;
	for (int i = 0; i < count; i++) {
		// At most 29 bits, of at least 57 that are left of the word.
		uint64_t header = load64(headers + bit / 8) >> bit % 8;
		bit += row_header_bits(width);
		out->even_id[i] = header & 7;
		header >>= EVEN_ID_BITS;
		from = unpack_phase(out->rows[i].even, from, header, pairs);
		header >>= even_bits;
		out->odd_id[i] = header & 3;
		header >>= ODD_ID_BITS;
		from = unpack_phase(out->rows[i].odd, from, header, width / 2);
		if (from > end)
			return NULL;
	}
	return from;
}

// residuals undoes the zigzag: 0, 1, 2, 3, … are 0, −1, 1, −2, …
INLINE lanes residuals(const uint64_t zigzagged[GROUPS])
{
	lanes z = _mm256_load_si256((const lanes *)zigzagged);
	lanes odd = _mm256_and_si256(z, every(1));
	return _mm256_xor_si256(half(z), _mm256_sub_epi8(_mm256_setzero_si256(), odd));
}

#endif
