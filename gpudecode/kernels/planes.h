// Planes: what the fast and the dense codings have in common. A row of a plane is
// its even columns and its odd ones; a lane has a pair of columns, or two pairs
// of patches wider than 64 pixels. docs/format-l3.md, 2.1 to 2.6, says what is
// computed here.

#ifndef PRISMFS_PLANES_H
#define PRISMFS_PLANES_H

#include "batch.h"

// Depths of samples.
struct depth8 {
	typedef u8 sample;
	enum { bits = 8, bytes = 1, top = 0xff };
};

struct depth16 {
	typedef u16 sample;
	enum { bits = 16, bytes = 2, top = 0xffff };
};

// The last rows of a plane, in shared memory: row y of even columns is at y mod 3,
// of odd ones at y mod 2.
template <class D> struct plane {
	typename D::sample even[3][MAX_PAIRS];
	typename D::sample odd[2][MAX_PAIRS];
};

// Where a row and those above it are.
struct places {
	u32 even, even_above, even_above2;
	u32 odd, odd_above;
};

DEVICE struct places first_row() { return {0, 2, 1, 0, 1}; }

DEVICE struct places next_row(struct places r) { return {r.even_above2, r.even, r.even_above, r.odd_above, r.odd}; }

// start_plane sets the rows above a patch to its base value.
template <class D> DEVICE void start_plane(plane<D> *p, u32 base)
{
	for (u32 i = lane_index(); i < MAX_PAIRS; i += LANES) {
#pragma unroll
		for (u32 k = 0; k < 3; k++)
			p->even[k][i] = (typename D::sample)base;
#pragma unroll
		for (u32 k = 0; k < 2; k++)
			p->odd[k][i] = (typename D::sample)base;
	}
}

// The left neighbour of pair 0 is itself, and so is the right one of the last.
DEVICE u32 left_of(u32 i) { return i > 0 ? i - 1 : 0; }
DEVICE u32 right_of(u32 i, u32 pairs) { return i + 1 < pairs ? i + 1 : i; }

template <class D> DEVICE i32 clamped(i32 v)
{
	i32 least = v < 0 ? 0 : v;
	return least > D::top ? D::top : least;
}

DEVICE i32 average(i32 a, i32 b) { return (a + b + 1) >> 1; }

// unzigzagged is the residual that a value stands for, modulo 2^32.
DEVICE u32 unzigzagged(u32 z) { return (z >> 1) ^ (0 - (z & 1)); }

// sums_left reports whether an even predictor adds the pair before.
DEVICE bool sums_left(u32 id) { return id >= 3 && id != 6; }

// predict_even is the prediction of an even column; for predictors that sum, what
// they add to the column before.
template <class D> DEVICE i32 predict_even(const plane<D> *p, struct places r, u32 id, u32 i)
{
	i32 t = p->even[r.even_above][i];
	if (id == 0)
		return t;
	if (id <= 2) {
		i32 between = average(p->odd[r.odd_above][left_of(i)], p->odd[r.odd_above][i]);
		return id == 1 ? average(between, t) : between;
	}
	if (id == 6)
		return clamped<D>(t + ((t - (i32)p->even[r.even_above2][i]) >> 1));
	if (i == 0)
		return t;
	i32 change = t - (i32)p->even[r.even_above][i - 1], h = change >> 1;
	if (id == 3)
		return 0;
	if (id == 4)
		return change;
	return id == 5 ? h : h + ((h + 1) >> 1);
}

// predict_odd is the prediction of an odd column, the even ones of its row being
// known.
template <class D> DEVICE i32 predict_odd(const plane<D> *p, struct places r, u32 id, u32 i, u32 pairs)
{
	u32 right = right_of(i, pairs);
	i32 q = average(p->even[r.even][i], p->even[r.even][right]);
	if (id == 0)
		return q;
	i32 a = p->odd[r.odd_above][i];
	if (id == 3)
		return average(q, a);
	i32 curve = a - average(p->even[r.even_above][i], p->even[r.even_above][right]);
	if (id == 1)
		curve /= 2;
	return clamped<D>(q + curve);
}

// set_even sets a lane's even column; all lanes call it, those past the last pair
// too. sum is that of the strip before, and becomes this one's.
template <class D> DEVICE void set_even(plane<D> *p, struct places r, u32 id, u32 i, u32 pairs, u32 residual, u32 *sum)
{
	u32 v = residual;
	if (i < pairs)
		v += (u32)predict_even<D>(p, r, id, i);
	if (sums_left(id)) {
		v = sum_up(v) + *sum;
		*sum = shuffle(v, LANES - 1);
	}
	if (i < pairs)
		p->even[r.even][i] = (typename D::sample)v;
}

template <class D> DEVICE void set_odd(plane<D> *p, struct places r, u32 id, u32 i, u32 pairs, u32 residual)
{
	if (i < pairs)
		p->odd[r.odd][i] = (typename D::sample)(residual + (u32)predict_odd<D>(p, r, id, i, pairs));
}

// How much of planes 0 and 1 is added to a plane, in eighths, and what is taken
// off again.
struct shares {
	i32 first, second, offset;
};

struct transform {
	struct shares plane1, plane2;
};

// The entries of the two lists of 2.1, four bits each.
DEVICE u32 transform_entry(u64 list, u32 k) { return (u32)(list >> (4 * k)) & 15; }

template <class D> DEVICE struct shares make_shares(u32 first, u32 second)
{
	return {(i32)first, (i32)second, (i32)((first + second) << (D::bits - 4))};
}

template <class D> DEVICE struct transform read_transform(u32 t)
{
	return {
		make_shares<D>(transform_entry(0x6408, t & 3), 0),
		make_shares<D>(transform_entry(0x60264408, t >> 2), transform_entry(0x28600400, t >> 2)),
	};
}

// transform_limit is one more than the largest transform byte.
DEVICE u32 transform_limit(u32 channels) { return channels == 1 ? 1 : channels == 2 ? 4 : 32; }

DEVICE i32 shared_part(struct shares s, i32 x0, i32 x1) { return ((s.first * x0 + s.second * x1) >> 3) - s.offset; }

// A pixel, by planes.
struct pixel {
	u32 v0, v1, v2, v3;
};

// mixed returns a pixel without shares of other planes.
template <class D> DEVICE struct pixel mixed(struct pixel p, struct transform t, u32 channels)
{
	if (channels > 1)
		p.v1 = (p.v1 + (u32)shared_part(t.plane1, (i32)p.v0, 0)) & D::top;
	if (channels > 2)
		p.v2 = (p.v2 + (u32)shared_part(t.plane2, (i32)p.v0, (i32)p.v1)) & D::top;
	return p;
}

// Where the samples of a patch go, and what is done with them at the end.
struct destination {
	u8 *row;           // of the current row
	const u16 *ranks;
	u64 row_step, channel_step;
	u32 pixel_step;
	u32 rank_count;
	u32 flip;
	u32 channels;
	bool bad;          // this lane has had a value beyond the rank map
};

DEVICE struct destination open_destination(u8 *pixels, const struct image *img, const struct patch *p, const u32 *tables)
{
	return {
		first_sample(pixels, img, p), (const u16 *)(tables + img->ranks), img->row_step, img->channel_step,
		img->pixel_step, img->rank_count, img->flip, img->channels, false,
	};
}

// put stores a sample as it is coded.
DEVICE void put(struct destination *, u8 *to, u32 v, depth8) { *to = (u8)v; }

DEVICE void put(struct destination *d, u8 *to, u32 v, depth16)
{
	if (d->rank_count != 0) {
		bool known = v < d->rank_count;
		d->bad |= !known;
		v = known ? d->ranks[v] : 0;
	}
	*(u16 *)to = (u16)(v ^ d->flip);
}

template <class D> DEVICE void put_pixel(struct destination *d, u8 *to, struct pixel p)
{
	bool swapped = d->channels > 2; // plane 0 is channel 1 then
	put(d, to + (swapped ? d->channel_step : 0), p.v0, D());
	if (d->channels > 1)
		put(d, to + (swapped ? 0 : d->channel_step), p.v1, D());
	if (d->channels > 2)
		put(d, to + 2 * d->channel_step, p.v2, D());
	if (d->channels > 3)
		put(d, to + 3 * d->channel_step, p.v3, D());
}

// put_pair stores the even and the odd column of a lane. Three interleaved
// channels of 8 bits go two bytes at a time where they lie so.
template <class D> DEVICE void put_pair(struct destination *d, u32 i, struct pixel even, struct pixel odd, bool both)
{
	u8 *to = d->row + (u64)(2 * i) * d->pixel_step;
	if (D::bits == 8 && d->channels == 3 && d->channel_step == 1 && both && (u64)to % 2 == 0) {
		u16 *halves = (u16 *)to;
		halves[0] = (u16)(even.v1 | even.v0 << 8);
		halves[1] = (u16)(even.v2 | odd.v1 << 8);
		halves[2] = (u16)(odd.v0 | odd.v2 << 8);
		return;
	}
	put_pixel<D>(d, to, even);
	if (both)
		put_pixel<D>(d, to + d->pixel_step, odd);
}

// even_pixel and odd_pixel gather what all planes have in a column.
template <class D> DEVICE struct pixel even_pixel(const plane<D> *p, struct places r, u32 i, u32 channels)
{
	struct pixel v = {p[0].even[r.even][i], 0, 0, 0};
	if (channels > 1)
		v.v1 = p[1].even[r.even][i];
	if (channels > 2)
		v.v2 = p[2].even[r.even][i];
	if (channels > 3)
		v.v3 = p[3].even[r.even][i];
	return v;
}

template <class D> DEVICE struct pixel odd_pixel(const plane<D> *p, struct places r, u32 i, u32 channels)
{
	struct pixel v = {p[0].odd[r.odd][i], 0, 0, 0};
	if (channels > 1)
		v.v1 = p[1].odd[r.odd][i];
	if (channels > 2)
		v.v2 = p[2].odd[r.odd][i];
	if (channels > 3)
		v.v3 = p[3].odd[r.odd][i];
	return v;
}

// What a patch begins with in the fast and the dense codings: the transform byte,
// a byte with the constant planes (and four more bits), the base values.
struct prelude {
	u32 transform, constants, more;
	u32 bytes;
	u32 coded;   // planes that are not constant
	bool good;
};

template <class D> DEVICE struct prelude read_prelude(const struct source *s, u32 channels)
{
	struct prelude p;
	p.bytes = 2 + channels * D::bytes;
	p.transform = byte_at(s, 0);
	p.constants = byte_at(s, 1) & 15;
	p.more = byte_at(s, 1) >> 4;
	p.coded = channels - count_bits(p.constants);
	p.good = s->length >= p.bytes && p.transform < transform_limit(channels) && p.constants >> channels == 0;
	return p;
}

template <class D> DEVICE u32 base_value(const struct source *s, u32 plane)
{
	u32 v = byte_at(s, 2 + plane * D::bytes);
	return D::bytes == 1 ? v : v | byte_at(s, 3 + plane * D::bytes) << 8;
}

DEVICE bool is_constant(struct prelude p, u32 plane) { return p.constants >> plane & 1; }

#endif
