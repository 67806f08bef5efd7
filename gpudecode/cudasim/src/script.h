// The script: what the simulated machine is like, and what goes wrong on it.
//
// A script is a list of settings with semicolons between them:
//
//	memory=BYTES      device memory (default 256 MiB)
//	devices=N         devices (default 1)
//	order=reverse     threads and blocks run last one first (default forward)
//	copy=MICROSECONDS every copy takes that much longer
//	kernel=MICROSECONDS every kernel does
//	NAME:N=CODE       the Nth call of the entry point NAME from now on fails with CODE;
//	                  NAME "kernel" is for what runs: the Nth kernel fails when its
//	                  turn comes, as a bad access does, and the context with it
//	NAME:N+=CODE      the Nth and all later ones fail
//	NAME:N=CODE!      … and the context is lost: all calls fail until it is destroyed
//	NAME:N=CODE!!     … and the device is: all calls fail until there is another script
//
// The environment variable PRISMFS_CUDASIM has the script that a process begins
// with; cusim_script sets another one and counts calls anew.

#ifndef CUDASIM_SCRIPT_H
#define CUDASIM_SCRIPT_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cudasim {

struct settings {
	size_t memory = size_t{256} << 20;
	int devices = 1;
	bool reverse = false;
	int64_t copy_microseconds = 0, kernel_microseconds = 0;
};

// A fault is what a call meets: an error, or 0.
struct fault {
	int code = 0;
	bool loses_context = false, loses_device = false;
};

// set_script returns false if the script is not understood; then nothing changes.
bool set_script(const std::string &script);

settings current_settings();

// count_call counts a call of an entry point and returns its fault.
fault count_call(const std::string &name);

// calls is how often an entry point has been called since the script was set.
uint64_t calls(const std::string &name);

} // namespace cudasim

#endif
