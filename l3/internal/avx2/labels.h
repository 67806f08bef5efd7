// The function that Go calls for the labels coding.

#ifndef L3_AVX2_LABELS_H
#define L3_AVX2_LABELS_H

#include "avx2.h"

// Laid out as Labels in labels.go, which explains it.
struct l3_labels {
	int32_t log_streams, palette_size, raw_bits;
};

int l3_avx2_labels(uint8_t *dst, int64_t row_bytes, const struct l3_labels *image, const uint8_t *table_of,
		   const uint16_t *bounds, const uint8_t *palette, const uint8_t *file, int64_t file_bytes,
		   const struct l3_patch *patches, int count);

#endif
