// The functions that Go calls.

#ifndef L3_AVX2_AVX2_H
#define L3_AVX2_AVX2_H

#include <stdint.h>

// Both are laid out as Patch and PublishedPatch in patch.go, which explains them.
struct l3_patch {
	int64_t start, end, at;
	int32_t width, height;
};

struct l3_published_patch {
	int64_t start[3], end[3], at;
};

int l3_avx2_is_fast(void);

int l3_avx2_fast8(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		  const struct l3_patch *patches, int count);

int l3_avx2_published(uint8_t *dst, int64_t row_bytes, const uint8_t *file, int64_t file_bytes,
		      const struct l3_published_patch *patches, int count);

#endif
