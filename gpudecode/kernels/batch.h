// What all kernels begin with: the patch of a warp, its bytes, and where its
// samples go.

#ifndef PRISMFS_BATCH_H
#define PRISMFS_BATCH_H

#include "simt.h"

// Every kernel has these parameters. The encoded buffer is a whole number of
// words.
#define PARAMETERS \
	const u8 *__restrict__ encoded, u64 encoded_bytes, u8 *__restrict__ pixels, u64 pixel_bytes, \
	const struct image *__restrict__ images, const struct patch *__restrict__ patches, u32 count, \
	const u32 *__restrict__ tables, u32 *__restrict__ status

// No patch that is right is longer: each pixel takes two words of the entropy
// coder at most. So places of bits in a patch are numbers of 32 bits.
#define MAX_PATCH_BYTES (1u << 20)

// The bytes of a patch. What lies past the end reads as 0.
struct source {
	const u32 *words; // from the word on in which the patch begins
	u32 word_count;
	u32 skip;         // bits of the first word that precede the patch
	u32 length;       // in bytes
};

// open_source returns the bytes of a patch, which lie within the buffer.
DEVICE struct source open_source(const u8 *encoded, const struct patch *p)
{
	struct source s;
	u32 before = (u32)(p->start % 4);
	s.words = (const u32 *)(encoded + (p->start - before));
	s.word_count = (before + p->length + 3) / 4;
	s.skip = 8 * before;
	s.length = p->length;
	return s;
}

DEVICE u32 word_at(const struct source *s, u32 k) { return k < s->word_count ? s->words[k] : 0; }

// bits_at returns 32 bits from bit `at` of the patch on.
DEVICE u32 bits_at(const struct source *s, u32 at)
{
	at += s->skip;
	u64 both = (u64)word_at(s, at / 32 + 1) << 32 | word_at(s, at / 32);
	return (u32)(both >> (at % 32));
}

DEVICE u32 byte_at(const struct source *s, u32 at) { return at < s->length ? bits_at(s, 8 * at) & 0xff : 0; }

// half_at returns the 16 bits at an even place of a patch that begins with a word.
DEVICE u32 half_at(const struct source *s, u32 at)
{
	return at + 2 <= s->length ? ((const u16 *)s->words)[at / 2] : 0;
}

// encoded_fits reports whether a patch lies within the encoded buffer, and is not
// longer than any can be.
DEVICE bool encoded_fits(const struct patch *p, u64 encoded_bytes)
{
	return p->length <= MAX_PATCH_BYTES && p->start <= encoded_bytes &&
		((p->start + p->length + 3) & ~(u64)3) <= encoded_bytes;
}

// pixels_fit reports whether the samples of a patch, which is at most edge pixels
// wide and high, lie within their image and the pixel buffer.
DEVICE bool pixels_fit(const struct image *img, const struct patch *p, u64 pixel_bytes, u32 edge)
{
	if (p->width == 0 || p->width > edge || p->height == 0 || p->height > edge ||
	    img->channels == 0 || img->channels > MAX_CHANNELS)
		return false;
	u64 end = (u64)(p->y + p->height - 1) * img->row_step + (u64)(p->x + p->width - 1) * img->pixel_step +
		(img->channels - 1) * img->channel_step + img->sample_bytes;
	return (u64)(p->x + p->width) * img->pixel_step <= img->row_step && end <= img->pixel_bytes && img->pixel_bytes <= pixel_bytes && img->pixels <= pixel_bytes - img->pixel_bytes;
}

// fits reports whether a patch of version 2, which begins with a word, lies where
// it may.
DEVICE bool fits(const struct image *img, const struct patch *p, u64 encoded_bytes, u64 pixel_bytes, u32 edge, u32 sample_bytes)
{
	return p->start % 4 == 0 && p->length % 4 == 0 && encoded_fits(p, encoded_bytes) &&
		img->sample_bytes == sample_bytes && pixels_fit(img, p, pixel_bytes, edge);
}

// first_sample is where channel 0 of a patch's first pixel goes.
DEVICE u8 *first_sample(u8 *pixels, const struct image *img, const struct patch *p)
{
	return pixels + img->pixels + p->y * img->row_step + (u64)p->x * img->pixel_step;
}

// begins reports whether this warp has a patch to decode, at index of the batch.
// Its status is read by all lanes before one of them changes it.
DEVICE bool begins(u32 index, u32 count, const u32 *status)
{
	bool waits = index < count && status[index] == STATUS_WAITING;
	sync_warp();
	return waits;
}

// ends says how the decoding of a patch went.
DEVICE void ends(u32 index, u32 result, u32 *status)
{
	if (lane_index() == 0)
		status[index] = result;
}

DEVICE u32 patch_of_warp() { return block_index() * WARPS + warp_index(); }

#endif
