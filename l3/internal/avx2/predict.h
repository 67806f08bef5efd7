// Predictors: from residuals to samples, one row of planes after another.
// predict.go of package l3 names the neighbours (T, TT, TL, TR, T2, L, R, A, J)
// and gives the formulas.

#ifndef L3_AVX2_PREDICT_H
#define L3_AVX2_PREDICT_H

#include "residuals.h"
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
	lanes even[MAX_STRIPS], odd[MAX_STRIPS]; // of the row above
	lanes even2[MAX_STRIPS];                 // of the row above that
	lanes between[MAX_STRIPS];               // avg(L, R) of the row above: what J is now
};

INLINE void start_plane(struct plane *p, lane base, int strips)
{
	for (int k = 0; k < strips; k++)
		p->even[k] = p->odd[k] = p->even2[k] = p->between[k] = every(base);
}

// one_lane is all bits of one lane of a vector, and 0 in the others; of none if i
// is not the number of a lane.
INLINE lanes one_lane(int i)
{
	_Alignas(32) lane mask[LANES] = {0};
	if (i >= 0 && i < LANES)
		mask[i] = ALL_BITS;
	return load(mask);
}

// lane0 is one_lane(0).
INLINE lanes lane0(void) { return _mm256_setr_epi32(LANE_BITS == 8 ? 0xff : 0xffff, 0, 0, 0, 0, 0, 0, 0); }

// Which predictor a row takes is as good as random, and a wrongly foreseen jump
// costs as much as several predictors. So there is no jump: everything that any
// predictor needs is computed, and masks, by the predictor's number, choose.
static const struct even_mask {
	lane above, between;                 // of avg(x, y): x is T, y is avg(TL, TR)
	lane trend;                          // T + (T − TT) >> 1 instead
	lane sums;                           // none of these, but what stands beside the left neighbour:
	lane gradient, half, quarter, bias;  // the terms of that
} even_masks[8] = {
	[EVEN_ABOVE] = {.above = ALL_BITS},
	[EVEN_WEIGHTED] = {0},
	[EVEN_BETWEEN] = {.between = ALL_BITS},
	[EVEN_LEFT] = {.sums = ALL_BITS},
	[EVEN_GRADIENT] = {.sums = ALL_BITS, .gradient = ALL_BITS},
	[EVEN_HALF_GRADIENT] = {.sums = ALL_BITS, .half = ALL_BITS, .bias = TOP_BIT},
	[EVEN_TREND] = {.trend = ALL_BITS},
	[EVEN_THREE_QUARTER] = {.sums = ALL_BITS, .half = ALL_BITS, .quarter = ALL_BITS},
};

static const struct odd_mask {
	lane curve;      // which bits of the shifted difference of A and J count
	lane weighted;   // takes A into the average instead
	uint32_t shift;  // of that difference
} odd_masks[4] = {
	[ODD_BETWEEN] = {0},
	[ODD_HALF_CURVE] = {.curve = ALL_BITS >> 1, .shift = 1},
	[ODD_CURVE] = {.curve = ALL_BITS},
	[ODD_WEIGHTED] = {.weighted = ALL_BITS},
};

// even_prediction is what an even predictor says of strip k of a row, without
// the left neighbour.
INLINE lanes even_prediction(const struct plane *p, int k, uint64_t id)
{
	const struct even_mask *m = &even_masks[id];
	const lanes middle = every(TOP_BIT), sums = every(m->sums);
	int before = k > 0 ? k - 1 : 0;
	lanes t = p->even[k], t2 = from_left(t, p->even[before]);
	lanes tr = p->odd[k], tl = from_left(tr, p->odd[before]);
	if (k == 0)
		tl = choose(tl, tr, lane0());

	// T is avg(T, T), and avg(TL, TR) the average of itself and itself.
	lanes between = avg(tl, tr);
	lanes unsummed = avg(choose(between, t, every(m->above)), choose(t, between, every(m->between)));

	// h = (T − TT) >> 1 or (T − T2) >> 1, here with half a lane's range added.
	lanes h = avg(t, xor(choose(p->even2[k], t2, sums), every(ALL_BITS)));
	// Less that, unsigned clamping is signed clamping.
	lanes trend = add_signed_clamped(xor(t, middle), xor(h, middle));
	unsummed = choose(unsummed, xor(trend, middle), every(m->trend));

	// (h + 1) >> 1 is an average, too, and what is added twice is nothing.
	lanes gradient = and(sub(t, t2), every(m->gradient));
	lanes quarter = and(avg(h, middle), every(m->quarter));
	lanes beside = add(and(h, every(m->half)), add(gradient, xor(quarter, every(m->bias))));
	// The first lane, which has no left neighbour, is predicted by T.
	if (k == 0)
		beside = choose(beside, t, lane0());
	return choose(unsummed, beside, sums);
}

// odd_samples decodes the odd columns of strip k of a row; q is avg(L, R).
INLINE lanes odd_samples(const struct plane *p, int k, uint64_t id, lanes residual, lanes q)
{
	const struct odd_mask *m = &odd_masks[id];
	lanes a = p->odd[k], j = p->between[k], curve = every(m->curve);
	__m128i shift = _mm_cvtsi32_si128((int)m->shift);
	lanes up = and(_mm256_srl_epi16(sub_clamped(a, j), shift), curve);
	lanes down = and(_mm256_srl_epi16(sub_clamped(j, a), shift), curve);
	lanes curved = sub_clamped(add_clamped(q, up), down);
	return add(residual, choose(curved, avg(q, a), every(m->weighted)));
}

// last_sum is the last lane of each half of a vector, in all lanes of that half.
INLINE lanes last_lanes(lanes x)
{
	return _mm256_shuffle_epi8(x, LANE_BITS == 8 ? _mm256_set1_epi8(15) : _mm256_set1_epi16(15 << 8 | 14));
}

// prefix_sums replaces each lane of the strips of planes by the sum of itself and
// all lanes before it. It is a long chain of instructions each of which waits for
// the one before, and a processor finds others, that need not wait, only if they
// stand near: so all vectors take each step together.
INLINE void prefix_sums(lanes x[MAX_CHANNELS][MAX_STRIPS], int planes, int strips)
{
#define EACH_VECTOR \
	_Pragma("GCC unroll 4") for (int i = 0; i < planes; i++) _Pragma("GCC unroll 4") for (int k = 0; k < strips; k++)
	if (LANE_BITS == 8)
		EACH_VECTOR x[i][k] = add(x[i][k], _mm256_slli_si256(x[i][k], 1));
	EACH_VECTOR x[i][k] = add(x[i][k], _mm256_slli_si256(x[i][k], 2));
	EACH_VECTOR x[i][k] = add(x[i][k], _mm256_slli_si256(x[i][k], 4));
	EACH_VECTOR x[i][k] = add(x[i][k], _mm256_slli_si256(x[i][k], 8));
	// Shifts stay within half a vector: the upper one lacks the lower one's sum.
	lanes low[MAX_CHANNELS][MAX_STRIPS];
	EACH_VECTOR low[i][k] = _mm256_permute2x128_si256(x[i][k], x[i][k], 0x08);
	EACH_VECTOR x[i][k] = add(x[i][k], last_lanes(low[i][k]));
	// And each strip those of the strips before it.
	EACH_VECTOR if (k > 0)
	{
		lanes high = _mm256_permute2x128_si256(x[i][k - 1], x[i][k - 1], 0x11);
		x[i][k] = add(x[i][k], last_lanes(high));
	}
#undef EACH_VECTOR
}

// next_rows decodes a row of planes of a patch with this many pairs of columns.
INLINE void next_rows(struct plane *planes, const struct coded_row *rows, int count, int strips, const lanes last[MAX_STRIPS])
{
	lanes single[MAX_CHANNELS][MAX_STRIPS], sum[MAX_CHANNELS][MAX_STRIPS], q[MAX_CHANNELS][MAX_STRIPS];
#define EACH_VECTOR \
	_Pragma("GCC unroll 4") for (int i = 0; i < count; i++) _Pragma("GCC unroll 4") for (int k = 0; k < strips; k++)
	EACH_VECTOR
	{
		lanes residual = residuals(&rows[i].even[k * LANES / GROUP_SIZE]);
		single[i][k] = sum[i][k] = add(residual, even_prediction(&planes[i], k, rows[i].even_id));
	}
	prefix_sums(sum, count, strips);
	EACH_VECTOR
	{
		planes[i].even2[k] = planes[i].even[k];
		planes[i].even[k] = choose(single[i][k], sum[i][k], every(even_masks[rows[i].even_id].sums));
	}
	EACH_VECTOR
	{
		lanes even = planes[i].even[k];
		lanes right = from_right(even, planes[i].even[k + 1 < strips ? k + 1 : k]);
		q[i][k] = avg(even, choose(right, even, last[k]));
	}
	EACH_VECTOR
	{
		lanes residual = residuals(&rows[i].odd[k * LANES / GROUP_SIZE]);
		planes[i].odd[k] = odd_samples(&planes[i], k, rows[i].odd_id, residual, q[i][k]);
		planes[i].between[k] = q[i][k];
	}
#undef EACH_VECTOR
}

#endif
