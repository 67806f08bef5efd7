// Contexts of the dense coding of 8 bits: which table a residual is decoded with.
// contexts.go of package l3 has the sums and says what they are for.

#ifndef L3_AVX2_DENSE8_CONTEXTS_H
#define L3_AVX2_DENSE8_CONTEXTS_H

#include "dense8.h"
#include "predict.h"
#include "vector.h"

// FIRST_MAGNITUDE is the magnitude of all residuals in the two rows above a patch.
enum { FIRST_MAGNITUDE = 3 };

// A dense_plane is what the next row of a plane is decoded from: samples of the
// rows above, and magnitudes of their residuals.
struct dense_plane {
	struct plane samples;
	lanes even[MAX_STRIPS], even2[MAX_STRIPS]; // of the row above, and of the one above that
	lanes odd[MAX_STRIPS], odd2[MAX_STRIPS];
	lanes even_right[MAX_STRIPS]; // even of the lanes to the right
	lanes odd_pair[MAX_STRIPS];   // odd, and that of the lanes to the left
	int constant;
};

INLINE void start_dense_plane(struct dense_plane *p, uint8_t base, int constant, int strips)
{
	start_plane(&p->samples, base, strips);
	lanes magnitude = every(constant ? 0 : FIRST_MAGNITUDE);
	for (int k = 0; k < strips; k++)
		p->even[k] = p->even2[k] = p->odd[k] = p->odd2[k] = p->even_right[k] = magnitude;
	p->constant = constant;
}

INLINE lanes distance(lanes x, lanes y) { return _mm256_or_si256(sub_clamped(x, y), sub_clamped(y, x)); }

// to_left is the left neighbours of strip k of x; the first lane is its own.
INLINE lanes to_left(const lanes x[MAX_STRIPS], int k)
{
	return k > 0 ? from_left(x[k], x[k - 1]) : choose(from_left(x[0], x[0]), x[0], lane0());
}

// to_right is the right neighbours of strip k of x; the last lane of the patch,
// which last marks, is its own.
INLINE lanes to_right(const lanes x[MAX_STRIPS], int k, int strips, const lanes last[MAX_STRIPS])
{
	return choose(from_right(x[k], x[k + 1 < strips ? k + 1 : k]), x[k], last[k]);
}

// Sums are clamped one by one: since nothing is subtracted, that gives the same
// as at the end, and in any order.
INLINE lanes plus(lanes x, lanes y) { return add_clamped(x, y); }

// one_and_half is x + (x >> 1).
INLINE lanes one_and_half(lanes x) { return plus(x, half(x)); }

// even_sum is the sum for the even columns of strip k of plane i.
INLINE lanes even_sum(struct dense_plane *planes, int i, int k)
{
	struct dense_plane *p = &planes[i];
	p->odd_pair[k] = plus(p->odd[k], to_left(p->odd, k));
	lanes sum = plus(plus(p->even[k], to_left(p->even, k)), plus(p->even_right[k], p->even2[k]));
	sum = plus(sum, p->odd_pair[k]);
	lanes change = distance(p->samples.even[k], p->samples.even2[k]);
	if (i == 0 || i == 3)
		return plus(sum, change);
	sum = plus(sum, plus(half(change), half(planes[0].even[k])));
	return i == 1 ? sum : plus(sum, one_and_half(planes[1].even[k]));
}

// odd_sum is the sum for the odd columns of strip k of plane i. The plane's even
// and even_right are already those of this row, even its samples, and right the
// right neighbours of these.
INLINE lanes odd_sum(const struct dense_plane *planes, int i, int k, lanes odd_right, lanes even, lanes right)
{
	const struct dense_plane *p = &planes[i];
	lanes sum = plus(plus(p->odd_pair[k], odd_right), p->odd2[k]);
	sum = plus(sum, plus(p->even[k], p->even_right[k]));
	lanes change = distance(even, right);
	if (i == 0 || i == 3)
		return plus(sum, half(change));
	lanes curve = distance(p->samples.odd[k], p->samples.between[k]);
	sum = plus(plus(sum, curve), curve);
	if (i == 2)
		sum = plus(sum, one_and_half(planes[1].odd[k]));
	return plus(sum, one_and_half(change));
}

INLINE lanes twice(const uint8_t from[16]) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)from)); }

// tables_of looks up twice the numbers of the tables for sums. There are entries
// for each sum up to 15, then for each four from 16 to 63, then for each sixteen
// up to 255, sixteen entries each: those of the latter two for smaller sums are 0.
// Where the top bit of a place is set, as it is here above 15, a shuffle gives 0.
INLINE lanes tables_of(lanes sums, const uint8_t tables[DENSE8_LEVELS])
{
	lanes fours = and(_mm256_srli_epi16(sums, 2), every(0x3f));
	lanes sixteens = and(_mm256_srli_epi16(sums, 4), every(0x0f));
	lanes small = _mm256_shuffle_epi8(twice(tables), plus(sums, every(0x70)));
	lanes middle = _mm256_shuffle_epi8(twice(tables + 16), plus(fours, every(0x70)));
	lanes large = _mm256_shuffle_epi8(twice(tables + 32), sixteens);
	return _mm256_or_si256(_mm256_or_si256(small, middle), large);
}

// magnitudes are |r| of the residuals that values 0, 1, 2, 3, … stand for: 0, 1, 1, 2, …
INLINE lanes magnitudes(lanes values) { return avg(values, _mm256_setzero_si256()); }

// with_signs are these residuals: 0, −1, 1, −2, … The shift makes the lowest bit
// of each value a sign, and leaves other bits below it in some, beside a 1.
INLINE lanes with_signs(lanes magnitudes, lanes values)
{
	return _mm256_sign_epi8(magnitudes, _mm256_or_si256(_mm256_slli_epi16(values, 7), every(1)));
}

#endif
