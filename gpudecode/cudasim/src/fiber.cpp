#include "fiber.h"

namespace cudasim {

#ifdef __x86_64__

// The registers that a function must keep are all that a switch has to save; a
// system call for the signal mask, as swapcontext makes, takes ten times as long.
extern "C" void cudasim_switch(void **save, void *load);

__asm__(".text\n"
	".type cudasim_switch,@function\n"
	"cudasim_switch:\n"
	" push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	" mov %rsp,(%rdi)\n"
	" mov %rsi,%rsp\n"
	" pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
	" ret\n"
	".size cudasim_switch,.-cudasim_switch\n");

void make_fiber(fiber *f, char *stack, size_t bytes, void (*entry)())
{
	void **top = reinterpret_cast<void **>(stack + bytes - 64);
	*--top = nullptr; // where entry would return to
	*--top = reinterpret_cast<void *>(entry);
	for (int k = 0; k < 6; k++)
		*--top = nullptr;
	f->stack_pointer = top;
}

void switch_fiber(fiber *from, fiber *to) { cudasim_switch(&from->stack_pointer, to->stack_pointer); }

#else

void make_fiber(fiber *f, char *stack, size_t bytes, void (*entry)())
{
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = stack;
	f->context.uc_stack.ss_size = bytes;
	f->context.uc_link = nullptr;
	makecontext(&f->context, entry, 0);
}

void switch_fiber(fiber *from, fiber *to) { swapcontext(&from->context, &to->context); }

#endif

} // namespace cudasim
