// What the other headers share: how functions are declared, and how bytes are
// read.

#ifndef L3_AVX2_VECTOR_H
#define L3_AVX2_VECTOR_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

// Every function of these headers becomes part of the few functions of fast8.c.
// The instruction sets are asked for function by function: with compiler flags
// the code that finds out whether the processor has them would use them too.
#define AVX2_TARGET __attribute__((target("avx2,bmi2")))
#define INLINE AVX2_TARGET static inline __attribute__((always_inline))

// A row of one phase, even or odd columns, is one vector: a byte is a lane of
// the format, a pair of columns.
enum {
	LANES = 32,
	GROUP_SIZE = 8, // residuals in a whole group
	GROUPS = LANES / GROUP_SIZE,
	MAX_EDGE = 2 * LANES,
	MAX_CHANNELS = 4
};

typedef __m256i lanes;

INLINE lanes every(int byte) { return _mm256_set1_epi8((char)byte); }

INLINE uint64_t load64(const uint8_t *from)
{
	uint64_t v;
	memcpy(&v, from, sizeof v);
	return v;
}

// half is x >> 1 in each lane.
INLINE lanes half(lanes x)
{
	return _mm256_and_si256(_mm256_srli_epi16(x, 1), every(0x7f));
}

#endif
