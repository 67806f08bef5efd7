// A libnvidia-ml whose devices are simulated, as many as PRISMFS_NVMLSIM says.
//
// That variable is a list with semicolons between its settings:
//
//	devices=N   devices (default 1)
//	NAME=CODE   the entry point NAME fails with CODE, always
//	busy=N      the first N devices are busy and have little free memory
//
// Compiled with OLD_DRIVER it lacks what drivers have not always had.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10 };

constexpr int MAX_DEVICES = 8;

struct device {
	int number;
};

device devices[MAX_DEVICES] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
bool initialized;

// setting returns the value of a name in the script, or what stands for none.
int setting(const std::string &name, int none)
{
	const char *script = getenv("PRISMFS_NVMLSIM");
	std::string all = std::string(";") + (script == nullptr ? "" : script);
	size_t at = all.find(";" + name + "=");
	return at == std::string::npos ? none : atoi(all.c_str() + at + name.size() + 2);
}

int enter(const char *name) { return initialized ? setting(name, SUCCESS) : UNINITIALIZED; }

#define ENTER() \
	do { \
		if (int error = enter(__func__)) \
			return error; \
	} while (0)

int count() { return setting("devices", 1); }

bool busy(const device *d) { return d->number < setting("busy", 0); }

void uuid_of(char *to, size_t bytes, int number)
{
	snprintf(to, bytes, "GPU-00000000-0000-0000-0000-%012x", number);
}

} // namespace

extern "C" {

struct memory_info {
	unsigned long long total, free, used;
};

struct memory_info_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct utilization {
	unsigned gpu, memory;
};

struct pci_info {
	char legacy_id[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char id[32];
};

struct event_data {
	device *of;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2()
{
	if (int error = setting(__func__, SUCCESS))
		return error;
	initialized = true;
	return SUCCESS;
}

int nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }

int nvmlInit() { return nvmlInit_v2(); }

int nvmlShutdown()
{
	ENTER();
	initialized = false;
	return SUCCESS;
}

const char *nvmlErrorString(int code)
{
	switch (code) {
	case SUCCESS: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case NOT_SUPPORTED: return "Not Supported";
	case NOT_FOUND: return "Not Found";
	case 9: return "Driver Not Loaded";
	case 15: return "GPU is lost";
	}
	return "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned bytes)
{
	ENTER();
	snprintf(version, bytes, "535.0");
	return SUCCESS;
}

int nvmlSystemGetNVMLVersion(char *version, unsigned bytes)
{
	ENTER();
	snprintf(version, bytes, "12.535.0");
	return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	ENTER();
	*version = 12020;
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	ENTER();
	*n = static_cast<unsigned>(count());
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned k, device **d)
{
	ENTER();
	if (k >= static_cast<unsigned>(count()))
		return INVALID_ARGUMENT;
	*d = &devices[k];
	return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **d)
{
	ENTER();
	for (int k = 0; k < count(); k++) {
		char own[96];
		uuid_of(own, sizeof own, k);
		if (strcmp(own, uuid) == 0) {
			*d = &devices[k];
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

int nvmlDeviceGetIndex(device *d, unsigned *k)
{
	ENTER();
	*k = static_cast<unsigned>(d->number);
	return SUCCESS;
}

int nvmlDeviceGetName(device *d, char *name, unsigned bytes)
{
	ENTER();
	snprintf(name, bytes, "Simulated GPU %d", d->number);
	return SUCCESS;
}

int nvmlDeviceGetUUID(device *d, char *uuid, unsigned bytes)
{
	ENTER();
	uuid_of(uuid, bytes, d->number);
	return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(device *d, pci_info *p)
{
	ENTER();
	*p = pci_info{};
	p->bus = static_cast<unsigned>(d->number) + 1;
	snprintf(p->id, sizeof p->id, "00000000:%02x:00.0", p->bus);
	snprintf(p->legacy_id, sizeof p->legacy_id, "0000:%02x:00.0", p->bus);
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device *d, memory_info *m)
{
	ENTER();
	m->total = 256 << 20;
	m->free = busy(d) ? 16 << 20 : 200 << 20;
	m->used = m->total - m->free;
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(device *d, utilization *u)
{
	ENTER();
	*u = busy(d) ? utilization{90, 50} : utilization{5, 1};
	return SUCCESS;
}

int nvmlDeviceGetTemperature(device *, int, unsigned *celsius)
{
	ENTER();
	*celsius = 40;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(device *, unsigned *n)
{
	ENTER();
	*n = 0;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *, unsigned, device **)
{
	ENTER();
	return NOT_FOUND;
}

int nvmlDeviceGetMigMode(device *, unsigned *now, unsigned *pending)
{
	ENTER();
	*now = *pending = 0;
	return SUCCESS;
}

#ifndef OLD_DRIVER

int nvmlDeviceGetMemoryInfo_v2(device *d, memory_info_v2 *m)
{
	ENTER();
	m->total = 256 << 20;
	m->reserved = 8 << 20;
	m->free = busy(d) ? 8 << 20 : 192 << 20;
	m->used = m->total - m->reserved - m->free;
	return SUCCESS;
}

int nvmlDeviceGetPcieThroughput(device *, int counter, unsigned *kilobytes_per_second)
{
	ENTER();
	*kilobytes_per_second = counter == 0 ? 1000 : 2000;
	return SUCCESS;
}

int nvmlEventSetCreate(void **set)
{
	ENTER();
	static char one;
	*set = &one;
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(device *, unsigned long long, void *)
{
	ENTER();
	return SUCCESS;
}

int nvmlEventSetWait_v2(void *, event_data *data, unsigned)
{
	ENTER();
	if (int xid = setting("xid", 0)) {
		*data = {&devices[0], 8, static_cast<unsigned long long>(xid), ~0u, ~0u};
		return SUCCESS;
	}
	return TIMEOUT;
}

int nvmlEventSetFree(void *)
{
	ENTER();
	return SUCCESS;
}

#endif

} // extern "C"
