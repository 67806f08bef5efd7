// How a grid of blocks runs on the CPU.

#ifndef CUDASIM_GRID_H
#define CUDASIM_GRID_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace cudasim {

// A kernel as it was compiled for the host.
struct kernel {
	void (*call)(void **parameters);
	size_t parameters;
	const size_t *sizes;
};

// find_kernel returns the kernel of a name, null if there is none.
const kernel *find_kernel(const std::string &name);

enum outcome {
	RAN,
	BAD_ACCESS, // outside device memory
	BAD_WARP,   // lanes of a warp did not do the same
};

// run_grid runs blocks one after another, on the calling thread. The threads of a
// block take turns: each runs until it waits for others, then the next one, or the
// one before it if reverse is set.
outcome run_grid(const kernel &k, void **parameters, uint32_t blocks, uint32_t threads, bool reverse);

// catch_bad_accesses makes run_grid survive accesses to pages that are not there.
void catch_bad_accesses();

// MAX_THREADS is the largest number of threads of a block, and SHARED_BYTES what
// it has of shared memory.
constexpr uint32_t MAX_THREADS = 1024;
constexpr size_t SHARED_BYTES = 48 << 10;

template <auto F> struct compiled;

template <class... A, void (*F)(A...)> struct compiled<F> {
	static constexpr size_t sizes[] = {sizeof(A)...};

	template <size_t... I> static void apply(void **p, std::index_sequence<I...>) { F(*static_cast<A *>(p[I])...); }

	static void call(void **p) { apply(p, std::index_sequence_for<A...>{}); }

	static constexpr kernel entry = {call, sizeof...(A), sizes};
};

} // namespace cudasim

#endif
