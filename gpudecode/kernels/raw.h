// Patches that hold samples as they are, or one pixel. docs/format-l3.md, 1.4.

#ifndef PRISMFS_RAW_H
#define PRISMFS_RAW_H

#include "batch.h"

DEVICE u32 raw_patch(const u8 *from, u8 *to, const struct image *img, const struct patch *p)
{
	u32 pixel = img->channels * img->sample_bytes, pixels = p->kind == KIND_RAW ? p->width * p->height : 1;
	if (p->kind != KIND_RAW && p->kind != KIND_CONSTANT)
		return STATUS_BAD_HEAD;
	if (p->length != ((pixels * pixel + 3) & ~3u))
		return STATUS_BAD_HEAD;
	for (u32 y = 0; y < p->height; y++) {
		for (u32 x = lane_index(); x < p->width; x += LANES) {
			const u8 *sample = from + (p->kind == KIND_RAW ? (y * p->width + x) * pixel : 0);
			u8 *here = to + (u64)x * img->pixel_step;
			for (u32 c = 0; c < img->channels; c++, here += img->channel_step)
				for (u32 k = 0; k < img->sample_bytes; k++)
					here[k] = *sample++;
		}
		to += img->row_step;
	}
	return STATUS_OK;
}

DEVICE void raw_kernel(PARAMETERS)
{
	(void)tables;
	u32 index = patch_of_warp();
	if (!begins(index, count, status))
		return;
	const struct patch *p = &patches[index];
	const struct image *img = &images[p->image];
	u32 result = STATUS_BAD_PLACE;
	if (fits(img, p, encoded_bytes, pixel_bytes, MAX_LABELS_EDGE, img->sample_bytes))
		result = raw_patch(encoded + p->start, first_sample(pixels, img, p), img, p);
	ends(index, result, status);
}

#endif
