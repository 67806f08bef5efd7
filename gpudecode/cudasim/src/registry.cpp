// The kernels, compiled for the host.

#include "l3.cu"

#include "faulty.h"
#include "grid.h"

#include <map>

namespace cudasim {

const kernel *find_kernel(const std::string &name)
{
	static const std::map<std::string, const kernel *> all = {
#define ENTRY(name) {#name, &compiled<name>::entry}
		ENTRY(l3_published), ENTRY(l3_fast8), ENTRY(l3_fast16), ENTRY(l3_dense8), ENTRY(l3_dense16), ENTRY(l3_labels),
		ENTRY(l3_raw), ENTRY(l3_crc),
#undef ENTRY
	};
	auto found = all.find(name);
	return found == all.end() ? find_faulty_kernel(name) : found->second;
}

} // namespace cudasim
