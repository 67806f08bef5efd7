package gpudecode

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/cudasim"
	"prismfs/gpudecode/nvml"
	"prismfs/l3"
	"prismfs/raster"
)

// A simulated is the simulated driver, for one test.
type simulated struct {
	script func(*byte) int32
	held   func() uint64
}

// simulation builds the simulated driver once: a process cannot have two of them.
var simulation = sync.OnceValues(cudasim.Build)

// simulate makes the driver of this process the simulated one.
func simulate(t *testing.T) *simulated {
	t.Helper()
	libraries, err := simulation()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, libraries.CUDA)
	t.Setenv(nvml.LibraryVariable, libraries.NVML)
	handle, err := purego.Dlopen(libraries.CUDA, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	s := new(simulated)
	purego.RegisterLibFunc(&s.script, handle, "cusim_script")
	purego.RegisterLibFunc(&s.held, handle, "cusim_held")
	s.set(t, "")
	t.Cleanup(func() { s.set(t, "") })
	return s
}

// set sets what the device is like and what goes wrong.
func (s *simulated) set(t *testing.T, script string) {
	t.Helper()
	if text := append([]byte(script), 0); s.script(&text[0]) != 0 {
		t.Fatalf("script %q is not understood", script)
	}
}

// checkNothingHeld fails the test if anything of the device was not given back.
func (s *simulated) checkNothingHeld(t *testing.T) {
	t.Helper()
	if n := s.held(); n != 0 {
		t.Errorf("%d allocations, modules and streams are left", n)
	}
}

func openSimulated(t *testing.T, opt Options) *Decoder {
	t.Helper()
	if opt.Logger == nil {
		opt.Logger = quiet
	}
	d, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	waitSettled(t, d)
	return d
}

// goldenFiles are files of all codings, and what they hold.
func goldenFiles(t *testing.T) map[string]encoded {
	t.Helper()
	names, err := filepath.Glob("../l3/testdata/golden/*.l3")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d golden files, error %v", len(names), err)
	}
	files := make(map[string]encoded)
	plain := l3.NewDecoder(l3.Limits{}, l3.WithoutSIMD())
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = decodedFile(t, plain, file)
	}
	return files
}

// decodedFile decodes a file by the plain decoder.
func decodedFile(t *testing.T, plain *l3.Decoder, file []byte) encoded {
	t.Helper()
	info, err := l3.ReadInfo(bytes.NewReader(file), int64(len(file)), l3.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	img := raster.Image{Shape: info.Shape, Pix: make([]byte, info.Shape.Bytes())}
	if _, err := plain.Decode(img.Pix, file); err != nil {
		t.Fatal(err)
	}
	return encoded{img, file}
}

// decodeAll decodes all files at once and compares.
func decodeAll(t *testing.T, d *Decoder, files map[string]encoded) {
	t.Helper()
	var wg sync.WaitGroup
	for name, e := range files {
		wg.Go(func() {
			r := e.request(name, 0)
			if err := d.Decode(t.Context(), r); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if !bytes.Equal(r.Pix, e.image.Pix) {
				t.Errorf("%s: the plain decoder gives other samples", name)
			}
		})
	}
	wg.Wait()
}

// countForDevice counts the files that a device takes: those that are not raw.
func countForDevice(files map[string]encoded) uint64 {
	n := uint64(0)
	for name, e := range files {
		if new(deviceJob).setPlan(e.request(name, 0), l3.Limits{}) {
			n++
		}
	}
	return n
}

// TestSimulatedGolden decodes files of all codings on the simulated device, with
// its threads in both orders.
func TestSimulatedGolden(t *testing.T) {
	sim := simulate(t)
	files := goldenFiles(t)
	onDevice := countForDevice(files)
	for _, order := range []string{"forward", "reverse"} {
		sim.set(t, "order="+order)
		d := openSimulated(t, Options{Backend: BackendCUDA})
		decodeAll(t, d, files)
		v := d.Stats().Device
		if v.BatchImages != onDevice || v.Refused != 0 || v.Failed != 0 {
			t.Errorf("%s: %+v, %d images are for a device", order, v, onDevice)
		}
		d.Close()
		sim.checkNothingHeld(t)
	}
}

// oddImages are of all channel counts and depths, of sizes that leave narrow
// patches.
func oddImages(t *testing.T) map[string]encoded {
	t.Helper()
	files := make(map[string]encoded)
	for channels := 1; channels <= raster.MaxChannels; channels++ {
		for _, dtype := range []raster.DType{raster.Uint8, raster.Uint16, raster.Int16} {
			for _, size := range [][2]int{{1, 1}, {70, 131}, {3, 140}} {
				s := raster.Shape{Height: size[0], Width: size[1], Channels: channels, DType: dtype, Color: raster.Color(channels)}
				for mode, name := range map[l3.Mode]string{l3.ModeFast: "fast", l3.ModeDense: "dense"} {
					files[fmt.Sprint(name, " ", s)] = encode(t, photograph(s), mode)
				}
			}
		}
	}
	return files
}

func TestSimulatedSizes(t *testing.T) {
	sim := simulate(t)
	files := oddImages(t)
	d := openSimulated(t, Options{Backend: BackendCUDA})
	decodeAll(t, d, files)
	if v := d.Stats().Device; v.Refused != 0 || v.Failed != 0 || v.BatchImages != countForDevice(files) || v.BatchImages < 40 {
		t.Errorf("%+v of %d images", v, countForDevice(files))
	}
	d.Close()
	sim.checkNothingHeld(t)
}

// TestSimulatedDamage: a damaged file has the error of the CPU, and costs nothing
// else of its batch.
func TestSimulatedDamage(t *testing.T) {
	simulate(t)
	files := goldenFiles(t)
	d := openSimulated(t, Options{Backend: BackendCUDA})
	plain := l3.NewDecoder(l3.Limits{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, e := range files {
		for _, from := range []int{1, 2, 3} {
			damaged := bytes.Clone(e.file)
			damaged[len(damaged)-len(damaged)*from/4] ^= 0x21
			wg.Go(func() {
				r := encoded{e.image, damaged}.request(name, 0)
				err := d.Decode(t.Context(), r)
				mu.Lock()
				defer mu.Unlock()
				pix := make([]byte, len(r.Pix))
				switch _, want := plain.Decode(pix, damaged); {
				case want != nil && (err == nil || !strings.HasSuffix(err.Error(), want.Error())):
					t.Errorf("%s: %v, the CPU says %v", name, err, want)
				case want == nil && (err != nil || !bytes.Equal(pix, r.Pix)):
					t.Errorf("%s: error %v or other samples, the CPU takes it", name, err)
				}
			})
		}
		wg.Go(func() {
			if r := e.request(name, 0); d.Decode(t.Context(), r) != nil || !bytes.Equal(r.Pix, e.image.Pix) {
				t.Errorf("%s is good, and suffers from others", name)
			}
		})
	}
	wg.Wait()
	if v := d.Stats().Device; v.Refused == 0 || v.Disagreed != 0 {
		t.Errorf("counters: %+v", v)
	}
}

// TestSimulatedFaults: whatever the driver returns, readers get their images, and
// the counters say what has happened.
func TestSimulatedFaults(t *testing.T) {
	sim := simulate(t)
	files := map[string]encoded{
		"small": smallImage(),
		"dense": encode(t, smallImage().image, l3.ModeDense),
	}
	for _, c := range []struct {
		name, script string
		lost         bool
		told         func(DeviceStats) bool
	}{
		{"slow copies", "copy=2000;kernel=1000", false, func(v DeviceStats) bool { return v.Failed == 0 && v.BatchImages == 80 }},
		{"launch refused once", "cuLaunchKernel:1=701", false, func(v DeviceStats) bool { return v.FailedBatches == 1 && v.State == DeviceUp }},
		{"bad access", "kernel:2=700", true, func(v DeviceStats) bool { return v.Failed > 0 }},
		{"launch failed", "cuLaunchKernel:3=719!", true, func(v DeviceStats) bool { return v.Failed > 0 }},
		{"lost for good", "cuStreamSynchronize:2=999!!", true, func(v DeviceStats) bool { return v.Failed > 0 }},
		{"copy back fails", "cuMemcpyDtoHAsync_v2:1+=999!!", true, func(v DeviceStats) bool { return v.BatchImages == 0 }},
		{"no device memory", "cuMemAlloc_v2:1+=2", false, func(v DeviceStats) bool { return v.NoMemory > 0 && v.BatchImages == 0 }},
		{"no pinned memory", "cuMemHostAlloc:1+=2", false, func(v DeviceStats) bool { return v.NoMemory > 0 && v.BatchImages == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim.set(t, "")
			d := openSimulated(t, Options{Backend: BackendCUDA})
			now := &clock{now: time.Now()}
			d.device.mu.Lock()
			d.device.now = now.Now
			d.device.mu.Unlock()
			sim.set(t, c.script)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 5 {
						decodeAll(t, d, files)
					}
				})
			}
			wg.Wait()
			waitSettled(t, d)
			v := d.Stats().Device
			if !c.told(v) || (v.State == DeviceLost) != c.lost || v.Disagreed != 0 {
				t.Errorf("counters: %+v", v)
			}
			sim.set(t, "")
			now.advance(longestPause)
			decodeAll(t, d, files) // with an attempt, if it was lost
			waitSettled(t, d)
			batches := d.Stats().Device.Batches
			decodeAll(t, d, files)
			if v = d.Stats().Device; v.State != DeviceUp || v.Batches == batches {
				t.Errorf("after the fault: %+v", v)
			}
			d.Close()
			sim.checkNothingHeld(t)
		})
	}
}

// TestSimulatedLittleMemory: where others take the memory of the device, batches
// are as large as what is left of it.
func TestSimulatedLittleMemory(t *testing.T) {
	const images, rounds = 30, 2
	sim := simulate(t)
	s := raster.Shape{Height: 128, Width: 130, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	e := encode(t, photograph(s), l3.ModeFast)
	d := openSimulated(t, Options{Backend: BackendCUDA})
	sim.set(t, "memory=1000000;kernel=3000")
	files := make(map[string]encoded)
	for i := range images {
		files[fmt.Sprint("image ", i)] = e
	}
	for range rounds {
		decodeAll(t, d, files)
	}
	v := d.Stats().Device
	if v.BatchImages+v.NoMemory != images*rounds || v.BatchImages < images || v.Shrunk == 0 || v.State != DeviceUp || v.Failed != 0 {
		t.Errorf("counters: %+v", v)
	}
	d.Close()
	sim.checkNothingHeld(t)
}

// TestSimulatedHalfWay: with a driver that fails anywhere on the way, auto uses
// the CPU and says why, and cuda refuses with the reason.
func TestSimulatedHalfWay(t *testing.T) {
	sim := simulate(t)
	for _, call := range []string{
		"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2",
		"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemGetInfo_v2", "cuStreamCreate",
	} {
		// The name of the call without the version that it may have.
		want, _, _ := strings.Cut(call, "_v")
		var log lockedBuffer
		sim.set(t, call+":1+=999")
		if _, err := Open(Options{Backend: BackendCUDA, Logger: quiet}); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s fails: cuda says %v", call, err)
		}
		d, err := Open(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Errorf("%s fails: auto says %v", call, err)
			continue
		}
		waitSettled(t, d)
		mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request(call, 0)))
		if s := d.Stats(); s.Device.State != DeviceNone || !strings.Contains(s.Device.Reason, want) || !strings.Contains(log.String(), want) {
			t.Errorf("%s fails: %+v, the log has:\n%s", call, s.Device, log.String())
		}
		d.Close()
		sim.set(t, "")
		sim.checkNothingHeld(t)
	}
}

// TestNoDriver: a machine without the driver's library.
func TestNoDriver(t *testing.T) {
	t.Setenv(cuda.LibraryVariable, filepath.Join(t.TempDir(), "libcuda.so.1"))
	d, err := Open(Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	waitSettled(t, d)
	mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("x", 0)))
	if v := d.Stats().Device; v.State != DeviceNone || !strings.Contains(v.Reason, "libcuda.so.1") {
		t.Errorf("%+v", v)
	}
	if _, err := Open(Options{Logger: quiet, Backend: BackendCUDA}); !errors.Is(err, ErrNoDevice) || !errors.Is(err, cuda.ErrNoLibrary) {
		t.Errorf("cuda: %v", err)
	}
}

// TestSimulatedChoice: the device that is asked for, or the freest.
func TestSimulatedChoice(t *testing.T) {
	sim := simulate(t)
	sim.set(t, "devices=4")
	uuid := func(i int) string { return fmt.Sprintf("GPU-00000000-0000-0000-0000-%012x", i) }
	for _, c := range []struct {
		nvml, name string
		want       int
	}{
		{"devices=4", "", 0},
		{"devices=4;busy=2", "", 2},
		{"devices=4;busy=4", "", 0},
		{"devices=4;busy=4", "3", 3},
		{"devices=4", uuid(1), 1},
		{"devices=4", strings.ToLower(uuid(2)), 2},
		{"devices=4;nvmlInit_v2=9", "", 0}, // the driver is not loaded, says NVML
		{"devices=4;nvmlInit_v2=9", "2", 2},
		{"devices=4;nvmlInit_v2=9", uuid(3), 3},
		{"devices=4;nvmlDeviceGetMemoryInfo=3;nvmlDeviceGetUtilizationRates=3", "", 0},
		{"devices=1", "", 0},
	} {
		t.Setenv("PRISMFS_NVMLSIM", c.nvml)
		lib, ordinal, err := chooseDevice(c.name, quiet)
		if err != nil || lib == nil || ordinal != c.want {
			t.Errorf("%s, %q: device %d, error %v, want %d", c.nvml, c.name, ordinal, err, c.want)
		}
	}
	for _, c := range [][2]string{
		{"devices=4", "4"}, {"devices=4", "GPU-1"}, {"devices=4", "GPU-0000"}, {"devices=4", "MIG-1"},
		{"devices=8", "5"}, // there, but not visible
		{"nvmlInit_v2=9", "7"}, {"nvmlInit_v2=9", "GPU-7"},
	} {
		t.Setenv("PRISMFS_NVMLSIM", c[0])
		if _, _, err := chooseDevice(c[1], quiet); !errors.Is(err, nvml.ErrNoDevice) {
			t.Errorf("%s, %q: %v", c[0], c[1], err)
		}
	}
}

// TestSimulatedSixteenReaders: readers that come one by one make batches of many
// images, and one that is alone does not wait for others.
func TestSimulatedSixteenReaders(t *testing.T) {
	const readers, each = 16, 20
	sim := simulate(t)
	sim.set(t, "kernel=2000;copy=1000")
	d := openSimulated(t, Options{Backend: BackendCUDA})
	for i := range each {
		mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("lone ", i), 0)))
	}
	lone := d.Stats()
	if lone.Batches != each || lone.BatchImages != each {
		t.Errorf("a lone reader: %d batches of %d images", lone.Batches, lone.BatchImages)
	}
	if lone.WaitNS > lone.DecodeNS/2 {
		t.Errorf("a lone reader waited %d ns, for decoding that took %d", lone.WaitNS, lone.DecodeNS)
	}
	var wg sync.WaitGroup
	for reader := range readers {
		wg.Go(func() {
			for i := range each {
				mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint(reader, " ", i), uint64(reader))))
			}
		})
	}
	wg.Wait()
	s := d.Stats()
	mean := float64(s.BatchImages-lone.BatchImages) / float64(s.Batches-lone.Batches)
	t.Logf("%d readers: %.1f images a batch, %d at most", readers, mean, s.Device.LargestBatch)
	if mean < 2 {
		t.Errorf("%.1f images a batch", mean)
	}
}

func TestDeviceHealth(t *testing.T) {
	simulate(t)
	d := openSimulated(t, Options{Backend: BackendCUDA})
	if h, err := d.DeviceHealth(); err != nil || h.MemoryTotal != 256<<20 || h.Temperature < 0 {
		t.Errorf("%+v, error %v", h, err)
	}
	d.Close()
	if _, err := d.DeviceHealth(); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a device that was given back: %v", err)
	}
	t.Setenv("PRISMFS_NVMLSIM", "nvmlInit_v2=9")
	d = openSimulated(t, Options{Backend: BackendCUDA})
	if _, err := d.DeviceHealth(); err == nil || !strings.Contains(err.Error(), "nvmlInit") {
		t.Errorf("without NVML: %v", err)
	}
}

// TestSimulatedAuto: a device that is slower than the CPU, as the simulated one is,
// gets what it takes to know that.
func TestSimulatedAuto(t *testing.T) {
	const images = 2 * remeasureAfter
	simulate(t)
	d := openSimulated(t, Options{Workers: 2})
	r := smallImage().request("small", 0)
	for range images {
		if err := d.Decode(t.Context(), r); err != nil || !bytes.Equal(r.Pix, smallImage().image.Pix) {
			t.Fatalf("error %v, or other samples", err)
		}
	}
	if v := d.Stats().Device; v.OnCPU < images*9/10 || v.BatchImages == 0 || v.OnCPU+v.BatchImages != images {
		t.Errorf("counters: %+v", v)
	}
}
