// Pixels of a patch on a lattice, and those that are known of the neighbours of a
// phase's pixels.

#ifndef L3_AVX2_LABELS_LATTICE_H
#define L3_AVX2_LABELS_LATTICE_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LB_TARGET __attribute__((target("avx2,bmi,bmi2")))
#define LB_INLINE LB_TARGET static inline __attribute__((always_inline))

typedef __m256i lb_vector;

enum {
	LB_MAX_EDGE = 256,
	LB_EDGE = LB_MAX_EDGE / 2, // of a lattice
	LB_VECTOR = 32,
	LB_MARGIN = LB_VECTOR, // on both sides of a row
	LB_ROW = LB_MARGIN + LB_EDGE + LB_MARGIN,
	LB_NEIGHBOURS = 8,
	LB_NEAREST = 4,
};

// A lattice is the pixels of a patch that are two steps apart from each other in
// both directions, without those between. Beside the columns stand copies of the
// outermost ones, so that every pixel has neighbours on both sides.
struct lb_lattice {
	int width, height;
	uint8_t rows[LB_EDGE][LB_ROW];
};

LB_INLINE uint8_t *lb_row(struct lb_lattice *l, int y) { return l->rows[y] + LB_MARGIN; }

// lb_close copies the outermost columns of all rows.
LB_INLINE void lb_close(struct lb_lattice *l)
{
	if (l->width == 0)
		return;
	for (int y = 0; y < l->height; y++) {
		uint8_t *row = lb_row(l, y);
		row[-1] = row[0];
		row[l->width] = row[l->width + 1] = row[l->width - 1];
	}
}

// The four lattices of a step s: what is known from steps before, on multiples of
// 2s, and the three that its phases decode, which are named for being odd
// multiples of s: both coordinates, rows, columns.
struct lb_lattices {
	struct lb_lattice *known, both, rows, columns;
};

// lb_step sets the sizes of the lattices of a step.
LB_INLINE void lb_step(struct lb_lattices *l, int step, int width, int height)
{
	int even_width = (width + 2 * step - 1) / (2 * step), odd_width = (width + step - 1) / (2 * step);
	int even_height = (height + 2 * step - 1) / (2 * step), odd_height = (height + step - 1) / (2 * step);
	l->known->width = l->rows.width = even_width;
	l->both.width = l->columns.width = odd_width;
	l->known->height = l->columns.height = even_height;
	l->both.height = l->rows.height = odd_height;
}

enum lb_kind { LB_BOTH, LB_ROWS, LB_COLUMNS, LB_KINDS };

LB_INLINE struct lb_lattice *lb_of(struct lb_lattices *l, enum lb_kind kind)
{
	return kind == LB_BOTH ? &l->both : kind == LB_ROWS ? &l->rows : &l->columns;
}

LB_INLINE int lb_at_most(int v, int most) { return v < most ? v : most; }

// lb_neighbours finds where the neighbours of row y of a phase's pixels stand:
// those of pixel x are of[i][x].
LB_INLINE void lb_neighbours(const uint8_t *of[LB_NEIGHBOURS], struct lb_lattices *l, enum lb_kind kind, int y)
{
	struct lb_lattice *known = l->known;
	const uint8_t *here = lb_row(known, y), *below = lb_row(known, lb_at_most(y + 1, known->height - 1));
	of[0] = here;
	switch (kind) {
	case LB_BOTH:
		of[1] = here + 1, of[2] = below, of[3] = below + 1;
		of[4] = here - 1, of[5] = here + 2, of[6] = below - 1, of[7] = below + 2;
		break;
	case LB_ROWS:
		of[1] = below, of[2] = of[3] = here;
		if (l->both.width > 0) {
			const uint8_t *both = lb_row(&l->both, y);
			of[2] = both - 1, of[3] = both;
		}
		of[4] = here - 1, of[5] = here + 1, of[6] = below - 1, of[7] = below + 1;
		break;
	default:
		of[1] = here + 1;
		for (int i = 2; i < LB_NEIGHBOURS; i++)
			of[i] = here;
		if (l->rows.height > 0) {
			int upper = y > 0 ? y - 1 : 0, lower = lb_at_most(y, l->rows.height - 1);
			of[2] = lb_row(&l->both, upper), of[3] = lb_row(&l->both, lower);
			of[4] = lb_row(&l->rows, upper), of[5] = of[4] + 1;
			of[6] = lb_row(&l->rows, lower), of[7] = of[6] + 1;
		}
	}
}

// lb_zip sets to to the elements of even and odd in turn.
LB_INLINE void lb_zip(uint8_t *to, const uint8_t *even, const uint8_t *odd)
{
	lb_vector e = _mm256_permute4x64_epi64(_mm256_loadu_si256((const lb_vector *)even), 0xd8);
	lb_vector o = _mm256_permute4x64_epi64(_mm256_loadu_si256((const lb_vector *)odd), 0xd8);
	_mm256_storeu_si256((lb_vector *)to, _mm256_unpacklo_epi8(e, o));
	_mm256_storeu_si256((lb_vector *)(to + LB_VECTOR), _mm256_unpackhi_epi8(e, o));
}

// lb_zip_row sets to, which has room for whole vectors, to a row of pixels of even
// and odd columns, width of the former.
LB_INLINE void lb_zip_row(uint8_t *to, const uint8_t *even, const uint8_t *odd, int width)
{
	for (int x = 0; x < width; x += LB_VECTOR)
		lb_zip(to + 2 * x, even + x, odd + x);
}

// lb_join makes of the lattices of a step what the next one knows.
LB_INLINE void lb_join(struct lb_lattice *to, struct lb_lattices *l)
{
	int width = l->known->width;
	to->width = width + l->both.width;
	to->height = l->known->height + l->rows.height;
	for (int y = 0; y < to->height; y++) {
		if (y % 2 == 0)
			lb_zip_row(lb_row(to, y), lb_row(l->known, y / 2), lb_row(&l->columns, y / 2), width);
		else
			lb_zip_row(lb_row(to, y), lb_row(&l->rows, y / 2), lb_row(&l->both, y / 2), width);
	}
	lb_close(to);
}

// lb_put writes the pixels of the lattices of step 1.
LB_INLINE void lb_put(uint8_t *dst, int64_t row_bytes, struct lb_lattices *l, int width, int height)
{
	uint8_t pixels[LB_MAX_EDGE];
	int even = l->known->width;
	for (int y = 0; y < height; y++, dst += row_bytes) {
		uint8_t *to = width == LB_MAX_EDGE ? dst : pixels;
		if (y % 2 == 0)
			lb_zip_row(to, lb_row(l->known, y / 2), lb_row(&l->columns, y / 2), even);
		else
			lb_zip_row(to, lb_row(&l->rows, y / 2), lb_row(&l->both, y / 2), even);
		if (to == pixels)
			memcpy(dst, pixels, (size_t)width);
	}
}

#endif
