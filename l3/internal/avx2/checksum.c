//go:build amd64 && cgo

#include "avx2.h"
#include "checksum.h"

AVX2_TARGET uint32_t l3_avx2_join_rows(uint32_t sum, const uint32_t *states, int rows, int64_t row_bytes)
{
	uint32_t shift = crc_shift((uint64_t)row_bytes), state = ~sum;
	for (int y = 0; y < rows; y++)
		state = crc_multiply(state, shift) ^ states[y];
	return ~state;
}

AVX2_TARGET uint32_t l3_avx2_checksum(const uint8_t *from, int64_t n) { return crc_of(from, (size_t)n); }
