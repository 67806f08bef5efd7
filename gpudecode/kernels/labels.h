// The labels coding: from coarse to fine, in phases whose pixels depend on earlier
// phases alone. docs/format-l3.md, section 7.
//
// A warp goes through a phase in the order of its pixels, 32 at a time. Those that
// agree with their neighbours it sets at once; the others wait in a queue until
// there is one for each stream. Labels live where they go, in the pixel buffer: a
// patch has up to 64 KiB of them.

#ifndef PRISMFS_LABELS_H
#define PRISMFS_LABELS_H

#include "batch.h"

#define LABEL_PHASES 24
#define LABEL_QUEUE (2 * LANES)

struct labels_scratch {
	u16 queue[LABEL_QUEUE]; // row · 256 + column
};

// A map of labels that becomes known, and its streams.
struct labels {
	u8 *first;     // the patch's first label
	u64 row_step;
	u32 width, height;
	const struct labels_tables *tables;
	u32 palette_size, raw_bits;
	u32 state, at, lanes;
	bool bad;      // this lane has had a rank beyond the palette
};

// A phase has the pixels (y0 + 2s·j, x0 + 2s·i).
struct label_phase {
	u32 step, kind, context;
	u32 y0, x0;
};

DEVICE struct label_phase label_phase_of(u32 number)
{
	u32 level = number / 3, kind = number % 3, step = 128u >> level;
	u32 scale = level < 4 ? 3 : 7 - level;
	return {step, kind, 512 * (3 * scale + kind), kind < 2 ? step : 0, kind != 1 ? step : 0};
}

DEVICE u8 *label_at(const struct labels *m, u32 y, u32 x) { return m->first + y * m->row_step + x; }

// nearest_inside returns the place nearest to v that is a multiple of two steps
// away and from 0 to size − 1, or a negative number. No neighbour is farther away
// than three steps.
DEVICE i32 nearest_inside(i32 v, i32 step, i32 size)
{
	if (v < 0)
		v += 2 * step;
	if (v >= size)
		v -= 2 * step;
	if (v >= size)
		v -= 2 * step;
	return v;
}

// The places of the neighbours, in steps plus 3, four bits each.
DEVICE i32 neighbour_row(u32 kind, u32 k)
{
	u64 list = kind == 0 ? 0x44224422ull : kind == 1 ? 0x44223342ull : 0x44224233ull;
	return (i32)(list >> (4 * k) & 15) - 3;
}

DEVICE i32 neighbour_column(u32 kind, u32 k)
{
	u64 list = kind == 0 ? 0x60604242ull : kind == 1 ? 0x51514233ull : 0x42423342ull;
	return (i32)(list >> (4 * k) & 15) - 3;
}

// neighbour returns the label of neighbour k; first is that of neighbour 0.
DEVICE u32 neighbour(const struct labels *m, struct label_phase p, u32 y, u32 x, u32 k, u32 first)
{
	i32 step = (i32)p.step;
	i32 row = nearest_inside((i32)y + neighbour_row(p.kind, k) * step, step, (i32)m->height);
	i32 column = nearest_inside((i32)x + neighbour_column(p.kind, k) * step, step, (i32)m->width);
	return row >= 0 && column >= 0 ? *label_at(m, (u32)row, (u32)column) : first;
}

// four_neighbours returns neighbours k to k + 3, one a byte.
DEVICE u32 four_neighbours(const struct labels *m, struct label_phase p, u32 y, u32 x, u32 k, u32 first)
{
	u32 labels = 0;
#pragma unroll
	for (u32 i = 0; i < 4; i++)
		labels |= neighbour(m, p, y, x, k + i, first) << (8 * i);
	return labels;
}

DEVICE u32 first_neighbour(const struct labels *m, struct label_phase p, u32 y, u32 x) { return neighbour(m, p, y, x, 0, 0); }

// same_as has bit k set if byte k is label.
DEVICE u32 same_as(u64 labels, u32 label)
{
	u32 same = 0;
#pragma unroll
	for (u32 k = 0; k < 8; k++)
		same |= (u32)((labels >> (8 * k) & 0xff) == label) << k;
	return same;
}

DEVICE u32 label_weight(u32 pattern) { return 3 * count_bits(pattern & 15) + count_bits(pattern >> 4); }

// What the neighbours of a coded pixel say.
struct site {
	u32 major, minor, third;
	u32 context;
};

DEVICE struct site read_site(u64 labels, u32 context)
{
	u32 a = (u32)labels & 0xff, b = a, third = a;
	u32 pattern_a = same_as(labels, a), pattern_b = 0, others = 0xff & ~pattern_a;
	if (others != 0) {
		b = (u32)(labels >> (8 * lowest_bit(others))) & 0xff;
		pattern_b = same_as(labels, b);
		others &= ~pattern_b;
		if (others != 0) {
			third = (u32)(labels >> (8 * lowest_bit(others))) & 0xff;
			context += 256;
		}
	}
	if (label_weight(pattern_b) > label_weight(pattern_a))
		return {b, a, third, context + pattern_b};
	return {a, b, third, context + pattern_a};
}

// label_step decodes a site in each of the first lanes. It takes words for the
// tokens and, in the order of pixels, for raw labels, right after their tokens.
DEVICE u32 label_step(const struct source *s, struct labels *m, struct site site, bool active)
{
	u64 bounds = *(const u64 *)m->tables->bounds[m->tables->table_of[site.context] % 48];
	u32 b1 = (u32)bounds & 0xffff, b2 = (u32)(bounds >> 16) & 0xffff, b3 = (u32)(bounds >> 32) & 0xffff;
	u32 slot = m->state & 4095, first = 0, end = b1, label = site.major;
	bool raw = slot >= b3;
	if (slot >= b1)
		first = b1, end = b2, label = site.minor;
	if (slot >= b2)
		first = b2, end = b3, label = site.third;
	if (raw)
		first = b3, end = 4096;
	u32 x = (end - first) * (m->state >> 12) + slot - first;
	// Whether a raw label takes a second word does not depend on the first.
	bool once = active && x < (1u << 16);
	bool again = active && raw && ((once ? x << 16 : x) >> m->raw_bits) < (1u << 16);
	u32 takes_once = ballot(once), takes_again = ballot(again);
	u32 at = m->at + 2 * (count_bits(takes_once & lanes_below()) + count_bits(takes_again & lanes_below()));
	m->at += 2 * (count_bits(takes_once) + count_bits(takes_again));
	if (once) {
		x = x << 16 | half_at(s, at);
		at += 2;
	}
	if (raw && active) {
		u32 rank = x & ((1u << m->raw_bits) - 1);
		m->bad |= rank >= m->palette_size;
		label = m->tables->palette[rank & 0xff];
		x >>= m->raw_bits;
		if (again)
			x = x << 16 | half_at(s, at);
	}
	if (active)
		m->state = x;
	return label;
}

// decode_sites decodes n sites of the queue, from place `from` on, one a lane.
DEVICE void decode_sites(const struct source *s, struct labels *m, struct label_phase p, const struct labels_scratch *scratch, u32 from, u32 n)
{
	bool active = lane_index() < n;
	u32 place = active ? scratch->queue[from + lane_index()] : 0, y = place / 256, x = place % 256;
	struct site site = {0, 0, 0, 0};
	if (active) {
		u32 first = first_neighbour(m, p, y, x);
		u64 labels = (u64)four_neighbours(m, p, y, x, 4, first) << 32 | four_neighbours(m, p, y, x, 0, first);
		site = read_site(labels, p.context);
	}
	u32 label = label_step(s, m, site, active);
	if (active)
		*label_at(m, y, x) = (u8)label;
}

// drain decodes as many of the waiting sites as there are whole steps, or all of
// them, and returns how many are left, at the queue's beginning.
DEVICE u32 drain(const struct source *s, struct labels *m, struct label_phase p, struct labels_scratch *scratch, u32 waiting, bool all)
{
	u32 done = 0;
	sync_warp();
	while (waiting - done >= m->lanes || (all && waiting > done)) {
		u32 n = smaller(m->lanes, waiting - done);
		decode_sites(s, m, p, scratch, done, n);
		done += n;
	}
	u32 left = waiting - done, place = 0;
	if (lane_index() < left)
		place = scratch->queue[done + lane_index()];
	sync_warp();
	if (lane_index() < left)
		scratch->queue[lane_index()] = (u16)place;
	sync_warp();
	return left;
}

// decode_label_phase decodes the pixels of a phase.
DEVICE void decode_label_phase(const struct source *s, struct labels *m, struct label_phase p, struct labels_scratch *scratch)
{
	if (p.y0 >= m->height || p.x0 >= m->width)
		return;
	u32 apart = 2 * p.step;
	u32 columns = (m->width - p.x0 - 1) / apart + 1, rows = (m->height - p.y0 - 1) / apart + 1;
	u32 reciprocal = 0xffffffff / columns + 1; // 2^32 over columns, rounded up; 0 for one
	u32 waiting = 0;
	for (u32 first = 0; first < rows * columns; first += LANES) {
		u32 k = first + lane_index();
		u32 row = reciprocal == 0 ? k : (u32)((u64)k * reciprocal >> 32), column = k - row * columns;
		u32 y = p.y0 + row * apart, x = p.x0 + column * apart;
		bool coded = k < rows * columns;
		if (coded && p.step <= 4) {
			u32 label = first_neighbour(m, p, y, x);
			if (four_neighbours(m, p, y, x, 0, label) == label * 0x01010101u) {
				*label_at(m, y, x) = (u8)label;
				coded = false;
			}
		}
		u32 all = ballot(coded);
		if (coded)
			scratch->queue[waiting + count_bits(all & lanes_below())] = (u16)(256 * y + x);
		waiting = drain(s, m, p, scratch, waiting + count_bits(all), false);
	}
	drain(s, m, p, scratch, waiting, true);
}

// phase_of_pixel returns the number of the phase in which a pixel is decoded, that
// of the first pixel being NO_PHASE.
#define NO_PHASE 0xffu

DEVICE u32 phase_of_pixel(u32 y, u32 x)
{
	if ((y | x) == 0)
		return NO_PHASE;
	u32 step = lowest_bit(y | x), level = 7 - step;
	if ((y >> step & 1) == 0)
		return 3 * level + 2;
	return 3 * level + ((x >> step & 1) == 0 ? 1 : 0);
}

// Where the exceptions of a patch are.
struct exceptions {
	u32 next, count;
};

// apply_exceptions sets those of a phase. It returns false if one is wrong.
DEVICE bool apply_exceptions(const struct source *s, const struct labels *m, struct exceptions *e, u32 phase)
{
	for (;;) {
		u32 mine = e->next + lane_index();
		bool there = mine < e->count;
		u32 three = there ? bits_at(s, 8 * (3 + 3 * mine)) : 0, y = three & 0xff, x = three >> 8 & 0xff;
		u32 number = there ? phase_of_pixel(y, x) : NO_PHASE;
		u32 others = ballot(number != phase);
		u32 n = others == 0 ? LANES : lowest_bit(others);
		bool applies = lane_index() < n, outside = y >= m->height || x >= m->width;
		// Two of them may have one place: the last one counts.
		u32 same = same_value(applies ? 256 * y + x : 0x10000 + lane_index());
		if (applies && !outside && top_bit(same) == lane_index())
			*label_at(m, y, x) = (u8)(three >> 16);
		bool early = lane_index() == n && number < phase;
		if (ballot((applies && outside) || early) != 0)
			return false;
		e->next += n;
		if (n < LANES || e->next >= e->count)
			return true;
	}
}

DEVICE bool open_labels(const struct source *s, struct labels *m, struct exceptions *e)
{
	if (s->length < 3)
		return false;
	e->next = 0;
	e->count = half_at(s, 0);
	u32 states = (3 + 3 * e->count + 1) & ~1u, mine = states + 4 * lane_index();
	m->at = states + 4 * m->lanes;
	if (m->at > s->length)
		return false;
	m->state = lane_index() < m->lanes ? half_at(s, mine) | half_at(s, mine + 2) << 16 : 0;
	return true;
}

DEVICE u32 labels_patch(struct source s, struct labels m, struct labels_scratch *scratch)
{
	struct exceptions e;
	if (!open_labels(&s, &m, &e))
		return STATUS_BAD_HEAD;
	if (lane_index() == 0)
		*m.first = (u8)byte_at(&s, 2);
	sync_warp();
	for (u32 i = 0; i < LABEL_PHASES; i++) {
		decode_label_phase(&s, &m, label_phase_of(i), scratch);
		if (m.at > s.length)
			return STATUS_RAN_OUT;
		if (ballot(m.bad) != 0)
			return STATUS_BAD_VALUE;
		if (!apply_exceptions(&s, &m, &e, i))
			return STATUS_BAD_EXCEPTION;
		sync_warp();
	}
	if (e.next < e.count)
		return STATUS_BAD_EXCEPTION;
	return s.length - m.at > 2 ? STATUS_LEFT_OVER : STATUS_OK;
}

DEVICE void labels_kernel(PARAMETERS, struct labels_scratch *scratch)
{
	u32 index = patch_of_warp();
	if (!begins(index, count, status))
		return;
	const struct patch *p = &patches[index];
	const struct image *img = &images[p->image];
	u32 result = STATUS_BAD_PLACE;
	if (fits(img, p, encoded_bytes, pixel_bytes, MAX_LABELS_EDGE, 1) && img->channels == 1 && img->pixel_step == 1 &&
	    img->log_streams <= 5 && img->raw_bits <= 8) {
		struct labels m = {
			first_sample(pixels, img, p), img->row_step, p->width, p->height,
			(const struct labels_tables *)(tables + img->tables), img->palette_size, img->raw_bits,
			0, 0, 1u << img->log_streams, false,
		};
		result = labels_patch(open_source(encoded, p), m, &scratch[warp_index()]);
	}
	ends(index, result, status);
}

#endif
