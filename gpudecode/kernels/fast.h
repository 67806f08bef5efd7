// The fast codings: residuals in groups of eight, all of a group in the same
// number of bits. docs/format-l3.md, section 2.

#ifndef PRISMFS_FAST_H
#define PRISMFS_FAST_H

#include "planes.h"

template <class D> struct fast_scratch {
	plane<D> planes[MAX_CHANNELS];
};

// Bits of the code of a group's width, and what the codes mean.
template <class D> DEVICE u32 width_bits() { return D::bits == 8 ? 3 : 4; }

template <class D> DEVICE u32 width_of(u32 code)
{
	const u32 last = D::bits - 1;
	return code == last ? (u32)D::bits : code;
}

// A phase of a row: where its header and its residuals are, and how many it has.
struct phase {
	u32 codes; // bit of the first width
	u32 at;    // byte of the next residuals
	u32 count;
};

DEVICE u32 groups_of(u32 count) { return (count + 7) / 8; }

// next_residual returns the residual of position i, which is in this lane, and
// moves on over those of all lanes. Positions after the last have 0.
template <class D> DEVICE u32 next_residual(const struct source *s, struct phase *p, u32 i)
{
	u32 first = i & ~7u, members = 0, width = 0;
	if (first < p->count) { // all lanes of a group know its size
		members = smaller(8, p->count - first);
		width = width_of<D>(bits_at(s, p->codes + width_bits<D>() * (first / 8)) & ((1u << width_bits<D>()) - 1));
	}
	// The bytes of this group and of those before it, four groups being in a warp.
	u32 bytes = (members * width + 7) / 8, end = bytes;
#pragma unroll
	for (u32 n = 8; n < LANES; n *= 2) {
		u32 before = shuffle_up(end, n);
		if (lane_index() >= n)
			end += before;
	}
	u32 z = bits_at(s, 8 * (p->at + end - bytes) + (i - first) * width) & ((1u << width) - 1);
	p->at += shuffle(end, LANES - 1);
	return i < p->count ? unzigzagged(z) : 0;
}

// fast_row decodes a row of a plane and returns where its residuals end. header is
// the bit of the row's headers.
template <class D> DEVICE u32 fast_row(const struct source *s, plane<D> *p, struct places r, u32 header, u32 at, u32 width)
{
	u32 pairs = (width + 1) / 2, sum = 0;
	u32 id = bits_at(s, header) & 7;
	struct phase even = {header + 3, at, pairs};
	for (u32 first = 0; first < pairs; first += LANES) {
		u32 i = first + lane_index();
		set_even<D>(p, r, id, i, pairs, next_residual<D>(s, &even, i), &sum);
	}
	sync_warp();
	header = even.codes + width_bits<D>() * groups_of(pairs);
	id = bits_at(s, header) & 3;
	struct phase odd = {header + 2, even.at, width / 2};
	for (u32 first = 0; first < pairs; first += LANES) {
		u32 i = first + lane_index();
		set_odd<D>(p, r, id, i, pairs, next_residual<D>(s, &odd, i));
	}
	return odd.at;
}

template <class D> DEVICE void fast_store(const plane<D> *p, struct places r, u32 width, struct transform t, struct destination *d)
{
	for (u32 i = lane_index(); i < (width + 1) / 2; i += LANES) {
		struct pixel even = mixed<D>(even_pixel<D>(p, r, i, d->channels), t, d->channels);
		struct pixel odd = mixed<D>(odd_pixel<D>(p, r, i, d->channels), t, d->channels);
		put_pair<D>(d, i, even, odd, 2 * i + 1 < width);
	}
}

template <class D>
DEVICE u32 fast_patch(struct source s, const struct patch *patch, struct destination d, struct fast_scratch<D> *scratch)
{
	u32 width = patch->width, height = patch->height, channels = d.channels;
	struct prelude prelude = read_prelude<D>(&s, channels);
	if (!prelude.good || prelude.more != 0)
		return STATUS_BAD_HEAD;
	for (u32 k = 0; k < channels; k++)
		start_plane<D>(&scratch->planes[k], base_value<D>(&s, k));
	sync_warp();
	struct transform t = read_transform<D>(prelude.transform);
	u32 row_bits = 5 + width_bits<D>() * (groups_of((width + 1) / 2) + groups_of(width / 2));
	u32 header = 8 * prelude.bytes, at = prelude.bytes + (prelude.coded * height * row_bits + 7) / 8;
	if (at > s.length)
		return STATUS_BAD_HEAD;
	struct places r = first_row();
	for (u32 y = 0; y < height; y++) {
		for (u32 k = 0; k < channels; k++) {
			if (is_constant(prelude, k))
				continue;
			at = fast_row<D>(&s, &scratch->planes[k], r, header, at, width);
			header += row_bits;
		}
		if (at > s.length)
			return STATUS_RAN_OUT;
		fast_store<D>(scratch->planes, r, width, t, &d);
		d.row += d.row_step;
		r = next_row(r);
		sync_warp();
	}
	if (ballot(d.bad) != 0)
		return STATUS_BAD_VALUE;
	return ((at + 3) & ~3u) == s.length ? STATUS_OK : STATUS_LEFT_OVER;
}

// fast_kernel is the whole of a kernel: one patch a warp.
template <class D>
DEVICE void fast_kernel(PARAMETERS, struct fast_scratch<D> *scratch)
{
	u32 index = patch_of_warp();
	if (!begins(index, count, status))
		return;
	const struct patch *p = &patches[index];
	const struct image *img = &images[p->image];
	u32 result = STATUS_BAD_PLACE;
	if (fits(img, p, encoded_bytes, pixel_bytes, MAX_EDGE, D::bytes))
		result = fast_patch<D>(open_source(encoded, p), p, open_destination(pixels, img, p, tables), &scratch[warp_index()]);
	ends(index, result, status);
}

#endif
