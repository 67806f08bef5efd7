package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// LibraryVariable is the environment variable that names another library in
// place of the driver's, for tests.
const LibraryVariable = "PRISMFS_LIBCUDA"

// defaultLibrary is how every driver names its library since there is one.
const defaultLibrary = "libcuda.so.1"

// ErrNoLibrary is wrapped by the errors of Load where the driver's library is
// not there, or is not one.
var ErrNoLibrary = errors.New("the NVIDIA driver's library cannot be loaded")

// A Library is the driver. It stays loaded for the life of the program: the
// driver has threads of its own, which cannot be unloaded.
type Library struct {
	path    string
	handle  uintptr
	symbols symbols
	version int
}

// symbols are the entry points that the package calls. What a driver before
// 11.4 lacks is optional, and 0 then.
type symbols struct {
	init, driverGetVersion, getErrorName                         uintptr
	deviceGetCount, deviceGet, deviceGetName, deviceTotalMem     uintptr
	deviceGetAttribute, deviceGetUUID                            uintptr
	primaryCtxRetain, primaryCtxRelease, primaryCtxReset         uintptr
	ctxSetCurrent, ctxSynchronize                                uintptr
	moduleLoadDataEx, moduleUnload, moduleGetFunction            uintptr
	memAlloc, memFree, memGetInfo, memHostAlloc, memFreeHost     uintptr
	memcpyHtoDAsync, memcpyDtoHAsync, memsetD32Async             uintptr
	streamCreate, streamSynchronize, streamDestroy, launchKernel uintptr
}

// A symbol is where the address of an entry point goes; names are tried in turn.
type symbol struct {
	address  *uintptr
	optional bool
	names    []string
}

func (s *symbols) table() []symbol {
	must := func(address *uintptr, name string) symbol { return symbol{address, false, []string{name}} }
	return []symbol{
		must(&s.init, "cuInit"),
		must(&s.driverGetVersion, "cuDriverGetVersion"),
		must(&s.getErrorName, "cuGetErrorName"),
		must(&s.deviceGetCount, "cuDeviceGetCount"),
		must(&s.deviceGet, "cuDeviceGet"),
		must(&s.deviceGetName, "cuDeviceGetName"),
		must(&s.deviceTotalMem, "cuDeviceTotalMem_v2"),
		must(&s.deviceGetAttribute, "cuDeviceGetAttribute"),
		// The second one knows of parts of a device (MIG).
		{&s.deviceGetUUID, true, []string{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}},
		must(&s.primaryCtxRetain, "cuDevicePrimaryCtxRetain"),
		must(&s.primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2"),
		must(&s.primaryCtxReset, "cuDevicePrimaryCtxReset_v2"),
		must(&s.ctxSetCurrent, "cuCtxSetCurrent"),
		must(&s.ctxSynchronize, "cuCtxSynchronize"),
		must(&s.moduleLoadDataEx, "cuModuleLoadDataEx"),
		must(&s.moduleUnload, "cuModuleUnload"),
		must(&s.moduleGetFunction, "cuModuleGetFunction"),
		must(&s.memAlloc, "cuMemAlloc_v2"),
		must(&s.memFree, "cuMemFree_v2"),
		must(&s.memGetInfo, "cuMemGetInfo_v2"),
		must(&s.memHostAlloc, "cuMemHostAlloc"),
		must(&s.memFreeHost, "cuMemFreeHost"),
		must(&s.memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2"),
		must(&s.memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2"),
		must(&s.memsetD32Async, "cuMemsetD32Async"),
		must(&s.streamCreate, "cuStreamCreate"),
		must(&s.streamSynchronize, "cuStreamSynchronize"),
		must(&s.streamDestroy, "cuStreamDestroy_v2"),
		must(&s.launchKernel, "cuLaunchKernel"),
	}
}

var (
	loadMu sync.Mutex
	loaded = make(map[string]*Library)
)

// Load loads the driver's library and starts the driver. An error says what is
// missing; the next call tries again.
func Load() (*Library, error) {
	l, err := LoadOnly()
	if err != nil {
		return nil, err
	}
	loadMu.Lock()
	defer loadMu.Unlock()
	return l, l.start()
}

// LoadOnly loads the driver's library and does not start the driver, which makes
// device nodes if root does it. Nothing but Path may be called of what it returns.
func LoadOnly() (*Library, error) {
	path := os.Getenv(LibraryVariable)
	if path == "" {
		path = defaultLibrary
	}
	loadMu.Lock()
	defer loadMu.Unlock()
	l := loaded[path]
	if l == nil {
		var err error
		if l, err = open(path); err != nil {
			return nil, err
		}
		loaded[path] = l
	}
	return l, nil
}

// open loads the library and looks its entry points up.
func open(path string) (*Library, error) {
	// The text of an error is kept for each thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	l := &Library{path: path, handle: handle}
	for _, s := range l.symbols.table() {
		if *s.address = lookUp(handle, s.names); *s.address == 0 && !s.optional {
			return nil, fmt.Errorf("%w: %s has no %s: the driver is too old, or this is not one", ErrNoLibrary, path, s.names[0])
		}
	}
	return l, nil
}

func lookUp(handle uintptr, names []string) uintptr {
	for _, name := range names {
		if address, err := purego.Dlsym(handle, name); err == nil {
			return address
		}
	}
	return 0
}

// start starts the driver. That it is done already is no error to it.
func (l *Library) start() error {
	if err := l.call("cuInit", l.symbols.init, 0); err != nil {
		return err
	}
	var version int32
	if err := l.call("cuDriverGetVersion", l.symbols.driverGetVersion, uintptr(unsafe.Pointer(&version))); err != nil {
		return err
	}
	l.version = int(version)
	return nil
}

// Version is the version of CUDA that the driver knows, such as 12.4.
func (l *Library) Version() string {
	return fmt.Sprintf("%d.%d", l.version/1000, l.version%1000/10)
}

// Path is the library that was loaded.
func (l *Library) Path() string { return l.path }

// call calls an entry point. Pointers among the arguments must be converted in
// the call itself, which keeps what they point to alive and in its place.
//
//go:uintptrescapes
func (l *Library) call(name string, address uintptr, arguments ...uintptr) error {
	result, _, _ := purego.SyscallN(address, arguments...)
	if code := Code(int32(result)); code != Success {
		return &Error{Call: name, Code: code, Name: l.errorName(code)}
	}
	return nil
}

// errorName returns the driver's name of a code, if it has one.
func (l *Library) errorName(code Code) string {
	var name *byte
	result, _, _ := purego.SyscallN(l.symbols.getErrorName, uintptr(code), uintptr(unsafe.Pointer(&name)))
	if int32(result) != 0 || name == nil {
		return "an error without a name"
	}
	return goString(name)
}

// longestString bounds what is read of the driver's strings.
const longestString = 1 << 12

// goString copies a string of the driver.
func goString(p *byte) string {
	n := 0
	for n < longestString && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
