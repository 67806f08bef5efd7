#include "grid.h"

#include "fiber.h"
#include "layout.h"
#include "simulated.h"

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace cudasim {

namespace {

constexpr size_t STACK_BYTES = 64 << 10;
constexpr size_t PAGE = 4096;
constexpr int SHARED_POISON = 0xa5;

enum state : uint8_t { READY, AT_BLOCK, AT_WARP, ENDED };

// A warp is where its lanes meet. Values of successive operations alternate between
// two places: a lane may go on to the next operation while others still read, but
// not to the one after that.
struct warp {
	uint32_t values[2][LANES];
	uint32_t turn[LANES]; // of each lane, whose parity is its place
	uint32_t arrived;
	operation op;
};

// A running_block is the memory and the threads of the block that a thread of the
// host runs.
struct running_block {
	fiber host;
	std::vector<fiber> fibers = std::vector<fiber>(MAX_THREADS);
	std::vector<state> states = std::vector<state>(MAX_THREADS);
	std::vector<size_t> shared_used = std::vector<size_t>(MAX_THREADS);
	std::vector<warp> warps = std::vector<warp>(MAX_THREADS / LANES);
	char *stacks;
	char *shared;

	const kernel *body;
	void **parameters;
	uint32_t index, threads, current;
	uint32_t live, at_block;
	bool reverse, failed;

	running_block();
	~running_block();
	running_block(const running_block &) = delete;
	running_block &operator=(const running_block &) = delete;
};

char *map_pages(size_t bytes)
{
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		abort();
	return static_cast<char *>(p);
}

running_block::running_block()
{
	stacks = map_pages(MAX_THREADS * STACK_BYTES);
	for (size_t k = 0; k < MAX_THREADS; k++)
		mprotect(stacks + k * STACK_BYTES, PAGE, PROT_NONE);
	shared = map_pages(SHARED_BYTES + PAGE);
	mprotect(shared + SHARED_BYTES, PAGE, PROT_NONE);
}

running_block::~running_block()
{
	munmap(stacks, MAX_THREADS * STACK_BYTES);
	munmap(shared, SHARED_BYTES + PAGE);
}

thread_local running_block *running;

// Where a bad access goes on from, in the host's context.
thread_local sigjmp_buf after_bad_access;
thread_local volatile sig_atomic_t in_kernel;
struct sigaction previous_action;

// go_on switches to the next thread that can run, or back to the host if none can:
// then all have ended, or wait for ones that never come.
void go_on(running_block *b)
{
	uint32_t from = b->current, to = from;
	for (uint32_t k = 0; k < b->threads; k++) {
		if (b->reverse)
			to = to == 0 ? b->threads - 1 : to - 1;
		else
			to = to + 1 == b->threads ? 0 : to + 1;
		if (b->states[to] != READY)
			continue;
		if (to != from) {
			b->current = to;
			switch_fiber(&b->fibers[from], &b->fibers[to]);
		}
		return;
	}
	b->failed = b->failed || b->live != 0;
	switch_fiber(&b->fibers[from], &b->host);
}

void fail(running_block *b)
{
	b->failed = true;
	switch_fiber(&b->fibers[b->current], &b->host);
}

void release_block(running_block *b)
{
	b->at_block = 0;
	for (uint32_t k = 0; k < b->threads; k++)
		if (b->states[k] == AT_BLOCK)
			b->states[k] = READY;
}

void fiber_entry()
{
	running_block *b = running;
	b->body->call(b->parameters);
	b->states[b->current] = ENDED;
	b->live--;
	if (b->live > 0 && b->at_block == b->live)
		release_block(b);
	go_on(b);
	abort();
}

bool run_block(running_block *b, uint32_t index)
{
	b->index = index;
	b->live = b->threads;
	b->at_block = 0;
	b->failed = false;
	memset(b->shared, SHARED_POISON, SHARED_BYTES);
	for (uint32_t k = 0; k < b->threads; k++) {
		b->states[k] = READY;
		b->shared_used[k] = 0;
		make_fiber(&b->fibers[k], b->stacks + k * STACK_BYTES, STACK_BYTES, fiber_entry);
	}
	for (warp &w : b->warps)
		w = warp{};
	b->current = b->reverse ? b->threads - 1 : 0;
	switch_fiber(&b->host, &b->fibers[b->current]);
	return !b->failed;
}

void on_bad_access(int number, siginfo_t *info, void *context)
{
	if (in_kernel) {
		in_kernel = 0;
		siglongjmp(after_bad_access, 1);
	}
	if (previous_action.sa_flags & SA_SIGINFO)
		return previous_action.sa_sigaction(number, info, context);
	signal(number, SIG_DFL);
	raise(number);
}

// A signal_stack is where the handler runs: the stacks of fibers may be what is
// wrong.
struct signal_stack {
	std::vector<char> memory = std::vector<char>(64 << 10);
	stack_t previous = {};

	signal_stack()
	{
		stack_t s = {};
		s.ss_sp = memory.data();
		s.ss_size = memory.size();
		sigaltstack(&s, &previous);
	}
	~signal_stack() { sigaltstack(&previous, nullptr); }
};

} // namespace

uint32_t thread() { return running->current; }

uint32_t block() { return running->index; }

void *shared(size_t bytes)
{
	running_block *b = running;
	size_t at = b->shared_used[b->current];
	b->shared_used[b->current] = (at + bytes + 15) & ~size_t{15};
	if (b->shared_used[b->current] > SHARED_BYTES)
		fail(b);
	return b->shared + at;
}

const uint32_t *collect(operation op, uint32_t value)
{
	running_block *b = running;
	uint32_t me = b->current, lane = me % LANES;
	warp &w = b->warps[me / LANES];
	uint32_t *values = w.values[w.turn[lane]++ % 2];
	values[lane] = value;
	if (w.arrived == 0)
		w.op = op;
	else if (w.op != op)
		fail(b);
	if (++w.arrived < LANES) {
		b->states[me] = AT_WARP;
		go_on(b);
		return values;
	}
	w.arrived = 0;
	for (uint32_t k = me - lane; k < me - lane + LANES; k++)
		if (b->states[k] == AT_WARP)
			b->states[k] = READY;
	return values;
}

void sync_block()
{
	running_block *b = running;
	b->states[b->current] = AT_BLOCK;
	if (++b->at_block == b->live)
		release_block(b);
	else
		go_on(b);
}

void catch_bad_accesses()
{
	static bool done = [] {
		struct sigaction a = {};
		a.sa_sigaction = on_bad_access;
		a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
		return sigaction(SIGSEGV, &a, &previous_action) == 0;
	}();
	(void)done;
}

outcome run_grid(const kernel &k, void **parameters, uint32_t blocks, uint32_t threads, bool reverse)
{
	static thread_local std::unique_ptr<running_block> own;
	if (!own)
		own = std::make_unique<running_block>();
	signal_stack stack;
	running_block *b = running = own.get();
	b->body = &k;
	b->parameters = parameters;
	b->threads = threads;
	b->reverse = reverse;
	if (sigsetjmp(after_bad_access, 1) != 0)
		return BAD_ACCESS;
	in_kernel = 1;
	outcome result = RAN;
	for (uint32_t index = 0; index < blocks && result == RAN; index++)
		if (!run_block(own.get(), reverse ? blocks - 1 - index : index))
			result = BAD_WARP;
	in_kernel = 0;
	return result;
}

} // namespace cudasim
