// What the other headers share: how functions are declared, how bytes are read,
// and arithmetic on lanes.

#ifndef L3_AVX2_VECTOR_H
#define L3_AVX2_VECTOR_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

// Every function of these headers becomes part of the few functions of the .c
// files. The instruction sets are asked for function by function: with compiler
// flags the code that finds out whether the processor has them would use them
// too.
#define AVX2_TARGET __attribute__((target("avx2,bmi2,lzcnt,pclmul")))
#define INLINE AVX2_TARGET static inline __attribute__((always_inline))

// LANE_BITS, 8 or 16, is the size of a lane: a sample. A .c file that wants 16
// says so before it includes anything.
#ifndef LANE_BITS
#define LANE_BITS 8
#endif

#if LANE_BITS == 8
typedef uint8_t lane;
#define BY_LANE(name) _mm256_##name##_epi8
#define BY_UNSIGNED_LANE(name) _mm256_##name##_epu8
#else
typedef uint16_t lane;
#define BY_LANE(name) _mm256_##name##_epi16
#define BY_UNSIGNED_LANE(name) _mm256_##name##_epu16
#endif

#define ALL_BITS ((lane)~0)
#define TOP_BIT ((lane)(1 << (LANE_BITS - 1)))

// Even or odd columns of a row, up to LANES of them, are a vector: a lane of the
// format, a pair of columns, is a lane here. Patches that are wider than one
// vector reaches are several strips of 2·LANES columns side by side.
typedef __m256i lanes;

enum {
	LANE_BYTES = LANE_BITS / 8,
	LANES = 32 / LANE_BYTES,
	STRIP = 2 * LANES, // columns
	MAX_EDGE = 128,
	MAX_STRIPS = MAX_EDGE / STRIP,
	MAX_CHANNELS = 4,
	STRIP_BYTES = STRIP * LANE_BYTES * MAX_CHANNELS, // of interleaved pixels, at most
};

INLINE uint64_t load64(const uint8_t *from)
{
	uint64_t v;
	memcpy(&v, from, sizeof v);
	return v;
}

INLINE lanes load(const void *from) { return _mm256_load_si256((const lanes *)from); }

INLINE lanes every(lane x) { return BY_LANE(set1)((int16_t)x); }

INLINE lanes add(lanes x, lanes y) { return BY_LANE(add)(x, y); }
INLINE lanes sub(lanes x, lanes y) { return BY_LANE(sub)(x, y); }

// avg is (x + y + 1) >> 1, of unsigned lanes.
INLINE lanes avg(lanes x, lanes y) { return BY_UNSIGNED_LANE(avg)(x, y); }

// Sums and differences that stay within a lane: of unsigned lanes, and of signed
// ones.
INLINE lanes add_clamped(lanes x, lanes y) { return BY_UNSIGNED_LANE(adds)(x, y); }
INLINE lanes sub_clamped(lanes x, lanes y) { return BY_UNSIGNED_LANE(subs)(x, y); }
INLINE lanes add_signed_clamped(lanes x, lanes y) { return BY_LANE(adds)(x, y); }

INLINE lanes and(lanes x, lanes y) { return _mm256_and_si256(x, y); }
INLINE lanes xor(lanes x, lanes y) { return _mm256_xor_si256(x, y); }

// choose is y where the mask is all ones and x where it is 0.
INLINE lanes choose(lanes x, lanes y, lanes mask) { return _mm256_blendv_epi8(x, y, mask); }

// half is x >> 1 in each lane.
INLINE lanes half(lanes x)
{
	lanes shifted = _mm256_srli_epi16(x, 1);
	return LANE_BITS == 16 ? shifted : and(shifted, every(ALL_BITS >> 1));
}

// from_left moves each lane up by one, into the first comes the last one of
// before. from_right moves each lane down by one, into the last comes the first
// one of behind.
INLINE lanes from_left(lanes x, lanes before)
{
	lanes halves = _mm256_permute2x128_si256(before, x, 0x21);
	return _mm256_alignr_epi8(x, halves, 16 - LANE_BYTES);
}

INLINE lanes from_right(lanes x, lanes behind)
{
	lanes halves = _mm256_permute2x128_si256(x, behind, 0x21);
	return _mm256_alignr_epi8(halves, x, LANE_BYTES);
}

#endif
