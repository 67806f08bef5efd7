// Rows of the dense coding of 16 bits: contexts before a phase is decoded, samples
// after it. predict.go and contexts.go of package l3 name the neighbours and give
// the formulas.

#ifndef L3_AVX2_DENSE16_ROWS_H
#define L3_AVX2_DENSE16_ROWS_H

#include "dense16_rans.h"

enum { D16_LANES = 16 }; // lanes of a vector of samples

// A d16_row is one phase of a row, between copies of its first and its last lane,
// so that the neighbours of all lanes are a load beside them.
struct d16_row {
	_Alignas(32) uint16_t before[D16_LANES];
	uint16_t of[D16_MAX_PAIRS + D16_LANES];
};

// A d16_plane is the last three rows of a plane, row y at y mod 3, and where the
// last two have holes, row y at y mod 2.
struct d16_plane {
	struct d16_row even[3], odd[3], even_magnitude[3], odd_magnitude[3];
	struct d16_row even_holes[2], odd_holes[2];
	int constant;
};

INLINE __m256i d16_every(int v) { return _mm256_set1_epi16((short)v); }
INLINE __m256i d16_load(const uint16_t *from) { return _mm256_loadu_si256((const __m256i *)from); }
INLINE void d16_store(uint16_t *to, __m256i x) { _mm256_storeu_si256((__m256i *)to, x); }

INLINE void d16_fill(struct d16_row *r, int v)
{
	d16_store(r->before, d16_every(v));
	for (int i = 0; i < D16_MAX_PAIRS + D16_LANES; i += D16_LANES)
		d16_store(r->of + i, d16_every(v));
}

// d16_close sets what lies on either side of a row.
INLINE void d16_close(struct d16_row *r, int pairs)
{
	r->before[D16_LANES - 1] = r->of[0];
	r->of[pairs] = r->of[pairs - 1];
}

INLINE void d16_start_plane(struct d16_plane *p, int base, int constant)
{
	int magnitude = constant ? 0 : 3;
	p->constant = constant;
	for (int y = 0; y < 3; y++) {
		d16_fill(&p->even[y], base);
		d16_fill(&p->odd[y], base);
		d16_fill(&p->even_magnitude[y], magnitude);
		d16_fill(&p->odd_magnitude[y], magnitude);
	}
	for (int y = 0; y < 2; y++) {
		d16_fill(&p->even_holes[y], 0);
		d16_fill(&p->odd_holes[y], 0);
	}
}

INLINE __m256i d16_difference(__m256i x, __m256i y)
{
	return _mm256_or_si256(_mm256_subs_epu16(x, y), _mm256_subs_epu16(y, x));
}

INLINE __m256i d16_half(__m256i x) { return _mm256_srli_epi16(x, 1); }

// d16_half_difference is (x − y) >> 1, of the difference as a signed number of 17
// bits.
INLINE __m256i d16_half_difference(__m256i x, __m256i y)
{
	return _mm256_xor_si256(_mm256_avg_epu16(x, _mm256_xor_si256(y, d16_every(-1))), d16_every(-0x8000));
}

// d16_around sums the magnitudes of a row above: at each lane and on either side.
INLINE __m256i d16_around(const uint16_t *m)
{
	return _mm256_adds_epu16(d16_load(m), _mm256_adds_epu16(d16_load(m - 1), d16_load(m + 1)));
}

// d16_one_and_half adds m + (m >> 1), m being magnitudes of plane 1, to a sum of
// plane 2.
INLINE __m256i d16_one_and_half(__m256i sum, const uint16_t *m)
{
	__m256i x = d16_load(m);
	return _mm256_adds_epu16(sum, _mm256_adds_epu16(x, d16_half(x)));
}

// d16_even_sums sets the sums of the even columns of row y of a plane.
INLINE void d16_even_sums(struct d16_phase *out, const struct d16_plane *planes, int plane, int y, int pairs)
{
	const struct d16_plane *p = &planes[plane];
	int up = (y + 2) % 3, up2 = (y + 1) % 3, first = plane == 0 || plane == 3;
	for (int i = 0; i < pairs; i += D16_LANES) {
		const uint16_t *odd = p->odd_magnitude[up].of + i;
		__m256i sum = _mm256_adds_epu16(d16_around(p->even_magnitude[up].of + i),
						d16_load(p->even_magnitude[up2].of + i));
		sum = _mm256_adds_epu16(sum, _mm256_adds_epu16(d16_load(odd), d16_load(odd - 1)));
		__m256i change = d16_difference(d16_load(p->even[up].of + i), d16_load(p->even[up2].of + i));
		if (first) {
			sum = _mm256_adds_epu16(sum, change);
		} else {
			sum = _mm256_adds_epu16(sum, d16_half(change));
			sum = _mm256_adds_epu16(sum, d16_half(d16_load(planes[0].even_magnitude[y % 3].of + i)));
			if (plane == 2)
				sum = d16_one_and_half(sum, planes[1].even_magnitude[y % 3].of + i);
		}
		d16_store(out->sums + i, sum);
	}
}

// d16_odd_sums sets the sums of the odd columns of row y of a plane, whose even ones
// are known.
INLINE void d16_odd_sums(struct d16_phase *out, const struct d16_plane *planes, int plane, int y, int pairs)
{
	const struct d16_plane *p = &planes[plane];
	int now = y % 3, up = (y + 2) % 3, up2 = (y + 1) % 3, first = plane == 0 || plane == 3;
	for (int i = 0; i < pairs; i += D16_LANES) {
		const uint16_t *even = p->even_magnitude[now].of + i, *l = p->even[now].of + i;
		__m256i sum = _mm256_adds_epu16(d16_around(p->odd_magnitude[up].of + i),
						d16_load(p->odd_magnitude[up2].of + i));
		sum = _mm256_adds_epu16(sum, _mm256_adds_epu16(d16_load(even), d16_load(even + 1)));
		__m256i change = d16_difference(d16_load(l), d16_load(l + 1));
		sum = _mm256_adds_epu16(sum, d16_half(change));
		if (!first) {
			const uint16_t *e = p->even[up].of + i;
			__m256i j = _mm256_avg_epu16(d16_load(e), d16_load(e + 1));
			__m256i curve = d16_difference(d16_load(p->odd[up].of + i), j);
			sum = _mm256_adds_epu16(sum, change);
			sum = _mm256_adds_epu16(_mm256_adds_epu16(sum, curve), curve);
			if (plane == 2)
				sum = d16_one_and_half(sum, planes[1].odd_magnitude[now].of + i);
		}
		d16_store(out->sums + i, sum);
	}
}

// d16_even_zones and d16_odd_zones set the zones of a phase, see dense16_zones.go.
INLINE void d16_even_zones(struct d16_phase *out, const struct d16_plane *p, int y, int pairs)
{
	for (int i = 0; i < pairs; i += D16_LANES) {
		const uint16_t *even = p->even_holes[(y + 1) % 2].of + i, *odd = p->odd_holes[(y + 1) % 2].of + i;
		__m256i t = d16_load(even), tr = d16_load(odd), tl = d16_load(odd - 1);
		__m256i all = _mm256_and_si256(_mm256_and_si256(t, tr), tl);
		all = _mm256_and_si256(all, _mm256_and_si256(d16_load(even - 1), d16_load(even + 1)));
		__m256i beside = _mm256_andnot_si256(t, _mm256_or_si256(tl, tr));
		__m256i low = _mm256_and_si256(_mm256_or_si256(all, beside), d16_every(1));
		d16_store(out->zones + i, _mm256_or_si256(_mm256_and_si256(t, d16_every(2)), low));
	}
}

INLINE void d16_odd_zones(struct d16_phase *out, const struct d16_plane *p, int y, int pairs)
{
	for (int i = 0; i < pairs; i += D16_LANES) {
		const uint16_t *even = p->even_holes[y % 2].of + i;
		__m256i sum = _mm256_add_epi16(d16_load(even), d16_load(even + 1)); // of 0 and −1
		sum = _mm256_add_epi16(sum, d16_load(p->odd_holes[(y + 1) % 2].of + i));
		d16_store(out->zones + i, _mm256_sub_epi16(_mm256_setzero_si256(), sum));
	}
}

// d16_residuals undoes the zigzag of sixteen values: 0, 1, 2, 3, … are 0, −1, 1, −2, …
INLINE __m256i d16_residuals(const uint16_t *values)
{
	__m256i z = d16_load(values);
	__m256i sign = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_and_si256(z, d16_every(1)));
	return _mm256_xor_si256(d16_half(z), sign);
}

// d16_lane0 has all bits of the first lane.
INLINE __m256i d16_lane0(void)
{
	return _mm256_setr_epi16(-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

// d16_last repeats the last lane.
INLINE __m256i d16_last(__m256i x)
{
	return _mm256_shuffle_epi8(_mm256_permute4x64_epi64(x, 0xff), d16_every(0x0f0e));
}

// d16_prefix_sum replaces each lane by the sum of itself and all lanes before it.
INLINE __m256i d16_prefix_sum(__m256i x)
{
	x = _mm256_add_epi16(x, _mm256_slli_si256(x, 2));
	x = _mm256_add_epi16(x, _mm256_slli_si256(x, 4));
	x = _mm256_add_epi16(x, _mm256_slli_si256(x, 8));
	// Shifts stay within half a vector: the upper one lacks the lower one's sum.
	__m256i low_half_up = _mm256_permute2x128_si256(x, x, 0x08);
	return _mm256_add_epi16(x, _mm256_shuffle_epi8(low_half_up, d16_every(0x0f0e)));
}

enum d16_even_predictor {
	D16_ABOVE,
	D16_EVEN_WEIGHTED,
	D16_EVEN_BETWEEN,
	D16_LEFT,
	D16_GRADIENT,
	D16_HALF_GRADIENT,
	D16_TREND,
	D16_THREE_QUARTER
};

enum d16_odd_predictor { D16_ODD_BETWEEN, D16_HALF_CURVE, D16_CURVE, D16_ODD_WEIGHTED };

// d16_predict_even is the prediction of sixteen even columns, or the part of it
// without the left neighbour.
INLINE __m256i d16_predict_even(const uint16_t *even, const uint16_t *even2, const uint16_t *odd, int id)
{
	__m256i t = d16_load(even), tr = d16_load(odd), tl = d16_load(odd - 1), t2 = d16_load(even - 1);
	__m256i h;
	switch (id) {
	case D16_ABOVE:
		return t;
	case D16_EVEN_WEIGHTED:
		return _mm256_avg_epu16(_mm256_avg_epu16(tl, tr), t);
	case D16_EVEN_BETWEEN:
		return _mm256_avg_epu16(tl, tr);
	case D16_TREND: // less 32,768, unsigned saturation is signed saturation
		h = d16_half_difference(t, d16_load(even2));
		return _mm256_xor_si256(_mm256_adds_epi16(_mm256_xor_si256(t, d16_every(-0x8000)), h), d16_every(-0x8000));
	case D16_LEFT:
		return _mm256_setzero_si256();
	case D16_GRADIENT:
		return _mm256_sub_epi16(t, t2);
	case D16_HALF_GRADIENT:
		return d16_half_difference(t, t2);
	default:
		h = d16_half_difference(t, t2);
		// (h + 1) >> 1 of a signed h: an average, 32,768 being zero.
		t = _mm256_avg_epu16(_mm256_xor_si256(h, d16_every(-0x8000)), d16_every(-0x8000));
		return _mm256_add_epi16(h, _mm256_xor_si256(t, d16_every(-0x8000)));
	}
}

// d16_even_samples sets the even columns of row y from their residuals, and the
// magnitudes of these. It is called with a constant for id.
INLINE void d16_even_samples(struct d16_plane *p, const uint16_t *values, int y, int id, int pairs)
{
	int now = y % 3, up = (y + 2) % 3, up2 = (y + 1) % 3;
	int sums = id >= D16_LEFT && id != D16_TREND;
	__m256i carry = _mm256_setzero_si256();
	for (int i = 0; i < pairs; i += D16_LANES) {
		__m256i r = d16_residuals(values + i);
		d16_store(p->even_magnitude[now].of + i, _mm256_abs_epi16(r));
		__m256i x = d16_predict_even(p->even[up].of + i, p->even[up2].of + i, p->odd[up].of + i, id);
		if (sums && i == 0) // has no left neighbour
			x = _mm256_blendv_epi8(x, d16_load(p->even[up].of), d16_lane0());
		x = _mm256_add_epi16(x, r);
		if (sums) {
			x = _mm256_add_epi16(d16_prefix_sum(x), carry);
			carry = d16_last(x);
		}
		d16_store(p->even[now].of + i, x);
	}
	d16_close(&p->even[now], pairs);
	d16_close(&p->even_magnitude[now], pairs);
}

// d16_odd_samples is d16_even_samples for the odd columns.
INLINE void d16_odd_samples(struct d16_plane *p, const uint16_t *values, int y, int id, int pairs)
{
	int now = y % 3, up = (y + 2) % 3;
	for (int i = 0; i < pairs; i += D16_LANES) {
		const uint16_t *l = p->even[now].of + i, *e = p->even[up].of + i;
		__m256i r = d16_residuals(values + i), a = d16_load(p->odd[up].of + i);
		d16_store(p->odd_magnitude[now].of + i, _mm256_abs_epi16(r));
		__m256i q = _mm256_avg_epu16(d16_load(l), d16_load(l + 1));
		if (id == D16_ODD_WEIGHTED) {
			q = _mm256_avg_epu16(q, a);
		} else if (id != D16_ODD_BETWEEN) {
			__m256i j = _mm256_avg_epu16(d16_load(e), d16_load(e + 1));
			__m256i above = _mm256_subs_epu16(a, j), below = _mm256_subs_epu16(j, a);
			if (id == D16_HALF_CURVE) {
				above = d16_half(above);
				below = d16_half(below);
			}
			q = _mm256_subs_epu16(_mm256_adds_epu16(q, above), below);
		}
		d16_store(p->odd[now].of + i, _mm256_add_epi16(q, r));
	}
	d16_close(&p->odd[now], pairs);
	d16_close(&p->odd_magnitude[now], pairs);
}

#endif
