// CRC-32C of encoded patches.
//
// A checksum is a polynomial over GF(2) modulo that of CRC-32C, the coefficient of
// x^31 in bit 0. Lane l sums every 32nd word, so that a warp reads whole lines: it
// multiplies its sum by x^1024 and adds the next word. The sums are joined at the
// end, two and two.

#ifndef PRISMFS_CHECKSUM_H
#define PRISMFS_CHECKSUM_H

#include "batch.h"

#define CRC_X32 0x82f63b78u // x^32 modulo the polynomial

// crc_multiply returns a·b.
DEVICE constexpr u32 crc_multiply(u32 a, u32 b)
{
	u32 product = 0;
	for (u32 k = 0; k < 32; k++) {
		product ^= b & (0 - (a >> 31));
		b = (b >> 1) ^ (CRC_X32 & (0 - (b & 1)));
		a <<= 1;
	}
	return product;
}

// crc_power returns x^(32·2^k).
DEVICE constexpr u32 crc_power(u32 k)
{
	u32 power = CRC_X32;
	for (; k > 0; k--)
		power = crc_multiply(power, power);
	return power;
}

// crc_tables has, for each value of each byte of a sum, its product with x^1024.
struct crc_tables {
	u32 byte[4][256];
};

DEVICE void fill_crc_tables(struct crc_tables *t)
{
	constexpr u32 x1024 = crc_power(5);
	for (u32 v = thread_index(); v < 256; v += BLOCK_THREADS)
		for (u32 k = 0; k < 4; k++)
			t->byte[k][v] = crc_multiply(v << (8 * k), x1024);
	sync_block();
}

DEVICE u32 crc_advance(const struct crc_tables *t, u32 sum)
{
	return t->byte[0][sum & 0xff] ^ t->byte[1][sum >> 8 & 0xff] ^ t->byte[2][sum >> 16 & 0xff] ^ t->byte[3][sum >> 24];
}

// crc_joined joins the sums of all lanes, lane 31 having the last word, and returns
// it in lane 0.
DEVICE u32 crc_joined(u32 sum)
{
	constexpr u32 powers[5] = {crc_power(0), crc_power(1), crc_power(2), crc_power(3), crc_power(4)};
#pragma unroll
	for (u32 k = 0; k < 5; k++)
		sum = crc_multiply(sum, powers[k]) ^ shuffle(sum, lane_index() + (1u << k));
	return crc_multiply(sum, CRC_X32);
}

// crc_of returns, in lane 0, the checksum of a whole number of words.
DEVICE u32 crc_of(const struct crc_tables *t, const struct source *s)
{
	u32 rounds = (s->word_count + LANES - 1) / LANES, sum = 0;
	for (u32 round = rounds; round > 0; round--) {
		i32 k = (i32)(s->word_count - round * LANES + lane_index()); // below 0 there is nothing, and counts nothing
		u32 word = k < 0 ? 0 : s->words[k];
		sum = crc_advance(t, sum) ^ (k == 0 ? ~word : word);
	}
	return ~crc_joined(sum);
}

// checksum_kernel begins the statuses of patches.
DEVICE void checksum_kernel(PARAMETERS, struct crc_tables *t)
{
	(void)pixels, (void)pixel_bytes, (void)images, (void)tables;
	fill_crc_tables(t);
	u32 index = patch_of_warp();
	if (index >= count)
		return;
	const struct patch *p = &patches[index];
	u32 result = STATUS_BAD_PLACE;
	if (p->start % 4 == 0 && p->length % 4 == 0 && p->length > 0 && encoded_fits(p, encoded_bytes)) {
		struct source s = open_source(encoded, p);
		result = crc_of(t, &s) == p->crc ? STATUS_WAITING : STATUS_BAD_CHECKSUM;
	}
	ends(index, result, status);
}

#endif
