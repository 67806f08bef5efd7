//go:build amd64 && cgo

// The fast coding of 8 bits.

#include "fast.h"
#include "fast_encode.h"

// l3_avx2_is_fast reports whether the processor has what Go does not ask for, and
// a circuit for pdep. Until 2020, AMD's had micro-code that took a hundred cycles
// and more, with which the plain decoder is the faster one.
int l3_avx2_is_fast(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("lzcnt") && !__builtin_cpu_is("amdfam15h") && !__builtin_cpu_is("amdfam17h");
}

int l3_avx2_fast8(uint8_t *dst, int64_t row_bytes, int channels, const uint8_t *file, int64_t file_bytes,
		  const struct l3_patch *patches, int count, uint32_t *sums)
{
	const struct image m = {
		.pixels = dst, .row_bytes = row_bytes, .channels = channels,
		.file = file, .file_bytes = file_bytes, .sums = sums,
	};
	return decode_patches(&m, patches, count);
}

int64_t l3_avx2_encode8(uint8_t *to, const uint8_t *pixels, int64_t row_bytes, int channels, int width, int height)
{
	return encode_patch(to, pixels, row_bytes, channels, width, height, NULL, 0);
}
