// What Go calls of the dense coding of 8 bits.

#ifndef L3_AVX2_DENSE8_H
#define L3_AVX2_DENSE8_H

#include "avx2.h"

enum {
	DENSE8_BITS = 9,    // log2 of the slots of a table
	DENSE8_TABLES = 16, // the last one is that of predictors
	DENSE8_CLASSES = 8, // of contexts: four planes, even and odd columns
	DENSE8_LEVELS = 48  // entries of a class, see tables_of
};

// l3_dense8 is laid out as Dense8 in dense8.go, which explains it.
struct l3_dense8 {
	uint8_t tables[DENSE8_CLASSES][DENSE8_LEVELS];
	int64_t log_streams;
};

int l3_avx2_dense8(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		   const struct l3_dense8 *coding, const uint32_t *slots, const struct l3_patch *patches, int count,
		   uint32_t *sums);

#endif
