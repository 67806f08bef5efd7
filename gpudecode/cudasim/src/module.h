// Modules: PTX that is compared with the kernels that the host has.

#ifndef CUDASIM_MODULE_H
#define CUDASIM_MODULE_H

#include "grid.h"

#include <map>
#include <string>

namespace cudasim {

struct function {
	const kernel *code;
	unsigned block_threads; // the largest block it was compiled for
};

struct module {
	std::map<std::string, function> functions;
};

// load_module returns what is wrong with a text of PTX, nothing if every kernel in
// it has one of the host with the same parameters.
std::string load_module(const std::string &ptx, module *to);

} // namespace cudasim

#endif
