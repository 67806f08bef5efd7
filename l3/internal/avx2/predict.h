// Predictors: from residuals to samples, one row of one plane after another.
// predict.go of package l3 names the neighbours (T, TT, TL, TR, T2, L, R, A, J)
// and gives the formulas.

#ifndef L3_AVX2_PREDICT_H
#define L3_AVX2_PREDICT_H

#include "vector.h"

enum even_predictor {
	EVEN_ABOVE,
	EVEN_WEIGHTED,
	EVEN_BETWEEN,
	EVEN_LEFT,
	EVEN_GRADIENT,
	EVEN_HALF_GRADIENT,
	EVEN_TREND,
	EVEN_THREE_QUARTER
};

enum odd_predictor { ODD_BETWEEN, ODD_HALF_CURVE, ODD_CURVE, ODD_WEIGHTED };

// A plane is what the next row of a plane is predicted from. After a row has
// been decoded, even and odd are its samples as they are coded.
struct plane {
	lanes even, odd;    // of the row above
	lanes even2;        // of the row above that
	lanes between;      // avg(L, R) of the row above: what J is now
	uint8_t constant;   // no row is stored
};

INLINE void start_plane(struct plane *p, uint8_t base, int constant)
{
	p->even = p->odd = p->even2 = p->between = every(base);
	p->constant = constant;
}

// lane0 is all bits of the first lane.
INLINE lanes lane0(void)
{
	return _mm256_setr_epi8(-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

// from_left moves each lane up by one; the first one becomes 0.
INLINE lanes from_left(lanes x)
{
	lanes low_half_up = _mm256_permute2x128_si256(x, x, 0x08);
	return _mm256_alignr_epi8(x, low_half_up, 15);
}

// from_right moves each lane down by one; the last pair of the patch stays, too.
INLINE lanes from_right(lanes x, lanes last)
{
	lanes high_half_down = _mm256_permute2x128_si256(x, x, 0x81);
	lanes moved = _mm256_alignr_epi8(high_half_down, x, 1);
	return _mm256_blendv_epi8(moved, x, last);
}

// last_lane is all bits of lane pairs−1.
INLINE lanes last_lane(int pairs)
{
	_Alignas(32) uint8_t b[LANES] = {0};
	b[pairs - 1] = 0xff;
	return _mm256_load_si256((const lanes *)b);
}

// half_difference is (x − y) >> 1, of the difference as a signed number of nine
// bits.
INLINE lanes half_difference(lanes x, lanes y)
{
	return _mm256_xor_si256(_mm256_avg_epu8(x, _mm256_xor_si256(y, every(0xff))), every(0x80));
}

// prefix_sum replaces each lane by the sum of itself and all lanes before it.
INLINE lanes prefix_sum(lanes x)
{
	x = _mm256_add_epi8(x, _mm256_slli_si256(x, 1));
	x = _mm256_add_epi8(x, _mm256_slli_si256(x, 2));
	x = _mm256_add_epi8(x, _mm256_slli_si256(x, 4));
	x = _mm256_add_epi8(x, _mm256_slli_si256(x, 8));
	// Shifts stay within half a vector: the upper one lacks the lower one's sum.
	lanes low_half_up = _mm256_permute2x128_si256(x, x, 0x08);
	return _mm256_add_epi8(x, _mm256_shuffle_epi8(low_half_up, every(15)));
}

// Which predictor a row takes is as good as random, and a wrongly foreseen jump
// costs as much as several predictors. So there is one jump, to or past the
// prefix sum; for the rest all predictors are computed, and masks, by the
// predictor's number, choose among them.
static const struct {
	uint8_t sums;                             // the left neighbour takes part: 1 or 0
	uint8_t above, between, trend;            // of the predictors without it
	uint8_t gradient, half_gradient, quarter; // terms beside it
} even_masks[8] = {
	[EVEN_ABOVE] = {.above = 0xff},
	[EVEN_WEIGHTED] = {0},
	[EVEN_BETWEEN] = {.between = 0xff},
	[EVEN_LEFT] = {.sums = 1},
	[EVEN_GRADIENT] = {.sums = 1, .gradient = 0xff},
	[EVEN_HALF_GRADIENT] = {.sums = 1, .half_gradient = 0xff},
	[EVEN_TREND] = {.trend = 0xff},
	[EVEN_THREE_QUARTER] = {.sums = 1, .half_gradient = 0xff, .quarter = 0xff},
};

static const struct {
	uint8_t curve;    // which bits of the shifted difference of A and J count
	uint8_t shift;    // of that difference
	uint8_t weighted; // takes A into the average instead
} odd_masks[4] = {
	[ODD_BETWEEN] = {0},
	[ODD_HALF_CURVE] = {.curve = 0x7f, .shift = 1},
	[ODD_CURVE] = {.curve = 0xff},
	[ODD_WEIGHTED] = {.weighted = 0xff},
};

// unsummed is the prediction by even predictors that need no left neighbour.
INLINE lanes unsummed(const struct plane *p, unsigned id)
{
	lanes t = p->even, tr = p->odd;
	lanes between = _mm256_avg_epu8(_mm256_blendv_epi8(from_left(tr), tr, lane0()), tr);
	// T is avg(T, T), and avg(TL, TR) the average of itself and itself.
	lanes x = _mm256_blendv_epi8(between, t, every(even_masks[id].above));
	lanes y = _mm256_blendv_epi8(t, between, every(even_masks[id].between));
	// Less 128, unsigned saturation is signed saturation.
	lanes h = half_difference(t, p->even2);
	lanes trend = _mm256_xor_si256(_mm256_adds_epi8(_mm256_xor_si256(t, every(0x80)), h), every(0x80));
	return _mm256_blendv_epi8(_mm256_avg_epu8(x, y), trend, every(even_masks[id].trend));
}

// beside_left is what the other even predictors add to the left neighbour. The
// first lane, which has none, is predicted by T.
INLINE lanes beside_left(const struct plane *p, unsigned id)
{
	lanes t = p->even, t2 = from_left(t);
	lanes gradient = _mm256_sub_epi8(t, t2);
	lanes h = half_difference(t, t2);
	// (h + 1) >> 1 of a signed h: an average, 128 being zero.
	lanes quarter = _mm256_avg_epu8(_mm256_xor_si256(h, every(0x80)), every(0x80));
	quarter = _mm256_xor_si256(quarter, every(0x80));
	gradient = _mm256_and_si256(gradient, every(even_masks[id].gradient));
	h = _mm256_and_si256(h, every(even_masks[id].half_gradient));
	quarter = _mm256_and_si256(quarter, every(even_masks[id].quarter));
	lanes sum = _mm256_add_epi8(gradient, _mm256_add_epi8(h, quarter));
	return _mm256_blendv_epi8(sum, t, lane0());
}

INLINE lanes even_samples(const struct plane *p, unsigned id, lanes residual)
{
	if (even_masks[id].sums)
		return prefix_sum(_mm256_add_epi8(residual, beside_left(p, id)));
	return _mm256_add_epi8(residual, unsummed(p, id));
}

// odd_samples takes q = avg(L, R) of the row itself.
INLINE lanes odd_samples(const struct plane *p, unsigned id, lanes residual, lanes q)
{
	lanes a = p->odd, j = p->between, curve = every(odd_masks[id].curve);
	__m128i shift = _mm_cvtsi32_si128(odd_masks[id].shift);
	lanes up = _mm256_and_si256(_mm256_srl_epi16(_mm256_subs_epu8(a, j), shift), curve);
	lanes down = _mm256_and_si256(_mm256_srl_epi16(_mm256_subs_epu8(j, a), shift), curve);
	lanes curved = _mm256_subs_epu8(_mm256_adds_epu8(q, up), down);
	lanes prediction = _mm256_blendv_epi8(curved, _mm256_avg_epu8(q, a), every(odd_masks[id].weighted));
	return _mm256_add_epi8(residual, prediction);
}

// next_row decodes a row. last is last_lane of the patch.
INLINE void next_row(struct plane *p, unsigned even_id, unsigned odd_id, lanes even, lanes odd, lanes last)
{
	even = even_samples(p, even_id, even);
	lanes q = _mm256_avg_epu8(even, from_right(even, last));
	odd = odd_samples(p, odd_id, odd, q);
	p->even2 = p->even;
	p->even = even;
	p->odd = odd;
	p->between = q;
}

#endif
