// Kernels with faults, by which the simulator's own tests see that it finds them.

#include "batch.h"

#include "faulty.h"

// sim_copy copies words, a thread a word, and has no fault. What it is asked to do
// beyond the buffers it does.
KERNEL sim_copy(const u32 *from, u32 *to, u32 words)
{
	u32 k = block_index() * BLOCK_THREADS + thread_index();
	if (k < words)
		to[k] = from[k];
}

// sim_reverse reverses 128 words in shared memory. Without waiting for the others it
// reads words that may not be there yet.
KERNEL sim_reverse(const u32 *from, u32 *to, u32 waits)
{
	SHARED(u32, words, BLOCK_THREADS);
	words[thread_index()] = from[thread_index()];
	if (waits)
		sync_block();
	to[thread_index()] = words[BLOCK_THREADS - 1 - thread_index()];
}

// sim_diverge has lanes that do not do the same: some leave, some do another
// operation.
KERNEL sim_diverge(const u32 *from, u32 *to, u32 way)
{
	u32 lane = lane_index();
	if (way == 1 && lane == 7)
		return;
	if (way == 2 && lane == 7)
		to[lane] = ballot(true);
	else
		to[lane] = shuffle(from[lane], lane);
}

// sim_lanes writes what each of the operations of a warp gives.
KERNEL sim_lanes(const u32 *from, u32 *to, u32)
{
	u32 lane = lane_index(), v = from[lane];
	u32 *mine = to + lane * 5;
	mine[0] = shuffle(v, lane + 1);
	mine[1] = shuffle_up(v, 3);
	mine[2] = ballot(v % 2 != 0);
	mine[3] = same_value(v % 4);
	mine[4] = sum_up(v);
}

namespace cudasim {

const kernel *find_faulty_kernel(const std::string &name)
{
	if (name == "sim_copy")
		return &compiled<sim_copy>::entry;
	if (name == "sim_reverse")
		return &compiled<sim_reverse>::entry;
	if (name == "sim_diverge")
		return &compiled<sim_diverge>::entry;
	if (name == "sim_lanes")
		return &compiled<sim_lanes>::entry;
	return nullptr;
}

} // namespace cudasim
