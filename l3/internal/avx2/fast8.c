//go:build amd64 && cgo

// Patches of the fast 8-bit coding, docs/format-l3.md section 2. The plain Go
// decoder of package l3 is the specification of what stands here. A patch in
// which anything is wrong is left to it, so there are no error messages here.

#include "avx2.h"
#include "pixels.h"
#include "predict.h"
#include "residuals.h"
#include "vector.h"

// PRELUDE is the size of what precedes the base values.
enum { PRELUDE = 2 };

// MAX_PATCH is more than any patch can take that is not wrong: prelude, a word
// for each phase header of a row, a byte for each sample, padding.
enum { MAX_PATCH = 16 + MAX_EDGE * MAX_CHANNELS * (4 + MAX_EDGE) };

// transform_limits are one more than the largest transform, by channels.
static const uint8_t transform_limits[MAX_CHANNELS + 1] = {0, 1, 4, 32, 32};

// l3_avx2_is_fast reports whether the processor has a circuit for pdep. Until
// 2020, AMD's had micro-code that took a hundred cycles and more, with which
// the plain decoder is the faster one.
int l3_avx2_is_fast(void)
{
	__builtin_cpu_init();
	return !__builtin_cpu_is("amdfam15h") && !__builtin_cpu_is("amdfam17h");
}

// scratch is what decoding a patch needs, about 40 KiB of the C stack.
struct scratch {
	struct coded_patch coded;
	struct plane planes[MAX_CHANNELS];
	uint8_t pixels[MAX_EDGE * MAX_CHANNELS]; // a row that is not a full one
	uint8_t tail[MAX_PATCH + READ_AHEAD];    // a copy of the file's last patches
};

// decode_rows decodes and writes the rows of a patch whose residuals are
// unpacked. Its callers give channels and width as constants where they can.
INLINE void decode_rows(struct scratch *s, uint8_t *dst, int64_t row_bytes, int channels, uint8_t transform,
			int width, int height)
{
	const lanes last = last_lane((width + 1) / 2);
	int next = 0;
	for (int y = 0; y < height; y++, dst += row_bytes) {
		struct phase even, odd;
		for (int i = 0; i < channels; i++) {
			struct plane *p = &s->planes[i];
			if (!p->constant) {
				const struct coded_row *r = &s->coded.rows[next];
				next_row(p, s->coded.even_id[next], s->coded.odd_id[next],
					 residuals(r->even), residuals(r->odd), last);
				next++;
			}
			even.of[i] = p->even;
			odd.of[i] = p->odd;
		}
		to_channels(&even, channels, transform);
		to_channels(&odd, channels, transform);
		if (width == MAX_EDGE) {
			put_row(dst, &even, &odd, channels);
		} else {
			put_row(s->pixels, &even, &odd, channels);
			memcpy(dst, s->pixels, (size_t)(width * channels));
		}
	}
}

// prefetch_pixels asks for the memory of a patch's pixels while its residuals
// are unpacked. Rows of a patch are too short and too far apart for a processor
// to foresee, and an image that is decoded into memory just got is in no cache.
INLINE void prefetch_pixels(const uint8_t *dst, int64_t row_bytes, int width_bytes, int height)
{
	for (int y = 0; y < height; y++, dst += row_bytes)
		for (int x = 0; x < width_bytes; x += 64)
			_mm_prefetch((const char *)dst + x, _MM_HINT_T0);
}

// decode_patch decodes the patch at from, behind whose end READ_AHEAD bytes may
// be read. It returns 0 if the patch is wrong.
INLINE int decode_patch(struct scratch *s, uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *from,
			int64_t size, int width, int height)
{
	if (size < PRELUDE + channels)
		return 0;
	uint8_t transform = from[0], constants = from[1];
	if (transform >= transform_limits[channels] || constants >> channels != 0)
		return 0;
	int coded_planes = 0;
	for (int i = 0; i < channels; i++) {
		int constant = constants >> i & 1;
		start_plane(&s->planes[i], from[PRELUDE + i], constant);
		coded_planes += !constant;
	}
	int rows = coded_planes * height;
	int64_t headers = PRELUDE + channels;
	int64_t first = headers + (rows * row_header_bits(width) + 7) / 8;
	if (first > size)
		return 0;
	prefetch_pixels(dst, row_bytes, width * channels, height);
	const uint8_t *end = unpack_rows(&s->coded, from + headers, from + first, from + size, rows, width);
	if (end == NULL || ((end - from + 3) & ~(int64_t)3) != size)
		return 0;
	decode_rows(s, dst, row_bytes, channels, transform, width, height);
	return 1;
}

// The cases that pictures consist of get code of their own: whole patches.
AVX2_TARGET static int decode_whole_rgb(struct scratch *s, uint8_t *dst, int64_t row_bytes, const uint8_t *from,
					int64_t size, int height)
{
	return decode_patch(s, dst, row_bytes, 3, from, size, MAX_EDGE, height);
}

AVX2_TARGET static int decode_whole(struct scratch *s, uint8_t *dst, int64_t row_bytes, int channels,
				    const uint8_t *from, int64_t size, int height)
{
	return decode_patch(s, dst, row_bytes, channels, from, size, MAX_EDGE, height);
}

AVX2_TARGET static int decode_any(struct scratch *s, uint8_t *dst, int64_t row_bytes, int channels,
				  const uint8_t *from, int64_t size, int width, int height)
{
	return decode_patch(s, dst, row_bytes, channels, from, size, width, height);
}

// l3_avx2_fast8 decodes patches of an image with 1 to 4 channels, until one is
// wrong, and returns how many it has decoded. It relies on each patch lying
// within the file, on its pixels lying within dst, and on both edges being 1 to
// MAX_EDGE; nothing in the file makes it read or write elsewhere.
int l3_avx2_fast8(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		  const struct l3_patch *patches, int count)
{
	struct scratch s;
	for (int i = 0; i < count; i++) {
		const struct l3_patch *p = &patches[i];
		const uint8_t *from = file + p->start;
		int64_t size = p->end - p->start;
		if (size > MAX_PATCH)
			return i;
		if (file_bytes - p->end < READ_AHEAD) {
			memcpy(s.tail, from, (size_t)size);
			memset(s.tail + size, 0, READ_AHEAD);
			from = s.tail;
		}
		uint8_t *to = dst + p->at;
		int ok;
		if (p->width != MAX_EDGE)
			ok = decode_any(&s, to, row_bytes, channels, from, size, p->width, p->height);
		else if (channels == 3)
			ok = decode_whole_rgb(&s, to, row_bytes, from, size, p->height);
		else
			ok = decode_whole(&s, to, row_bytes, channels, from, size, p->height);
		if (!ok)
			return i;
	}
	return count;
}
