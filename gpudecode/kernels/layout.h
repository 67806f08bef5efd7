// What the host and the kernels tell each other. layout.go has the same in Go,
// and a test compares sizes, offsets and numbers.
//
// A launch works on a batch: descriptors of images and of patches, all encoded
// bytes in one buffer, all samples in another, all tables in a third. Offsets of
// tables and rank maps are in words of four bytes, all others in bytes. The
// descriptors are the host's and are believed, but for where a patch lies: a
// kernel checks that against the buffers' sizes. Encoded bytes and their
// consequences are believed in nothing.

#ifndef PRISMFS_LAYOUT_H
#define PRISMFS_LAYOUT_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

// An image: where its samples go, and what its patches are decoded with. The
// sample of channel c at (x, y) is at pixels + y·row_step + x·pixel_step +
// c·channel_step, so that channels come out interleaved or planar.
struct image {
	u64 pixels;       // its first sample in the pixel buffer
	u64 pixel_bytes;  // all its samples
	u64 row_step;
	u64 channel_step;
	u32 pixel_step;
	u32 tables;       // its table set, of codings that have one
	u32 ranks;        // the values of its rank map, two in a word
	u32 rank_count;   // 0 for no rank map
	u32 hole;         // the coded value of holes, NO_HOLE for none
	u16 flip;         // what is inverted in a sample at the end: the sign bit or nothing
	u16 palette_size; // labels that a raw one may be
	u8 channels;
	u8 sample_bytes;
	u8 log_streams;
	u8 raw_bits;      // of a raw label
	u32 reserved;
};

#define NO_HOLE 0x10000u

// A patch: its bytes, and the rectangle that it covers. Patches of the published
// format have one channel; they come in threes, red, green and blue of one
// rectangle.
struct patch {
	u64 start;  // of its bytes in the encoded buffer
	u32 length;
	u32 crc;    // CRC-32C of its bytes, which l3_crc checks
	u32 image;
	u32 x, y;
	u16 width, height;
	u32 kind;   // as in the patch table: KIND_RAW and KIND_CONSTANT are for l3_raw
	u32 reserved;
};

#define KIND_RAW 1u
#define KIND_CONSTANT 2u

// Table sets, as l3 has them for its own decoders.
struct dense8_tables {
	u8 contexts[320];     // the table of each context
	u32 slots[16][512];   // value, offset << 8, frequency << 18, raw bits << 29
};

struct dense16_tables {
	u8 contexts[1024];    // the table of each context; without a hole value the first 256
	u32 slots[16][1024];  // value, raw bits << 8, offset << 11, frequency << 21
};

struct labels_tables {
	u8 table_of[6144];    // the table of each context
	u16 bounds[48][4];    // where the slots of tokens 1, 2, 3 begin, and their number
	u8 palette[256];
};

// The status of a patch. The host, or l3_crc, sets it to STATUS_WAITING; the
// kernel that decodes the patch leaves any other status alone.
#define STATUS_OK 0u
#define STATUS_WAITING 1u
#define STATUS_BAD_CHECKSUM 2u
#define STATUS_BAD_PLACE 3u    // not within the buffers
#define STATUS_BAD_HEAD 4u     // what precedes residuals, states or words
#define STATUS_RAN_OUT 5u      // residuals or words do
#define STATUS_LEFT_OVER 6u    // bytes follow the last one
#define STATUS_BAD_VALUE 7u    // beyond the rank map or the palette
#define STATUS_BAD_WIDTH 8u    // of a row of the published format
#define STATUS_BAD_EXCEPTION 9u

// A block has WARPS warps, each of which decodes a patch, or three of the
// published format.
#define LANES 32
#define WARPS 4
#define BLOCK_THREADS (LANES * WARPS)

#define MAX_CHANNELS 4
#define MAX_EDGE 128         // of patches with planes
#define MAX_PAIRS 64         // of columns in them
#define MAX_LABELS_EDGE 256
#define MAX_PUBLISHED_EDGE 248

#endif
