#ifndef CUDASIM_FAULTY_H
#define CUDASIM_FAULTY_H

#include "grid.h"

namespace cudasim {

// find_faulty_kernel returns a kernel for tests of the simulator, null if there is
// none of this name.
const kernel *find_faulty_kernel(const std::string &name);

} // namespace cudasim

#endif
