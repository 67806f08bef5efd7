//go:build amd64 && cgo

// Patches of the published format, docs/format-l3.md section 8, of the edge that
// its programs write. As in fast8.c, a patch in which anything is wrong is left
// to the plain Go decoder, which says what.

#include "avx2.h"
#include "pixels.h"
#include "residuals.h"
#include "vector.h"

enum {
	EDGE = 64,
	CHANNELS = 3,
	MAX_WIDTH = 8,
	MAX_PUBLISHED_PATCH = EDGE * (2 + EDGE * MAX_WIDTH / 8)
};

// delta_masks have the bits of each byte that a delta takes, by its width.
static const uint64_t delta_masks[MAX_WIDTH + 1] = {
	0x0000000000000000, 0x0101010101010101, 0x0303030303030303, 0x0707070707070707, 0x0f0f0f0f0f0f0f0f,
	0x1f1f1f1f1f1f1f1f, 0x3f3f3f3f3f3f3f3f, 0x7f7f7f7f7f7f7f7f, 0xffffffffffffffff,
};

// A published_plane is the rows of one channel, unpacked.
struct published_plane {
	_Alignas(32) uint64_t deltas[EDGE][EDGE / 8];
	uint8_t base[EDGE];
};

struct published_scratch {
	struct published_plane planes[CHANNELS];
	uint8_t tail[MAX_PUBLISHED_PATCH + READ_AHEAD];
};

// unpack_published unpacks the rows at from, behind whose end READ_AHEAD bytes
// may be read. It returns 0 if they do not fill size bytes exactly.
AVX2_TARGET static int unpack_published(struct published_plane *out, const uint8_t *from, int64_t size)
{
	const uint8_t *end = from + size;
	for (int y = 0; y < EDGE; y++) {
		if (end - from < 2)
			return 0;
		unsigned width = from[0] & 15;
		if (width > MAX_WIDTH || end - from < 2 + 8 * (int)width)
			return 0;
		out->base[y] = (uint8_t)(from[0] >> 4 | from[1] << 4);
		// Eight deltas are width bytes and begin in the middle of a byte.
		const uint8_t *group = from + 1;
#pragma GCC unroll 8
		for (int g = 0; g < EDGE / 8; g++) {
			uint64_t packed = load64(group) >> 4 | (uint64_t)group[8] << 60;
			out->deltas[y][g] = _pdep_u64(packed, delta_masks[width]);
			group += width;
		}
		from += 2 + 8 * width;
	}
	return from == end;
}

// at_most is all bits where x ≤ y.
INLINE lanes at_most(lanes x, lanes y) { return _mm256_cmpeq_epi8(_mm256_min_epu8(x, y), x); }

INLINE lanes distance(lanes x, lanes y)
{
	return _mm256_or_si256(sub_clamped(x, y), sub_clamped(y, x));
}

// nearest is the prediction from a, b and c, the samples above left, above and
// above right. With p = a + c − b the distances are |p−a| = |c−b|, |p−c| = |a−b|
// and |p−b| = |(a−b) + (c−b)|. If a and c lie on one side of b, the last is the
// sum of the others: more than a byte, but then how it compares is known.
// Otherwise it is their difference.
INLINE lanes nearest(lanes a, lanes b, lanes c)
{
	lanes zero = _mm256_setzero_si256();
	lanes to_a = distance(c, b), to_c = distance(a, b), to_b = distance(to_a, to_c);
	lanes on_one_side = _mm256_cmpeq_epi8(at_most(b, a), at_most(b, c));
	lanes a_before_b = _mm256_or_si256(at_most(to_a, to_b), on_one_side);
	lanes b_before_c = choose(at_most(to_b, to_c), _mm256_cmpeq_epi8(to_a, zero), on_one_side);
	lanes a_or_b = choose(b, a, a_before_b);
	lanes b_or_c = choose(c, b, b_before_c);
	lanes prediction = choose(c, a_or_b, at_most(to_a, to_c));
	prediction = choose(prediction, a_or_b, _mm256_cmpeq_epi8(c, zero));
	return choose(prediction, b_or_c, _mm256_cmpeq_epi8(a, zero));
}

// predict is the prediction of a row by the row above; beyond a patch's columns
// there are zeros.
INLINE struct columns predict(struct columns above)
{
	lanes zero = _mm256_setzero_si256();
	lanes a_low = from_left(above.low, zero), a_high = from_left(above.high, above.low);
	lanes c_low = from_right(above.low, above.high), c_high = from_right(above.high, zero);
	return (struct columns){nearest(a_low, above.low, c_low), nearest(a_high, above.high, c_high)};
}

AVX2_TARGET static void write_published(const struct published_scratch *s, uint8_t *dst, int64_t row_bytes)
{
	struct columns rows[CHANNELS];
	for (int y = 0; y < EDGE; y++, dst += row_bytes) {
		for (int c = 0; c < CHANNELS; c++) {
			const struct published_plane *p = &s->planes[c];
			lanes base = every(p->base[y]);
			struct columns prediction = {_mm256_setzero_si256(), _mm256_setzero_si256()};
			if (y > 0)
				prediction = predict(rows[c]);
			rows[c].low = add(add(load(p->deltas[y]), base), prediction.low);
			rows[c].high = add(add(load(p->deltas[y] + 4), base), prediction.high);
		}
		put_rgb(dst, rows[0].low, rows[1].low, rows[2].low);
		put_rgb(dst + 96, rows[0].high, rows[1].high, rows[2].high);
	}
}

// l3_avx2_published decodes patches of 64×64 pixels, until one is wrong, and
// returns how many it has decoded. As l3_avx2_fast8 it relies on places only.
int l3_avx2_published(uint8_t *dst, int64_t row_bytes, const uint8_t *file, int64_t file_bytes,
		      const struct l3_published_patch *patches, int count)
{
	struct published_scratch s;
	for (int i = 0; i < count; i++) {
		const struct l3_published_patch *p = &patches[i];
		for (int c = 0; c < CHANNELS; c++) {
			const uint8_t *from = file + p->start[c];
			int64_t size = p->end[c] - p->start[c];
			if (size > MAX_PUBLISHED_PATCH)
				return i;
			if (file_bytes - p->end[c] < READ_AHEAD) {
				memcpy(s.tail, from, (size_t)size);
				memset(s.tail + size, 0, READ_AHEAD);
				from = s.tail;
			}
			if (!unpack_published(&s.planes[c], from, size))
				return i;
		}
		write_published(&s, dst + p->at, row_bytes);
	}
	return count;
}
