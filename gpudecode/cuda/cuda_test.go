package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"prismfs/gpudecode/cudasim"
)

// simulation builds the simulated driver once: a process cannot have two of them.
var simulation = sync.OnceValues(cudasim.Build)

// A driver is the simulated one.
type driver struct {
	lib    *Library
	script func(*byte) int32
	held   func() uint64
}

func openDriver(t *testing.T) *driver {
	t.Helper()
	libraries, err := simulation()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	check(t, err)
	t.Setenv(LibraryVariable, libraries.CUDA)
	handle, err := purego.Dlopen(libraries.CUDA, purego.RTLD_NOW|purego.RTLD_LOCAL)
	check(t, err)
	d := new(driver)
	purego.RegisterLibFunc(&d.script, handle, "cusim_script")
	purego.RegisterLibFunc(&d.held, handle, "cusim_held")
	d.set(t, "")
	t.Cleanup(func() { d.set(t, "") })
	d.lib, err = Load()
	check(t, err)
	return d
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (d *driver) set(t *testing.T, script string) {
	t.Helper()
	if text := append([]byte(script), 0); d.script(&text[0]) != 0 {
		t.Fatalf("script %q is not understood", script)
	}
}

// bound opens device 0 for the calling goroutine alone.
func (d *driver) bound(t *testing.T) *Device {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	dev, err := d.lib.Open(0)
	check(t, err)
	check(t, dev.Bind())
	t.Cleanup(func() {
		check(t, dev.Unbind())
		check(t, dev.Close())
		if n := d.held(); n != 0 {
			t.Errorf("%d allocations, modules and streams are left", n)
		}
	})
	return dev
}

// roundTrip sends bytes to the device and back.
func roundTrip(dev *Device, data []byte) (err error) {
	n := len(data)
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	memory, err := dev.Alloc(int64(n + 8))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Free(memory)) }()
	host, err := dev.AllocHost(2 * (n + 8))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.FreeHost(host)) }()
	copy(host, data)
	back := host[n+8:]
	if err := errors.Join(stream.Fill(memory, 0, 2, 0x01020304), stream.Upload(memory, 8, host[:n]),
		stream.Download(back, memory, 0), stream.Synchronize()); err != nil {
		return err
	}
	if !bytes.Equal(back[:8], []byte{4, 3, 2, 1, 4, 3, 2, 1}) || !bytes.Equal(back[8:], data) {
		return errors.New("other bytes came back")
	}
	return nil
}

func TestDevices(t *testing.T) {
	d := openDriver(t)
	d.set(t, "devices=3")
	all, err := d.lib.Devices()
	check(t, err)
	if len(all) != 3 {
		t.Fatalf("%d devices", len(all))
	}
	for i, v := range all {
		if v.Ordinal != i || v.Name == "" || v.Major < 7 || v.Processors < 1 || v.MemoryBytes != 256<<20 || !strings.HasPrefix(v.UUID, "GPU-0000") {
			t.Errorf("device %d: %+v", i, v)
		}
	}
	if v := d.lib.Version(); !strings.Contains(v, ".") || d.lib.Path() == "" {
		t.Errorf("version %s, path %s", v, d.lib.Path())
	}
	if _, err := d.lib.Open(3); ErrorCode(err) == Success {
		t.Errorf("a device that is not there: %v", err)
	}
}

// TestThreads: any number of goroutines use a device, each bound to it.
func TestThreads(t *testing.T) {
	dev := openDriver(t).bound(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := dev.Bind(); err != nil {
				t.Error(err)
				return
			}
			for range 10 {
				if err := roundTrip(dev, bytes.Repeat([]byte{byte(i)}, 1000*(i+1))); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
			if err := dev.Unbind(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestErrors(t *testing.T) {
	d := openDriver(t)
	dev := d.bound(t)
	_, err := dev.LoadModule("this is no PTX")
	if ErrorCode(err) == Success || Lost(err) || !strings.Contains(err.Error(), "cuModuleLoadDataEx") {
		t.Errorf("bad PTX: %v", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Detail == "" {
		t.Errorf("the compiler's log is missing: %v", err)
	}
	_, err = dev.Alloc(1 << 40)
	if ErrorCode(err) != OutOfMemory || Lost(err) || !strings.Contains(err.Error(), "OUT_OF_MEMORY") {
		t.Errorf("too much memory: %v", err)
	}
	check(t, roundTrip(dev, []byte("still works")))
	d.set(t, "cuMemcpyHtoDAsync_v2:1=719!")
	if err := roundTrip(dev, []byte("lost")); !Lost(err) {
		t.Errorf("a lost device: %v", err)
	}
	if err := dev.Check(); !Lost(err) {
		t.Errorf("a lost device says %v", err)
	}
	// Another start of the same device works, in the place of the first.
	check(t, dev.Unbind())
	check(t, dev.Abandon())
	again, err := d.lib.Open(0)
	check(t, err)
	*dev = *again
	check(t, dev.Bind())
	check(t, roundTrip(dev, []byte("works again")))
	free, total, err := dev.MemoryFree()
	if err != nil || free < 1 || free > total {
		t.Errorf("%d bytes free of %d, error %v", free, total, err)
	}
	if Lost(errors.New("another")) || ErrorCode(nil) != Success {
		t.Error("errors that are not of the driver")
	}
}

// TestLoad: what is not the driver's library is told apart by the error.
func TestLoad(t *testing.T) {
	none := filepath.Join(t.TempDir(), "libcuda.so.1")
	t.Setenv(LibraryVariable, none)
	if _, err := Load(); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), none) {
		t.Errorf("no library: %v", err)
	}
	check(t, os.WriteFile(none, []byte("no library at all"), 0o600))
	if _, err := Load(); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("a text: %v", err)
	}
	t.Setenv(LibraryVariable, "libm.so.6")
	if _, err := Load(); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "cuInit") {
		t.Errorf("another library: %v", err)
	}
	d := openDriver(t)
	d.set(t, "cuInit:1=100")
	if l, err := LoadOnly(); err != nil || l.Path() != os.Getenv(LibraryVariable) {
		t.Errorf("loading without a start: error %v", err)
	}
	if _, err := Load(); ErrorCode(err) != NoDevice {
		t.Errorf("no device: %v", err)
	}
	if _, err := Load(); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

func TestTooManyArguments(t *testing.T) {
	k := &Kernel{Name: "k"}
	if err := k.Launch(nil, 1, 1, make([]uint64, MaxArguments+1)...); ErrorCode(err) == Success || Lost(err) {
		t.Errorf("%v", err)
	}
}
