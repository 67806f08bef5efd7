// The encoder of the fast codings, of LANE_BITS bits, for patches that are no
// wider and no higher than ENCODED_EDGE. It writes what patchEncoder of package
// l3 writes, byte for byte: it tries the same transforms and predictors in the
// same order and keeps the first of the shortest.

#ifndef L3_AVX2_FAST_ENCODE_H
#define L3_AVX2_FAST_ENCODE_H

#include "avx2.h"
#include "pixels.h"
#include "predict.h"
#include "residuals.h"
#include "vector.h"

enum {
	ENCODED_EDGE = L3_ENCODED_EDGE,
	ENCODED_STRIPS = ENCODED_EDGE / STRIP,
	EVEN_PREDICTORS = 8,
	ODD_PREDICTORS = 4,
	MAX_CODE = (1 << CODE_BITS) - 1,
	TRIAL_ROWS = 4, // how far the rows are apart that decide on a transform
};

// A pixel_row is a row of one plane.
struct pixel_row {
	lanes even[ENCODED_STRIPS], odd[ENCODED_STRIPS];
};

struct pixel_plane {
	struct pixel_row rows[ENCODED_EDGE];
};

// A layout is the size of a patch, and what follows from it.
struct layout {
	int width, height, pairs;
	lanes even_valid[ENCODED_STRIPS]; // all bits of the lanes that exist
	lanes odd_valid[ENCODED_STRIPS];
	lanes last[ENCODED_STRIPS];       // of the last pair
	lanes missing[ENCODED_STRIPS];    // of the odd column that an odd width lacks
};

// A plane_code is a plane as it will be stored.
struct plane_code {
	int constant;
	lane base;
	struct coded_row rows[ENCODED_EDGE];
};

struct encoder {
	struct layout layout;
	struct pixel_plane planes[MAX_CHANNELS]; // as pixels have them
	struct pixel_plane mixed;                // a plane less its shares of others
	struct plane_code codes[MAX_CHANNELS];
};

// first_lanes is all bits of the first n lanes of a strip.
INLINE lanes first_lanes(int n)
{
	_Alignas(32) lane mask[LANES];
	for (int i = 0; i < LANES; i++)
		mask[i] = i < n ? ALL_BITS : 0;
	return load(mask);
}

INLINE struct layout layout_of(int width, int height)
{
	struct layout l = {.width = width, .height = height, .pairs = (width + 1) / 2};
	for (int k = 0; k < ENCODED_STRIPS; k++) {
		l.even_valid[k] = first_lanes(l.pairs - k * LANES);
		l.odd_valid[k] = first_lanes(width / 2 - k * LANES);
		l.last[k] = one_lane(l.pairs - 1 - k * LANES);
		l.missing[k] = xor(l.even_valid[k], l.odd_valid[k]);
	}
	return l;
}

INLINE lane load_sample(const uint8_t *from, const uint16_t *ranks, lane flip)
{
	lane sample;
	memcpy(&sample, from, sizeof sample);
	sample ^= flip;
	return LANE_BITS == 16 && ranks != NULL ? (lane)ranks[sample] : sample;
}

// load_plane takes a plane out of pixels: samples of one channel, step apart. In
// place of a missing column stands its left neighbour, until something better is
// known.
INLINE void load_plane(struct pixel_plane *p, const uint8_t *from, int64_t row_bytes, int step, const struct layout *l,
		       const uint16_t *ranks, lane flip)
{
	for (int y = 0; y < l->height; y++, from += row_bytes) {
		_Alignas(32) lane columns[2][ENCODED_STRIPS * LANES] = {0};
		for (int i = 0; i < l->width / 2; i++) {
			columns[0][i] = load_sample(from + 2 * i * step * LANE_BYTES, ranks, flip);
			columns[1][i] = load_sample(from + (2 * i + 1) * step * LANE_BYTES, ranks, flip);
		}
		if (l->width & 1) {
			lane sample = load_sample(from + (l->width - 1) * step * LANE_BYTES, ranks, flip);
			columns[0][l->pairs - 1] = columns[1][l->pairs - 1] = sample;
		}
		for (int k = 0; k < ENCODED_STRIPS; k++) {
			p->rows[y].even[k] = load(&columns[0][k * LANES]);
			p->rows[y].odd[k] = load(&columns[1][k * LANES]);
		}
	}
}

// mix_rows sets rows of out to a plane less its shares of planes 0 and 1.
INLINE void mix_rows(struct pixel_plane *out, const struct pixel_plane *planes, int plane, struct shares s, int from, int to)
{
	for (int y = from; y < to; y++) {
		const struct pixel_row *row = &planes[plane].rows[y], *x = &planes[0].rows[y], *z = &planes[1].rows[y];
		for (int k = 0; k < ENCODED_STRIPS; k++) {
			lanes even = row->even[k], odd = row->odd[k];
			if (s.first + s.second != 0) {
				even = sub(even, share(x->even[k], z->even[k], s));
				odd = sub(odd, share(x->odd[k], z->odd[k], s));
			}
			out->rows[y].even[k] = even;
			out->rows[y].odd[k] = odd;
		}
	}
}

INLINE lane first_lane(lanes x) { return (lane)_mm_cvtsi128_si32(_mm256_castsi256_si128(x)); }

// is_constant_row reports whether a row is base everywhere.
INLINE int is_constant_row(const struct pixel_row *row, lane base, const struct layout *l)
{
	lanes differs = _mm256_setzero_si256();
	for (int k = 0; k < ENCODED_STRIPS; k++) {
		lanes even = and(xor(row->even[k], every(base)), l->even_valid[k]);
		lanes odd = and(xor(row->odd[k], every(base)), l->odd_valid[k]);
		differs = _mm256_or_si256(differs, _mm256_or_si256(even, odd));
	}
	return _mm256_testz_si256(differs, differs);
}

INLINE int is_constant(const struct pixel_plane *p, const struct layout *l)
{
	lane base = first_lane(p->rows[0].even[0]);
	for (int y = 0; y < l->height; y++)
		if (!is_constant_row(&p->rows[y], base, l))
			return 0;
	return 1;
}

// width_code is the code of the smallest width that a group's residuals fit.
INLINE unsigned width_code(const group *z)
{
	uint64_t words[LANE_BYTES], all;
	memcpy(words, z, sizeof words);
	all = words[0] | words[LANE_BYTES - 1];
	all |= all >> 32;
	all |= all >> 16;
	if (LANE_BITS == 8)
		all |= all >> 8;
	unsigned bits = 32 - _lzcnt_u32((lane)all);
	return bits < MAX_CODE ? bits : MAX_CODE;
}

INLINE unsigned code_bits(unsigned code) { return code + (code == MAX_CODE); }

#if LANE_BITS == 8
// whole_groups_bytes is what the residuals of a vector take: for each group the
// width of the bitwise or of its residuals, which two tables give by the lower and
// the upper half of a byte.
INLINE int whole_groups_bytes(lanes zigzagged)
{
	const lanes nibble = every(15);
	const lanes lower = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4));
	const lanes upper = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 5, 6, 6, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8));
	lanes all = zigzagged;
	all = _mm256_or_si256(all, _mm256_srli_epi64(all, 32));
	all = _mm256_or_si256(all, _mm256_srli_epi64(all, 16));
	all = _mm256_or_si256(all, _mm256_srli_epi64(all, 8));
	lanes bits = _mm256_max_epu8(_mm256_shuffle_epi8(lower, and(all, nibble)),
				     _mm256_shuffle_epi8(upper, and(_mm256_srli_epi16(all, 4), nibble)));
	bits = and(bits, _mm256_set1_epi64x(0xff));
	__m128i sum = _mm_add_epi64(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
	return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2);
}
#endif

// stored_bytes is what count residuals take.
INLINE int stored_bytes(const lanes *zigzagged, int count)
{
	const group *z = (const group *)zigzagged;
	int total = 0, g = 0;
#if LANE_BITS == 8
	if (count == ENCODED_EDGE / 2)
		return whole_groups_bytes(zigzagged[0]);
#endif
	for (; g < count / GROUP_SIZE; g++)
		total += (int)code_bits(width_code(&z[g]));
	if (count % GROUP_SIZE != 0)
		total += (count % GROUP_SIZE * (int)code_bits(width_code(&z[g])) + 7) / 8;
	return total;
}

INLINE lanes zigzag(lanes x) { return xor(add(x, x), BY_LANE(cmpgt)(_mm256_setzero_si256(), x)); }

// keep_shortest is one try: if the residuals take less than *least bytes, it
// stores them with their predictor.
INLINE void keep_shortest(const lanes *residuals, int count, uint64_t id, int *least, group *kept, uint64_t *kept_id)
{
	int bytes = stored_bytes(residuals, count);
	if (bytes < *least) {
		*least = bytes;
		*kept_id = id;
		memcpy(kept, residuals, sizeof(lanes) * ENCODED_STRIPS);
	}
}

// choose_even finds the shortest code of a row's even columns, and how many bytes
// it takes. above are the rows above.
INLINE int choose_even(struct coded_row *code, const struct pixel_row *row, const struct plane *above,
		       const struct layout *l)
{
	int least = INT32_MAX;
#pragma GCC unroll 8
	for (uint64_t id = 0; id < EVEN_PREDICTORS; id++) {
		lanes z[ENCODED_STRIPS];
		for (int k = 0; k < ENCODED_STRIPS; k++) {
			lanes left = from_left(row->even[k], k > 0 ? row->even[k - 1] : _mm256_setzero_si256());
			lanes r = sub(row->even[k], even_prediction(above, k, id));
			r = sub(r, and(left, every(even_masks[id].sums)));
			z[k] = and(zigzag(r), l->even_valid[k]);
		}
		keep_shortest(z, l->pairs, id, &least, code->even, &code->even_id);
	}
	return least;
}

// choose_odd is choose_even for odd columns; q is avg(L, R) of the row.
INLINE int choose_odd(struct coded_row *code, const struct pixel_row *row, const struct plane *above, const lanes *q,
		      const struct layout *l)
{
	int least = INT32_MAX;
#pragma GCC unroll 4
	for (uint64_t id = 0; id < ODD_PREDICTORS; id++) {
		lanes z[ENCODED_STRIPS];
		for (int k = 0; k < ENCODED_STRIPS; k++) {
			lanes prediction = odd_samples(above, k, id, _mm256_setzero_si256(), q[k]);
			z[k] = and(zigzag(sub(row->odd[k], prediction)), l->odd_valid[k]);
		}
		keep_shortest(z, l->width / 2, id, &least, code->odd, &code->odd_id);
	}
	return least;
}

// averages sets q to avg(L, R) of a row.
INLINE void averages(lanes *q, const lanes *even, const struct layout *l)
{
	for (int k = 0; k < ENCODED_STRIPS; k++) {
		lanes right = from_right(even[k], even[k + 1 < ENCODED_STRIPS ? k + 1 : k]);
		q[k] = avg(even[k], choose(right, even[k], l->last[k]));
	}
}

// move_down makes a row the one above.
INLINE void move_down(struct plane *above, const struct pixel_row *row, const lanes *q)
{
	for (int k = 0; k < ENCODED_STRIPS; k++) {
		above->even2[k] = above->even[k];
		above->even[k] = row->even[k];
		above->odd[k] = row->odd[k];
		above->between[k] = q[k];
	}
}

// encode_plane sets out to a plane, and the missing column of its rows to what a
// decoder will have there: the prediction, since its residual is 0.
AVX2_TARGET static void encode_plane(struct plane_code *out, struct pixel_plane *p, const struct layout *l)
{
	out->base = first_lane(p->rows[0].even[0]);
	out->constant = is_constant(p, l);
	if (out->constant)
		return;
	struct plane above;
	start_plane(&above, out->base, ENCODED_STRIPS);
	for (int y = 0; y < l->height; y++) {
		struct pixel_row *row = &p->rows[y];
		lanes q[ENCODED_STRIPS];
		averages(q, row->even, l);
		choose_even(&out->rows[y], row, &above, l);
		choose_odd(&out->rows[y], row, &above, q, l);
		for (int k = 0; k < ENCODED_STRIPS; k++) {
			lanes prediction = odd_samples(&above, k, out->rows[y].odd_id, _mm256_setzero_si256(), q[k]);
			row->odd[k] = choose(row->odd[k], prediction, l->missing[k]);
		}
		move_down(&above, row, q);
	}
}

// mixes_constant mixes rows of a plane with shares, until one differs from the
// first sample, and reports whether none does.
INLINE int mixes_constant(struct encoder *e, int plane, struct shares s)
{
	for (int y = 0; y < e->layout.height; y++) {
		mix_rows(&e->mixed, e->planes, plane, s, y, y + 1);
		if (!is_constant_row(&e->mixed.rows[y], first_lane(e->mixed.rows[0].even[0]), &e->layout))
			return 0;
	}
	return 1;
}

// estimate is about how many bytes the residuals of a plane take if it is mixed
// with these shares: some rows are looked at, the same in each trial. It is 0 for
// a plane that becomes constant.
AVX2_TARGET static int estimate(struct encoder *e, int plane, struct shares s)
{
	const struct layout *l = &e->layout;
	if (mixes_constant(e, plane, s))
		return 0;
	int step = l->height < 4 * TRIAL_ROWS ? 1 : TRIAL_ROWS;
	int total = 1;
	for (int y = step - 1 > 2 ? step - 1 : 2; y < l->height; y += step) {
		const struct pixel_row *row = &e->mixed.rows[y];
		struct plane above;
		struct coded_row code;
		lanes q[ENCODED_STRIPS];
		mix_rows(&e->mixed, e->planes, plane, s, y - 2, y + 1);
		for (int before = -2; before < 0; before++) {
			averages(q, row[before].even, l);
			move_down(&above, &row[before], q);
		}
		averages(q, row->even, l);
		total += choose_even(&code, row, &above, l);
		total += choose_odd(&code, row, &above, q, l);
	}
	return total;
}

// choose_shares encodes a plane with the best of n choices of shares, which it
// returns.
INLINE int choose_shares(struct encoder *e, int plane, const struct shares *choices, int n)
{
	int least = INT32_MAX, best = 0;
	for (int k = 0; k < n; k++) {
		int bytes = estimate(e, plane, choices[k]);
		if (bytes < least) {
			least = bytes;
			best = k;
		}
	}
	mix_rows(&e->mixed, e->planes, plane, choices[best], 0, e->layout.height);
	encode_plane(&e->codes[plane], &e->mixed, &e->layout);
	return best;
}

// A bit_writer appends bits to bytes.
struct bit_writer {
	uint8_t *to;
	uint64_t bits;
	unsigned count; // less than 8 between calls
};

INLINE void put_bits(struct bit_writer *w, uint64_t bits, unsigned count)
{
	w->bits |= bits << w->count;
	for (w->count += count; w->count >= 8; w->count -= 8) {
		*w->to++ = (uint8_t)w->bits;
		w->bits >>= 8;
	}
}

INLINE void put_phase_header(struct bit_writer *w, uint64_t id, unsigned id_bits, const group *z, int count)
{
	put_bits(w, id, id_bits);
	for (int g = 0; g < groups_of(count); g++)
		put_bits(w, width_code(&z[g]), CODE_BITS);
}

// pack_group writes a group of count residuals and returns where it ends. Up to
// 16 bytes behind that may be written, too.
INLINE uint8_t *pack_group(uint8_t *to, const group *z, int count)
{
	unsigned bits = code_bits(width_code(z));
#if LANE_BITS == 8
	uint64_t residuals;
	memcpy(&residuals, z, sizeof residuals);
	residuals = _pext_u64(residuals, 0x0101010101010101u * ((1u << bits) - 1));
	memcpy(to, &residuals, sizeof residuals);
#else
	uint64_t halves[2], mask = 0x0001000100010001u * ((1u << bits) - 1);
	memcpy(halves, z, sizeof halves);
	unsigned __int128 residuals = (unsigned __int128)_pext_u64(halves[1], mask) << 4 * bits | _pext_u64(halves[0], mask);
	memcpy(to, &residuals, sizeof residuals);
#endif
	return to + ((unsigned)count * bits + 7) / 8;
}

INLINE uint8_t *pack_phase(uint8_t *to, const group *z, int count)
{
	for (int g = 0; g < groups_of(count); g++) {
		int left = count - g * GROUP_SIZE;
		to = pack_group(to, &z[g], left < GROUP_SIZE ? left : GROUP_SIZE);
	}
	return to;
}

// put_patch writes a patch whose planes are encoded and returns its size.
INLINE int64_t put_patch(uint8_t *to, const struct encoder *e, int channels, int transform)
{
	const struct layout *l = &e->layout;
	uint8_t *start = to;
	*to++ = (uint8_t)transform;
	*to = 0;
	for (int i = 0; i < channels; i++)
		*to |= (uint8_t)(e->codes[i].constant << i);
	to++;
	for (int i = 0; i < channels; i++, to += LANE_BYTES)
		memcpy(to, &e->codes[i].base, LANE_BYTES);
	struct bit_writer w = {.to = to};
	for (int y = 0; y < l->height; y++) {
		for (int i = 0; i < channels; i++) {
			const struct coded_row *row = &e->codes[i].rows[y];
			if (e->codes[i].constant)
				continue;
			put_phase_header(&w, row->even_id, EVEN_ID_BITS, row->even, l->pairs);
			put_phase_header(&w, row->odd_id, ODD_ID_BITS, row->odd, l->width / 2);
		}
	}
	if (w.count > 0)
		put_bits(&w, 0, 8 - w.count);
	to = w.to;
	for (int y = 0; y < l->height; y++) {
		for (int i = 0; i < channels; i++) {
			if (e->codes[i].constant)
				continue;
			to = pack_phase(to, e->codes[i].rows[y].even, l->pairs);
			to = pack_phase(to, e->codes[i].rows[y].odd, l->width / 2);
		}
	}
	while ((to - start) % 4 != 0)
		*to++ = 0;
	return to - start;
}

// encode_patch encodes a patch of an image with 1 to 4 channels and returns its
// size. Where it is written there is room for every header and every sample at
// its widest, and for 16 bytes more.
AVX2_TARGET static int64_t encode_patch(uint8_t *to, const uint8_t *pixels, int64_t row_bytes, int channels, int width,
					int height, const uint16_t *ranks, lane flip)
{
	static const uint8_t plane_channels[][MAX_CHANNELS] = {{0}, {0}, {0, 1}, {1, 0, 2}, {1, 0, 2, 3}};
	struct encoder e;
	int transform = 0;
	e.layout = layout_of(width, height);
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width * channels * LANE_BYTES; x += 64)
			_mm_prefetch((const char *)pixels + y * row_bytes + x, _MM_HINT_T0);
	for (int i = 0; i < channels; i++)
		load_plane(&e.planes[i], pixels + plane_channels[channels][i] * LANE_BYTES, row_bytes, channels,
			   &e.layout, ranks, flip);
	encode_plane(&e.codes[0], &e.planes[0], &e.layout);
	if (channels >= 2)
		transform = choose_shares(&e, 1, plane1_shares, 4);
	if (channels >= 3)
		transform |= choose_shares(&e, 2, plane2_shares, 8) << 2;
	if (channels >= 4)
		encode_plane(&e.codes[3], &e.planes[3], &e.layout);
	return put_patch(to, &e, channels, transform);
}

#endif
