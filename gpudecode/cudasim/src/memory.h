// Device memory and pinned memory.

#ifndef CUDASIM_MEMORY_H
#define CUDASIM_MEMORY_H

#include <cstddef>
#include <cstdint>

namespace cudasim {

// allocate returns device memory with pages around it that must not be touched, 0
// if more than limit bytes would be in use on the device.
uint64_t allocate(size_t bytes, size_t limit, int device);

// release returns false if there is no such allocation.
bool release(uint64_t address);

// is_device reports whether all of a range is in one allocation.
bool is_device(uint64_t address, size_t bytes);

// untouched reports whether what lies between allocations and the pages around
// them is as it was.
bool untouched();

// allocated is how many bytes of a device are in use.
size_t allocated(int device);

void *allocate_pinned(size_t bytes, int device);
bool release_pinned(void *address);

// release_all gives back what a device has, pinned memory included.
void release_all(int device);

// allocations is how many there are of both kinds.
size_t allocations();

} // namespace cudasim

#endif
