// The function that Go calls for the dense coding of 16 bits.

#ifndef L3_AVX2_DENSE16_H
#define L3_AVX2_DENSE16_H

#include "avx2.h"

// Laid out as Dense16 in dense16.go, which explains it.
struct l3_dense16 {
	int32_t channels, log_streams, hole, rank_count;
	uint32_t flip;
};

int l3_avx2_dense16(uint16_t *dst, int64_t row_bytes, const struct l3_dense16 *image, const uint32_t *slots,
		    const uint8_t *tables, const uint16_t *ranks, const uint8_t *file, int64_t file_bytes,
		    const struct l3_patch *patches, int count);

#endif
