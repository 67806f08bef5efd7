// Phase headers and residuals: from bits to a lane a residual, still zigzagged,
// some rows at a time. This is the only part that reads the file, and all of it
// is integer code without a branch that depends on the residuals.

#ifndef L3_AVX2_RESIDUALS_H
#define L3_AVX2_RESIDUALS_H

#include "vector.h"

enum {
	GROUP_SIZE = 8, // residuals in a whole group
	GROUPS = MAX_EDGE / 2 / GROUP_SIZE,

	// Sizes in bits of the parts of phase headers.
	EVEN_ID_BITS = 3,
	ODD_ID_BITS = 2,
	CODE_BITS = LANE_BITS == 8 ? 3 : 4,
};

// A group is what eight residuals become.
typedef lane group[GROUP_SIZE];

// A coded_row is what the file says of one row of one plane. A row of a constant
// plane, of which nothing is stored, is all 0: its samples are those above.
struct coded_row {
	_Alignas(32) group even[GROUPS];
	group odd[GROUPS];
	uint64_t even_id, odd_id;
};

// Rows are unpacked so few at a time that they stay in the processor's first
// cache until they are used.
enum { BLOCK_ROWS = 8 };

// A coded_block is rows of all planes, the planes of a row one after another.
struct coded_block {
	struct coded_row rows[BLOCK_ROWS * MAX_CHANNELS];
};

// A reader is where unpacking stands in a patch.
struct reader {
	const uint8_t *headers;
	size_t header_bit;         // of the next phase header
	const uint8_t *from, *end; // the next residuals, and where they must have ended
	int coded_planes;          // that are not constant
	uint8_t coded[MAX_CHANNELS]; // their numbers
};

// Reading a row touches at most this many bytes from where it begins: two
// phases, and what the last eight-byte load takes too much. Phase headers are
// read by eight-byte loads as well. So of a patch in which each row begins no
// later than at its end, nothing is read that lies further than this behind the
// end.
enum { READ_AHEAD = MAX_EDGE * LANE_BYTES + 16 };

INLINE int groups_of(int count) { return (count + GROUP_SIZE - 1) / GROUP_SIZE; }

INLINE int even_header_bits(int width) { return EVEN_ID_BITS + CODE_BITS * groups_of((width + 1) / 2); }
INLINE int odd_header_bits(int width) { return ODD_ID_BITS + CODE_BITS * groups_of(width / 2); }
INLINE int row_header_bits(int width) { return even_header_bits(width) + odd_header_bits(width); }

#if LANE_BITS == 8

// WIDTH_BITS is how many bits a residual takes, which is how many bytes a whole
// group takes, by the code of the group's width; WIDTH_MASK is which bits of each
// byte it becomes.
#define WIDTH_BITS(code) ((code) + ((code) == 7))
#define WIDTH_MASK(code) (0x0101010101010101u * ((1u << WIDTH_BITS(code)) - 1))

// width_pairs says all that of the codes of two groups, the first in the lower
// bits: half as many steps as with one group at a time.
#define WIDTH_PAIR(first, second) \
	{{WIDTH_MASK(first), WIDTH_MASK(second)}, WIDTH_BITS(first), WIDTH_BITS(first) + WIDTH_BITS(second)}
#define WIDTH_PAIRS(second) \
	WIDTH_PAIR(0, second), WIDTH_PAIR(1, second), WIDTH_PAIR(2, second), WIDTH_PAIR(3, second), \
	WIDTH_PAIR(4, second), WIDTH_PAIR(5, second), WIDTH_PAIR(6, second), WIDTH_PAIR(7, second)
static const struct width_pair {
	uint64_t mask[2], first, both; // bits of the first group, and of both
} width_pairs[64] = {
	WIDTH_PAIRS(0), WIDTH_PAIRS(1), WIDTH_PAIRS(2), WIDTH_PAIRS(3),
	WIDTH_PAIRS(4), WIDTH_PAIRS(5), WIDTH_PAIRS(6), WIDTH_PAIRS(7),
};

INLINE void put_group(group *out, uint64_t residuals) { memcpy(out, &residuals, sizeof *out); }

// unpack_pairs spreads the residuals of whole groups, an even number of them,
// and returns where the next group begins.
INLINE const uint8_t *unpack_pairs(group *out, const uint8_t *from, uint64_t codes, int count)
{
#pragma GCC unroll 2
	for (int g = 0; g < count; g += 2, codes >>= 2 * CODE_BITS) {
		const struct width_pair *w = &width_pairs[codes & 63];
		put_group(&out[g], _pdep_u64(load64(from), w->mask[0]));
		put_group(&out[g + 1], _pdep_u64(load64(from + w->first), w->mask[1]));
		from += w->both;
	}
	return from;
}

// unpack_group spreads the count residuals of one group.
INLINE const uint8_t *unpack_group(group *out, const uint8_t *from, uint64_t code, int count)
{
	const struct width_pair *w = &width_pairs[code & 7];
	unsigned bits = (unsigned)count * (unsigned)w->first;
	put_group(out, _pdep_u64(_bzhi_u64(load64(from), bits), w->mask[0]));
	return from + (bits + 7) / 8;
}

#else

// widths says of each code of a group's width how many bits a residual takes, and
// which bits of each of four lanes it becomes.
#define WIDTH_BITS(code) ((code) + ((code) == 15))
#define WIDTH(code) {0x0001000100010001u * ((1u << WIDTH_BITS(code)) - 1), WIDTH_BITS(code)}
static const struct width {
	uint64_t mask, bits;
} widths[16] = {
	WIDTH(0), WIDTH(1), WIDTH(2), WIDTH(3), WIDTH(4), WIDTH(5), WIDTH(6), WIDTH(7),
	WIDTH(8), WIDTH(9), WIDTH(10), WIDTH(11), WIDTH(12), WIDTH(13), WIDTH(14), WIDTH(15),
};

INLINE void put_group(group *out, uint64_t low, uint64_t high)
{
	memcpy(out[0], &low, sizeof low);
	memcpy(out[0] + 4, &high, sizeof high);
}

INLINE const uint8_t *unpack_pairs(group *out, const uint8_t *from, uint64_t codes, int count)
{
#pragma GCC unroll 4
	for (int g = 0; g < count; g++, codes >>= CODE_BITS) {
		const struct width *w = &widths[codes & 15];
		// The second half begins after four residuals: at a whole or a
		// half byte.
		uint64_t second = load64(from + w->bits / 2) >> (4 * w->bits & 4);
		put_group(&out[g], _pdep_u64(load64(from), w->mask), _pdep_u64(second, w->mask));
		from += w->bits;
	}
	return from;
}

INLINE const uint8_t *unpack_group(group *out, const uint8_t *from, uint64_t code, int count)
{
	const struct width *w = &widths[code & 15];
	unsigned bits = (unsigned)count * (unsigned)w->bits, first = 4 * (unsigned)w->bits;
	uint64_t second = load64(from + w->bits / 2) >> (first & 4);
	put_group(out, _pdep_u64(_bzhi_u64(load64(from), bits), w->mask),
		  _pdep_u64(bits > first ? _bzhi_u64(second, bits - first) : 0, w->mask));
	return from + (bits + 7) / 8;
}

#endif

// unpack_phase spreads count residuals, whose groups have the given codes, and
// sets the lanes of the strips after them to zero: one of them may be the odd
// column that an odd width lacks. It returns where the next residuals begin.
INLINE const uint8_t *unpack_phase(group *out, const uint8_t *from, uint64_t codes, int count, int strips)
{
	int whole = count / GROUP_SIZE, rest = count % GROUP_SIZE, g = whole & ~1;
	from = unpack_pairs(out, from, codes, g);
	for (int i = g; i < strips * LANES / GROUP_SIZE; i++)
		memset(out[i], 0, sizeof out[i]);
	codes >>= CODE_BITS * g;
	if (g < whole) {
		from = unpack_group(&out[g++], from, codes, GROUP_SIZE);
		codes >>= CODE_BITS;
	}
	if (rest > 0)
		from = unpack_group(&out[g], from, codes, rest);
	return from;
}

// next_header returns at least the next n ≤ 57 bits of phase headers.
INLINE uint64_t next_header(struct reader *r, int n)
{
	uint64_t header = load64(r->headers + r->header_bit / 8) >> r->header_bit % 8;
	r->header_bit += (size_t)n;
	return header;
}

// unpack_rows reads count rows of those planes that are not constant. It returns 0
// if their residuals run past the end.
INLINE int unpack_rows(struct coded_block *out, struct reader *reader, int count, int planes, int width, int strips)
{
	struct reader r = *reader;
	for (int y = 0; y < count; y++) {
		for (int i = 0; i < r.coded_planes; i++) {
			struct coded_row *row = &out->rows[y * planes + r.coded[i]];
			uint64_t header;
			int odd_bits = odd_header_bits(width), row_bits = row_header_bits(width);
			if (row_bits <= 57) {
				header = next_header(&r, row_bits);
			} else {
				header = next_header(&r, even_header_bits(width));
			}
			row->even_id = header & ((1 << EVEN_ID_BITS) - 1);
			r.from = unpack_phase(row->even, r.from, header >> EVEN_ID_BITS, (width + 1) / 2, strips);
			if (row_bits <= 57) {
				header >>= even_header_bits(width);
			} else {
				header = next_header(&r, odd_bits);
			}
			row->odd_id = header & ((1 << ODD_ID_BITS) - 1);
			r.from = unpack_phase(row->odd, r.from, header >> ODD_ID_BITS, width / 2, strips);
			if (r.from > r.end)
				return 0;
		}
	}
	*reader = r;
	return 1;
}

// residuals undoes the zigzag: 0, 1, 2, 3, … are 0, −1, 1, −2, …
INLINE lanes residuals(const group *zigzagged)
{
	lanes z = load(zigzagged);
	return xor(half(z), sub(_mm256_setzero_si256(), and(z, every(1))));
}

#endif
