// A libcuda whose device is simulated: the entry points of the driver API that a
// program that decodes needs, with the driver's rules as to contexts and threads.

#include "grid.h"
#include "memory.h"
#include "module.h"
#include "script.h"
#include "stream.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <map>
#include <vector>

namespace {

using namespace cudasim;

// Results, as cuda.h numbers them.
enum {
	SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201, NO_BINARY = 209, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
	ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719,
};

struct error_name {
	int code;
	const char *name, *text;
};

const error_name error_names[] = {
	{SUCCESS, "CUDA_SUCCESS", "no error"},
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	{INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	{LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const error_name *find_error(int code)
{
	for (const error_name &e : error_names)
		if (e.code == code)
			return &e;
	return nullptr;
}

// A handle is a module, a stream or an event, of a context.
struct handle {
	int device;
	void (*destroy)(void *);
};

// A context is the primary one of a device; it is there while it is retained.
struct context {
	int device;
	int retained = 0;
	std::atomic<int> lost{0}; // the error that all its calls return
};

constexpr int MAX_DEVICES = 8;

struct machine {
	std::mutex mutex;
	bool initialized = false;
	std::atomic<int> lost{0};
	context contexts[MAX_DEVICES];
	std::map<void *, handle> handles;

	machine()
	{
		for (int k = 0; k < MAX_DEVICES; k++)
			contexts[k].device = k;
		if (const char *script = getenv("PRISMFS_CUDASIM"))
			if (!set_script(script)) {
				fprintf(stderr, "cudasim: PRISMFS_CUDASIM is not understood: %s\n", script);
				abort();
			}
	}
};

// It is never destroyed: threads of the program may outlive its end.
machine &the_machine()
{
	static machine *m = new machine;
	return *m;
}

thread_local context *current;

struct event {
	std::mutex mutex;
	std::condition_variable done;
	uint64_t recorded = 0, passed = 0;
	std::chrono::steady_clock::time_point at;

	void pass(uint64_t number)
	{
		std::lock_guard<std::mutex> lock(mutex);
		passed = std::max(passed, number);
		at = std::chrono::steady_clock::now();
		done.notify_all();
	}
	void wait_for(uint64_t number)
	{
		std::unique_lock<std::mutex> lock(mutex);
		done.wait(lock, [&] { return passed >= number; });
	}
	uint64_t last()
	{
		std::lock_guard<std::mutex> lock(mutex);
		return recorded;
	}
};

// enter counts a call and returns the error that it has before it begins.
int enter(const char *name, bool needs_context)
{
	machine &m = the_machine();
	fault f = count_call(name);
	if (f.code != 0) {
		if (f.loses_device)
			m.lost = f.code;
		if (f.loses_context && current != nullptr)
			current->lost = f.code;
		return f.code;
	}
	std::lock_guard<std::mutex> lock(m.mutex);
	if (!m.initialized)
		return NOT_INITIALIZED;
	if (m.lost != 0)
		return m.lost;
	if (!needs_context)
		return SUCCESS;
	if (current == nullptr || current->retained == 0)
		return INVALID_CONTEXT;
	return current->lost;
}

#define ENTER(needs_context) \
	do { \
		if (int error = enter(__func__, needs_context)) \
			return error; \
	} while (0)

bool is_handle(void *h)
{
	machine &m = the_machine();
	std::lock_guard<std::mutex> lock(m.mutex);
	return m.handles.count(h) != 0;
}

template <class T> void *new_handle()
{
	T *t = new T;
	machine &m = the_machine();
	std::lock_guard<std::mutex> lock(m.mutex);
	m.handles[t] = {current->device, [](void *h) { delete static_cast<T *>(h); }};
	return t;
}

template <class T> bool delete_handle(void *h)
{
	machine &m = the_machine();
	{
		std::lock_guard<std::mutex> lock(m.mutex);
		if (m.handles.erase(h) == 0)
			return false;
	}
	delete static_cast<T *>(h);
	return true;
}

// destroy_context ends what a context has, as the driver does. Streams finish first
// what they have begun.
void destroy_context(int device)
{
	machine &m = the_machine();
	std::map<void *, handle> ended;
	{
		std::lock_guard<std::mutex> lock(m.mutex);
		for (auto h = m.handles.begin(); h != m.handles.end();) {
			if (h->second.device == device)
				ended.insert(m.handles.extract(h++));
			else
				++h;
		}
	}
	for (auto &[h, kept] : ended)
		kept.destroy(h);
	release_all(device);
	m.contexts[device].lost = 0;
}

void pause(int64_t microseconds)
{
	if (microseconds > 0)
		std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// queue gives a stream something to do, which is left out once the context is lost.
int queue(void *handle, std::function<void()> task)
{
	if (!is_handle(handle))
		return INVALID_HANDLE;
	context *c = current;
	static_cast<stream *>(handle)->push([c, task = std::move(task)] {
		if (c->lost == 0)
			task();
	});
	return SUCCESS;
}

int copy(void *to, const void *from, size_t bytes, void *handle)
{
	return queue(handle, [=] {
		pause(current_settings().copy_microseconds);
		memcpy(to, from, bytes);
	});
}

// A launch has the values of the parameters: the caller's may change after it.
struct launch {
	function f;
	std::vector<std::vector<unsigned char>> values;
	std::vector<void *> parameters;

	launch(const function &f, void **given) : f(f)
	{
		for (size_t k = 0; k < f.code->parameters; k++) {
			const unsigned char *v = static_cast<unsigned char *>(given[k]);
			values.emplace_back(v, v + f.code->sizes[k]);
		}
		for (auto &v : values)
			parameters.push_back(v.data());
	}

	int run(unsigned blocks, unsigned threads)
	{
		settings s = current_settings();
		pause(s.kernel_microseconds);
		fault scripted = count_call("kernel");
		if (scripted.code != 0)
			return scripted.code;
		switch (run_grid(*f.code, parameters.data(), blocks, threads, s.reverse)) {
		case BAD_ACCESS:
			return ILLEGAL_ADDRESS;
		case BAD_WARP:
			return LAUNCH_FAILED;
		case RAN:
			break;
		}
		return untouched() ? SUCCESS : ILLEGAL_ADDRESS;
	}
};

// What attributes a device has, by their numbers in cuda.h.
int attribute(int number)
{
	switch (number) {
	case 1: // threads of a block
	case 2: // its width
		return MAX_THREADS;
	case 5: // the width of a grid
		return 0x7fffffff;
	case 8: // shared memory of a block
		return SHARED_BYTES;
	case 10: // lanes of a warp
		return 32;
	case 12: // registers of a block
		return 65536;
	case 13: // clock, kHz
		return 1000000;
	case 16: // multiprocessors
		return 2;
	case 36: // memory clock, kHz
		return 1000000;
	case 37: // width of the memory bus
		return 256;
	case 39: // threads of a multiprocessor
		return 2048;
	case 40: // engines for copies
		return 2;
	case 41: // one address space with the host
		return 1;
	case 75: // compute capability
		return 8;
	case 76:
		return 0;
	}
	return 0;
}

bool is_number_of_device(int device) { return device >= 0 && device < std::min(current_settings().devices, MAX_DEVICES); }

} // namespace

extern "C" {

typedef uint64_t device_pointer;

// The script and the counters, for tests.

int cusim_script(const char *script)
{
	machine &m = the_machine();
	if (!set_script(script))
		return INVALID_VALUE;
	m.lost = 0;
	for (context &c : m.contexts)
		c.lost = 0;
	return SUCCESS;
}

uint64_t cusim_calls(const char *name) { return calls(name); }

// cusim_held is how many allocations, modules, streams and events there are.
uint64_t cusim_held()
{
	machine &m = the_machine();
	std::lock_guard<std::mutex> lock(m.mutex);
	return allocations() + m.handles.size();
}

// The driver.

int cuInit(unsigned flags)
{
	machine &m = the_machine();
	fault f = count_call(__func__);
	if (f.code != 0)
		return f.code;
	if (flags != 0)
		return INVALID_VALUE;
	if (current_settings().devices == 0)
		return NO_DEVICE;
	catch_bad_accesses();
	std::lock_guard<std::mutex> lock(m.mutex);
	m.initialized = true;
	return SUCCESS;
}

int cuDriverGetVersion(int *version)
{
	*version = 12020;
	return SUCCESS;
}

int cuGetErrorName(int code, const char **name)
{
	const error_name *e = find_error(code);
	*name = e == nullptr ? nullptr : e->name;
	return e == nullptr ? INVALID_VALUE : SUCCESS;
}

int cuGetErrorString(int code, const char **text)
{
	const error_name *e = find_error(code);
	*text = e == nullptr ? nullptr : e->text;
	return e == nullptr ? INVALID_VALUE : SUCCESS;
}

int cuDeviceGetCount(int *count)
{
	ENTER(false);
	*count = std::min(current_settings().devices, MAX_DEVICES);
	return SUCCESS;
}

int cuDeviceGet(int *device, int number)
{
	ENTER(false);
	if (!is_number_of_device(number))
		return INVALID_DEVICE;
	*device = number;
	return SUCCESS;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	snprintf(name, static_cast<size_t>(bytes), "Simulated GPU %d", device);
	return SUCCESS;
}

int cuDeviceGetUuid(unsigned char *uuid, int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	memset(uuid, 0, 16);
	uuid[15] = static_cast<unsigned char>(device);
	return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }

int cuDeviceGetPCIBusId(char *id, int bytes, int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	snprintf(id, static_cast<size_t>(bytes), "0000:%02x:00.0", device + 1);
	return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	*bytes = current_settings().memory;
	return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int number, int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	*value = attribute(number);
	return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **c, int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	machine &m = the_machine();
	std::lock_guard<std::mutex> lock(m.mutex);
	m.contexts[device].retained++;
	*c = &m.contexts[device];
	return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (fault f = count_call(__func__); f.code != 0)
		return f.code;
	machine &m = the_machine();
	bool last;
	{
		std::lock_guard<std::mutex> lock(m.mutex);
		if (device < 0 || device >= MAX_DEVICES || m.contexts[device].retained == 0)
			return INVALID_CONTEXT;
		last = --m.contexts[device].retained == 0;
	}
	if (last)
		destroy_context(device);
	return SUCCESS;
}

int cuDevicePrimaryCtxReset_v2(int device)
{
	ENTER(false);
	if (!is_number_of_device(device))
		return INVALID_DEVICE;
	destroy_context(device);
	return SUCCESS;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned)
{
	ENTER(false);
	return is_number_of_device(device) ? SUCCESS : INVALID_DEVICE;
}

int cuCtxSetCurrent(void *c)
{
	ENTER(false);
	current = static_cast<context *>(c);
	return SUCCESS;
}

int cuCtxGetCurrent(void **c)
{
	ENTER(false);
	*c = current;
	return SUCCESS;
}

int cuCtxSynchronize()
{
	ENTER(true);
	return current->lost;
}

int cuModuleLoadDataEx(void **m, const void *image, unsigned count, int *options, void **values)
{
	ENTER(true);
	char *log = nullptr;
	size_t log_bytes = 0;
	for (unsigned k = 0; k < count; k++) {
		if (options[k] == 5) // CU_JIT_ERROR_LOG_BUFFER
			log = static_cast<char *>(values[k]);
		if (options[k] == 6) // its size
			log_bytes = reinterpret_cast<uintptr_t>(values[k]);
	}
	module loaded;
	std::string wrong = load_module(static_cast<const char *>(image), &loaded);
	if (!wrong.empty()) {
		if (log != nullptr && log_bytes > 0)
			snprintf(log, log_bytes, "%s", wrong.c_str());
		return INVALID_PTX;
	}
	*m = new_handle<module>();
	*static_cast<module *>(*m) = loaded;
	return SUCCESS;
}

int cuModuleLoadData(void **m, const void *image)
{
	return cuModuleLoadDataEx(m, image, 0, nullptr, nullptr);
}

int cuModuleUnload(void *m)
{
	ENTER(true);
	return delete_handle<module>(m) ? SUCCESS : INVALID_HANDLE;
}

int cuModuleGetFunction(void **f, void *m, const char *name)
{
	ENTER(true);
	if (!is_handle(m))
		return INVALID_HANDLE;
	auto &functions = static_cast<module *>(m)->functions;
	auto found = functions.find(name);
	if (found == functions.end())
		return NOT_FOUND;
	*f = &found->second;
	return SUCCESS;
}

int cuFuncGetAttribute(int *value, int number, void *f)
{
	ENTER(true);
	*value = number == 0 ? static_cast<int>(static_cast<function *>(f)->block_threads) : 0;
	return SUCCESS;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	ENTER(true);
	*total = current_settings().memory;
	size_t used = std::min(*total, allocated(current->device));
	*free_bytes = *total - used;
	return SUCCESS;
}

int cuMemAlloc_v2(device_pointer *p, size_t bytes)
{
	ENTER(true);
	if (bytes == 0)
		return INVALID_VALUE;
	*p = allocate(bytes, current_settings().memory, current->device);
	return *p == 0 ? OUT_OF_MEMORY : SUCCESS;
}

int cuMemFree_v2(device_pointer p)
{
	ENTER(true);
	return release(p) ? SUCCESS : INVALID_VALUE;
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
	ENTER(true);
	if (bytes == 0)
		return INVALID_VALUE;
	*p = allocate_pinned(bytes, current->device);
	return *p == nullptr ? OUT_OF_MEMORY : SUCCESS;
}

int cuMemFreeHost(void *p)
{
	ENTER(true);
	return release_pinned(p) ? SUCCESS : INVALID_VALUE;
}

int cuStreamCreate(void **s, unsigned)
{
	ENTER(true);
	*s = new_handle<stream>();
	return SUCCESS;
}

int cuStreamCreateWithPriority(void **s, unsigned, int)
{
	ENTER(true);
	*s = new_handle<stream>();
	return SUCCESS;
}

int cuStreamDestroy_v2(void *s)
{
	ENTER(true);
	return delete_handle<stream>(s) ? SUCCESS : INVALID_HANDLE;
}

int cuStreamSynchronize(void *s)
{
	ENTER(true);
	if (!is_handle(s))
		return INVALID_HANDLE;
	static_cast<stream *>(s)->wait();
	return current->lost;
}

int cuStreamQuery(void *s)
{
	ENTER(true);
	if (!is_handle(s))
		return INVALID_HANDLE;
	if (!static_cast<stream *>(s)->idle())
		return NOT_READY;
	return current->lost;
}

int cuStreamWaitEvent(void *s, void *e, unsigned)
{
	ENTER(true);
	if (!is_handle(e))
		return INVALID_HANDLE;
	event *awaited = static_cast<event *>(e);
	uint64_t number = awaited->last();
	return queue(s, [=] { awaited->wait_for(number); });
}

int cuMemcpyHtoDAsync_v2(device_pointer to, const void *from, size_t bytes, void *s)
{
	ENTER(true);
	return is_device(to, bytes) ? copy(reinterpret_cast<void *>(to), from, bytes, s) : INVALID_VALUE;
}

int cuMemcpyDtoHAsync_v2(void *to, device_pointer from, size_t bytes, void *s)
{
	ENTER(true);
	return is_device(from, bytes) ? copy(to, reinterpret_cast<const void *>(from), bytes, s) : INVALID_VALUE;
}

int cuMemcpyHtoD_v2(device_pointer to, const void *from, size_t bytes)
{
	ENTER(true);
	if (!is_device(to, bytes))
		return INVALID_VALUE;
	pause(current_settings().copy_microseconds);
	memcpy(reinterpret_cast<void *>(to), from, bytes);
	return SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, device_pointer from, size_t bytes)
{
	ENTER(true);
	if (!is_device(from, bytes))
		return INVALID_VALUE;
	pause(current_settings().copy_microseconds);
	memcpy(to, reinterpret_cast<const void *>(from), bytes);
	return SUCCESS;
}

int cuMemsetD8Async(device_pointer to, unsigned char value, size_t bytes, void *s)
{
	ENTER(true);
	if (!is_device(to, bytes))
		return INVALID_VALUE;
	return queue(s, [=] { memset(reinterpret_cast<void *>(to), value, bytes); });
}

int cuMemsetD32Async(device_pointer to, unsigned value, size_t words, void *s)
{
	ENTER(true);
	if (words > SIZE_MAX / 4 || !is_device(to, 4 * words) || to % 4 != 0)
		return INVALID_VALUE;
	return queue(s, [=] {
		for (size_t k = 0; k < words; k++)
			memcpy(reinterpret_cast<char *>(to) + 4 * k, &value, 4);
	});
}

int cuEventCreate(void **e, unsigned)
{
	ENTER(true);
	*e = new_handle<event>();
	return SUCCESS;
}

int cuEventDestroy_v2(void *e)
{
	ENTER(true);
	return delete_handle<event>(e) ? SUCCESS : INVALID_HANDLE;
}

int cuEventRecord(void *e, void *s)
{
	ENTER(true);
	if (!is_handle(e) || !is_handle(s))
		return INVALID_HANDLE;
	event *recorded = static_cast<event *>(e);
	uint64_t number;
	{
		std::lock_guard<std::mutex> lock(recorded->mutex);
		number = ++recorded->recorded;
	}
	// Past a lost context, too: whoever waits must not wait for ever.
	static_cast<stream *>(s)->push([=] { recorded->pass(number); });
	return SUCCESS;
}

int cuEventQuery(void *e)
{
	ENTER(true);
	if (!is_handle(e))
		return INVALID_HANDLE;
	event *asked = static_cast<event *>(e);
	std::lock_guard<std::mutex> lock(asked->mutex);
	if (asked->passed < asked->recorded)
		return NOT_READY;
	return current->lost;
}

int cuEventSynchronize(void *e)
{
	ENTER(true);
	if (!is_handle(e))
		return INVALID_HANDLE;
	event *awaited = static_cast<event *>(e);
	awaited->wait_for(awaited->last());
	return current->lost;
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to)
{
	ENTER(true);
	if (!is_handle(from) || !is_handle(to))
		return INVALID_HANDLE;
	*milliseconds = std::chrono::duration<float, std::milli>(static_cast<event *>(to)->at - static_cast<event *>(from)->at).count();
	return SUCCESS;
}

int cuLaunchKernel(void *f, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads, unsigned threads_y,
	unsigned threads_z, unsigned shared, void *s, void **parameters, void **extra)
{
	ENTER(true);
	const function *code = static_cast<function *>(f);
	if (blocks == 0 || threads == 0 || threads % 32 != 0 || threads > code->block_threads || blocks_y != 1 || blocks_z != 1 ||
	    threads_y != 1 || threads_z != 1 || shared != 0 || parameters == nullptr || extra != nullptr)
		return INVALID_VALUE;
	auto l = std::make_shared<launch>(*code, parameters);
	context *c = current;
	return queue(s, [=] {
		if (int error = l->run(blocks, threads))
			c->lost = error;
	});
}

} // extern "C"
