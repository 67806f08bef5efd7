// What kernels are written in: the few operations by which the lanes of a warp
// work together. Under clang they are the instructions of PTX; elsewhere
// simulated.h, which the simulated driver brings, has them as functions that
// behave alike. Every operation is one of the whole warp: all 32 lanes call it,
// at the same place.

#ifndef PRISMFS_SIMT_H
#define PRISMFS_SIMT_H

#include "layout.h"

#ifdef __CUDA__

#define DEVICE static inline __attribute__((device, always_inline))
#define DEVICE_MEMBER inline __attribute__((device, always_inline))
#define KERNEL extern "C" __attribute__((global)) __attribute__((launch_bounds(BLOCK_THREADS))) void

// Memory of a block, in a kernel's outermost scope.
#define SHARED(type, name, n) __attribute__((shared)) static type name[n]

DEVICE u32 thread_index() { return (u32)__nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block_index() { return (u32)__nvvm_read_ptx_sreg_ctaid_x(); }

// shuffle returns the value of lane from.
DEVICE u32 shuffle(u32 v, u32 from) { return (u32)__nvvm_shfl_sync_idx_i32(~0u, (int)v, (int)from, 31); }

// shuffle_up returns the value of the lane n below, in the first n lanes their own.
DEVICE u32 shuffle_up(u32 v, u32 n) { return (u32)__nvvm_shfl_sync_up_i32(~0u, (int)v, (int)n, 0); }

// ballot returns in bit k whether lane k says yes.
DEVICE u32 ballot(bool yes) { return (u32)__nvvm_vote_ballot_sync(~0u, yes); }

// same_value returns the lanes that have the value of this one.
DEVICE u32 same_value(u32 v) { return (u32)__nvvm_match_any_sync_i32(~0u, (int)v); }

// sync_warp waits for all lanes and makes their writes known to each other.
DEVICE void sync_warp() { __nvvm_bar_warp_sync(~0u); }

// sync_block does so for all threads of the block.
DEVICE void sync_block() { __syncthreads(); }

#else

#include "simulated.h"

#endif

DEVICE u32 lane_index() { return thread_index() % LANES; }
DEVICE u32 warp_index() { return thread_index() / LANES; }

DEVICE u32 count_bits(u32 v) { return (u32)__builtin_popcount(v); }

// top_bit returns the number of the highest bit set in v, which is not 0.
DEVICE u32 top_bit(u32 v) { return 31 - (u32)__builtin_clz(v); }

// lowest_bit returns the number of the lowest bit set in v, which is not 0.
DEVICE u32 lowest_bit(u32 v) { return (u32)__builtin_ctz(v); }

DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// lanes_below has the bits of the lanes before this one.
DEVICE u32 lanes_below() { return (1u << lane_index()) - 1; }

// sum_up returns the sum of v over this lane and all before it.
DEVICE u32 sum_up(u32 v)
{
#pragma unroll
	for (u32 n = 1; n < LANES; n *= 2) {
		u32 below = shuffle_up(v, n);
		if (lane_index() >= n)
			v += below;
	}
	return v;
}

#endif
