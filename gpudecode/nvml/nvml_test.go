package nvml

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	api "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"prismfs/gpudecode/cudasim"
)

// simulation builds the simulated driver once: a process cannot have two of them.
var simulation = sync.OnceValues(cudasim.Build)

// simulate makes the library the simulated one, or that of an old driver.
func simulate(t *testing.T, script string, old bool) {
	t.Helper()
	libraries, err := simulation()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated library cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	path := libraries.NVML
	if old {
		path = libraries.OldNVML
	}
	t.Setenv(LibraryVariable, path)
	t.Setenv("PRISMFS_NVMLSIM", script)
}

func openLibrary(t *testing.T) *Library {
	t.Helper()
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestDevicesAndStatus(t *testing.T) {
	simulate(t, "devices=3;busy=1", false)
	l := openLibrary(t)
	all, err := l.Devices()
	if err != nil || len(all) != 3 {
		t.Fatalf("%d devices, error %v", len(all), err)
	}
	if l.DriverVersion() == "" {
		t.Error("the driver has no version")
	}
	for i, d := range all {
		if d.Index != i || d.Name == "" || !strings.HasPrefix(d.UUID, "GPU-") || d.Parent != "" || d.Divided {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	if n := l.MemoryTotal(all[1]); n != 256<<20 {
		t.Errorf("it has %d bytes of memory", n)
	}
	if err := l.Watch(all[1]); err != nil {
		t.Error(err)
	}
	s := l.Status(all[1])
	if s.Name != all[1].Name || s.MemoryTotal != 256<<20 || s.MemoryFree != 200<<20 || s.MemoryUsed < 0 || s.Busy < 0 || s.MemoryBusy < 0 || s.Temperature < 0 || s.PCIeSent < 0 || s.PCIeGot < 0 {
		t.Errorf("%+v", s)
	}
	if len(s.Missing) != 0 {
		t.Errorf("missing: %q", s.Missing)
	}
	best, err := l.Best(all)
	if err != nil || best.Index != 1 {
		t.Errorf("the best one is %+v, error %v", best, err)
	}
}

// TestOldDriver: what a driver lacks is missing and ends nothing.
func TestOldDriver(t *testing.T) {
	simulate(t, "devices=2", true)
	l := openLibrary(t)
	all, err := l.Devices()
	if err != nil || len(all) != 2 {
		t.Fatalf("%d devices, error %v", len(all), err)
	}
	s := l.Status(all[0])
	if len(s.Missing) == 0 {
		t.Errorf("nothing is missing: %+v", s)
	}
	for _, why := range s.Missing {
		if !strings.HasPrefix(why, "nvml") {
			t.Errorf("%q does not name the call", why)
		}
	}
	if _, err := l.Best(all); err != nil {
		t.Error(err)
	}
}

func TestCallsThatFail(t *testing.T) {
	simulate(t, "devices=2;nvmlDeviceGetTemperature=15;nvmlDeviceGetPcieThroughput=3;nvmlDeviceRegisterEvents=3", false)
	l := openLibrary(t)
	all, err := l.Devices()
	if err != nil {
		t.Fatal(err)
	}
	s := l.Status(all[0])
	if s.Temperature != -1 || s.PCIeSent != -1 || s.PCIeGot != -1 || s.MemoryFree < 0 || len(s.Missing) != 3 {
		t.Errorf("%+v", s)
	}
	if err := l.Watch(all[0]); err == nil || !strings.Contains(err.Error(), "nvmlDeviceRegisterEvents") {
		t.Errorf("events that are not supported: %v", err)
	}
	t.Setenv("PRISMFS_NVMLSIM", "devices=2;nvmlDeviceGetUUID=15")
	if all, err := l.Devices(); len(all) != 0 || err == nil || !strings.Contains(err.Error(), "device 1") {
		t.Errorf("devices that do not answer: %v, %v", all, err)
	}
}

func TestOpenFails(t *testing.T) {
	simulate(t, "nvmlInit_v2=9", false)
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), "nvmlInit") || errors.Is(err, ErrNoLibrary) {
		t.Errorf("a driver that is not loaded: %v", err)
	}
	if err := Loadable(); err != nil {
		t.Errorf("a library whose driver is not loaded: %v", err)
	}
	t.Setenv(LibraryVariable, filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	if err := Loadable(); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("no library: %v", err)
	}
	if _, err := Open(); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("no library: %v", err)
	}
	t.Setenv(LibraryVariable, "libm.so.6")
	if _, err := Open(); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "nvmlInit_v2") {
		t.Errorf("another library: %v", err)
	}
}

// TestAfterClose: a late question has no answer and ends nothing.
func TestAfterClose(t *testing.T) {
	simulate(t, "", false)
	l := openLibrary(t)
	all, err := l.Devices()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	if s := l.Status(all[0]); s.MemoryFree != -1 || len(s.Missing) == 0 {
		t.Errorf("%+v", s)
	}
}

// TestParts: a card that is divided is used by its parts alone.
func TestParts(t *testing.T) {
	simulate(t, "", false)
	l := openLibrary(t)
	device := func(uuid, name string, free uint64) *mock.Device {
		return &mock.Device{
			GetUUIDFunc:       func() (string, api.Return) { return uuid, api.SUCCESS },
			GetNameFunc:       func() (string, api.Return) { return name, api.SUCCESS },
			GetMigModeFunc:    func() (int, int, api.Return) { return api.DEVICE_MIG_DISABLE, 0, api.SUCCESS },
			GetMemoryInfoFunc: func() (api.Memory, api.Return) { return api.Memory{Total: free, Free: free}, api.SUCCESS },
			GetUtilizationRatesFunc: func() (api.Utilization, api.Return) {
				return api.Utilization{}, api.ERROR_NOT_SUPPORTED
			},
		}
	}
	card := device("GPU-1", "a card", 80<<30)
	card.GetMigModeFunc = func() (int, int, api.Return) { return api.DEVICE_MIG_ENABLE, api.DEVICE_MIG_ENABLE, api.SUCCESS }
	card.GetMaxMigDeviceCountFunc = func() (int, api.Return) { return 7, api.SUCCESS }
	card.GetMigDeviceHandleByIndexFunc = func(i int) (api.Device, api.Return) {
		if i != 0 && i != 3 {
			return nil, api.ERROR_NOT_FOUND
		}
		return device([]string{"MIG-a", "", "", "MIG-b"}[i], "a part", uint64(10+i)<<30), api.SUCCESS
	}
	l.api = &mock.Interface{
		DeviceGetCountFunc: func() (int, api.Return) { return 2, api.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (api.Device, api.Return) {
			if i == 0 {
				return card, api.SUCCESS
			}
			return device("GPU-2", "another card", 1<<30), api.SUCCESS
		},
		ShutdownFunc: func() api.Return { return api.SUCCESS },
	}
	all, err := l.Devices()
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, error %v", all, err)
	}
	if !all[0].Divided || all[1].Parent != "GPU-1" || all[2].UUID != "MIG-b" || all[2].Index != 0 || all[3].Divided {
		t.Errorf("%+v", all)
	}
	if d, err := l.Best(all); err != nil || d.UUID != "MIG-b" {
		t.Errorf("the best one is %+v, error %v", d, err)
	}
	if d, err := Find(all, "0"); err != nil || d.UUID != "GPU-1" {
		t.Errorf("0 is %+v, error %v", d, err)
	}
}

func TestFind(t *testing.T) {
	all := []Device{
		{Index: 0, UUID: "GPU-aaaa-1"}, {Index: 0, UUID: "MIG-cccc", Parent: "GPU-aaaa-1"}, {Index: 1, UUID: "GPU-aabb-2"}, {Index: 2, UUID: "GPU-aabb-3"},
	}
	for name, want := range map[string]string{
		"0": "GPU-aaaa-1", "1": "GPU-aabb-2", "GPU-aaaa-1": "GPU-aaaa-1", "gpu-AAAA": "GPU-aaaa-1", "MIG-c": "MIG-cccc", "GPU-aabb-3": "GPU-aabb-3",
	} {
		if d, err := Find(all, name); err != nil || d.UUID != want {
			t.Errorf("%s is %v, error %v", name, d, err)
		}
	}
	for _, name := range []string{"3", "-1", "GPU-aa", "GPU", "G", "MIG-d", "x"} {
		if d, err := Find(all, name); !errors.Is(err, ErrNoDevice) {
			t.Errorf("%s is %v, error %v", name, d, err)
		}
	}
	if _, err := Find(nil, "0"); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "none") {
		t.Errorf("no devices: %v", err)
	}
}

func TestWorth(t *testing.T) {
	better := []Status{{MemoryFree: 80 << 30, Busy: 0}, {MemoryFree: 70 << 30, Busy: -1}, {MemoryFree: 80 << 30, Busy: 50}, {MemoryFree: 20 << 30, Busy: 0}, {MemoryFree: 80 << 30, Busy: 100}}
	for i := range better[1:] {
		if worth(better[i]) <= worth(better[i+1]) {
			t.Errorf("%+v is not better than %+v", better[i], better[i+1])
		}
	}
}
