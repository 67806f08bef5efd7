//go:build amd64 && cgo

// The fast coding of 16 bits.

#define LANE_BITS 16
#include "fast.h"
#include "fast_encode.h"

int l3_avx2_fast16(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		   const struct l3_patch *patches, int count, uint32_t *sums, const uint16_t *ranks, int rank_count,
		   uint16_t flip)
{
	const struct image m = {
		.pixels = dst, .row_bytes = row_bytes, .channels = channels,
		.file = file, .file_bytes = file_bytes, .sums = sums,
		.ranks = ranks, .rank_count = rank_count, .flip = flip,
	};
	return decode_patches(&m, patches, count);
}

int64_t l3_avx2_encode16(uint8_t *to, const uint8_t *pixels, int64_t row_bytes, int channels, int width, int height,
			 const uint16_t *ranks, uint16_t flip)
{
	return encode_patch(to, pixels, row_bytes, channels, width, height, ranks, flip);
}
