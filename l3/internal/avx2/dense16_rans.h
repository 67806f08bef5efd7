// The entropy coder of the dense coding of 16 bits: from words to values, eight
// lanes at a time. This is the only part that reads the file.

#ifndef L3_AVX2_DENSE16_RANS_H
#define L3_AVX2_DENSE16_RANS_H

#include "vector.h"

// Sizes of the coding, as in dense16.go and rans.go of package l3.
enum {
	D16_MAX_PAIRS = MAX_EDGE / 2,
	D16_TABLE_BITS = 10,
	D16_ID_TABLE = 15,
	D16_LEVELS = 32,
	D16_ZONES = 4,
	D16_MAX_LANES = 32,
	D16_VECTOR = 8, // lanes of a vector of states
	D16_HOLE = 7,   // raw bits of a slot that stands for a hole
};

// Offsets of the parts of a slot.
enum { D16_RAW = 8, D16_OFFSET = 11, D16_FREQUENCY = 21 };

// Decoding a phase of a row takes at most two words a value, and the last load
// of words takes eight.
enum { D16_READ_AHEAD = 2 * D16_MAX_PAIRS * 2 * 2 + 16 };

// A d16_coder is the states of a patch and where its words go on.
struct d16_coder {
	__m256i states[D16_MAX_LANES / D16_VECTOR];
	const uint8_t *words;
	const uint32_t *slots;
	int lanes;
};

// A d16_phase is the even or the odd columns of a row, one a lane, on their way
// from contexts to values: sums of magnitudes and zones are given, zigzagged
// values and holes (all bits of a lane) come out. Vectors reach past the last lane.
struct d16_phase {
	_Alignas(32) uint16_t sums[D16_MAX_PAIRS + 16];
	_Alignas(32) uint16_t zones[D16_MAX_PAIRS + 16];
	_Alignas(32) uint16_t values[D16_MAX_PAIRS + 16];
	_Alignas(32) uint16_t holes[D16_MAX_PAIRS + 16];
};

INLINE __m256i d16_every32(uint32_t v) { return _mm256_set1_epi32((int)v); }

// d16_first_lanes has all bits of the first n lanes of a vector of states.
INLINE __m256i d16_first_lanes(int n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// d16_levels is the level of each of eight sums. From 8 on it is made of the
// exponent of the sum as a float and of the first bit of the fraction.
INLINE __m256i d16_levels(__m256i sums)
{
	__m256i bits = _mm256_castps_si256(_mm256_cvtepi32_ps(sums));
	__m256i level = _mm256_sub_epi32(_mm256_srli_epi32(bits, 22), d16_every32(252));
	// Below 8, where it would be larger than the sum, or, at 0, less than 0.
	level = _mm256_min_epu32(level, sums);
	return _mm256_min_epu32(level, d16_every32(D16_LEVELS - 1));
}

// d16_look_up takes bytes from a map of 32, one for each lane of levels.
INLINE __m256i d16_look_up(const uint8_t *map, __m256i levels)
{
	__m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)map));
	__m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(map + 16)));
	// A byte whose top bit is set takes 0. That of a level has it in the wrong
	// half of the map, the other bytes of a lane always.
	low = _mm256_shuffle_epi8(low, _mm256_add_epi32(levels, d16_every32(0x80808070)));
	high = _mm256_shuffle_epi8(high, _mm256_add_epi32(levels, d16_every32(0x808080f0)));
	return _mm256_or_si256(low, high);
}

// d16_tables is the table of each of eight contexts.
INLINE __m256i d16_tables(const struct d16_phase *p, int first, const uint8_t *map, int holes)
{
	__m256i sums = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p->sums + first)));
	__m256i levels = d16_levels(sums);
	__m256i tables = d16_look_up(map, levels);
	if (!holes)
		return tables;
	__m128i near = _mm_loadu_si128((const __m128i *)(p->zones + first));
	if (_mm_testz_si128(near, near))
		return tables;
	__m256i zones = _mm256_cvtepu16_epi32(near);
#pragma GCC unroll 3
	for (int zone = 1; zone < D16_ZONES; zone++) {
		__m256i here = d16_look_up(map + zone * D16_LEVELS, levels);
		tables = _mm256_blendv_epi8(tables, here, _mm256_cmpeq_epi32(zones, d16_every32(zone)));
	}
	return tables;
}

// d16_gather reads eight slots. Loads one by one are faster than the
// instruction for all.
INLINE __m256i d16_gather(const uint32_t *slots, __m256i index)
{
	_Alignas(32) uint32_t at[D16_VECTOR];
	_mm256_store_si256((__m256i *)at, index);
	__asm__("" : "+m"(at)); // keeps the compiler from taking the vector apart instead
	__m128i low = _mm_cvtsi32_si128((int)slots[at[0]]);
	low = _mm_insert_epi32(low, (int)slots[at[1]], 1);
	low = _mm_insert_epi32(low, (int)slots[at[2]], 2);
	low = _mm_insert_epi32(low, (int)slots[at[3]], 3);
	__m128i high = _mm_cvtsi32_si128((int)slots[at[4]]);
	high = _mm_insert_epi32(high, (int)slots[at[5]], 1);
	high = _mm_insert_epi32(high, (int)slots[at[6]], 2);
	high = _mm_insert_epi32(high, (int)slots[at[7]], 3);
	return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// d16_take_words gives the states that have become too small, of the lanes that
// may take words, the next words in the order of lanes.
INLINE __m256i d16_take_words(struct d16_coder *c, __m256i x, __m256i may)
{
	__m256i needs = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
	needs = _mm256_and_si256(needs, may);
	unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(needs));
	// A byte for each lane: how many lanes below it take a word.
	uint64_t below = (_pdep_u64(mask, 0x0101010101010101) * 0x0101010101010101) << 8;
	__m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)c->words));
	words = _mm256_permutevar8x32_epi32(words, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)below)));
	c->words += 2 * __builtin_popcount(mask);
	return _mm256_blendv_epi8(x, _mm256_or_si256(_mm256_slli_epi32(x, 16), words), needs);
}

// A d16_values is what a step has decoded of eight values: their leading bits, how many
// follow, and which are holes.
struct d16_values {
	__m256i leading, more, holes;
};

// d16_step decodes the tokens of eight lanes. In lanes that are not active
// nothing happens, and the values are 0.
INLINE struct d16_values d16_step(struct d16_coder *c, int vector, __m256i tables, __m256i active, int all_active,
				  __m256i may, int holes)
{
	struct d16_values v;
	__m256i old = c->states[vector];
	__m256i index = _mm256_and_si256(old, d16_every32((1 << D16_TABLE_BITS) - 1));
	index = _mm256_or_si256(index, _mm256_slli_epi32(tables, D16_TABLE_BITS));
	__m256i slot = d16_gather(c->slots, index);
	__m256i frequency = _mm256_srli_epi32(slot, D16_FREQUENCY);
	__m256i offset = _mm256_and_si256(_mm256_srli_epi32(slot, D16_OFFSET), d16_every32((1 << D16_TABLE_BITS) - 1));
	__m256i x = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(old, D16_TABLE_BITS)), offset);
	__m256i raw_bits = _mm256_and_si256(_mm256_srli_epi32(slot, D16_RAW), d16_every32(7));
	v.holes = _mm256_setzero_si256();
	if (holes) {
		v.holes = _mm256_cmpeq_epi32(raw_bits, d16_every32(D16_HOLE));
		raw_bits = _mm256_andnot_si256(v.holes, raw_bits);
	}
	__m256i above = _mm256_sllv_epi32(d16_every32(~0u), raw_bits); // all bits but the raw ones
	v.more = _mm256_andnot_si256(above, slot);
	v.leading = _mm256_and_si256(_mm256_and_si256(slot, d16_every32(0xff)), above);
	v.leading = _mm256_or_si256(v.leading, _mm256_andnot_si256(above, x));
	x = d16_take_words(c, _mm256_srlv_epi32(x, raw_bits), may);
	if (!all_active) {
		x = _mm256_blendv_epi8(old, x, active);
		v.more = _mm256_and_si256(v.more, active);
		v.leading = _mm256_and_si256(v.leading, active);
		v.holes = _mm256_and_si256(v.holes, active);
	}
	c->states[vector] = x;
	return v;
}

// d16_second_step appends the raw bits that follow, where some do.
INLINE __m256i d16_second_step(struct d16_coder *c, int vector, struct d16_values v, __m256i may)
{
	__m256i x = c->states[vector];
	__m256i above = _mm256_sllv_epi32(d16_every32(~0u), v.more);
	__m256i value = _mm256_or_si256(_mm256_sllv_epi32(v.leading, v.more), _mm256_andnot_si256(above, x));
	__m256i has = _mm256_cmpgt_epi32(v.more, _mm256_setzero_si256());
	// A state from which nothing was taken must take no word, even one that a
	// file began with below 2^16.
	c->states[vector] = d16_take_words(c, _mm256_srlv_epi32(x, v.more), _mm256_and_si256(may, has));
	return value;
}

// d16_narrow_values turns eight lanes of 32 bits, below 2^16, into 16 bits;
// d16_narrow_masks lanes that are all 0 or all 1.
INLINE __m128i d16_narrow_values(__m256i x)
{
	return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

INLINE __m128i d16_narrow_masks(__m256i x)
{
	return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

// d16_decode_phase decodes count values of a phase. whole says that count is a
// multiple of D16_VECTOR. What is to be 0 behind the last value, in the vector
// that it is in and the next one, becomes 0.
INLINE void d16_decode_phase(struct d16_coder *c, struct d16_phase *p, const uint8_t *map, int count, int renormalise,
			     int holes, int whole)
{
	const __m256i may = renormalise ? d16_every32(~0u) : _mm256_setzero_si256();
	for (int first = 0; first < count; first += c->lanes) {
		int n = count - first < c->lanes ? count - first : c->lanes;
		int vectors = (n + D16_VECTOR - 1) / D16_VECTOR;
		struct d16_values v[D16_MAX_LANES / D16_VECTOR];
		__m256i more = _mm256_setzero_si256();
		for (int k = 0; k < vectors; k++) {
			__m256i active = whole ? d16_every32(~0u) : d16_first_lanes(n - k * D16_VECTOR);
			__m256i tables = d16_tables(p, first + k * D16_VECTOR, map, holes);
			v[k] = d16_step(c, k, tables, active, whole, whole ? may : _mm256_and_si256(may, active), holes);
			more = _mm256_or_si256(more, v[k].more);
		}
		if (!_mm256_testz_si256(more, more))
			for (int k = 0; k < vectors; k++)
				v[k].leading = d16_second_step(c, k, v[k], may);
		for (int k = 0; k < vectors; k++) {
			int at = first + k * D16_VECTOR;
			_mm_storeu_si128((__m128i *)(p->values + at), d16_narrow_values(v[k].leading));
			if (holes)
				_mm_storeu_si128((__m128i *)(p->holes + at), d16_narrow_masks(v[k].holes));
		}
	}
	int end = (count + D16_VECTOR - 1) / D16_VECTOR * D16_VECTOR;
	_mm_storeu_si128((__m128i *)(p->values + end), _mm_setzero_si128());
	if (holes)
		_mm_storeu_si128((__m128i *)(p->holes + end), _mm_setzero_si128());
}

// d16_decode_ids decodes the numbers of predictors of all plane rows. It returns 0
// if the words run out.
INLINE int d16_decode_ids(struct d16_coder *c, uint16_t *ids, int count, const uint8_t *end)
{
	for (int first = 0; first < count; first += c->lanes) {
		int n = count - first < c->lanes ? count - first : c->lanes;
		for (int k = 0; k * D16_VECTOR < n; k++) {
			__m256i active = d16_first_lanes(n - k * D16_VECTOR);
			struct d16_values v = d16_step(c, k, d16_every32(D16_ID_TABLE), active, 0, active, 0);
			_mm_storeu_si128((__m128i *)(ids + first + k * D16_VECTOR), d16_narrow_values(v.leading));
		}
		if (c->words > end)
			return 0;
	}
	return 1;
}

#endif
