package nvml

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	api "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/ebitengine/purego"
)

// LibraryVariable is the environment variable that names another library in
// place of the driver's, for tests.
const LibraryVariable = "PRISMFS_LIBNVML"

const defaultLibrary = "libnvidia-ml.so.1"

// ErrNoLibrary is wrapped by the errors of Open where the library is not there,
// or is not one.
var ErrNoLibrary = errors.New("NVIDIA's management library cannot be loaded")

// A Library is the library, started. Its methods may be called by any number of
// goroutines.
type Library struct {
	api    api.Interface
	handle uintptr

	mu     sync.Mutex
	closed bool
	events api.EventSet
	xids   map[string]*xids // by UUID
}

// Symbols without which nothing can be done. Calling one that a library lacks
// would end the process: the bindings resolve them when they are called.
var demanded = []string{"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString"}

// Open loads the library and starts it. Close ends it.
func Open() (*Library, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	if r := l.api.Init(); r != api.SUCCESS {
		return nil, failure("nvmlInit", r)
	}
	return l, nil
}

// Loadable tells whether the library is there, without starting it: that makes
// device nodes if root does it.
func Loadable() error {
	_, err := load()
	return err
}

// load loads the library and looks at it.
func load() (*Library, error) {
	path := os.Getenv(LibraryVariable)
	if path == "" {
		path = defaultLibrary
	}
	// The text of an error is kept for each thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	l := &Library{handle: handle, api: api.New(api.WithLibraryPath(path)), xids: make(map[string]*xids)}
	for _, name := range demanded {
		if !l.has(name) {
			return nil, fmt.Errorf("%w: %s has no %s", ErrNoLibrary, path, name)
		}
	}
	return l, nil
}

// Close ends the use of the library. What is asked after that has no answers.
func (l *Library) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.events != nil && l.has("nvmlEventSetFree") {
		l.events.Free()
		l.events = nil
	}
	l.api.Shutdown()
}

// has reports whether the library has one of these entry points.
func (l *Library) has(names ...string) bool {
	for _, name := range names {
		if _, err := purego.Dlsym(l.handle, name); err == nil {
			return true
		}
	}
	return false
}

func failure(call string, r api.Return) error {
	return fmt.Errorf("%s: %s (%d)", call, r.Error(), int32(r))
}

// DriverVersion is that of the driver, empty if it does not say.
func (l *Library) DriverVersion() string {
	if !l.has("nvmlSystemGetDriverVersion") {
		return ""
	}
	version, r := l.api.SystemGetDriverVersion()
	if r != api.SUCCESS {
		return ""
	}
	return version
}
