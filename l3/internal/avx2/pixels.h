// From planes to pixels: shares added back, columns and channels put in order.

#ifndef L3_AVX2_PIXELS_H
#define L3_AVX2_PIXELS_H

#include "vector.h"

// Shares of planes 0 and 1 in eighths, see transform.go of package l3.
struct shares {
	uint8_t first, second;
};

static const struct shares plane1_shares[4] = {{8, 0}, {0, 0}, {4, 0}, {6, 0}};
static const struct shares plane2_shares[8] = {{8, 0}, {0, 0}, {4, 4}, {4, 0}, {6, 0}, {2, 6}, {0, 8}, {6, 2}};

// transform_limits are one more than the largest transform, by channels.
static const uint8_t transform_limits[MAX_CHANNELS + 1] = {0, 1, 4, 32, 32};

// A phase is the even or the odd columns of one strip of a row: of all planes,
// then of all channels.
struct phase {
	lanes of[MAX_CHANNELS];
};

// share is (first·x + second·y) >> 3, less half a lane's range for a full share.
INLINE lanes share(lanes x, lanes y, struct shares s)
{
	if (s.first == 8) // by far the most frequent
		return xor(x, every(TOP_BIT));
#if LANE_BITS == 8
	// A sum, at most 8 · 255, needs 16 bits, and 8 after the shift.
	lanes weights = _mm256_set1_epi16(s.first | s.second << 8);
	lanes low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(x, y), weights);
	lanes high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(x, y), weights);
	lanes sum = _mm256_packus_epi16(_mm256_srli_epi16(low, 3), _mm256_srli_epi16(high, 3));
	return sub(sum, every((lane)((s.first + s.second) << 4)));
#else
	// The same, of samples less half the range: with signs, as the instructions
	// for 16 bits want them.
	x = xor(x, every(TOP_BIT));
	y = xor(y, every(TOP_BIT));
	lanes weights = _mm256_set1_epi32(s.first | s.second << 16);
	lanes low = _mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), weights);
	lanes high = _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), weights);
	return _mm256_packs_epi32(_mm256_srai_epi32(low, 3), _mm256_srai_epi32(high, 3));
#endif
}

// to_channels turns the planes of a phase into channels, in their order.
INLINE void to_channels(struct phase *p, int channels, uint8_t transform)
{
	if (channels >= 2)
		p->of[1] = add(p->of[1], share(p->of[0], p->of[0], plane1_shares[transform & 3]));
	if (channels >= 3) {
		p->of[2] = add(p->of[2], share(p->of[0], p->of[1], plane2_shares[transform >> 2 & 7]));
		lanes green = p->of[0];
		p->of[0] = p->of[1];
		p->of[1] = green;
	}
}

// Columns are 64 bytes, of one channel or of several: a strip has as many of
// them as there are channels.
struct columns {
	lanes low, high;
};

// weave takes lanes from x and y in turn, weave_two two lanes from each. Unpacking
// works on either half of a vector by itself, so its results are put together
// again.
INLINE struct columns woven(lanes low, lanes high)
{
	return (struct columns){_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
}

INLINE struct columns weave(lanes x, lanes y)
{
	return woven(BY_LANE(unpacklo)(x, y), BY_LANE(unpackhi)(x, y));
}

INLINE struct columns weave_two(lanes x, lanes y)
{
#if LANE_BITS == 8
	return woven(_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y));
#else
	return woven(_mm256_unpacklo_epi32(x, y), _mm256_unpackhi_epi32(x, y));
#endif
}

INLINE void put(uint8_t *to, lanes x) { _mm256_storeu_si256((lanes *)to, x); }

INLINE void put_columns(uint8_t *to, struct columns c)
{
	put(to, c.low);
	put(to + 32, c.high);
}

// Sixteen pixels of 8 bits, or eight of 16, are half a vector of each of three
// channels, and make three pieces of sixteen bytes. Place j of a piece is of each
// channel in one piece only, so one order of a channel's lanes serves all three
// pieces: with n lanes in half a vector, place j of channel c holds pixel
// (n·k + j − c) / 3, k being the piece where that is a whole number.
#if LANE_BITS == 8
#define RED_ORDER _mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5)
#define GREEN_ORDER _mm_setr_epi8(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10)
#define BLUE_ORDER _mm_setr_epi8(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15)
#define SECOND_PLACES _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0)
#define THIRD_PLACES _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0)
#else
#define RED_ORDER _mm_setr_epi8(0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15, 4, 5, 10, 11)
#define GREEN_ORDER _mm_setr_epi8(10, 11, 0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15, 4, 5)
#define BLUE_ORDER _mm_setr_epi8(4, 5, 10, 11, 0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15)
#define SECOND_PLACES _mm_setr_epi16(0, -1, 0, 0, -1, 0, 0, -1)
#define THIRD_PLACES _mm_setr_epi16(0, 0, -1, 0, 0, -1, 0, 0)
#endif

INLINE lanes reorder(lanes x, __m128i order) { return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order)); }

// pick takes x, y, z, x, y, z, … in both halves, each from its own place.
INLINE lanes pick(lanes x, lanes y, lanes z)
{
	lanes xy = choose(x, y, _mm256_broadcastsi128_si256(SECOND_PLACES));
	return choose(xy, z, _mm256_broadcastsi128_si256(THIRD_PLACES));
}

// put_rgb writes LANES pixels.
INLINE void put_rgb(uint8_t *to, lanes red, lanes green, lanes blue)
{
	lanes r = reorder(red, RED_ORDER), g = reorder(green, GREEN_ORDER), b = reorder(blue, BLUE_ORDER);
	lanes piece0 = pick(r, g, b);
	// A piece of 16 bytes ends after one third of a pixel, one of 8 samples of
	// 16 bits after two.
	lanes piece1 = LANE_BITS == 8 ? pick(g, b, r) : pick(b, r, g);
	lanes piece2 = LANE_BITS == 8 ? pick(b, r, g) : pick(g, b, r);
	put(to, _mm256_permute2x128_si256(piece0, piece1, 0x20));
	put(to + 32, _mm256_permute2x128_si256(piece2, piece0, 0x30));
	put(to + 64, _mm256_permute2x128_si256(piece1, piece2, 0x31));
}

// put_strip writes STRIP pixels.
INLINE void put_strip(uint8_t *to, const struct phase *even, const struct phase *odd, int channels)
{
	struct columns c[MAX_CHANNELS];
	const int planes = __builtin_constant_p(channels) ? channels : MAX_CHANNELS;
#pragma GCC unroll 4
	for (int i = 0; i < planes; i++)
		c[i] = weave(even->of[i], odd->of[i]);
	switch (channels) {
	case 1:
		put_columns(to, c[0]);
		break;
	case 2:
		put_columns(to, weave(c[0].low, c[1].low));
		put_columns(to + 64, weave(c[0].high, c[1].high));
		break;
	case 3:
		put_rgb(to, c[0].low, c[1].low, c[2].low);
		put_rgb(to + 96, c[0].high, c[1].high, c[2].high);
		break;
	default: {
		struct columns low01 = weave(c[0].low, c[1].low), low23 = weave(c[2].low, c[3].low);
		struct columns high01 = weave(c[0].high, c[1].high), high23 = weave(c[2].high, c[3].high);
		put_columns(to, weave_two(low01.low, low23.low));
		put_columns(to + 64, weave_two(low01.high, low23.high));
		put_columns(to + 128, weave_two(high01.low, high23.low));
		put_columns(to + 192, weave_two(high01.high, high23.high));
	}
	}
}

// put_values writes the values of n ranks of 16 bits, xored with flip. ranks has
// 65,536 values, the first rank_count of which are in the map. It returns 0 if one
// of the ranks is not.
INLINE int put_values(uint8_t *to, const uint8_t *from, size_t n, const uint16_t *ranks, int rank_count, uint16_t flip)
{
	unsigned wrong = 0;
	for (size_t i = 0; i < n; i++) {
		uint16_t rank, value;
		memcpy(&rank, from + 2 * i, sizeof rank);
		wrong |= rank >= rank_count;
		value = ranks[rank] ^ flip;
		memcpy(to + 2 * i, &value, sizeof value);
	}
	return !wrong;
}

#endif
