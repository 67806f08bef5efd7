package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"prismfs/gpudecode"
	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/cudasim"
	"prismfs/gpudecode/nvml"
)

// TestHealthIsRemembered: readers never wait, however slow the driver is, and it is
// asked once an interval at most, and never when nobody reads.
func TestHealthIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		slow := func() (nvml.Status, error) {
			n := asked.Add(1)
			time.Sleep(2 * healthInterval)
			return nvml.Status{Name: "a card", Temperature: int(n)}, nil
		}
		var h healthMemory
		begin := time.Now()
		for range 100 {
			if got := h.read(slow); got != nil {
				t.Fatalf("%+v before the driver has answered", got)
			}
		}
		if time.Since(begin) != 0 {
			t.Error("a reader has waited")
		}
		time.Sleep(3 * healthInterval)
		if n := asked.Load(); n != 1 {
			t.Fatalf("asked %d times for 100 readers", n)
		}
		got := h.read(slow)
		if got == nil || got.Temperature != 1 || got.AgeSeconds != healthInterval.Seconds() {
			t.Fatalf("%+v", got)
		}
		time.Sleep(100 * healthInterval)
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times although nobody read", n)
		}
		if got := h.read(slow); got.Temperature != 2 {
			t.Errorf("%+v", got)
		}
		time.Sleep(3 * healthInterval)
	})
}

// TestHealthOfNothing: a device that is gone has no health, one that NVML says
// nothing of has a reason.
func TestHealthOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h healthMemory
		ask := func(err error) *DeviceHealth {
			h.read(func() (nvml.Status, error) { return nvml.Status{Name: "a card"}, err })
			synctest.Wait()
			got := h.read(nil)
			time.Sleep(healthInterval)
			return got
		}
		if got := ask(nil); got == nil || got.Name != "a card" || len(got.Missing) != 0 {
			t.Errorf("%+v", got)
		}
		if got := ask(errors.New("no NVML")); got == nil || got.Temperature != -1 || len(got.Missing) != 1 || got.Missing[0] != "no NVML" {
			t.Errorf("%+v", got)
		}
		if got := ask(fmt.Errorf("%w: lost", gpudecode.ErrNoDevice)); got != nil {
			t.Errorf("%+v", got)
		}
	})
}

// TestHealthOfSimulatedDevice: what the management library says is in the JSON.
func TestHealthOfSimulatedDevice(t *testing.T) {
	libraries, err := cudasim.Build()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, libraries.CUDA)
	t.Setenv(nvml.LibraryVariable, libraries.NVML)
	opt := gpudecode.Options{Workers: 1, Backend: gpudecode.BackendCUDA, Logger: slog.New(slog.DiscardHandler)}
	d, err := gpudecode.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var h healthMemory
	var got *DeviceHealth
	for deadline := time.Now().Add(time.Minute); got == nil && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got = h.read(d.DeviceHealth)
	}
	if got == nil {
		t.Fatal("the device says nothing")
	}
	if got.Name == "" || got.MemoryTotal <= 0 || got.MemoryUsed < 0 || got.Busy < 0 || got.Temperature < 0 || got.PCIeSent < 0 || got.PCIeGot < 0 || len(got.Missing) != 0 {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(DeviceStats{State: gpudecode.DeviceUp, Health: got})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		`"health":{"name":`, `"memory_used_bytes":`, `"memory_total_bytes":`, `"busy_percent":`, `"temperature_celsius":`,
		`"pcie_sent_bytes_per_s":`, `"pcie_received_bytes_per_s":`, `"xids":0`, `"age_s":`,
	} {
		if !strings.Contains(string(text), key) {
			t.Errorf("%s is not in %s", key, text)
		}
	}
	t.Setenv(cuda.LibraryVariable, filepath.Join(t.TempDir(), "libcuda.so.1"))
	opt.Backend = gpudecode.BackendAuto
	none, err := gpudecode.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := none.DeviceHealth(); !errors.Is(err, gpudecode.ErrNoDevice) {
		t.Errorf("the health of no device: error %v", err)
	}
}
