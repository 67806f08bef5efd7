// From planes to pixels: shares added back, columns and channels put in order.

#ifndef L3_AVX2_PIXELS_H
#define L3_AVX2_PIXELS_H

#include "predict.h"

// Shares of planes 0 and 1 in eighths, see transform.go of package l3.
struct shares {
	uint8_t first, second;
};

static const struct shares plane1_shares[4] = {{8, 0}, {0, 0}, {4, 0}, {6, 0}};
static const struct shares plane2_shares[8] = {{8, 0}, {0, 0}, {4, 4}, {4, 0}, {6, 0}, {2, 6}, {0, 8}, {6, 2}};

// A phase is the even or the odd columns of a row of all planes, then channels.
struct phase {
	lanes of[MAX_CHANNELS];
};

// correlate adds shares of x and y to a plane.
INLINE lanes correlate(lanes coded, lanes x, lanes y, struct shares s)
{
	if (s.first == 8) // by far the most frequent
		return _mm256_add_epi8(coded, _mm256_xor_si256(x, every(0x80)));
	// first·x + second·y, at most 8 · 255, needs 16 bits, and 8 after the shift.
	lanes weights = _mm256_set1_epi16(s.first | s.second << 8);
	lanes low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(x, y), weights);
	lanes high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(x, y), weights);
	lanes sum = _mm256_packus_epi16(_mm256_srli_epi16(low, 3), _mm256_srli_epi16(high, 3));
	return _mm256_add_epi8(coded, _mm256_sub_epi8(sum, every((s.first + s.second) << 4)));
}

// to_channels turns the planes of a phase into channels, in their order.
INLINE void to_channels(struct phase *p, int channels, uint8_t transform)
{
	if (channels >= 2)
		p->of[1] = correlate(p->of[1], p->of[0], p->of[0], plane1_shares[transform & 3]);
	if (channels >= 3) {
		p->of[2] = correlate(p->of[2], p->of[0], p->of[1], plane2_shares[transform >> 2 & 7]);
		lanes green = p->of[0];
		p->of[0] = p->of[1];
		p->of[1] = green;
	}
}

// Columns are 64 bytes, of one channel or of several: a full row has as many of
// them as there are channels.
struct columns {
	lanes low, high;
};

// weave8 takes bytes from x and y in turn, weave16 pairs of bytes. Unpacking
// works on either half of a vector by itself, so its results are put together
// again.
INLINE struct columns weave8(lanes x, lanes y)
{
	lanes low = _mm256_unpacklo_epi8(x, y), high = _mm256_unpackhi_epi8(x, y);
	return (struct columns){_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
}

INLINE struct columns weave16(lanes x, lanes y)
{
	lanes low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
	return (struct columns){_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
}

INLINE void put(uint8_t *to, lanes x) { _mm256_storeu_si256((lanes *)to, x); }

INLINE void put_columns(uint8_t *to, struct columns c)
{
	put(to, c.low);
	put(to + 32, c.high);
}

// pick takes x, y, z, x, y, z, … in both halves, each from its own place.
INLINE lanes pick(lanes x, lanes y, lanes z)
{
	const lanes second = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
	const lanes third = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
	return _mm256_blendv_epi8(_mm256_blendv_epi8(x, y, second), z, third);
}

// put_rgb writes 32 pixels. Sixteen pixels, half a vector, are three pieces of
// sixteen bytes; byte j of piece k is of channel (j + k) mod 3, so it is of a
// given channel c for one k only, and one order of a channel's bytes serves all
// three pieces: at j the pixel (16·k + j − c) / 3.
INLINE void put_rgb(uint8_t *to, lanes red, lanes green, lanes blue)
{
	lanes r = _mm256_shuffle_epi8(red, _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5)));
	lanes g = _mm256_shuffle_epi8(green, _mm256_broadcastsi128_si256(
		_mm_setr_epi8(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10)));
	lanes b = _mm256_shuffle_epi8(blue, _mm256_broadcastsi128_si256(
		_mm_setr_epi8(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15)));
	lanes piece0 = pick(r, g, b), piece1 = pick(g, b, r), piece2 = pick(b, r, g);
	put(to, _mm256_permute2x128_si256(piece0, piece1, 0x20));
	put(to + 32, _mm256_permute2x128_si256(piece2, piece0, 0x30));
	put(to + 64, _mm256_permute2x128_si256(piece1, piece2, 0x31));
}

// put_row writes MAX_EDGE pixels.
INLINE void put_row(uint8_t *to, const struct phase *even, const struct phase *odd, int channels)
{
	struct columns c[MAX_CHANNELS];
#pragma GCC unroll 4
	for (int i = 0; i < channels; i++)
		c[i] = weave8(even->of[i], odd->of[i]);
	switch (channels) {
	case 1:
		put_columns(to, c[0]);
		break;
	case 2:
		put_columns(to, weave8(c[0].low, c[1].low));
		put_columns(to + 64, weave8(c[0].high, c[1].high));
		break;
	case 3:
		put_rgb(to, c[0].low, c[1].low, c[2].low);
		put_rgb(to + 96, c[0].high, c[1].high, c[2].high);
		break;
	default: {
		struct columns low01 = weave8(c[0].low, c[1].low), low23 = weave8(c[2].low, c[3].low);
		struct columns high01 = weave8(c[0].high, c[1].high), high23 = weave8(c[2].high, c[3].high);
		put_columns(to, weave16(low01.low, low23.low));
		put_columns(to + 64, weave16(low01.high, low23.high));
		put_columns(to + 128, weave16(high01.low, high23.low));
		put_columns(to + 192, weave16(high01.high, high23.high));
	}
	}
}

#endif
