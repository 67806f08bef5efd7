// From planes of the dense coding of 16 bits to pixels: holes filled, then as
// pixels.h does it, then ranks turned into values.

#ifndef L3_AVX2_DENSE16_PIXELS_H
#define L3_AVX2_DENSE16_PIXELS_H

#include "dense16.h"
#include "dense16_rows.h"
#include "pixels.h"

// d16_filled is samples of a plane with their holes.
INLINE lanes d16_filled(const struct d16_row *row, const struct d16_row *holes, int i, int hole)
{
	lanes x = d16_load(row->of + i);
	return hole < 0 ? x : choose(x, every((lane)hole), d16_load(holes->of + i));
}

// d16_put_row writes row y of a patch; pixels is room for one that is not as wide as
// its strips. It returns 0 if a value is beyond the rank map. Its callers give
// channels as a constant.
INLINE int d16_put_row(uint8_t *to, uint8_t *pixels, const struct d16_plane *planes, int y, int width, int channels,
		       unsigned transform, const struct l3_dense16 *image, const uint16_t *ranks)
{
	int ranked = image->rank_count > 0, direct = width % STRIP == 0 && !ranked;
	size_t samples = (size_t)(width * channels);
	uint8_t *out = direct ? to : pixels;
	lanes flip = every(ranked ? 0 : (lane)image->flip);
	for (int i = 0; i < (width + 1) / 2; i += LANES) {
		struct phase even, odd;
#pragma GCC unroll 4
		for (int c = 0; c < channels; c++) {
			const struct d16_plane *p = &planes[c];
			even.of[c] = d16_filled(&p->even[y % 3], &p->even_holes[y % 2], i, image->hole);
			odd.of[c] = d16_filled(&p->odd[y % 3], &p->odd_holes[y % 2], i, image->hole);
		}
		to_channels(&even, channels, (uint8_t)transform);
		to_channels(&odd, channels, (uint8_t)transform);
#pragma GCC unroll 4
		for (int c = 0; c < channels; c++) {
			even.of[c] = xor(even.of[c], flip);
			odd.of[c] = xor(odd.of[c], flip);
		}
		put_strip(out + 2 * i * LANE_BYTES * channels, &even, &odd, channels);
	}
	if (direct)
		return 1;
	if (ranked)
		return put_values(to, pixels, samples, ranks, image->rank_count, (uint16_t)image->flip);
	memcpy(to, pixels, samples * LANE_BYTES);
	return 1;
}

#define PUT_ROW(name, channels)                                                                                        \
	AVX2_TARGET static int name(uint8_t *to, uint8_t *pixels, const struct d16_plane *planes, int y, int width,    \
				    unsigned transform, const struct l3_dense16 *image, const uint16_t *ranks)         \
	{                                                                                                              \
		return d16_put_row(to, pixels, planes, y, width, channels, transform, image, ranks);                   \
	}
PUT_ROW(d16_put_row_1, 1)
PUT_ROW(d16_put_row_2, 2)
PUT_ROW(d16_put_row_3, 3)
PUT_ROW(d16_put_row_4, 4)
#undef PUT_ROW

typedef int d16_row_putter(uint8_t *, uint8_t *, const struct d16_plane *, int, int, unsigned, const struct l3_dense16 *,
			   const uint16_t *);

// d16_row_putters are by the number of channels.
static d16_row_putter *const d16_row_putters[MAX_CHANNELS + 1] = {
	NULL, d16_put_row_1, d16_put_row_2, d16_put_row_3, d16_put_row_4,
};

#endif
