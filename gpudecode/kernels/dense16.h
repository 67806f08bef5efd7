// The dense coding of 16 bits: values of up to 16 bits take two steps, and a value
// may stand for holes. docs/format-l3.md, section 6.

#ifndef PRISMFS_DENSE16_H
#define PRISMFS_DENSE16_H

#include "dense.h"

struct coder16 {
	typedef struct dense16_tables tables;
	typedef struct dense_scratch<depth16> scratch;

	static DEVICE_MEMBER u32 value(const struct source *s, struct streams *t, const tables *set, u32 table, bool active, bool renormalise)
	{
		u32 ahead = word_ahead(s, t), x = t->state;
		u32 slot = set->slots[table & 15][x & 1023];
		u32 raw_bits = slot >> 8 & 7;
		bool hole = raw_bits == 7;
		raw_bits = hole ? 0 : raw_bits;
		u32 next = (slot >> 21) * (x >> 10) + (slot >> 11 & 1023);
		u32 mask = (1u << raw_bits) - 1;
		u32 v = (slot & 0xff & ~mask) | (next & mask), more = hole ? 0 : slot & mask;
		if (active)
			t->state = next >> raw_bits;
		take(t, ahead, active && renormalise && t->state < LEAST_STATE);
		if (ballot(active && more != 0) != 0)
			v = second_step(s, t, v, active ? more : 0, renormalise);
		return hole ? HOLE : v & 0xffff;
	}

	// second_step decodes the raw bits that a lane's value lacks, fewer than 16.
	static DEVICE_MEMBER u32 second_step(const struct source *s, struct streams *t, u32 v, u32 more, bool renormalise)
	{
		u32 ahead = word_ahead(s, t);
		v = v << more | (t->state & ((1u << more) - 1));
		t->state >>= more;
		take(t, ahead, more != 0 && renormalise && t->state < LEAST_STATE);
		return v;
	}

	// level cuts a sum into 32 levels.
	static DEVICE_MEMBER u32 level(u32 sum)
	{
		if (sum < 8)
			return sum;
		u32 e = top_bit(sum);
		return smaller(31, 8 + 2 * (e - 3) + (sum >> (e - 1) & 1));
	}

	static DEVICE_MEMBER u8 even_table(const tables *set, const scratch *c, struct row w, u32 hole, u32 i, u32 sum)
	{
		u32 phase = 2 * w.plane;
		return set->contexts[hole == NO_HOLE ? 32 * phase + level(sum) : 32 * (4 * phase + even_zone(c, w, i)) + level(sum)];
	}

	static DEVICE_MEMBER u8 odd_table(const tables *set, const scratch *c, struct row w, u32 hole, u32 i, u32 sum)
	{
		u32 phase = 2 * w.plane + 1;
		return set->contexts[hole == NO_HOLE ? 32 * phase + level(sum) : 32 * (4 * phase + odd_zone(c, w, i)) + level(sum)];
	}

	// The zones say where holes are around a pixel. Those of row y are at y mod 2,
	// as odd columns are.
	static DEVICE_MEMBER u32 even_zone(const scratch *c, struct row w, u32 i)
	{
		const u8 *even = c->holes[w.plane][w.r.odd_above][0], *odd = c->holes[w.plane][w.r.odd_above][1];
		u32 left = left_of(i), either = odd[left] | odd[i], both = odd[left] & odd[i];
		if (even[i] == 0)
			return either;
		return 2 + (both & even[left] & even[right_of(i, w.pairs)]);
	}

	static DEVICE_MEMBER u32 odd_zone(const scratch *c, struct row w, u32 i)
	{
		const u8 *even = c->holes[w.plane][w.r.odd][0];
		return (u32)even[i] + even[right_of(i, w.pairs)] + c->holes[w.plane][w.r.odd_above][1][i];
	}

	// known_value returns a value that has been decoded, 0 for a hole, which it
	// notes.
	static DEVICE_MEMBER u32 known_value(scratch *c, struct row w, u32 odd, u32 i)
	{
		u32 v = c->values[i];
		bool hole = v == HOLE;
		c->holes[w.plane][w.r.odd][odd][i] = hole;
		return hole ? 0 : v;
	}

	static DEVICE_MEMBER struct pixel with_holes(const scratch *c, struct places r, u32 odd, u32 i, u32 hole, struct pixel p)
	{
		if (hole == NO_HOLE)
			return p;
		p.v0 = c->holes[0][r.odd][odd][i] ? hole : p.v0;
		p.v1 = c->holes[1][r.odd][odd][i] ? hole : p.v1;
		p.v2 = c->holes[2][r.odd][odd][i] ? hole : p.v2;
		p.v3 = c->holes[3][r.odd][odd][i] ? hole : p.v3;
		return p;
	}

	// allows reports whether an image may have a transform: one with holes has none
	// but that without shares.
	static DEVICE_MEMBER bool allows(const struct image *img, u32 transform)
	{
		u32 plain = img->channels == 1 ? 0 : img->channels == 2 ? 1 : 5;
		return img->hole == NO_HOLE || transform == plain;
	}
};

#endif
