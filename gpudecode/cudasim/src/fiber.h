// Fibers: stacks that one thread switches between.

#ifndef CUDASIM_FIBER_H
#define CUDASIM_FIBER_H

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace cudasim {

struct fiber {
#ifdef __x86_64__
	void *stack_pointer;
#else
	ucontext_t context;
#endif
};

// make_fiber prepares f to begin with entry, which never returns, on a stack.
void make_fiber(fiber *f, char *stack, size_t bytes, void (*entry)());

// switch_fiber leaves one fiber and goes on with another.
void switch_fiber(fiber *from, fiber *to);

} // namespace cudasim

#endif
