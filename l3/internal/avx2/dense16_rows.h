// Rows of the dense coding of 16 bits: contexts before a phase is decoded, samples
// after it. predict.go and contexts.go of package l3 name the neighbours and give
// the formulas.

#ifndef L3_AVX2_DENSE16_ROWS_H
#define L3_AVX2_DENSE16_ROWS_H

#include "dense16_rans.h"
#include "predict.h"

// A d16_row is one phase of a row, between copies of its first and its last lane,
// so that the neighbours of all lanes are a load beside them.
struct d16_row {
	_Alignas(32) uint16_t before[LANES];
	uint16_t of[D16_MAX_PAIRS + LANES];
};

// A d16_plane is the last three rows of a plane, row y at y mod 3, and where the
// last two have holes, row y at y mod 2.
struct d16_plane {
	struct d16_row even[3], odd[3], even_magnitude[3], odd_magnitude[3];
	struct d16_row even_holes[2], odd_holes[2];
	int constant;
};

INLINE lanes d16_load(const uint16_t *from) { return _mm256_loadu_si256((const lanes *)from); }
INLINE void d16_store(uint16_t *to, lanes x) { _mm256_storeu_si256((lanes *)to, x); }

INLINE void d16_fill(struct d16_row *r, int v)
{
	d16_store(r->before, every((lane)v));
	for (int i = 0; i < D16_MAX_PAIRS + LANES; i += LANES)
		d16_store(r->of + i, every((lane)v));
}

// d16_close sets what lies on either side of a row.
INLINE void d16_close(struct d16_row *r, int pairs)
{
	r->before[LANES - 1] = r->of[0];
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

INLINE lanes d16_difference(lanes x, lanes y)
{
	return _mm256_or_si256(sub_clamped(x, y), sub_clamped(y, x));
}

// d16_half_difference is (x − y) >> 1, of the difference as a signed number of 17
// bits.
INLINE lanes d16_half_difference(lanes x, lanes y)
{
	return xor(avg(x, xor(y, every(ALL_BITS))), every(TOP_BIT));
}

// d16_around sums the magnitudes of a row above: at each lane and on either side.
INLINE lanes d16_around(const uint16_t *m)
{
	return add_clamped(d16_load(m), add_clamped(d16_load(m - 1), d16_load(m + 1)));
}

// d16_one_and_half adds m + (m >> 1), m being magnitudes of plane 1, to a sum of
// plane 2.
INLINE lanes d16_one_and_half(lanes sum, const uint16_t *m)
{
	lanes x = d16_load(m);
	return add_clamped(sum, add_clamped(x, half(x)));
}

// d16_even_sums sets the sums of the even columns of row y of a plane.
INLINE void d16_even_sums(struct d16_phase *out, const struct d16_plane *planes, int plane, int y, int pairs)
{
	const struct d16_plane *p = &planes[plane];
	int up = (y + 2) % 3, up2 = (y + 1) % 3, first = plane == 0 || plane == 3;
	for (int i = 0; i < pairs; i += LANES) {
		const uint16_t *odd = p->odd_magnitude[up].of + i;
		lanes sum = add_clamped(d16_around(p->even_magnitude[up].of + i),
						d16_load(p->even_magnitude[up2].of + i));
		sum = add_clamped(sum, add_clamped(d16_load(odd), d16_load(odd - 1)));
		lanes change = d16_difference(d16_load(p->even[up].of + i), d16_load(p->even[up2].of + i));
		if (first) {
			sum = add_clamped(sum, change);
		} else {
			sum = add_clamped(sum, half(change));
			sum = add_clamped(sum, half(d16_load(planes[0].even_magnitude[y % 3].of + i)));
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
	for (int i = 0; i < pairs; i += LANES) {
		const uint16_t *even = p->even_magnitude[now].of + i, *l = p->even[now].of + i;
		lanes sum = add_clamped(d16_around(p->odd_magnitude[up].of + i),
						d16_load(p->odd_magnitude[up2].of + i));
		sum = add_clamped(sum, add_clamped(d16_load(even), d16_load(even + 1)));
		lanes change = d16_difference(d16_load(l), d16_load(l + 1));
		sum = add_clamped(sum, half(change));
		if (!first) {
			const uint16_t *e = p->even[up].of + i;
			lanes j = avg(d16_load(e), d16_load(e + 1));
			lanes curve = d16_difference(d16_load(p->odd[up].of + i), j);
			sum = add_clamped(sum, change);
			sum = add_clamped(add_clamped(sum, curve), curve);
			if (plane == 2)
				sum = d16_one_and_half(sum, planes[1].odd_magnitude[now].of + i);
		}
		d16_store(out->sums + i, sum);
	}
}

// d16_even_zones and d16_odd_zones set the zones of a phase, see dense16_zones.go.
INLINE void d16_even_zones(struct d16_phase *out, const struct d16_plane *p, int y, int pairs)
{
	for (int i = 0; i < pairs; i += LANES) {
		const uint16_t *even = p->even_holes[(y + 1) % 2].of + i, *odd = p->odd_holes[(y + 1) % 2].of + i;
		lanes t = d16_load(even), tr = d16_load(odd), tl = d16_load(odd - 1);
		lanes all = and(and(t, tr), tl);
		all = and(all, and(d16_load(even - 1), d16_load(even + 1)));
		lanes beside = _mm256_andnot_si256(t, _mm256_or_si256(tl, tr));
		lanes low = and(_mm256_or_si256(all, beside), every(1));
		d16_store(out->zones + i, _mm256_or_si256(and(t, every(2)), low));
	}
}

INLINE void d16_odd_zones(struct d16_phase *out, const struct d16_plane *p, int y, int pairs)
{
	for (int i = 0; i < pairs; i += LANES) {
		const uint16_t *even = p->even_holes[y % 2].of + i;
		lanes sum = add(d16_load(even), d16_load(even + 1)); // of 0 and −1
		sum = add(sum, d16_load(p->odd_holes[(y + 1) % 2].of + i));
		d16_store(out->zones + i, sub(_mm256_setzero_si256(), sum));
	}
}

// d16_residuals undoes the zigzag of sixteen values: 0, 1, 2, 3, … are 0, −1, 1, −2, …
INLINE lanes d16_residuals(const uint16_t *values)
{
	lanes z = d16_load(values);
	lanes sign = sub(_mm256_setzero_si256(), and(z, every(1)));
	return xor(half(z), sign);
}

// d16_last repeats the last lane.
INLINE lanes d16_last(lanes x)
{
	return last_lanes(_mm256_permute4x64_epi64(x, 0xff));
}

// d16_prefix_sum replaces each lane by the sum of itself and all lanes before it.
INLINE lanes d16_prefix_sum(lanes x)
{
	lanes only[MAX_CHANNELS][MAX_STRIPS];
	only[0][0] = x;
	prefix_sums(only, 1, 1);
	return only[0][0];
}

// d16_predict_even is the prediction of sixteen even columns, or the part of it
// without the left neighbour.
INLINE lanes d16_predict_even(const uint16_t *even, const uint16_t *even2, const uint16_t *odd, int id)
{
	lanes t = d16_load(even), tr = d16_load(odd), tl = d16_load(odd - 1), t2 = d16_load(even - 1);
	lanes h;
	switch (id) {
	case EVEN_ABOVE:
		return t;
	case EVEN_WEIGHTED:
		return avg(avg(tl, tr), t);
	case EVEN_BETWEEN:
		return avg(tl, tr);
	case EVEN_TREND: // less 32,768, unsigned saturation is signed saturation
		h = d16_half_difference(t, d16_load(even2));
		return xor(add_signed_clamped(xor(t, every(TOP_BIT)), h), every(TOP_BIT));
	case EVEN_LEFT:
		return _mm256_setzero_si256();
	case EVEN_GRADIENT:
		return sub(t, t2);
	case EVEN_HALF_GRADIENT:
		return d16_half_difference(t, t2);
	default:
		h = d16_half_difference(t, t2);
		// (h + 1) >> 1 of a signed h: an average, 32,768 being zero.
		t = avg(xor(h, every(TOP_BIT)), every(TOP_BIT));
		return add(h, xor(t, every(TOP_BIT)));
	}
}

// d16_even_samples sets the even columns of row y from their residuals, and the
// magnitudes of these. It is called with a constant for id.
INLINE void d16_even_samples(struct d16_plane *p, const uint16_t *values, int y, int id, int pairs)
{
	int now = y % 3, up = (y + 2) % 3, up2 = (y + 1) % 3;
	int sums = id >= EVEN_LEFT && id != EVEN_TREND;
	lanes carry = _mm256_setzero_si256();
	for (int i = 0; i < pairs; i += LANES) {
		lanes r = d16_residuals(values + i);
		d16_store(p->even_magnitude[now].of + i, _mm256_abs_epi16(r));
		lanes x = d16_predict_even(p->even[up].of + i, p->even[up2].of + i, p->odd[up].of + i, id);
		if (sums && i == 0) // has no left neighbour
			x = choose(x, d16_load(p->even[up].of), lane0());
		x = add(x, r);
		if (sums) {
			x = add(d16_prefix_sum(x), carry);
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
	for (int i = 0; i < pairs; i += LANES) {
		const uint16_t *l = p->even[now].of + i, *e = p->even[up].of + i;
		lanes r = d16_residuals(values + i), a = d16_load(p->odd[up].of + i);
		d16_store(p->odd_magnitude[now].of + i, _mm256_abs_epi16(r));
		lanes q = avg(d16_load(l), d16_load(l + 1));
		if (id == ODD_WEIGHTED) {
			q = avg(q, a);
		} else if (id != ODD_BETWEEN) {
			lanes j = avg(d16_load(e), d16_load(e + 1));
			lanes above = sub_clamped(a, j), below = sub_clamped(j, a);
			if (id == ODD_HALF_CURVE) {
				above = half(above);
				below = half(below);
			}
			q = sub_clamped(add_clamped(q, above), below);
		}
		d16_store(p->odd[now].of + i, add(q, r));
	}
	d16_close(&p->odd[now], pairs);
	d16_close(&p->odd_magnitude[now], pairs);
}

#endif
