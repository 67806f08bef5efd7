package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/gpudecode/cudasim"
)

// envCUDA and envNVML name the driver that the command loads, envScript what goes
// wrong in the simulated one.
const (
	envCUDA   = "PRISMFS_LIBCUDA"
	envNVML   = "PRISMFS_LIBNVML"
	envScript = "PRISMFS_CUDASIM"
)

// statusNoDevice is the exit status of a mount that is refused for want of a device.
const statusNoDevice = 18

// simulated returns the environment of a mount whose driver is the simulated one.
func simulated(t *testing.T, script string) []string {
	t.Helper()
	libraries, err := cudasim.Build()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{envCUDA + "=" + libraries.CUDA, envNVML + "=" + libraries.NVML, envScript + "=" + script}
}

// deviceStats is what the tests look at of .prismfs/stats.
type deviceStats struct {
	Backend string `json:"backend"`
	Decoded uint64 `json:"decoded"`
	Errors  uint64 `json:"errors"`
	Device  struct {
		State         string            `json:"state"`
		Reason        string            `json:"reason"`
		Batches       uint64            `json:"batches"`
		Images        uint64            `json:"images"`
		LargestBatch  uint64            `json:"largest_batch_images"`
		FailedBatches uint64            `json:"failed_batches"`
		Shrunk        uint64            `json:"shrunk_batches"`
		Losses        uint64            `json:"losses"`
		Probes        uint64            `json:"probes"`
		Disagreed     uint64            `json:"disagreed"`
		Fallbacks     map[string]uint64 `json:"fallbacks"`
	} `json:"device"`
}

const (
	// smallCache holds a part of the tree: most opens decode.
	smallCache    = "1MiB"
	deviceWorkers = 3
	// backSeconds is long enough for a device that is tried again after five.
	backSeconds = 60
)

// mountOnDevice mounts images of all codings with a driver that follows a script.
func mountOnDevice(t *testing.T, script string, flags ...string) (*mounted, args) {
	t.Helper()
	env := simulated(t, script)
	f := testFixtures(t)
	mt := mountWith(t, f.path("device-packed"), best, env, append(flags, "--backend", "cuda", "--cache", smallCache)...)
	return mt, args{"mount": mt.dir, "expected": f.path("device"), "workers": deviceWorkers, "rounds": 1}
}

// TestDevice has a device decode for PyTorch's workers and other readers.
func TestDevice(t *testing.T) {
	// Microseconds more for each kernel, in which others come. Nothing is decoded
	// ahead: what gives way to readers then would be counted once more later.
	_, a := mountOnDevice(t, "kernel=5000", "--read-ahead", "off")
	a["rounds"] = 2
	var s deviceStats
	checkInto(t, &s, "device_epochs", a)
	d := s.Device
	others := uint64(0)
	for _, n := range d.Fallbacks {
		others += n
	}
	if s.Backend != "cuda" || d.State != "up" || s.Errors != 0 || d.Losses+d.FailedBatches+d.Disagreed != 0 {
		t.Errorf("statistics: %+v", s)
	}
	// Images that are stored raw, of one pixel here, are for the CPU to copy.
	if d.Images+others != s.Decoded || d.Images < s.Decoded/2 || d.Fallbacks["no_kernel"] == 0 || others != d.Fallbacks["no_kernel"] {
		t.Errorf("%d images decoded, %d of them on the device; fallbacks %v", s.Decoded, d.Images, d.Fallbacks)
	}
	if d.LargestBatch < 2 || d.Batches >= d.Images {
		t.Errorf("%d batches of %d images, %d at most", d.Batches, d.Images, d.LargestBatch)
	}
}

// TestDeviceBatches has sixteen processes read at a time: what waits while a batch
// runs is the next batch.
func TestDeviceBatches(t *testing.T) {
	const leastMean = 1.5 // images a batch
	_, a := mountOnDevice(t, "kernel=20000")
	var s deviceStats
	checkInto(t, &s, "device_readers", args{"mount": a["mount"], "expected": a["expected"], "readers": 16, "files": 30})
	d := s.Device
	if float64(d.Images) < leastMean*float64(d.Batches) || d.Losses+d.FailedBatches+d.Disagreed != 0 || s.Errors != 0 {
		t.Errorf("%d batches of %d images; statistics: %+v", d.Batches, d.Images, s)
	}
	t.Logf("%d batches of %d images, %d at most", d.Batches, d.Images, d.LargestBatch)
}

// TestDeviceFaults has memory run out, a launch refused, a batch crash with the
// whole context: readers notice nothing, the counters tell it, and the device is
// used again.
func TestDeviceFaults(t *testing.T) {
	const (
		// One of the three lanes at least gets no memory of four attempts.
		noMemory = "cuMemAlloc_v2:1=2;cuMemAlloc_v2:2=2;cuMemAlloc_v2:3=2;cuMemAlloc_v2:4=2"
		refused  = "cuLaunchKernel:9=701"
		crash    = "kernel:60=719!"
	)
	mt, a := mountOnDevice(t, strings.Join([]string{noMemory, refused, crash}, ";"))
	var s deviceStats
	checkInto(t, &s, "device_epochs", a)
	d := s.Device
	if d.Shrunk+d.Fallbacks["no_memory"] == 0 || d.FailedBatches < 2 || d.Fallbacks["failed"] < 2 || d.Losses != 1 || d.Images == 0 {
		t.Errorf("the faults are not in the statistics: %+v", s)
	}
	checkInto(t, &s, "device_comes_back", args{"mount": a["mount"], "expected": a["expected"], "seconds": backSeconds})
	if d := s.Device; d.Probes == 0 || d.Losses != 1 || d.Disagreed != 0 || s.Errors != 0 || s.Backend != "cuda" {
		t.Errorf("after the faults: %+v", s)
	}
	mustLog(t, mt, "a batch failed on the device", "the device is lost", "the device works again")
}

// TestDeviceLost has a device fall off the bus and stay away.
func TestDeviceLost(t *testing.T) {
	mt, a := mountOnDevice(t, "cuStreamSynchronize:20=999!!")
	var s deviceStats
	checkInto(t, &s, "device_epochs", a)
	if d := s.Device; d.State != "lost" || d.Reason == "" || d.Losses != 1 || d.Fallbacks["failed"] == 0 || s.Errors != 0 || s.Backend == "cuda" {
		t.Errorf("statistics: %+v", s)
	}
	mustLog(t, mt, "the device is lost")
}

// mustLog looks for texts in the log of a mount.
func mustLog(t *testing.T, mt *mounted, texts ...string) {
	t.Helper()
	log, err := os.ReadFile(mt.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if !strings.Contains(string(log), text) {
			t.Errorf("the log does not say %q", text)
		}
	}
}

// TestNoDevice: on a machine without NVIDIA's library, and on one whose driver
// does not start, a mount that demands a device is refused, and any other decodes
// on the CPU and says why.
func TestNoDevice(t *testing.T) {
	f := testFixtures(t)
	missing := filepath.Join(scratch(t), "libcuda.so.1")
	for name, c := range map[string]struct {
		env   []string
		says  string
		level string
	}{
		"no library":           {[]string{envCUDA + "=" + missing}, "libcuda.so.1", "DEBUG"},
		"no device":            {simulated(t, "cuInit:1+=100"), "cuInit", "INFO"},
		"a driver that breaks": {simulated(t, "cuModuleLoadDataEx:1+=999"), "cuModuleLoadDataEx", "INFO"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(binary, "mount", "--backend", "cuda", f.path("device-packed"), scratch(t))
			cmd.Env = append(os.Environ(), c.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != statusNoDevice || !strings.Contains(string(out), c.says) ||
				!strings.Contains(string(out), "--backend auto") || strings.Count(string(out), "\n") != 1 {
				t.Errorf("--backend cuda: %v, and it said:\n%s", err, out)
			}
			mt := mountWith(t, f.path("device-packed"), best, c.env)
			check(t, "arrays", args{"mount": mt.dir, "expected": f.path("device")})
			var s deviceStats
			checkInto(t, &s, "stats", args{"mount": mt.dir})
			if s.Device.State != "none" || !strings.Contains(s.Device.Reason, c.says) || s.Device.Images != 0 || s.Backend == "cuda" {
				t.Errorf("statistics: %+v", s)
			}
			mustLog(t, mt, "level="+c.level+" msg=\"images are decoded on the CPU")
		})
	}
}
