// What both dense codings have in common: contexts, the entropy coder's lanes, rows
// of planes. docs/format-l3.md, sections 4 to 6.
//
// Values are decoded by the lanes of the entropy coder, samples by the lanes that
// have their columns. Both are the same where a patch has 32 streams; elsewhere
// values pass through shared memory from the ones to the others.

#ifndef PRISMFS_DENSE_H
#define PRISMFS_DENSE_H

#include "planes.h"

// The magnitudes of the last rows of residuals of a plane, row y at y mod 3.
template <class D> struct magnitudes {
	typename D::sample even[3][MAX_PAIRS];
	typename D::sample odd[3][MAX_PAIRS];
};

#define MAX_PLANE_ROWS (MAX_CHANNELS * MAX_EDGE)

template <class D> struct dense_scratch {
	plane<D> planes[MAX_CHANNELS];
	magnitudes<D> sizes[MAX_CHANNELS];
	u32 values[MAX_PAIRS];    // of a phase, zigzagged; HOLE for a hole
	u8 table[MAX_PAIRS];      // of each of them
	u8 ids[MAX_PLANE_ROWS];   // predictors of rows of planes
	u8 holes[D::bits == 16 ? MAX_CHANNELS : 1][2][2][MAX_PAIRS]; // by plane, y mod 2, phase
};

#define HOLE 0x10000u
#define TABLE_OF_IDS 15

// The streams of a patch. A state is in the lane of its stream.
struct streams {
	u32 state;
	u32 at;      // of the next word
	u32 lanes;
};

// take gives a word to each lane that wants one, lowest lane first. ahead is the
// word that would be this lane's if all lanes took one: it has been read before
// it is known who does, since that depends on memory, too.
DEVICE void take(struct streams *s, u32 ahead, bool wants)
{
	u32 takers = ballot(wants);
	u32 word = shuffle(ahead, count_bits(takers & lanes_below()));
	if (wants)
		s->state = s->state << 16 | word;
	s->at += 2 * count_bits(takers);
}

DEVICE u32 word_ahead(const struct source *s, const struct streams *t) { return half_at(s, t->at + 2 * lane_index()); }

#define LEAST_STATE (1u << 16)

// C is one of the two entropy coders: tables is its table set, value decodes one
// value in each active lane.

// decode_values decodes count values of a phase, whose tables are in scratch.
template <class D, class C>
DEVICE void decode_values(const struct source *s, struct streams *t, const typename C::tables *tables, struct dense_scratch<D> *scratch, u32 count, bool renormalise)
{
	for (u32 first = 0; first < count; first += t->lanes) {
		u32 i = first + lane_index();
		bool active = lane_index() < t->lanes && i < count;
		u32 table = active ? scratch->table[i] : 0;
		u32 v = C::value(s, t, tables, table, active, renormalise);
		if (active)
			scratch->values[i] = v;
	}
	sync_warp();
}

// decode_ids decodes the predictors of all rows of planes.
template <class D, class C>
DEVICE void decode_ids(const struct source *s, struct streams *t, const typename C::tables *tables, struct dense_scratch<D> *scratch, u32 count)
{
	for (u32 first = 0; first < count; first += t->lanes) {
		u32 i = first + lane_index();
		bool active = lane_index() < t->lanes && i < count;
		u32 v = C::value(s, t, tables, TABLE_OF_IDS, active, true);
		if (active)
			scratch->ids[i] = (u8)(v & 31);
	}
	sync_warp();
}

DEVICE u32 distance(u32 a, u32 b) { return a > b ? a - b : b - a; }

DEVICE u32 one_and_a_half(u32 v) { return v + (v >> 1); }

// A row of a plane that is being decoded. The magnitudes of row y are at y mod 3.
struct row {
	struct places r;
	u32 plane, pairs, width;
};

template <class D> DEVICE u32 even_sum(const struct dense_scratch<D> *c, struct row w, u32 i)
{
	const magnitudes<D> *m = &c->sizes[w.plane];
	const plane<D> *p = &c->planes[w.plane];
	u32 above = w.r.even_above, above2 = w.r.even_above2, left = left_of(i);
	u32 sum = (u32)m->even[above][left] + m->even[above][i] + m->even[above][right_of(i, w.pairs)] +
		m->even[above2][i] + m->odd[above][left] + m->odd[above][i];
	u32 change = distance(p->even[above][i], p->even[above2][i]);
	if (w.plane == 0 || w.plane == 3)
		return smaller(sum + change, D::top);
	sum += (change >> 1) + (c->sizes[0].even[w.r.even][i] >> 1);
	if (w.plane == 2)
		sum += one_and_a_half(c->sizes[1].even[w.r.even][i]);
	return smaller(sum, D::top);
}

template <class D> DEVICE u32 odd_sum(const struct dense_scratch<D> *c, struct row w, u32 i)
{
	const magnitudes<D> *m = &c->sizes[w.plane];
	const plane<D> *p = &c->planes[w.plane];
	u32 now = w.r.even, above = w.r.even_above, above2 = w.r.even_above2, right = right_of(i, w.pairs);
	u32 sum = (u32)m->odd[above][left_of(i)] + m->odd[above][i] + m->odd[above][right] +
		m->odd[above2][i] + m->even[now][i] + m->even[now][right];
	u32 change = distance(p->even[now][i], p->even[now][right]);
	sum += change >> 1;
	if (w.plane == 0 || w.plane == 3)
		return smaller(sum, D::top);
	u32 between = (u32)average(p->even[above][i], p->even[above][right]);
	sum += change + 2 * distance(p->odd[w.r.odd_above][i], between);
	if (w.plane == 2)
		sum += one_and_a_half(c->sizes[1].odd[now][i]);
	return smaller(sum, D::top);
}

// start_dense sets what is known above a patch.
template <class D> DEVICE void start_dense(struct dense_scratch<D> *c, u32 plane, u32 base, bool constant)
{
	start_plane<D>(&c->planes[plane], base);
	u32 first = constant ? 0 : 3;
	for (u32 i = lane_index(); i < MAX_PAIRS; i += LANES)
		for (u32 k = 0; k < 3; k++) {
			c->sizes[plane].even[k][i] = (typename D::sample)first;
			c->sizes[plane].odd[k][i] = (typename D::sample)first;
		}
	if (D::bits == 16)
		for (u32 i = lane_index(); i < 4 * MAX_PAIRS; i += LANES)
			c->holes[plane][i / (2 * MAX_PAIRS)][i / MAX_PAIRS % 2][i % MAX_PAIRS] = 0;
}

// The magnitude of the residual that a zigzagged value stands for.
DEVICE u32 magnitude(u32 z) { return (z + 1) >> 1; }

// dense_row decodes a row of a plane.
template <class D, class C>
DEVICE void dense_row(const struct source *s, struct streams *t, const typename C::tables *tables, struct dense_scratch<D> *c, struct row w, u32 hole, bool renormalise, u32 id)
{
	plane<D> *p = &c->planes[w.plane];
	magnitudes<D> *m = &c->sizes[w.plane];
	u32 sum = 0;
	for (u32 i = lane_index(); i < w.pairs; i += LANES)
		c->table[i] = C::even_table(tables, c, w, hole, i, even_sum<D>(c, w, i));
	sync_warp();
	decode_values<D, C>(s, t, tables, c, w.pairs, renormalise);
	for (u32 first = 0; first < w.pairs; first += LANES) {
		u32 i = first + lane_index();
		u32 z = i < w.pairs ? C::known_value(c, w, 0, i) : 0;
		set_even<D>(p, w.r, id & 7, i, w.pairs, unzigzagged(z), &sum);
		if (i < w.pairs)
			m->even[w.r.even][i] = (typename D::sample)magnitude(z);
	}
	sync_warp();
	for (u32 i = lane_index(); i < w.width / 2; i += LANES)
		c->table[i] = C::odd_table(tables, c, w, hole, i, odd_sum<D>(c, w, i));
	if (w.width % 2 != 0 && lane_index() == 0)
		c->values[w.pairs - 1] = 0; // of the odd column that is not there
	sync_warp();
	decode_values<D, C>(s, t, tables, c, w.width / 2, renormalise);
	for (u32 i = lane_index(); i < w.pairs; i += LANES) {
		u32 z = C::known_value(c, w, 1, i);
		set_odd<D>(p, w.r, id >> 3, i, w.pairs, unzigzagged(z));
		m->odd[w.r.even][i] = (typename D::sample)magnitude(z);
	}
	sync_warp();
}

template <class D, class C>
DEVICE void dense_store(const struct dense_scratch<D> *c, struct places r, u32 width, u32 hole, struct transform t, struct destination *d)
{
	for (u32 i = lane_index(); i < (width + 1) / 2; i += LANES) {
		struct pixel even = C::with_holes(c, r, 0, i, hole, even_pixel<D>(c->planes, r, i, d->channels));
		struct pixel odd = C::with_holes(c, r, 1, i, hole, odd_pixel<D>(c->planes, r, i, d->channels));
		put_pair<D>(d, i, mixed<D>(even, t, d->channels), mixed<D>(odd, t, d->channels), 2 * i + 1 < width);
	}
}

// open_streams reads the states. It returns false if there are too few bytes.
DEVICE bool open_streams(const struct source *s, struct streams *t, u32 at, u32 lanes)
{
	*t = {0, at + 4 * lanes, lanes};
	if (t->at > s->length)
		return false;
	u32 mine = at + 4 * lane_index();
	if (lane_index() < lanes)
		t->state = half_at(s, mine) | half_at(s, mine + 2) << 16;
	return true;
}

template <class D, class C>
DEVICE u32 dense_rows(const struct source *s, const struct patch *patch, const struct image *img, struct prelude prelude, const typename C::tables *tables, struct destination d, struct dense_scratch<D> *c)
{
	u32 width = patch->width, pairs = (width + 1) / 2, plane_rows = prelude.coded * patch->height;
	struct streams t = {0, 0, 1};
	if (plane_rows > 0) {
		if (!open_streams(s, &t, (prelude.bytes + 1) & ~1u, smaller(1u << (img->log_streams & 31), pairs)))
			return STATUS_BAD_HEAD;
		decode_ids<D, C>(s, &t, tables, c, plane_rows);
	}
	struct transform mixes = read_transform<D>(prelude.transform);
	struct places r = first_row();
	u32 plane_row = 0;
	for (u32 y = 0; y < patch->height; y++) {
		for (u32 k = 0; k < d.channels; k++) {
			if (is_constant(prelude, k))
				continue;
			struct row w = {r, k, pairs, width};
			bool renormalise = plane_row + prelude.more < plane_rows;
			dense_row<D, C>(s, &t, tables, c, w, img->hole, renormalise, c->ids[plane_row]);
			plane_row++;
		}
		if (t.at > s->length)
			return STATUS_RAN_OUT;
		dense_store<D, C>(c, r, width, img->hole, mixes, &d);
		d.row += d.row_step;
		r = next_row(r);
	}
	if (ballot(d.bad) != 0)
		return STATUS_BAD_VALUE;
	return plane_rows > 0 && s->length - t.at > 2 ? STATUS_LEFT_OVER : STATUS_OK;
}

template <class D, class C>
DEVICE u32 dense_patch(struct source s, const struct patch *patch, const struct image *img, const typename C::tables *tables, struct destination d, struct dense_scratch<D> *c)
{
	struct prelude prelude = read_prelude<D>(&s, d.channels);
	if (!prelude.good || img->log_streams > 5 || prelude.more > prelude.coded * patch->height ||
	    (prelude.coded == 0 && s.length != ((prelude.bytes + 3) & ~3u)) ||
	    !C::allows(img, prelude.transform))
		return STATUS_BAD_HEAD;
	for (u32 k = 0; k < d.channels; k++)
		start_dense<D>(c, k, base_value<D>(&s, k), is_constant(prelude, k));
	sync_warp();
	return dense_rows<D, C>(&s, patch, img, prelude, tables, d, c);
}

// dense_kernel is the whole of a kernel: one patch a warp.
template <class D, class C>
DEVICE void dense_kernel(PARAMETERS, struct dense_scratch<D> *scratch)
{
	u32 index = patch_of_warp();
	if (!begins(index, count, status))
		return;
	const struct patch *p = &patches[index];
	const struct image *img = &images[p->image];
	u32 result = STATUS_BAD_PLACE;
	if (fits(img, p, encoded_bytes, pixel_bytes, MAX_EDGE, D::bytes)) {
		const typename C::tables *set = (const typename C::tables *)(tables + img->tables);
		result = dense_patch<D, C>(open_source(encoded, p), p, img, set, open_destination(pixels, img, p, tables), &scratch[warp_index()]);
	}
	ends(index, result, status);
}

#endif
