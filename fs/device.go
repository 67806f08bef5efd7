package fs

import (
	"context"
	"errors"
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/gpudecode"
)

// DeviceError says that there is no device to decode on, where one was demanded,
// and what to do.
type DeviceError struct{ Err error }

func (e *DeviceError) Unwrap() error { return e.Err }

func (e *DeviceError) Error() string {
	return fmt.Sprintf("%v; mount with --backend auto to decode on the CPU, or see what nvidia-smi says of the driver", e.Err)
}

// openDecoder opens what decodes. Where the options demand a device it is ready
// then.
func (m *mount) openDecoder() error {
	var err error
	m.decoder, err = gpudecode.Open(gpudecode.Options{
		Workers: m.opt.Workers, Limits: m.opt.Limits, Logger: m.log, TolerateWarnings: m.opt.TolerateJPEGWarnings,
		Backend: m.opt.Backend, Device: m.opt.Device,
	})
	if errors.Is(err, gpudecode.ErrNoDevice) {
		return &DeviceError{err}
	}
	return err
}

// readerOf returns who waits for a request of the kernel, so that the decoder can
// let readers take turns: the thread's number, or 0 where the kernel does not say
// or has none for it here, as for one of another container.
func readerOf(ctx context.Context) uint64 {
	if caller, ok := fuse.FromContext(ctx); ok {
		return uint64(caller.Pid)
	}
	return 0
}

// DeviceStats are counts of the device that images are decoded on.
type DeviceStats struct {
	State  string `json:"state"`            // none, up or lost
	Name   string `json:"name,omitempty"`   // what it is, or was
	Reason string `json:"reason,omitempty"` // why it is not up

	Health *DeviceHealth `json:"health,omitempty"` // nil unless it is up and has been asked

	Batches      uint64 `json:"batches"`
	Images       uint64 `json:"images"` // of these batches
	LargestBatch uint64 `json:"largest_batch_images"`
	FullBatch    int    `json:"full_batch_images"` // how many of the size of late are the limit
	Patches      uint64 `json:"patches"`
	EncodedBytes uint64 `json:"encoded_bytes"`
	SampleBytes  uint64 `json:"sample_bytes"`
	BusyNS       uint64 `json:"busy_ns"` // of batches, which overlap

	FailedBatches uint64          `json:"failed_batches"`
	Shrunk        uint64          `json:"shrunk_batches"` // had no memory for all of their images
	Losses        uint64          `json:"losses"`
	Probes        uint64          `json:"probes"` // attempts to use a lost device again
	Disagreed     uint64          `json:"disagreed"`
	Fallbacks     DeviceFallbacks `json:"fallbacks"`
}

// DeviceFallbacks are images that the CPU decoded although there was a device, by
// the reason.
type DeviceFallbacks struct {
	NoKernel uint64 `json:"no_kernel"` // it does not decode their coding
	TooLarge uint64 `json:"too_large"` // for a batch
	OnCPU    uint64 `json:"sooner_on_cpu"`
	Failed   uint64 `json:"failed"` // their batch did, or the device was lost before it
	NoMemory uint64 `json:"no_memory"`
	Refused  uint64 `json:"refused"` // it found something wrong with them
}

func deviceStats(d gpudecode.DeviceStats) DeviceStats {
	return DeviceStats{
		State: d.State, Name: d.Name, Reason: d.Reason,
		Batches: d.Batches, Images: d.BatchImages, LargestBatch: d.LargestBatch, FullBatch: d.FullBatch, Patches: d.Patches,
		EncodedBytes: d.EncodedBytes, SampleBytes: d.SampleBytes, BusyNS: d.BusyNS,
		FailedBatches: d.FailedBatches, Shrunk: d.Shrunk, Losses: d.Losses, Probes: d.Probes, Disagreed: d.Disagreed,
		Fallbacks: DeviceFallbacks{
			NoKernel: d.NoKernel, TooLarge: d.TooLarge, OnCPU: d.OnCPU, Failed: d.Failed, NoMemory: d.NoMemory, Refused: d.Refused,
		},
	}
}
