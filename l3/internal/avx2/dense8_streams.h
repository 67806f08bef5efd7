// The entropy coder of the dense coding of 8 bits: up to 32 lanes of range
// asymmetric numeral systems (J. Duda, arXiv:1311.2540), which share one stream of
// 16-bit words (F. Giesen, arXiv:1402.3392). This is the only part that reads the
// file.

#ifndef L3_AVX2_DENSE8_STREAMS_H
#define L3_AVX2_DENSE8_STREAMS_H

#include "dense8.h"
#include "vector.h"

// A slot is base value, offset, frequency and number of raw bits, from the lowest
// bit on, as byteSlot of package l3 puts them together.
enum { BASE_BITS = 8, OFFSET_BITS = 10, FREQUENCY_BITS = 11, FREQUENCY_AT = BASE_BITS + OFFSET_BITS, RAW_AT = 29 };

// streams are the states of the lanes, and where their next word stands. States
// are kept as halves of 16 bits, in which renormalisation moves whole halves:
// element 0 has lanes 0 to 7 and 16 to 23, element 1 the others. That is the order
// in which vectors of bytes are unpacked and packed.
struct streams {
	lanes low[2], high[2];
	const uint8_t *words;
	const uint32_t *slots;
	int count; // of lanes
};

// A patch may be read until a row of a plane has taken too many words: one for
// each sample at most, and the last load takes eight.
enum { STREAMS_AHEAD = 2 * MAX_EDGE + 16 };

// word_places has, by which of eight lanes take a word, the bytes of each lane's
// word among the next eight words; 0x80 stands for zero.
#define PLACE(m, i) ((m) >> (i) & 1 ? 2 * __builtin_popcount((m) & ((1 << (i)) - 1)) : 0x80)
#define PLACE_AFTER(m, i) ((m) >> (i) & 1 ? PLACE(m, i) + 1 : 0x80)
#define PLACE2(m, i) PLACE(m, i), PLACE_AFTER(m, i), PLACE(m, i + 1), PLACE_AFTER(m, i + 1)
#define PLACES(m) {PLACE2(m, 0), PLACE2(m, 2), PLACE2(m, 4), PLACE2(m, 6)}
#define PLACES4(m) PLACES(m), PLACES(m + 1), PLACES(m + 2), PLACES(m + 3)
#define PLACES16(m) PLACES4(m), PLACES4(m + 4), PLACES4(m + 8), PLACES4(m + 12)
#define PLACES64(m) PLACES16(m), PLACES16(m + 16), PLACES16(m + 32), PLACES16(m + 48)
static const _Alignas(16) uint8_t word_places[256][16] = {PLACES64(0), PLACES64(64), PLACES64(128), PLACES64(192)};

INLINE __m128i eight_words(const uint8_t *from, uint8_t takes)
{
	return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)from), *(const __m128i *)word_places[takes]);
}

INLINE lanes join(__m128i low, __m128i high) { return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1); }

// four_slots looks slots up one by one, which is faster than vpgatherdd.
INLINE __m128i four_slots(const uint32_t *slots, const uint16_t places[4])
{
	__m128i low = _mm_insert_epi32(_mm_cvtsi32_si128((int)slots[places[0]]), (int)slots[places[1]], 1);
	__m128i high = _mm_insert_epi32(_mm_cvtsi32_si128((int)slots[places[2]]), (int)slots[places[3]], 1);
	return _mm_unpacklo_epi64(low, high);
}

INLINE lanes field(lanes slots, int at, int bits)
{
	return and(_mm256_srli_epi32(slots, at), _mm256_set1_epi32((1 << bits) - 1));
}

// decode_eight decodes a value in each of eight states, as lanes of 32 bits.
INLINE lanes decode_eight(lanes *states, lanes slots)
{
	lanes x = _mm256_mullo_epi32(_mm256_srli_epi32(*states, DENSE8_BITS), field(slots, FREQUENCY_AT, FREQUENCY_BITS));
	x = _mm256_add_epi32(x, field(slots, BASE_BITS, OFFSET_BITS));
	lanes raw_bits = _mm256_srli_epi32(slots, RAW_AT);
	lanes raw = _mm256_andnot_si256(_mm256_sllv_epi32(_mm256_set1_epi32(-1), raw_bits), x);
	*states = _mm256_srlv_epi32(x, raw_bits);
	return _mm256_add_epi32(field(slots, 0, BASE_BITS), raw);
}

// first_lanes has a bit for each of the first count lanes.
INLINE uint32_t first_lanes(int count) { return count < LANES ? ((uint32_t)1 << count) - 1 : 0xffffffff; }

// lanes_below is all bits of those lanes of a vector whose number is less than n.
INLINE lanes lanes_below(int n)
{
	const lanes numbers = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
					       22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
	n = n < 0 ? 0 : n < LANES ? n : LANES;
	return _mm256_cmpgt_epi8(every((lane)n), numbers);
}

// renormalise gives words to those lanes among the first ones whose states have
// become too small.
INLINE void renormalise(struct streams *s, lanes low[2], lanes high[2], int active)
{
	const lanes zero = _mm256_setzero_si256();
	lanes small0 = _mm256_cmpeq_epi16(high[0], zero), small1 = _mm256_cmpeq_epi16(high[1], zero);
	uint32_t takes = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(small0, small1)) & first_lanes(active);
	const uint8_t *from = s->words;
	__m128i words0 = eight_words(from, (uint8_t)takes);
	__m128i words1 = eight_words(from + 2 * __builtin_popcount(takes & 0xff), (uint8_t)(takes >> 8));
	__m128i words2 = eight_words(from + 2 * __builtin_popcount(takes & 0xffff), (uint8_t)(takes >> 16));
	__m128i words3 = eight_words(from + 2 * __builtin_popcount(takes & 0xffffff), (uint8_t)(takes >> 24));
	s->words = from + 2 * __builtin_popcount(takes);
	high[0] = choose(high[0], low[0], small0);
	high[1] = choose(high[1], low[1], small1);
	low[0] = choose(low[0], join(words0, words2), small0);
	low[1] = choose(low[1], join(words1, words3), small1);
}

// step decodes a value in each of the first lanes, so many as are active; what is
// in other lanes then means nothing. tables has twice the number of each lane's
// table.
INLINE lanes step(struct streams *s, lanes tables, int active, int renormalises)
{
	const lanes zero = _mm256_setzero_si256(), within = _mm256_set1_epi16((1 << DENSE8_BITS) - 1);
	_Alignas(32) uint16_t places[2][16];
	lanes place0 = _mm256_or_si256(_mm256_unpacklo_epi8(zero, tables), and(s->low[0], within));
	lanes place1 = _mm256_or_si256(_mm256_unpackhi_epi8(zero, tables), and(s->low[1], within));
	_mm256_store_si256((lanes *)places[0], place0);
	_mm256_store_si256((lanes *)places[1], place1);
	// A compiler that sees through this takes the vectors apart in registers,
	// which is slower than to load the parts.
	__asm__ volatile("" : "+m"(places));

	lanes values[2], low[2], high[2];
#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		lanes x = _mm256_unpacklo_epi16(s->low[i], s->high[i]);
		lanes y = _mm256_unpackhi_epi16(s->low[i], s->high[i]);
		const uint16_t *p = places[i];
		lanes v = decode_eight(&x, join(four_slots(s->slots, p), four_slots(s->slots, p + 8)));
		lanes w = decode_eight(&y, join(four_slots(s->slots, p + 4), four_slots(s->slots, p + 12)));
		values[i] = _mm256_packus_epi32(v, w);
		low[i] = _mm256_packus_epi32(_mm256_blend_epi16(x, zero, 0xaa), _mm256_blend_epi16(y, zero, 0xaa));
		high[i] = _mm256_packus_epi32(_mm256_srli_epi32(x, 16), _mm256_srli_epi32(y, 16));
	}
	if (renormalises)
		renormalise(s, low, high, active);
	if (active < s->count) { // the other lanes wait
		lanes go = lanes_below(active);
		lanes go0 = _mm256_unpacklo_epi8(go, go), go1 = _mm256_unpackhi_epi8(go, go);
		low[0] = choose(s->low[0], low[0], go0);
		low[1] = choose(s->low[1], low[1], go1);
		high[0] = choose(s->high[0], high[0], go0);
		high[1] = choose(s->high[1], high[1], go1);
	}
	for (int i = 0; i < 2; i++) {
		s->low[i] = low[i];
		s->high[i] = high[i];
	}
	return _mm256_packus_epi16(values[0], values[1]);
}

// few_streams decodes count values where there are fewer lanes, or not as many as
// a vector has: value i in lane i mod s->count.
AVX2_TARGET static void few_streams(struct streams *s, lanes values[MAX_STRIPS], const lanes tables[MAX_STRIPS],
				    int count, int strips, int renormalises)
{
	enum { PAIRS = MAX_EDGE / 2 };
	_Alignas(32) uint8_t of[PAIRS + LANES] = {0}, to[PAIRS + LANES] = {0};
	// Lanes that are not active load a slot as well, so tables of strips that
	// do not exist must be in bounds, too.
	memcpy(of, tables, (size_t)strips * LANES);
	for (int i = 0; i < count; i += s->count) {
		int active = count - i < s->count ? count - i : s->count;
		lanes v = step(s, _mm256_loadu_si256((const lanes *)(of + i)), active, renormalises);
		_mm256_storeu_si256((lanes *)(to + i), v);
	}
	memcpy(values, to, PAIRS);
}

// decode_values decodes the values of count lanes of a row. Those of other lanes
// mean nothing.
INLINE void decode_values(struct streams *s, lanes values[MAX_STRIPS], const lanes tables[MAX_STRIPS], int count,
			  int strips, int renormalises)
{
	if (s->count < LANES && s->count < count) {
		few_streams(s, values, tables, count, strips, renormalises);
		return;
	}
#pragma GCC unroll 2
	for (int k = 0; k < strips; k++)
		values[k] = k == 0 || count > k * LANES
				    ? step(s, tables[k], count - k * LANES, renormalises)
				    : _mm256_setzero_si256();
}

// start_streams reads the states of count lanes.
INLINE void start_streams(struct streams *s, const uint8_t *from, int count)
{
	_Alignas(32) uint16_t low[2][16] = {{0}}, high[2][16] = {{0}};
	for (int i = 0; i < count; i++, from += 4) {
		int element = i / 8 % 2, at = i / 16 * 8 + i % 8;
		memcpy(&low[element][at], from, 2);
		memcpy(&high[element][at], from + 2, 2);
	}
	for (int i = 0; i < 2; i++) {
		s->low[i] = load(low[i]);
		s->high[i] = load(high[i]);
	}
	s->count = count;
	s->words = from;
}

#endif
