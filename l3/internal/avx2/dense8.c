//go:build amd64 && cgo

// Patches of the dense coding of 8 bits. As in fast.h, the plain Go decoder of
// package l3 is the specification, and a patch in which anything is wrong is left
// to it.

#include "dense8.h"
#include "checksum.h"
#include "dense8_contexts.h"
#include "dense8_streams.h"
#include "foresight.h"
#include "pixels.h"
#include "predict.h"
#include "vector.h"

// PRELUDE is the size of what precedes the base values.
enum { PRELUDE = 2 };

enum { MAX_IDS = MAX_EDGE * MAX_CHANNELS };

// MAX_PATCH is more than any patch can take that is not wrong: prelude, states, a
// word for each predictor and each sample, padding.
enum { MAX_PATCH = 16 + 4 * LANES + 2 * MAX_IDS * (1 + MAX_EDGE) };

// SUMMED_ROWS are decoded before their pixels are summed: what has just been
// stored cannot be loaded in other pieces until it has reached the cache.
enum { SUMMED_ROWS = 8 };

// scratch is what decoding a patch needs, on the C stack.
struct scratch {
	struct streams streams;
	struct dense_plane planes[MAX_CHANNELS];
	uint8_t ids[MAX_IDS + LANES]; // a step writes as many as a vector has lanes
	_Alignas(32) uint8_t pixels[MAX_STRIPS * STRIP_BYTES]; // a row that is not as wide as its strips
	uint8_t tail[MAX_PATCH + STREAMS_AHEAD];               // a copy of the file's last patch
};

// A dense_patch is what the rows of a patch have in common.
struct dense_patch {
	const uint8_t *end;
	const uint8_t (*tables)[DENSE8_LEVELS]; // of each class
	int width, height, channels, strips;
	int plane_rows;   // of planes that are not constant
	int renormalised; // the first so many of them
	uint8_t transform;
	struct foresight next;
	lanes last[MAX_STRIPS];      // all bits of the last lane
	lanes odd_lanes[MAX_STRIPS]; // all bits of those lanes that have an odd column
};

// open_patch reads what precedes the words of a patch at from, behind whose end
// STREAMS_AHEAD bytes may be read. It returns 0 if something is wrong.
AVX2_TARGET static int open_patch(struct scratch *s, struct dense_patch *p, const uint8_t *from, int64_t size,
				  int log_streams)
{
	const int channels = p->channels, strips = p->strips;
	int prelude = PRELUDE + channels;
	if (size < prelude)
		return 0;
	uint8_t constants = from[1] & 0xf, unrenormalised = from[1] >> 4;
	p->transform = from[0];
	if (p->transform >= transform_limits[channels] || constants >> channels != 0)
		return 0;
	p->plane_rows = 0;
	for (int i = 0; i < channels; i++) {
		int constant = constants >> i & 1;
		start_dense_plane(&s->planes[i], from[PRELUDE + i], constant, strips);
		p->plane_rows += constant ? 0 : p->height;
	}
	p->renormalised = p->plane_rows - unrenormalised;
	p->end = from + size;
	s->streams.words = p->end;
	if (p->renormalised < 0)
		return 0;
	if (p->plane_rows == 0)
		return size == ((prelude + 3) & ~3);
	int states = (prelude + 1) & ~1, pairs = (p->width + 1) / 2;
	int count = pairs < 1 << log_streams ? pairs : 1 << log_streams;
	if (size < states + 4 * count)
		return 0;
	start_streams(&s->streams, from + states, count);
	for (int k = 0; k < strips; k++) {
		p->last[k] = one_lane(pairs - 1 - k * LANES);
		p->odd_lanes[k] = lanes_below(p->width / 2 - k * LANES);
	}
	return 1;
}

// decode_ids decodes the predictors of all rows. It returns 0 if words run out.
AVX2_TARGET static int decode_ids(struct scratch *s, const struct dense_patch *p)
{
	const lanes table = every(2 * (DENSE8_TABLES - 1));
	for (int i = 0; i < p->plane_rows; i += s->streams.count) {
		int n = p->plane_rows - i < s->streams.count ? p->plane_rows - i : s->streams.count;
		put(s->ids + i, step(&s->streams, table, n, 1));
		if (s->streams.words > p->end)
			return 0;
	}
	return 1;
}

#define EACH_STRIP _Pragma("GCC unroll 2") for (int k = 0; k < strips; k++)

// decode_even decodes the even columns of a row of plane i. The samples go to
// even, those of the row above are still needed.
INLINE void decode_even(struct scratch *s, const struct dense_patch *p, int i, int id, int renormalises, int strips,
			lanes even[MAX_STRIPS])
{
	struct dense_plane *plane = &s->planes[i];
	lanes tables[MAX_STRIPS], values[MAX_STRIPS], prediction[MAX_STRIPS], sum[MAX_CHANNELS][MAX_STRIPS];
	EACH_STRIP
	{
		tables[k] = tables_of(even_sum(s->planes, i, k), p->tables[2 * i]);
		prediction[k] = even_prediction(&plane->samples, k, (uint64_t)id);
	}
	decode_values(&s->streams, values, tables, (p->width + 1) / 2, strips, renormalises);
	EACH_STRIP
	{
		plane->even2[k] = plane->even[k];
		plane->even[k] = magnitudes(values[k]);
		sum[0][k] = add(prediction[k], with_signs(plane->even[k], values[k]));
	}
	EACH_STRIP plane->even_right[k] = to_right(plane->even, k, strips, p->last);
	if (even_masks[id].sums) // a jump is cheaper than to have the odd columns wait always
		prefix_sums(sum, 1, strips);
	EACH_STRIP even[k] = sum[0][k];
}

// decode_odd decodes the odd columns of a row of plane i and makes the row the one
// above the next.
INLINE void decode_odd(struct scratch *s, const struct dense_patch *p, int i, int id, int renormalises, int strips,
		       const lanes even[MAX_STRIPS])
{
	struct dense_plane *plane = &s->planes[i];
	lanes tables[MAX_STRIPS], values[MAX_STRIPS], between[MAX_STRIPS], prediction[MAX_STRIPS];
	EACH_STRIP
	{
		lanes right = to_right(even, k, strips, p->last);
		lanes odd_right = to_right(plane->odd, k, strips, p->last);
		tables[k] = tables_of(odd_sum(s->planes, i, k, odd_right, even[k], right), p->tables[2 * i + 1]);
		between[k] = avg(even[k], right);
		prediction[k] = odd_samples(&plane->samples, k, (uint64_t)id, _mm256_setzero_si256(), between[k]);
	}
	decode_values(&s->streams, values, tables, p->width / 2, strips, renormalises);
	EACH_STRIP
	{
		lanes v = and(values[k], p->odd_lanes[k]);
		plane->odd2[k] = plane->odd[k];
		plane->odd[k] = magnitudes(v);
		plane->samples.odd[k] = add(prediction[k], with_signs(plane->odd[k], v));
		plane->samples.between[k] = between[k];
		plane->samples.even2[k] = plane->samples.even[k];
		plane->samples.even[k] = even[k];
	}
}

// write_strips writes the pixels of the row that has been decoded. Its callers
// give channels and strips as constants.
INLINE void write_strips(const struct scratch *s, const struct dense_patch *p, uint8_t *to, int channels, int strips)
{
	EACH_STRIP
	{
		struct phase even, odd;
#pragma GCC unroll 4
		for (int i = 0; i < channels; i++) {
			even.of[i] = s->planes[i].samples.even[k];
			odd.of[i] = s->planes[i].samples.odd[k];
		}
		to_channels(&even, channels, p->transform);
		to_channels(&odd, channels, p->transform);
		put_strip(to + k * STRIP * channels, &even, &odd, channels);
	}
}

#undef EACH_STRIP

// write_row writes the row that has been decoded. Its callers give strips as a
// constant.
INLINE void write_row(struct scratch *s, const struct dense_patch *p, uint8_t *to, int strips)
{
	int whole = p->width == strips * STRIP;
	uint8_t *pixels = whole ? to : s->pixels;
	switch (p->channels) {
	case 1:
		write_strips(s, p, pixels, 1, strips);
		break;
	case 2:
		write_strips(s, p, pixels, 2, strips);
		break;
	case 3:
		write_strips(s, p, pixels, 3, strips);
		break;
	default:
		write_strips(s, p, pixels, 4, strips);
	}
	if (!whole)
		memcpy(to, pixels, (size_t)(p->width * p->channels));
}

// decode_rows decodes a patch that is open, and moves the sums of its rows on. It
// returns 0 if words run out or are left over. Its callers give strips as a
// constant.
INLINE int decode_rows(struct scratch *s, const struct dense_patch *p, uint8_t *to, int64_t row_bytes, uint32_t *sums,
		       int strips)
{
	int next = 0, summed = 0;
	struct foresight foresight = p->next;
	for (int y = 0; y < p->height; y++) {
		for (int i = 0; i < p->channels; i++) {
			if (s->planes[i].constant)
				continue;
			int id = s->ids[next], renormalises = next < p->renormalised;
			lanes even[MAX_STRIPS];
			decode_even(s, p, i, id & 7, renormalises, strips, even);
			decode_odd(s, p, i, id >> 3, renormalises, strips, even);
			if (s->streams.words > p->end)
				return 0;
			next++;
		}
		write_row(s, p, to + y * row_bytes, strips);
		foresee_row(&foresight, row_bytes, p->width * p->channels);
		if (y + 1 - summed == SUMMED_ROWS || y + 1 == p->height) {
			crc_append_rows(sums + summed, to + summed * row_bytes, row_bytes, y + 1 - summed,
					(size_t)(p->width * p->channels));
			summed = y + 1;
		}
	}
	return p->end - s->streams.words <= 2;
}

// Code of its own for patches of one strip, which are the most frequent, and for
// those of two.
AVX2_TARGET static int decode_narrow_rows(struct scratch *s, const struct dense_patch *p, uint8_t *to, int64_t row_bytes,
					  uint32_t *sums)
{
	return decode_rows(s, p, to, row_bytes, sums, 1);
}

AVX2_TARGET static int decode_wide_rows(struct scratch *s, const struct dense_patch *p, uint8_t *to, int64_t row_bytes,
					uint32_t *sums)
{
	return decode_rows(s, p, to, row_bytes, sums, MAX_STRIPS);
}

// An image is what patches are decoded from and into.
struct image {
	uint8_t *pixels;
	int64_t row_bytes;
	int channels;
	const uint8_t *file;
	int64_t file_bytes;
	const struct l3_dense8 *coding;
	const uint32_t *slots;
	uint32_t *sums; // states of the checksums of rows of pixels up to a patch
};

// decode_patch decodes a patch, if its checksum is right, into its place. It
// returns 0 if something is wrong. next is the patch that will be decoded next.
AVX2_TARGET static int decode_patch(struct scratch *s, const struct image *m, const struct l3_patch *at,
				    const struct l3_patch *next)
{
	const uint8_t *from = m->file + at->start;
	int64_t size = at->end - at->start;
	if (size > MAX_PATCH || crc_of(from, (size_t)size) != at->checksum)
		return 0;
	if (m->file_bytes - at->end < STREAMS_AHEAD) {
		memcpy(s->tail, from, (size_t)size);
		memset(s->tail + size, 0, STREAMS_AHEAD);
		from = s->tail;
	}
	struct dense_patch p = {
		.tables = m->coding->tables,
		.width = at->width,
		.height = at->height,
		.next = {m->pixels + next->at, m->file + next->start},
		.channels = m->channels,
		.strips = at->width <= STRIP ? 1 : 2,
	};
	s->streams.slots = m->slots;
	if (!open_patch(s, &p, from, size, (int)m->coding->log_streams) || !decode_ids(s, &p))
		return 0;
	uint8_t *to = m->pixels + at->at;
	return p.strips == 1 ? decode_narrow_rows(s, &p, to, m->row_bytes, m->sums)
			     : decode_wide_rows(s, &p, to, m->row_bytes, m->sums);
}

// l3_avx2_dense8 decodes patches of an image with 1 to 4 channels, until one is
// wrong, and returns how many it has decoded. It relies on each patch lying within
// the file, on its pixels lying within dst, on both edges being 1 to MAX_EDGE, on
// log_streams being 0 to 5, on tables being even numbers less than twice
// DENSE8_TABLES, and on slots having all those tables; nothing in the file makes it
// read or write elsewhere.
int l3_avx2_dense8(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		   const struct l3_dense8 *coding, const uint32_t *slots, const struct l3_patch *patches, int count,
		   uint32_t *sums)
{
	struct scratch s;
	const struct image m = {dst, row_bytes, channels, file, file_bytes, coding, slots, sums};
	for (int i = 0; i < count; i++) {
		const struct l3_patch *p = &patches[i], *next = i + 1 < count ? p + 1 : p;
		if (!decode_patch(&s, &m, p, next))
			return i;
	}
	return count;
}
