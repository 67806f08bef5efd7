// The dense coding of 8 bits. docs/format-l3.md, section 5.

#ifndef PRISMFS_DENSE8_H
#define PRISMFS_DENSE8_H

#include "dense.h"

struct coder8 {
	typedef struct dense8_tables tables;
	typedef struct dense_scratch<depth8> scratch;

	static DEVICE_MEMBER u32 value(const struct source *s, struct streams *t, const tables *set, u32 table, bool active, bool renormalise)
	{
		u32 ahead = word_ahead(s, t), x = t->state;
		u32 slot = set->slots[table & 15][x & 511];
		u32 raw_bits = slot >> 29;
		u32 next = (slot >> 18 & 0x7ff) * (x >> 9) + (slot >> 8 & 0x3ff);
		u32 v = (slot & 0xff) + (next & ((1u << raw_bits) - 1));
		if (active)
			t->state = next >> raw_bits;
		take(t, ahead, active && renormalise && t->state < LEAST_STATE);
		return v & 0xff;
	}

	// level cuts a sum, 0 to 255, into 40 levels.
	static DEVICE_MEMBER u32 level(u32 sum) { return sum < 16 ? sum : sum < 64 ? 12 + (sum >> 2) : 24 + (sum >> 4); }

	static DEVICE_MEMBER u8 even_table(const tables *set, const scratch *, struct row w, u32, u32, u32 sum)
	{
		return set->contexts[80 * w.plane + level(sum)];
	}

	static DEVICE_MEMBER u8 odd_table(const tables *set, const scratch *, struct row w, u32, u32, u32 sum)
	{
		return set->contexts[80 * w.plane + 40 + level(sum)];
	}

	static DEVICE_MEMBER u32 known_value(scratch *c, struct row, u32, u32 i) { return c->values[i]; }

	static DEVICE_MEMBER struct pixel with_holes(const scratch *, struct places, u32, u32, u32, struct pixel p) { return p; }

	static DEVICE_MEMBER bool allows(const struct image *, u32) { return true; }
};

#endif
