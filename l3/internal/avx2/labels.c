//go:build amd64 && cgo

// Patches of the labels coding, docs/format-l3.md. The plain Go decoder of package
// l3 is the specification of what stands here. A patch in which anything is wrong
// is left to it, so there are no error messages here.

#include "labels.h"
#include "labels_lattice.h"
#include "labels_sites.h"

enum {
	LB_SLOT_BITS = 12,
	LB_SLOTS = 1 << LB_SLOT_BITS,
	LB_TABLES = 48,
	LB_TABLE_ROOM = 64, // a power of two, so that any number can be made one of a table
	LB_PALETTE = 256,
	LB_CLASS_CONTEXTS = 2 * 256,
	LB_SCALES = 4, // steps with contexts of their own
	LB_SPARSE_STEP = 4,
	LB_MAX_LANES = 32,
	LB_PRELUDE = 3,
	LB_EXCEPTION = 3,
	LB_LOW = 1 << 16, // the least state that needs no word

	// A patch from this size on is left to the plain decoder: encoders store
	// such a patch as it is.
	LB_MAX_PATCH = LB_MAX_EDGE * LB_MAX_EDGE,
	// What a turn of LB_MAX_LANES pixels can take: two words each.
	LB_READ_AHEAD = 4 * LB_MAX_LANES,
};

// A table: where the slots of tokens 1 to 3 begin, and what makes the frequency
// of token 0 that of token 1, all below 2^13.
struct lb_table {
	uint16_t bounds[3];
	int16_t step;
};

// A model is what an image's patches are decoded with.
struct lb_model {
	struct lb_table tables[LB_TABLE_ROOM];
	uint8_t palette[LB_PALETTE];
	const uint8_t *table_of;
	uint32_t palette_size, raw_bits, lanes;
};

// lb_scratch is what decoding needs, about 270 KiB of the C stack.
struct lb_scratch {
	struct lb_model model;
	struct lb_lattice known[2];
	struct lb_lattices lattices;
	struct lb_sites sites;
	uint8_t tail[LB_MAX_PATCH + LB_READ_AHEAD]; // a copy of the file's last patch
};

// A stream is where a patch is read. READ_AHEAD bytes behind its end may be read.
struct lb_stream {
	uint32_t states[LB_MAX_LANES];
	const uint8_t *at, *end;
	const uint8_t *exception, *exceptions_end;
};

LB_INLINE uint32_t lb_word(const uint8_t *from)
{
	uint16_t v;
	memcpy(&v, from, sizeof v);
	return v;
}

// lb_renormalise takes a word if the state needs one. Once in thirty times it does.
LB_INLINE uint32_t lb_renormalise(uint32_t x, const uint8_t **at)
{
	if (__builtin_expect(x < LB_LOW, 0)) {
		x = x << 16 | lb_word(*at);
		*at += 2;
	}
	return x;
}

// A lb_result is a state, a label, which is negative if there is none, and where
// the next word is: as much as two registers hold.
struct lb_result {
	uint32_t state;
	int label;
	const uint8_t *at;
};

// lb_rare decodes a pixel with token 2 or 3.
LB_TARGET static struct lb_result lb_rare(const struct lb_model *m, struct lb_lattices *l, enum lb_kind kind, uint32_t x,
					  const struct lb_table *t, uint32_t place, const uint8_t *at)
{
	uint32_t slot = x % LB_SLOTS, second = t->bounds[1], third = t->bounds[2];
	if (slot < third) {
		x = lb_renormalise((third - second) * (x >> LB_SLOT_BITS) + slot - second, &at);
		return (struct lb_result){x, lb_third(l, kind, place), at};
	}
	x = lb_renormalise((LB_SLOTS - third) * (x >> LB_SLOT_BITS) + slot - third, &at);
	uint32_t rank = x & (((uint32_t)1 << m->raw_bits) - 1);
	x = lb_renormalise(x >> m->raw_bits, &at);
	return (struct lb_result){x, rank < m->palette_size ? m->palette[rank] : -1, at};
}

// lb_pixel decodes coded pixel i of a phase with the state x. It returns 0 if the
// pixel has no label.
LB_INLINE int lb_pixel(const struct lb_model *m, struct lb_lattices *l, enum lb_kind kind, const struct lb_sites *s, int i,
		       uint8_t *to, uint32_t *x, const uint8_t **at)
{
	uint32_t pixel = s->pixels[i], place = pixel & 0xffff, slot = *x % LB_SLOTS;
	const struct lb_table *t = &m->tables[s->tables[i] % LB_TABLE_ROOM];
	uint8_t *label = to + place;
	if (__builtin_expect(slot >= t->bounds[1], 0)) {
		struct lb_result r = lb_rare(m, l, kind, *x, t, place, *at);
		*x = r.state;
		*at = r.at;
		*label = (uint8_t)r.label;
		return r.label >= 0;
	}
	// Whether the label is the minor one cannot be foreseen: no branch.
	uint32_t first = t->bounds[0], minor = slot >= first, mask = 0 - minor;
	uint32_t frequency = first + ((uint32_t)t->step & mask);
	*x = lb_renormalise(frequency * (*x >> LB_SLOT_BITS) + slot - (first & mask), at);
	*label = (uint8_t)(pixel >> (16 + 8 * minor));
	return 1;
}

// lb_decode_sites decodes the coded pixels of a phase. Four lanes are the usual
// number.
LB_INLINE int lb_decode_sites(const struct lb_model *m, struct lb_lattices *l, enum lb_kind kind, const struct lb_sites *s,
			      struct lb_stream *stream)
{
	uint8_t *to = lb_row(lb_of(l, kind), 0);
	const uint8_t *at = stream->at;
	uint32_t *states = stream->states;
	int i = 0, ok = 1;
	if (m->lanes == 4) {
		uint32_t a = states[0], b = states[1], c = states[2], d = states[3];
		for (; i + 4 <= s->count; i += 4) {
			ok = lb_pixel(m, l, kind, s, i, to, &a, &at);
			ok &= lb_pixel(m, l, kind, s, i + 1, to, &b, &at);
			ok &= lb_pixel(m, l, kind, s, i + 2, to, &c, &at);
			ok &= lb_pixel(m, l, kind, s, i + 3, to, &d, &at);
			if (!ok || at > stream->end)
				return 0;
		}
		states[0] = a, states[1] = b, states[2] = c, states[3] = d;
	}
	for (; i < s->count; i++)
		if (!lb_pixel(m, l, kind, s, i, to, &states[(uint32_t)i % m->lanes], &at) || at > stream->end)
			return 0;
	stream->at = at;
	return 1;
}

// lb_apply sets the exceptions of a phase. It returns 0 if one lies beyond the
// patch.
LB_INLINE int lb_apply(struct lb_stream *stream, struct lb_lattice *to, enum lb_kind kind, int step, int width, int height)
{
	for (; stream->exception < stream->exceptions_end; stream->exception += LB_EXCEPTION) {
		int y = stream->exception[0], x = stream->exception[1];
		int wrong_y = kind == LB_COLUMNS ? y % (2 * step) : (y + step) % (2 * step);
		int wrong_x = kind == LB_ROWS ? x % (2 * step) : (x + step) % (2 * step);
		if (wrong_y != 0 || wrong_x != 0)
			return 1; // of another phase
		if (y >= height || x >= width)
			return 0;
		lb_row(to, y / (2 * step))[x / (2 * step)] = stream->exception[2];
	}
	return 1;
}

LB_INLINE int lb_phase(struct lb_scratch *s, struct lb_stream *stream, enum lb_kind kind, int step, int scale, int sparse,
		       int width, int height)
{
	struct lb_lattices *l = &s->lattices;
	struct lb_lattice *to = lb_of(l, kind);
	const uint8_t *table_of = s->model.table_of + (scale * LB_KINDS + kind) * LB_CLASS_CONTEXTS;
	s->sites.count = 0;
	if (to->width > 0)
		for (int y = 0; y < to->height; y++) {
			const uint8_t *of[LB_NEIGHBOURS];
			lb_neighbours(of, l, kind, y);
			lb_scan_row(&s->sites, lb_row(to, y), of, y, to->width, sparse, table_of);
		}
	int ok = lb_decode_sites(&s->model, l, kind, &s->sites, stream) && lb_apply(stream, to, kind, step, width, height);
	lb_close(to);
	return ok;
}

// lb_step_phases decodes the phases of a step.
LB_INLINE int lb_step_phases(struct lb_scratch *s, struct lb_stream *stream, int step, int scale, int sparse, int width,
			     int height)
{
	lb_step(&s->lattices, step, width, height);
	return lb_phase(s, stream, LB_BOTH, step, scale, sparse, width, height) &&
	       lb_phase(s, stream, LB_ROWS, step, scale, sparse, width, height) &&
	       lb_phase(s, stream, LB_COLUMNS, step, scale, sparse, width, height);
}

LB_TARGET static int lb_coarse(struct lb_scratch *s, struct lb_stream *stream, int step, int width, int height)
{
	return lb_step_phases(s, stream, step, LB_SCALES - 1, 0, width, height);
}

LB_TARGET static int lb_fine(struct lb_scratch *s, struct lb_stream *stream, int step, int scale, int width, int height)
{
	return lb_step_phases(s, stream, step, scale, 1, width, height);
}

// lb_open reads what precedes the words of a patch. It returns 0 if the patch is
// too short.
LB_INLINE int lb_open(struct lb_stream *stream, const uint8_t *from, int64_t size, uint32_t lanes)
{
	if (size < LB_PRELUDE)
		return 0;
	int64_t count = lb_word(from), states = (LB_PRELUDE + count * LB_EXCEPTION + 1) & ~(int64_t)1;
	if (states + 4 * lanes > size)
		return 0;
	stream->exception = from + LB_PRELUDE;
	stream->exceptions_end = stream->exception + count * LB_EXCEPTION;
	memcpy(stream->states, from + states, 4 * lanes);
	stream->at = from + states + 4 * lanes;
	stream->end = from + size;
	return 1;
}

// lb_patch decodes the patch at from, behind whose end LB_READ_AHEAD bytes may be
// read. It returns 0 if the patch is wrong.
LB_TARGET static int lb_patch(struct lb_scratch *s, uint8_t *dst, int64_t row_bytes, const uint8_t *from, int64_t size,
			      int width, int height)
{
	struct lb_stream stream;
	if (!lb_open(&stream, from, size, s->model.lanes))
		return 0;
	struct lb_lattices *l = &s->lattices;
	l->known = &s->known[0];
	lb_row(l->known, 0)[0] = from[2];
	// The first step that has any pixels. At it, one pixel is known.
	int step = LB_MAX_EDGE / 2;
	while (step > 1 && step >= width && step >= height)
		step /= 2;
	lb_step(l, step, width, height);
	lb_close(l->known);
	for (; step >= 1; step /= 2) {
		int scale = step == 1 ? 0 : step == 2 ? 1 : 2;
		int ok = step > LB_SPARSE_STEP ? lb_coarse(s, &stream, step, width, height)
					       : lb_fine(s, &stream, step, scale, width, height);
		if (!ok)
			return 0;
		if (step > 1) {
			struct lb_lattice *next = l->known == &s->known[0] ? &s->known[1] : &s->known[0];
			lb_join(next, l);
			l->known = next;
		}
	}
	if (stream.exception != stream.exceptions_end || stream.end - stream.at > 2)
		return 0;
	lb_put(dst, row_bytes, l, width, height);
	return 1;
}

static void lb_set_model(struct lb_model *m, const struct l3_labels *image, const uint8_t *table_of, const uint16_t *bounds,
			 const uint8_t *palette)
{
	memset(m->tables, 0, sizeof m->tables);
	for (int i = 0; i < LB_TABLES; i++) {
		struct lb_table *t = &m->tables[i];
		memcpy(t->bounds, bounds + 3 * i, sizeof t->bounds);
		t->step = (int16_t)(t->bounds[1] - 2 * t->bounds[0]);
	}
	memcpy(m->palette, palette, sizeof m->palette);
	m->table_of = table_of;
	m->palette_size = (uint32_t)image->palette_size;
	m->raw_bits = (uint32_t)image->raw_bits;
	m->lanes = (uint32_t)1 << image->log_streams;
}

// l3_avx2_labels decodes patches of a label map, until one is wrong, and returns
// how many it has decoded. It relies on each patch lying within the file, on its
// pixels lying within dst, on both edges being 1 to LB_MAX_EDGE, and on the numbers
// of the image being in their ranges; nothing in the file or in the tables makes
// it read or write elsewhere.
int l3_avx2_labels(uint8_t *dst, int64_t row_bytes, const struct l3_labels *image, const uint8_t *table_of,
		   const uint16_t *bounds, const uint8_t *palette, const uint8_t *file, int64_t file_bytes,
		   const struct l3_patch *patches, int count)
{
	struct lb_scratch s;
	lb_set_model(&s.model, image, table_of, bounds, palette);
	for (int i = 0; i < count; i++) {
		const struct l3_patch *p = &patches[i];
		const uint8_t *from = file + p->start;
		int64_t size = p->end - p->start;
		if (size > LB_MAX_PATCH)
			return i;
		if (file_bytes - p->end < LB_READ_AHEAD) {
			memcpy(s.tail, from, (size_t)size);
			memset(s.tail + size, 0, LB_READ_AHEAD);
			from = s.tail;
		}
		if (!lb_patch(&s, dst + p->at, row_bytes, from, size, p->width, p->height))
			return i;
	}
	return count;
}
