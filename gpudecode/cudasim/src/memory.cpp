#include "memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace cudasim {

namespace {

constexpr size_t PAGE = 4096;
constexpr size_t ALIGN = 256;    // what the driver promises
constexpr uint8_t POISON = 0xcd;  // of memory that nobody has written
constexpr uint8_t MARK = 0x5a;    // of what lies beside it

size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }

// An allocation ends as near as its alignment allows before a page that is not
// there; what is left on either side is marked.
struct allocation {
	size_t bytes;
	uint8_t *pages;
	size_t usable;
	int device;

	bool marked(const uint8_t *start) const
	{
		for (const uint8_t *p = pages; p < start; p++)
			if (*p != MARK)
				return false;
		for (const uint8_t *p = start + bytes; p < pages + usable; p++)
			if (*p != MARK)
				return false;
		return true;
	}
};

std::mutex mutex;
std::map<uint64_t, allocation> allocated_on_devices;
std::map<void *, std::pair<size_t, int>> pinned; // bytes, device

size_t used(int device)
{
	size_t sum = 0;
	for (const auto &[address, a] : allocated_on_devices)
		if (a.device == device)
			sum += a.bytes;
	return sum;
}

void unmap(const allocation &a) { munmap(a.pages - PAGE, a.usable + 2 * PAGE); }

uint8_t *map_between_guards(size_t usable)
{
	void *p = mmap(nullptr, usable + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return nullptr;
	uint8_t *inner = static_cast<uint8_t *>(p) + PAGE;
	if (mprotect(inner, usable, PROT_READ | PROT_WRITE) != 0) {
		munmap(p, usable + 2 * PAGE);
		return nullptr;
	}
	return inner;
}

} // namespace

uint64_t allocate(size_t bytes, size_t limit, int device)
{
	std::lock_guard<std::mutex> lock(mutex);
	if (bytes > limit || used(device) > limit - bytes)
		return 0;
	size_t usable = rounded(bytes, PAGE);
	uint8_t *pages = map_between_guards(usable);
	if (pages == nullptr)
		return 0;
	uint8_t *start = pages + usable - rounded(bytes, ALIGN);
	memset(pages, MARK, usable);
	memset(start, POISON, bytes);
	allocated_on_devices[reinterpret_cast<uint64_t>(start)] = {bytes, pages, usable, device};
	return reinterpret_cast<uint64_t>(start);
}

bool release(uint64_t address)
{
	std::lock_guard<std::mutex> lock(mutex);
	auto found = allocated_on_devices.find(address);
	if (found == allocated_on_devices.end())
		return false;
	unmap(found->second);
	allocated_on_devices.erase(found);
	return true;
}

bool is_device(uint64_t address, size_t bytes)
{
	std::lock_guard<std::mutex> lock(mutex);
	auto after = allocated_on_devices.upper_bound(address);
	if (after == allocated_on_devices.begin())
		return false;
	auto found = std::prev(after);
	uint64_t offset = address - found->first;
	return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

bool untouched()
{
	std::lock_guard<std::mutex> lock(mutex);
	for (const auto &[address, a] : allocated_on_devices)
		if (!a.marked(reinterpret_cast<const uint8_t *>(address)))
			return false;
	return true;
}

size_t allocated(int device)
{
	std::lock_guard<std::mutex> lock(mutex);
	return used(device);
}

void release_all(int device)
{
	std::lock_guard<std::mutex> lock(mutex);
	for (auto a = allocated_on_devices.begin(); a != allocated_on_devices.end();) {
		if (a->second.device == device) {
			unmap(a->second);
			a = allocated_on_devices.erase(a);
		} else {
			++a;
		}
	}
	for (auto p = pinned.begin(); p != pinned.end();) {
		if (p->second.second == device) {
			munmap(p->first, p->second.first);
			p = pinned.erase(p);
		} else {
			++p;
		}
	}
}

void *allocate_pinned(size_t bytes, int device)
{
	std::lock_guard<std::mutex> lock(mutex);
	void *p = mmap(nullptr, rounded(bytes, PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return nullptr;
	pinned[p] = {rounded(bytes, PAGE), device};
	return p;
}

bool release_pinned(void *address)
{
	std::lock_guard<std::mutex> lock(mutex);
	auto found = pinned.find(address);
	if (found == pinned.end())
		return false;
	munmap(address, found->second.first);
	pinned.erase(found);
	return true;
}

size_t allocations()
{
	std::lock_guard<std::mutex> lock(mutex);
	return allocated_on_devices.size() + pinned.size();
}

} // namespace cudasim
