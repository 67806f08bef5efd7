// The published format: rows of deltas that all have one width and one base,
// predicted from the row above. docs/format-l3.md, section 8.
//
// A warp decodes the three channels of a rectangle side by side: the place of a row
// depends on the width of the row before, and three such chains wait no longer
// than one.

#ifndef PRISMFS_PUBLISHED_H
#define PRISMFS_PUBLISHED_H

#include "batch.h"

#define PUBLISHED_CHANNELS 3

// The row above and the current one, row y at y mod 2.
struct published_scratch {
	u8 rows[2][PUBLISHED_CHANNELS][MAX_PUBLISHED_EDGE];
};

DEVICE i32 magnitude_of(i32 v) { return v < 0 ? -v : v; }

// predict_published is the prediction from the samples above left, above and above
// right.
DEVICE u32 predict_published(u32 a, u32 b, u32 c)
{
	i32 right = (i32)c - (i32)b, left = (i32)a - (i32)b;
	i32 to_a = magnitude_of(right), to_b = magnitude_of(right + left), to_c = magnitude_of(left);
	if (a == 0)
		return to_b <= to_c ? b : c;
	if (c == 0)
		return to_a <= to_b ? a : b;
	if (to_a <= to_b && to_a <= to_c)
		return a;
	return to_a <= to_c ? b : c;
}

// published_row decodes a row of one channel and moves `at` on. It returns
// STATUS_OK, or what is wrong with the row.
DEVICE u32 published_row(const struct source *s, u32 *at, u8 *row, const u8 *above, u32 edge, bool first)
{
	u32 header = bits_at(s, 8 * *at), width = header & 15, base = header >> 4 & 0xff;
	if (*at + 2 > s->length)
		return STATUS_RAN_OUT;
	if (width > 8)
		return STATUS_BAD_WIDTH;
	u32 size = (12 + edge * width + 7) / 8;
	if (*at + size > s->length)
		return STATUS_RAN_OUT;
	for (u32 x = lane_index(); x < edge; x += LANES) {
		u32 delta = bits_at(s, 8 * *at + 12 + x * width) & ((1u << width) - 1);
		u32 prediction = 0;
		if (!first)
			prediction = predict_published(x > 0 ? above[x - 1] : 0, above[x], x + 1 < edge ? above[x + 1] : 0);
		row[x] = (u8)(base + delta + prediction);
	}
	*at += size;
	return STATUS_OK;
}

// published_patches decodes the patches of one rectangle. Errors are of all three.
DEVICE u32 published_patches(const struct source *s, u8 *to, const struct image *img, u32 edge, struct published_scratch *scratch)
{
	u32 at[PUBLISHED_CHANNELS] = {0, 0, 0};
	for (u32 y = 0; y < edge; y++) {
#pragma unroll
		for (u32 c = 0; c < PUBLISHED_CHANNELS; c++) {
			u32 wrong = published_row(&s[c], &at[c], scratch->rows[y % 2][c], scratch->rows[(y + 1) % 2][c], edge, y == 0);
			if (wrong != STATUS_OK)
				return wrong;
		}
		for (u32 x = lane_index(); x < edge; x += LANES)
#pragma unroll
			for (u32 c = 0; c < PUBLISHED_CHANNELS; c++)
				to[(u64)x * img->pixel_step + c * img->channel_step] = scratch->rows[y % 2][c][x];
		to += img->row_step;
		sync_warp();
	}
#pragma unroll
	for (u32 c = 0; c < PUBLISHED_CHANNELS; c++)
		if (at[c] != s[c].length)
			return STATUS_LEFT_OVER;
	return STATUS_OK;
}

// published_fits reports whether the patches of a rectangle lie where they may.
DEVICE bool published_fits(const struct image *img, const struct patch *p, u64 encoded_bytes, u64 pixel_bytes)
{
#pragma unroll
	for (u32 c = 0; c < PUBLISHED_CHANNELS; c++)
		if (!encoded_fits(&p[c], encoded_bytes))
			return false;
	return img->channels == PUBLISHED_CHANNELS && img->sample_bytes == 1 && p->width == p->height && p->width >= 8 &&
		pixels_fit(img, p, pixel_bytes, MAX_PUBLISHED_EDGE);
}

DEVICE void published_kernel(PARAMETERS, struct published_scratch *scratch)
{
	(void)tables;
	u32 index = patch_of_warp() * PUBLISHED_CHANNELS;
	if (!begins(index, index + PUBLISHED_CHANNELS <= count ? count : 0, status))
		return;
	const struct patch *p = &patches[index];
	const struct image *img = &images[p->image];
	u32 result = STATUS_BAD_PLACE;
	if (published_fits(img, p, encoded_bytes, pixel_bytes)) {
		struct source s[PUBLISHED_CHANNELS] = {
			open_source(encoded, p), open_source(encoded, p + 1), open_source(encoded, p + 2),
		};
		result = published_patches(s, first_sample(pixels, img, p), img, p->width, &scratch[warp_index()]);
	}
	for (u32 c = 0; c < PUBLISHED_CHANNELS; c++)
		ends(index + c, result, status);
}

#endif
