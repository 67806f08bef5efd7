package gpudecode

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/ebitengine/purego"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/kernels"
	"prismfs/gpudecode/nvml"
	"prismfs/l3"
)

// Limits of a batch on a CUDA device. The first two fill a card for some
// milliseconds: the more patches, the better it is used, up to a few for each
// place of a warp (there are some 8,000 on the largest cards); beyond that a batch
// only keeps what comes next waiting.
const (
	mostUploaded   = 64 << 20
	mostDownloaded = 128 << 20
	mostPatches    = 1 << 16

	// memoryShare is the part of the free memory of a card that all lanes
	// together may take: it is there for something else than reading files.
	memoryShare = 4
)

// cudaDevice is a CUDA device with the kernels.
type cudaDevice struct {
	device   *cuda.Device
	module   *cuda.Module
	driver   string
	limits   batchSize
	checksum *cuda.Kernel
	kernels  [kernels.Count]*cuda.Kernel
	monitor  *monitor
}

// openCUDA takes a device into use: the one that is asked for, or the best one.
func openCUDA(name string, logger *slog.Logger) (device, error) {
	lib, ordinal, err := chooseDevice(name, logger)
	if err != nil {
		return nil, err
	}
	d, err := lib.Open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	x := &cudaDevice{device: d, driver: lib.Version()}
	if err := x.onThread(x.load); err != nil {
		err = fmt.Errorf("device %d (%s): %w", ordinal, d.Info.Name, err)
		return nil, errors.Join(err, x.close(false))
	}
	x.monitor = newMonitor(d.Info.UUID)
	return x, nil
}

// hopeless reports whether there is no use in trying again later: there is no
// driver, or it has no device, or not the one that is asked for.
func hopeless(err error) bool {
	return errors.Is(err, cuda.ErrNoLibrary) || errors.Is(err, nvml.ErrNoDevice) || cuda.ErrorCode(err) == cuda.NoDevice
}

// levelWithout is how much it matters to people that there is no device: little on
// the many machines that have no driver.
func levelWithout(err error) slog.Level {
	var notLoaded purego.Dlerror
	if errors.Is(err, cuda.ErrNoLibrary) && errors.As(err, &notLoaded) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// onThread calls f with the device bound.
func (x *cudaDevice) onThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := x.device.Bind(); err != nil {
		return err
	}
	return errors.Join(f(), x.device.Unbind())
}

// load loads the kernels and sets the limits.
func (x *cudaDevice) load() error {
	var err error
	if x.module, err = x.device.LoadModule(kernels.PTX); err != nil {
		return err
	}
	if x.checksum, err = x.module.Kernel(kernels.ChecksumName); err != nil {
		return err
	}
	for k := range kernels.Count {
		if x.kernels[k], err = x.module.Kernel(k.Name()); err != nil {
			return err
		}
	}
	free, _, err := x.device.MemoryFree()
	if err != nil {
		return err
	}
	x.limits = limitsOf(free)
	return nil
}

// limitsOf returns the limits of a batch where so much memory is free.
func limitsOf(free int64) batchSize {
	s := batchSize{up: mostUploaded, down: mostDownloaded, patches: mostPatches}
	if most := free / memoryShare / deviceLanes; most < s.up+s.down {
		s.up, s.down = most/3, most/3*2
	}
	return s
}

// String implements device.
func (x *cudaDevice) String() string {
	i := &x.device.Info
	return fmt.Sprintf("%s (device %d, %s, compute capability %d.%d, driver for CUDA %s)", i.Name, i.Ordinal, i.UUID, i.Major, i.Minor, x.driver)
}

func (x *cudaDevice) takes(c l3.Coding) bool { return kernels.Takes(c) }

func (x *cudaDevice) most() batchSize { return x.limits }

func (x *cudaDevice) check() error { return x.device.Check() }

func (x *cudaDevice) health() (nvml.Status, error) { return x.monitor.status() }

func (x *cudaDevice) close(lost bool) error {
	if x.monitor != nil { // it is the last thing that a device gets
		x.monitor.close()
	}
	if lost {
		return x.device.Abandon()
	}
	var unloaded error
	if x.module != nil {
		unloaded = x.onThread(x.module.Unload)
	}
	return errors.Join(unloaded, x.device.Close())
}
