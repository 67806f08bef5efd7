// Patches of the fast codings, docs/format-l3.md section 2, of LANE_BITS bits.
// The plain Go decoder of package l3 is the specification of what stands here. A
// patch in which anything is wrong is left to it, so there are no error messages
// here.

#ifndef L3_AVX2_FAST_H
#define L3_AVX2_FAST_H

#include "avx2.h"
#include "checksum.h"
#include "foresight.h"
#include "pixels.h"
#include "predict.h"
#include "residuals.h"
#include "vector.h"

// PRELUDE is the size of what precedes the base values.
enum { PRELUDE = 2 };

// MAX_PATCH is more than any patch can take that is not wrong: prelude, headers
// of each row, all samples, padding.
enum { MAX_PATCH = 32 + MAX_EDGE * MAX_CHANNELS * (16 + MAX_EDGE * LANE_BYTES) };

// An image is what patches are decoded from and into.
struct image {
	uint8_t *pixels;
	int64_t row_bytes;
	int channels;
	const uint8_t *file;
	int64_t file_bytes;
	uint32_t *sums;        // states of the checksums of rows of pixels up to a patch
	const uint16_t *ranks; // the values of 16-bit samples by rank, 65,536 of them; NULL for none
	int rank_count;        // of values that are in the map
	lane flip;             // what samples are xored with
};

// scratch is what decoding a patch needs, on the C stack.
struct scratch {
	struct reader reader;
	struct coded_block coded;
	struct plane planes[MAX_CHANNELS];
	uint8_t transform;
	_Alignas(32) uint8_t pixels[MAX_STRIPS * STRIP_BYTES]; // a row that is not as wide as its strips
	uint8_t tail[MAX_PATCH + READ_AHEAD];                  // a copy of the file's last patch
};

// open_patch reads what precedes the residuals of the patch at from, behind
// whose end READ_AHEAD bytes may be read. It returns 0 if something is wrong.
INLINE int open_patch(struct scratch *s, const uint8_t *from, int64_t size, int channels, int planes, int width, int height,
		      int strips)
{
	int64_t headers = PRELUDE + channels * LANE_BYTES;
	if (size < headers)
		return 0;
	uint8_t constants = from[1];
	s->transform = from[0];
	if (s->transform >= transform_limits[channels] || constants >> channels != 0)
		return 0;
	if (constants != 0 || planes > channels)
		memset(&s->coded, 0, sizeof s->coded);
	for (int i = channels; i < planes; i++)
		start_plane(&s->planes[i], 0, strips);
	int coded = 0;
	for (int i = 0; i < channels; i++) {
		lane base;
		memcpy(&base, from + PRELUDE + i * LANE_BYTES, sizeof base);
		start_plane(&s->planes[i], base, strips);
		s->reader.coded[coded] = (uint8_t)i;
		coded += !(constants >> i & 1);
	}
	int64_t first = headers + (coded * height * row_header_bits(width) + 7) / 8;
	s->reader.headers = from + headers;
	s->reader.header_bit = 0;
	s->reader.from = from + first;
	s->reader.end = from + size;
	s->reader.coded_planes = coded;
	return first <= size;
}

// write_row writes the pixels of a row whose planes are decoded. It returns 0 if
// a rank is not in the map.
INLINE int write_row(struct scratch *s, uint8_t *to, const struct image *m, int channels, int planes, int width, int strips)
{
	int direct = width == strips * STRIP && (LANE_BITS == 8 || m->ranks == NULL);
	size_t row_bytes = (size_t)(width * channels * LANE_BYTES);
	uint8_t *pixels = direct ? to : s->pixels;
#pragma GCC unroll 4
	for (int k = 0; k < strips; k++) {
		struct phase even, odd;
#pragma GCC unroll 4
		for (int i = 0; i < planes; i++) {
			even.of[i] = s->planes[i].even[k];
			odd.of[i] = s->planes[i].odd[k];
		}
		to_channels(&even, channels, s->transform);
		to_channels(&odd, channels, s->transform);
		if (LANE_BITS == 16 && m->ranks == NULL) {
#pragma GCC unroll 4
			for (int i = 0; i < planes; i++) {
				even.of[i] = xor(even.of[i], every(m->flip));
				odd.of[i] = xor(odd.of[i], every(m->flip));
			}
		}
		put_strip(pixels + k * STRIP * LANE_BYTES * channels, &even, &odd, channels);
	}
	if (direct)
		return 1;
	if (LANE_BITS == 16 && m->ranks != NULL)
		return put_values(to, pixels, row_bytes / 2, m->ranks, m->rank_count, (uint16_t)m->flip);
	memcpy(to, pixels, row_bytes);
	return 1;
}

// decode_rows decodes a patch that is open.
INLINE int decode_rows(struct scratch *s, uint8_t *to, const struct image *m, int channels, int planes, int width,
		       int height, int strips, struct foresight next)
{
	const int row_bytes = width * channels * LANE_BYTES;
	lanes last[MAX_STRIPS];
#pragma GCC unroll 4
	for (int k = 0; k < strips; k++)
		last[k] = one_lane((width + 1) / 2 - 1 - k * LANES);
	for (int top = 0; top < height; top += BLOCK_ROWS) {
		int rows = height - top < BLOCK_ROWS ? height - top : BLOCK_ROWS;
		if (!unpack_rows(&s->coded, &s->reader, rows, planes, width, strips))
			return 0;
		for (int y = 0; y < rows; y++) {
			next_rows(s->planes, &s->coded.rows[y * planes], planes, strips, last);
			if (!write_row(s, to, m, channels, planes, width, strips))
				return 0;
			foresee_row(&next, m->row_bytes, row_bytes);
			to += m->row_bytes;
		}
		// Not row by row: what has just been stored cannot be loaded in
		// other pieces until it has reached the cache.
		crc_append_rows(m->sums + top, to - rows * m->row_bytes, m->row_bytes, rows, (size_t)row_bytes);
	}
	return s->reader.end - s->reader.from < 4;
}

// decode_patch decodes a patch whose checksum is right into its place. It returns
// 0 if something is wrong. Its callers give planes and strips as constants, and
// the others where they can. Planes that are not channels have no effect.
INLINE int decode_patch(struct scratch *s, const struct image *m, const struct l3_patch *p, int channels, int planes,
			int width, int strips, struct foresight next)
{
	const uint8_t *from = m->file + p->start;
	int64_t size = p->end - p->start;
	if (size > MAX_PATCH || size % 4 != 0 || crc_of(from, (size_t)size) != p->checksum)
		return 0;
	if (m->file_bytes - p->end < READ_AHEAD) {
		memcpy(s->tail, from, (size_t)size);
		memset(s->tail + size, 0, READ_AHEAD);
		from = s->tail;
	}
	return open_patch(s, from, size, channels, planes, width, p->height, strips) &&
	       decode_rows(s, m->pixels + p->at, m, channels, planes, width, p->height, strips, next);
}

// Code of its own for each number of channels, for patches as wide as most are,
// and for those of 8 bits that fill a strip. Wider ones, which encoders do not
// write, share one.
#define DECODER(name, channels, planes, width, strips) \
	AVX2_TARGET static int name(struct scratch *s, const struct image *m, const struct l3_patch *p, \
				    struct foresight next) \
	{ \
		return decode_patch(s, m, p, channels, planes, width, strips, next); \
	}
enum { USUAL_EDGE = MAX_EDGE / 2, USUAL_STRIPS = MAX_STRIPS / 2 };
DECODER(decode_1, 1, 1, p->width, USUAL_STRIPS)
DECODER(decode_2, 2, 2, p->width, USUAL_STRIPS)
DECODER(decode_3, 3, 3, p->width, USUAL_STRIPS)
DECODER(decode_4, 4, 4, p->width, USUAL_STRIPS)
DECODER(decode_wide, m->channels, MAX_CHANNELS, p->width, MAX_STRIPS)
#if LANE_BITS == 8
DECODER(decode_whole_1, 1, 1, USUAL_EDGE, USUAL_STRIPS)
DECODER(decode_whole_2, 2, 2, USUAL_EDGE, USUAL_STRIPS)
DECODER(decode_whole_3, 3, 3, USUAL_EDGE, USUAL_STRIPS)
DECODER(decode_whole_4, 4, 4, USUAL_EDGE, USUAL_STRIPS)
#endif

typedef int decoder(struct scratch *, const struct image *, const struct l3_patch *, struct foresight);

static decoder *decoder_for(int channels, int width)
{
	static decoder *const usual[] = {NULL, decode_1, decode_2, decode_3, decode_4};
#if LANE_BITS == 8
	static decoder *const whole[] = {NULL, decode_whole_1, decode_whole_2, decode_whole_3, decode_whole_4};
	if (width == USUAL_EDGE)
		return whole[channels];
#endif
	return width <= USUAL_EDGE ? usual[channels] : decode_wide;
}

// decode_patches decodes patches of an image with 1 to 4 channels, until one is
// wrong, and returns how many it has decoded. It relies on each patch lying
// within the file, on its pixels lying within the image, and on both edges being
// 1 to MAX_EDGE; nothing in the file makes it read or write elsewhere.
static int decode_patches(const struct image *m, const struct l3_patch *patches, int count)
{
	struct scratch s;
	for (int i = 0; i < count; i++) {
		const struct l3_patch *p = &patches[i], *next = i + 1 < count ? p + 1 : p;
		struct foresight f = {m->pixels + next->at, m->file + next->start};
		if (!decoder_for(m->channels, p->width)(&s, m, p, f))
			return i;
	}
	return count;
}

#endif
