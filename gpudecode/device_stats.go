package gpudecode

import "sync/atomic"

// The states of a device.
const (
	DeviceNone = "none" // there is none, it is not to be used, or it is being made ready
	DeviceUp   = "up"
	DeviceLost = "lost" // it has failed, and is tried again later
)

// DeviceStats are counts of what a device has done. Of each image that it was not
// to decode, or did not, they say why: it was decoded on the CPU.
type DeviceStats struct {
	State  string // DeviceNone, DeviceUp or DeviceLost
	Name   string // what it is
	Reason string // why it is not up

	Batches      uint64
	BatchImages  uint64 // images of these batches
	Patches      uint64 // of the images that it decoded
	EncodedBytes uint64 // of the images that it decoded
	SampleBytes  uint64 // of the images that it decoded
	LargestBatch uint64 // images
	FullBatch    int    // how many images of the size of late a batch holds; 0: not known
	BusyNS       uint64 // of its lanes

	// Images that the CPU decoded instead.
	NoKernel uint64 // the device does not decode the coding
	TooLarge uint64 // for a batch
	OnCPU    uint64 // would be done sooner there
	Failed   uint64 // of batches that failed, or that waited when the device was lost
	NoMemory uint64 // alone too large for what memory of the device is free
	Refused  uint64 // the device found something wrong with them

	// Disagreed counts images that the device refused and the CPU did not. There
	// should be none.
	Disagreed uint64

	FailedBatches uint64
	Shrunk        uint64 // batches that were too large for the free memory
	Losses        uint64
	Probes        uint64 // attempts to use a lost device again
}

// deviceCounters are what DeviceStats is read from.
type deviceCounters struct {
	batches, batchImages, patches, encodedBytes, sampleBytes, largestBatch, busyNS atomic.Uint64
	noKernel, tooLarge, onCPU, failed, noMemory, refused, disagreed                atomic.Uint64
	failedBatches, shrunk, losses, probes                                          atomic.Uint64
}

func (c *deviceCounters) stats() DeviceStats {
	return DeviceStats{
		Batches: c.batches.Load(), BatchImages: c.batchImages.Load(), Patches: c.patches.Load(),
		EncodedBytes: c.encodedBytes.Load(), SampleBytes: c.sampleBytes.Load(), LargestBatch: c.largestBatch.Load(),
		BusyNS: c.busyNS.Load(), NoKernel: c.noKernel.Load(), TooLarge: c.tooLarge.Load(), OnCPU: c.onCPU.Load(),
		Failed: c.failed.Load(), NoMemory: c.noMemory.Load(), Refused: c.refused.Load(), Disagreed: c.disagreed.Load(),
		FailedBatches: c.failedBatches.Load(), Shrunk: c.shrunk.Load(), Losses: c.losses.Load(), Probes: c.probes.Load(),
	}
}

// raise sets a counter to n if that is more.
func raise(counter *atomic.Uint64, n uint64) {
	for {
		old := counter.Load()
		if n <= old || counter.CompareAndSwap(old, n) {
			return
		}
	}
}
