// The functions that Go calls.

#ifndef L3_AVX2_AVX2_H
#define L3_AVX2_AVX2_H

#include <stdint.h>

// Both are laid out as Patch and PublishedPatch in patch.go, which explains them.
struct l3_patch {
	int64_t start, end, at;
	int32_t width, height;
	uint32_t checksum, reserved;
};

struct l3_published_patch {
	int64_t start[3], end[3], at;
};

int l3_avx2_is_fast(void);

int l3_avx2_fast8(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		  const struct l3_patch *patches, int count, uint32_t *sums);

uint32_t l3_avx2_join_rows(uint32_t sum, const uint32_t *states, int rows, int64_t row_bytes);

int l3_avx2_fast16(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		   const struct l3_patch *patches, int count, uint32_t *sums, const uint16_t *ranks, int rank_count,
		   uint16_t flip);

int l3_avx2_published(uint8_t *dst, int64_t row_bytes, const uint8_t *file, int64_t file_bytes,
		      const struct l3_published_patch *patches, int count);

enum { L3_ENCODED_EDGE = 64 };

int64_t l3_avx2_encode8(uint8_t *to, const uint8_t *pixels, int64_t row_bytes, int channels, int width, int height);

int64_t l3_avx2_encode16(uint8_t *to, const uint8_t *pixels, int64_t row_bytes, int channels, int width, int height,
			 const uint16_t *ranks, uint16_t flip);

// l3_avx2_checksum is the CRC-32C of n bytes.
uint32_t l3_avx2_checksum(const uint8_t *from, int64_t n);

#endif
