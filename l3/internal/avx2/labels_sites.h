// Which pixels of a phase are coded, and what their neighbours say.

#ifndef L3_AVX2_LABELS_SITES_H
#define L3_AVX2_LABELS_SITES_H

#include "labels_lattice.h"

// Compilers do not unroll such loops by themselves at -O2, and keep their vectors in
// memory.
#define LB_UNROLL _Pragma("GCC unroll 8")

enum {
	LB_MAX_SITES = LB_EDGE * LB_EDGE,
	LB_TURN = 8,
};

// The coded pixels of a phase, in raster order.
struct lb_sites {
	int count;
	// Place from the first pixel of the lattice on (16 bits), major and minor label
	// (8 bits each).
	uint32_t pixels[LB_MAX_SITES + LB_TURN];
	uint8_t tables[LB_MAX_SITES + LB_TURN];
};

// A look at LB_VECTOR pixels.
struct lb_look {
	uint16_t contexts[LB_VECTOR + 1]; // within a class; the last one is 0
	uint16_t labels[LB_VECTOR + 1];   // major, minor
};

LB_INLINE lb_vector lb_load(const uint8_t *from) { return _mm256_loadu_si256((const lb_vector *)from); }
LB_INLINE lb_vector lb_every(int v) { return _mm256_set1_epi8((char)v); }
LB_INLINE lb_vector lb_choose(lb_vector if_not, lb_vector if_so, lb_vector condition)
{
	return _mm256_blendv_epi8(if_not, if_so, condition);
}

// lb_store_pairs stores low | high << 8 for each pixel.
LB_INLINE void lb_store_pairs(uint16_t *to, lb_vector low, lb_vector high)
{
	low = _mm256_permute4x64_epi64(low, 0xd8);
	high = _mm256_permute4x64_epi64(high, 0xd8);
	_mm256_storeu_si256((lb_vector *)to, _mm256_unpacklo_epi8(low, high));
	_mm256_storeu_si256((lb_vector *)to + 1, _mm256_unpackhi_epi8(low, high));
}

// lb_weigh adds up masks of neighbours: −3 for each of the nearest, −1 for others.
LB_INLINE lb_vector lb_weigh(const lb_vector same[LB_NEIGHBOURS])
{
	lb_vector near = _mm256_add_epi8(_mm256_add_epi8(same[0], same[1]), _mm256_add_epi8(same[2], same[3]));
	lb_vector far = _mm256_add_epi8(_mm256_add_epi8(same[4], same[5]), _mm256_add_epi8(same[6], same[7]));
	return _mm256_add_epi8(_mm256_add_epi8(near, near), _mm256_add_epi8(near, far));
}

// lb_pattern has bit i set if mask i is.
LB_INLINE lb_vector lb_pattern(const lb_vector same[LB_NEIGHBOURS])
{
	lb_vector pattern = _mm256_setzero_si256();
	LB_UNROLL
	for (int i = 0; i < LB_NEIGHBOURS; i++)
		pattern = _mm256_or_si256(pattern, _mm256_and_si256(same[i], lb_every(1 << i)));
	return pattern;
}

// lb_look_at finds the major and the minor label and the context of each pixel.
LB_INLINE void lb_look_at(struct lb_look *look, const lb_vector label[LB_NEIGHBOURS])
{
	lb_vector as_first[LB_NEIGHBOURS], as_second[LB_NEIGHBOURS];
	lb_vector first = label[0], second = first;
	as_first[0] = lb_every(0xff);
	LB_UNROLL
	for (int i = LB_NEIGHBOURS - 1; i > 0; i--) {
		as_first[i] = _mm256_cmpeq_epi8(label[i], first);
		second = lb_choose(label[i], second, as_first[i]);
	}
	as_second[0] = _mm256_setzero_si256(); // so what is the only label is the major one
	LB_UNROLL
	for (int i = 1; i < LB_NEIGHBOURS; i++)
		as_second[i] = _mm256_cmpeq_epi8(label[i], second);
	lb_vector of_first = lb_pattern(as_first), of_second = lb_pattern(as_second);
	lb_vector swapped = _mm256_cmpgt_epi8(lb_weigh(as_first), lb_weigh(as_second));
	lb_vector all = _mm256_cmpeq_epi8(_mm256_or_si256(of_first, of_second), lb_every(0xff));
	lb_store_pairs(look->contexts, lb_choose(of_first, of_second, swapped), _mm256_andnot_si256(all, lb_every(1)));
	lb_store_pairs(look->labels, lb_choose(first, second, swapped), lb_choose(second, first, swapped));
}

// lb_list appends the pixels of a look whose bits are set. It takes LB_TURN of them
// at a time, whether there are so many or not: how many cannot be foreseen.
LB_INLINE void lb_list(struct lb_sites *s, const struct lb_look *look, uint32_t coded, uint32_t place,
		       const uint8_t *table_of)
{
	uint32_t *pixel = s->pixels + s->count;
	uint8_t *table = s->tables + s->count;
	s->count += __builtin_popcount(coded);
	do {
		LB_UNROLL
		for (int i = 0; i < LB_TURN; i++) {
			uint32_t k = _tzcnt_u32(coded); // LB_VECTOR if none is left
			coded &= coded - 1;
			*table++ = table_of[look->contexts[k]];
			*pixel++ = (place + k) | (uint32_t)look->labels[k] << 16;
		}
	} while (coded != 0);
}

// lb_scan_row sets those pixels of a row that are not coded, and lists the others;
// others than the row's it leaves with any labels. In a sparse phase pixels whose
// nearest neighbours agree are not coded.
LB_INLINE void lb_scan_row(struct lb_sites *s, uint8_t *to, const uint8_t *const of[LB_NEIGHBOURS], int y, int width,
			   int sparse, const uint8_t *table_of)
{
	for (int x = 0; x < width; x += LB_VECTOR) {
		lb_vector label[LB_NEIGHBOURS];
		LB_UNROLL
		for (int i = 0; i < LB_NEAREST; i++)
			label[i] = lb_load(of[i] + x);
		uint32_t coded = width - x >= LB_VECTOR ? ~(uint32_t)0 : ((uint32_t)1 << (width - x)) - 1;
		if (sparse) {
			lb_vector agree = _mm256_and_si256(_mm256_and_si256(_mm256_cmpeq_epi8(label[0], label[1]),
									    _mm256_cmpeq_epi8(label[0], label[2])),
							   _mm256_cmpeq_epi8(label[0], label[3]));
			coded &= ~(uint32_t)_mm256_movemask_epi8(agree);
			_mm256_storeu_si256((lb_vector *)(to + x), label[0]);
		}
		if (coded == 0)
			continue;
		LB_UNROLL
		for (int i = LB_NEAREST; i < LB_NEIGHBOURS; i++)
			label[i] = lb_load(of[i] + x);
		struct lb_look look;
		look.contexts[LB_VECTOR] = look.labels[LB_VECTOR] = 0;
		lb_look_at(&look, label);
		lb_list(s, &look, coded, (uint32_t)(y * LB_ROW + x), table_of);
	}
}

// lb_third is the first label among a pixel's neighbours that is neither the first
// one nor the second.
LB_INLINE uint8_t lb_third(struct lb_lattices *l, enum lb_kind kind, uint32_t place)
{
	const uint8_t *of[LB_NEIGHBOURS];
	lb_neighbours(of, l, kind, (int)(place / LB_ROW));
	unsigned x = place % LB_ROW;
	uint8_t first = of[0][x], second = first;
	for (int i = 1; i < LB_NEIGHBOURS; i++) {
		uint8_t label = of[i][x];
		if (label == first || label == second)
			continue;
		if (second != first)
			return label;
		second = label;
	}
	return first;
}

#endif
