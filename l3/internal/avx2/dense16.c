//go:build amd64 && cgo

// Patches of the dense 16-bit coding, docs/format-l3.md. The plain Go decoder of
// package l3 is the specification of what stands here. A patch in which anything
// is wrong is left to it, so there are no error messages here.

#define LANE_BITS 16

#include "dense16.h"
#include "dense16_pixels.h"

// D16_MAX_PATCH is the size from which a patch is left to the plain decoder:
// encoders store such a patch as it is. (Its words may go on for longer than
// its samples.)
enum { D16_MAX_PATCH = MAX_EDGE * MAX_EDGE * MAX_CHANNELS * 2 };

// The transforms of images with a hole value, by channels.
static const uint8_t d16_plain_transforms[MAX_CHANNELS + 1] = {0, 0, 1, 5, 5};

// A d16_scratch is what decoding needs, about 160 KiB of the C stack.
struct d16_scratch {
	struct d16_coder coder;
	struct d16_phase phase;
	struct d16_plane planes[MAX_CHANNELS];
	_Alignas(32) uint8_t pixels[MAX_STRIPS * STRIP_BYTES]; // a row that is not as wide as its strips
	uint16_t ids[MAX_EDGE * MAX_CHANNELS + D16_MAX_LANES];
	uint8_t tail[D16_MAX_PATCH + D16_READ_AHEAD]; // a copy of the file's last patch
};

// A d16_patch is a patch as its first bytes describe it.
struct d16_patch {
	const uint8_t *end;
	int width, height, rows, renormalised; // rows of planes that are coded, and of those all but the last ones
	unsigned transform;
};

// d16_next_row decodes a row of a plane.
INLINE void d16_next_row(struct d16_scratch *s, const uint8_t *tables, int plane, int y, unsigned id, int width,
			 int renormalise, int holes, int whole)
{
	struct d16_plane *p = &s->planes[plane];
	int pairs = (width + 1) / 2;
	const uint8_t *map = tables + 2 * plane * (holes ? D16_ZONES : 1) * D16_LEVELS;
	d16_even_sums(&s->phase, s->planes, plane, y, pairs);
	if (holes)
		d16_even_zones(&s->phase, p, y, pairs);
	d16_decode_phase(&s->coder, &s->phase, map, pairs, renormalise, holes, whole);
	switch (id & 7) {
#define CASE(id) case id: d16_even_samples(p, s->phase.values, y, id, pairs); break
	CASE(EVEN_ABOVE);
	CASE(EVEN_WEIGHTED);
	CASE(EVEN_BETWEEN);
	CASE(EVEN_LEFT);
	CASE(EVEN_GRADIENT);
	CASE(EVEN_HALF_GRADIENT);
	CASE(EVEN_TREND);
	CASE(EVEN_THREE_QUARTER);
#undef CASE
	}
	if (holes) {
		memcpy(p->even_holes[y % 2].of, s->phase.holes, (size_t)pairs * 2);
		d16_close(&p->even_holes[y % 2], pairs);
		d16_odd_zones(&s->phase, p, y, pairs);
	}
	d16_odd_sums(&s->phase, s->planes, plane, y, pairs);
	map += (holes ? D16_ZONES : 1) * D16_LEVELS;
	d16_decode_phase(&s->coder, &s->phase, map, width / 2, renormalise, holes, whole);
	switch (id >> 3 & 3) {
#define CASE(id) case id: d16_odd_samples(p, s->phase.values, y, id, pairs); break
	CASE(ODD_BETWEEN);
	CASE(ODD_HALF_CURVE);
	CASE(ODD_CURVE);
	CASE(ODD_WEIGHTED);
#undef CASE
	}
	if (holes) {
		memcpy(p->odd_holes[y % 2].of, s->phase.holes, (size_t)pairs * 2);
		d16_close(&p->odd_holes[y % 2], pairs);
	}
}

// d16_decode_rows decodes and writes the rows of a patch. It returns 0 if the patch is
// wrong. Its callers give channels, holes and whole as constants.
INLINE int d16_decode_rows(struct d16_scratch *s, uint16_t *dst, int64_t row_bytes, const struct l3_dense16 *image,
			   const struct d16_patch *p, const uint8_t *tables, const uint16_t *ranks, int channels,
			   int holes, int whole)
{
	int next = 0;
	for (int y = 0; y < p->height; y++) {
		for (int i = 0; i < channels; i++) {
			if (s->planes[i].constant)
				continue;
			d16_next_row(s, tables, i, y, s->ids[next], p->width, next < p->renormalised, holes, whole);
			next++;
			if (s->coder.words > p->end)
				return 0;
		}
		uint8_t *to = (uint8_t *)dst + y * row_bytes;
		// A whole patch has one channel.
		if (!(whole ? d16_put_row(to, s->pixels, s->planes, y, p->width, 1, p->transform, image, ranks)
			    : d16_row_putters[channels](to, s->pixels, s->planes, y, p->width, p->transform, image, ranks)))
			return 0;
	}
	return p->end - s->coder.words <= 2;
}

#define DECODE(name, channels, holes, whole)                                                                           \
	AVX2_TARGET static int name(struct d16_scratch *s, uint16_t *dst, int64_t row_bytes,                           \
				    const struct l3_dense16 *image, const struct d16_patch *p, const uint8_t *tables,  \
				    const uint16_t *ranks)                                                             \
	{                                                                                                              \
		return d16_decode_rows(s, dst, row_bytes, image, p, tables, ranks, channels, holes, whole);            \
	}

// The cases that pictures consist of get code of their own.
DECODE(d16_whole_grey, 1, 0, 1)
DECODE(d16_whole_depth, 1, 1, 1)
DECODE(d16_any, image->channels, 0, 0)
DECODE(d16_any_holes, image->channels, 1, 0)

// d16_begin reads what precedes the words of a patch, behind whose end D16_READ_AHEAD bytes
// may be read, and the predictors. It returns 0 if the patch is wrong.
INLINE int d16_begin(struct d16_scratch *s, struct d16_patch *p, const struct l3_dense16 *image, const uint8_t *from,
		     int64_t size)
{
	int channels = image->channels, pairs = (p->width + 1) / 2;
	int64_t prelude = 2 + 2 * channels;
	if (size < prelude)
		return 0;
	p->transform = from[0];
	unsigned constants = from[1] & 15, free_rows = from[1] >> 4;
	if (p->transform >= transform_limits[channels] || constants >> channels != 0 ||
	    (image->hole >= 0 && p->transform != d16_plain_transforms[channels]))
		return 0;
	p->rows = 0;
	for (int i = 0; i < channels; i++) {
		int constant = constants >> i & 1;
		d16_start_plane(&s->planes[i], from[2 + 2 * i] | from[3 + 2 * i] << 8, constant);
		if (!constant)
			p->rows += p->height;
	}
	s->coder.lanes = 1 << image->log_streams < pairs ? 1 << image->log_streams : pairs;
	if (p->rows == 0 || (int)free_rows > p->rows || size < prelude + 4 * s->coder.lanes)
		return 0;
	p->renormalised = p->rows - (int)free_rows;
	p->end = from + size;
	memset(s->coder.states, 0, sizeof s->coder.states);
	memcpy(s->coder.states, from + prelude, 4 * (size_t)s->coder.lanes);
	s->coder.words = from + prelude + 4 * s->coder.lanes;
	return d16_decode_ids(&s->coder, s->ids, p->rows, p->end);
}

AVX2_TARGET static int d16_decode_patch(struct d16_scratch *s, uint16_t *dst, int64_t row_bytes,
					const struct l3_dense16 *image, const uint8_t *tables, const uint16_t *ranks,
					const uint8_t *from, int64_t size, int width, int height)
{
	struct d16_patch p = {.width = width, .height = height};
	if (!d16_begin(s, &p, image, from, size))
		return 0;
	int whole = width % (2 * D16_VECTOR) == 0 && image->channels == 1;
	if (image->hole < 0)
		return (whole ? d16_whole_grey : d16_any)(s, dst, row_bytes, image, &p, tables, ranks);
	return (whole ? d16_whole_depth : d16_any_holes)(s, dst, row_bytes, image, &p, tables, ranks);
}

// l3_avx2_dense16 decodes patches of an image, until one is wrong, and returns how many
// it has decoded. It relies on each patch lying within the file, on its pixels lying
// within dst, on both edges being 1 to MAX_EDGE and on lanes being D16_VECTOR or more, or as
// many as pairs of columns; nothing in the file makes it read or write elsewhere.
int l3_avx2_dense16(uint16_t *dst, int64_t row_bytes, const struct l3_dense16 *image, const uint32_t *slots,
		    const uint8_t *tables, const uint16_t *ranks, const uint8_t *file, int64_t file_bytes,
		    const struct l3_patch *patches, int count)
{
	struct d16_scratch s;
	s.coder.slots = slots;
	for (int i = 0; i < count; i++) {
		const struct l3_patch *p = &patches[i];
		const uint8_t *from = file + p->start;
		int64_t size = p->end - p->start;
		if (size > D16_MAX_PATCH)
			return i;
		if (file_bytes - p->end < D16_READ_AHEAD) {
			memcpy(s.tail, from, (size_t)size);
			memset(s.tail + size, 0, D16_READ_AHEAD);
			from = s.tail;
		}
		uint16_t *to = (uint16_t *)((uint8_t *)dst + p->at);
		if (!d16_decode_patch(&s, to, row_bytes, image, tables, ranks, from, size, p->width, p->height))
			return i;
	}
	return count;
}
