// What simt.h has instructions for on a GPU, as functions of the simulator.

#ifndef PRISMFS_SIMULATED_H
#define PRISMFS_SIMULATED_H

#include <cstddef>
#include <cstdint>

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define KERNEL extern "C" void
#define SHARED(type, name, n) type *name = static_cast<type *>(cudasim::shared(sizeof(type) * (n)))

namespace cudasim {

// Collective operations, which all lanes of a warp must do together.
enum operation : uint8_t { SHUFFLE, SHUFFLE_UP, BALLOT, SAME_VALUE, SYNC_WARP };

uint32_t thread();
uint32_t block();
void *shared(size_t bytes);

// collect waits until all lanes of the warp do the operation, and returns the
// values of them all.
const uint32_t *collect(operation op, uint32_t value);
void sync_block();

} // namespace cudasim

DEVICE u32 thread_index() { return cudasim::thread(); }
DEVICE u32 block_index() { return cudasim::block(); }

DEVICE u32 shuffle(u32 v, u32 from) { return cudasim::collect(cudasim::SHUFFLE, v)[from % LANES]; }

DEVICE u32 shuffle_up(u32 v, u32 n)
{
	u32 lane = thread_index() % LANES;
	const u32 *all = cudasim::collect(cudasim::SHUFFLE_UP, v);
	return lane >= n ? all[lane - n] : v;
}

DEVICE u32 ballot(bool yes)
{
	const u32 *all = cudasim::collect(cudasim::BALLOT, yes);
	u32 votes = 0;
	for (u32 k = 0; k < LANES; k++)
		votes |= all[k] << k;
	return votes;
}

DEVICE u32 same_value(u32 v)
{
	const u32 *all = cudasim::collect(cudasim::SAME_VALUE, v);
	u32 same = 0;
	for (u32 k = 0; k < LANES; k++)
		same |= (u32)(all[k] == v) << k;
	return same;
}

DEVICE void sync_warp() { cudasim::collect(cudasim::SYNC_WARP, 0); }
DEVICE void sync_block() { cudasim::sync_block(); }

#endif
