// From planes of 16 bits to samples: holes filled, shares added back, columns and
// channels put in order, ranks turned into values.

#ifndef L3_AVX2_DENSE16_PIXELS_H
#define L3_AVX2_DENSE16_PIXELS_H

#include "dense16.h"
#include "dense16_rows.h"

// Shares of planes 0 and 1 in eighths, see transform.go of package l3.
struct d16_shares {
	uint8_t first, second;
};

static const struct d16_shares d16_plane1_shares[4] = {{8, 0}, {0, 0}, {4, 0}, {6, 0}};
static const struct d16_shares d16_plane2_shares[8] = {{8, 0}, {0, 0}, {4, 4}, {4, 0}, {6, 0}, {2, 6}, {0, 8}, {6, 2}};

// A d16_line is a row of one channel, columns in their order.
struct d16_line {
	_Alignas(32) uint16_t of[D16_MAX_EDGE + 2 * D16_LANES];
};

// d16_order puts even and odd columns of a plane in order, holes filled.
INLINE void d16_order(struct d16_line *out, const struct d16_plane *p, int y, int pairs, int hole)
{
	for (int i = 0; i < pairs; i += D16_LANES) {
		__m256i even = d16_load(p->even[y % 3].of + i), odd = d16_load(p->odd[y % 3].of + i);
		if (hole >= 0) {
			even = _mm256_blendv_epi8(even, d16_every(hole), d16_load(p->even_holes[y % 2].of + i));
			odd = _mm256_blendv_epi8(odd, d16_every(hole), d16_load(p->odd_holes[y % 2].of + i));
		}
		__m256i low = _mm256_unpacklo_epi16(even, odd), high = _mm256_unpackhi_epi16(even, odd);
		d16_store(out->of + 2 * i, _mm256_permute2x128_si256(low, high, 0x20));
		d16_store(out->of + 2 * i + D16_LANES, _mm256_permute2x128_si256(low, high, 0x31));
	}
}

// d16_correlate adds shares of x and y to a line.
INLINE void d16_correlate(struct d16_line *line, const struct d16_line *x, const struct d16_line *y,
			  struct d16_shares s, int width)
{
	__m256i first = d16_every(s.first), second = d16_every(s.second);
	__m256i offset = d16_every((s.first + s.second) << 12);
	for (int i = 0; i < width; i += D16_LANES) {
		__m256i a = d16_load(x->of + i), b = d16_load(y->of + i);
		// first·a + second·b, at most 8 · 65,535, needs 32 bits, and 16 after the shift.
		__m256i a_low = _mm256_mullo_epi16(a, first), a_high = _mm256_mulhi_epu16(a, first);
		__m256i b_low = _mm256_mullo_epi16(b, second), b_high = _mm256_mulhi_epu16(b, second);
		__m256i low = _mm256_add_epi32(_mm256_unpacklo_epi16(a_low, a_high), _mm256_unpacklo_epi16(b_low, b_high));
		__m256i high = _mm256_add_epi32(_mm256_unpackhi_epi16(a_low, a_high), _mm256_unpackhi_epi16(b_low, b_high));
		__m256i sum = _mm256_packus_epi32(_mm256_srli_epi32(low, 3), _mm256_srli_epi32(high, 3));
		sum = _mm256_add_epi16(d16_load(line->of + i), _mm256_sub_epi16(sum, offset));
		d16_store(line->of + i, sum);
	}
}

// d16_to_values turns coded values into samples. It returns 0 if a value is beyond the
// rank map.
INLINE int d16_to_values(struct d16_line *line, const struct l3_dense16 *image, const uint16_t *ranks, int width)
{
	uint16_t flip = (uint16_t)image->flip;
	if (image->rank_count > 0) {
		uint32_t largest = 0;
		for (int i = 0; i < width; i++) {
			uint16_t v = line->of[i];
			largest = v > largest ? v : largest;
			line->of[i] = ranks[v] ^ flip;
		}
		return largest < (uint32_t)image->rank_count;
	}
	if (flip != 0)
		for (int i = 0; i < width; i += D16_LANES)
			d16_store(line->of + i, _mm256_xor_si256(d16_load(line->of + i), d16_every(flip)));
	return 1;
}

// d16_put_row writes row y of a patch. It returns 0 if a value is beyond the rank
// map. channels is the image's, as a constant where callers have it.
INLINE int d16_put_row(uint16_t *to, struct d16_line lines[], const struct d16_plane *planes, int y, int width,
		       int channels, unsigned transform, const struct l3_dense16 *image, const uint16_t *ranks)
{
	static const uint8_t channel_of[D16_MAX_CHANNELS + 1][D16_MAX_CHANNELS] = {
		{0}, {0}, {0, 1}, {1, 0, 2}, {1, 0, 2, 3},
	};
	for (int i = 0; i < channels; i++)
		d16_order(&lines[i], &planes[i], y, (width + 1) / 2, image->hole);
	if (channels >= 2)
		d16_correlate(&lines[1], &lines[0], &lines[0], d16_plane1_shares[transform & 3], width);
	if (channels >= 3)
		d16_correlate(&lines[2], &lines[0], &lines[1], d16_plane2_shares[transform >> 2 & 7], width);
	int ok = 1;
	for (int i = 0; i < channels; i++)
		ok &= d16_to_values(&lines[i], image, ranks, width);
	if (channels == 1) {
		memcpy(to, lines[0].of, (size_t)width * 2);
		return ok;
	}
	for (int i = 0; i < channels; i++) {
		const uint16_t *from = lines[i].of;
		uint16_t *channel = to + channel_of[channels][i];
		for (int x = 0; x < width; x++)
			channel[x * channels] = from[x];
	}
	return ok;
}

#endif
