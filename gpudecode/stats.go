package gpudecode

import "sync/atomic"

// Stats are counts since New. They are read one after another, while requests
// go on: sums over several fields may be off by what is on its way.
type Stats struct {
	Backend     string // "cuda" while there is a device, else what package l3 decodes with: "avx2" or "go"
	Batches     uint64 // of the device, and every image that the CPU has taken
	BatchImages uint64 // requests that were not dropped
	Decoded     uint64 // requests that gave samples
	Errors      uint64 // requests that failed, panics among them
	Panics      uint64
	Tolerated   uint64 // JPEGs that gave samples with warnings
	Dropped     uint64 // requests whose context ended while they waited
	Helpers     uint64 // places that were lent to a large image beside its own
	WaitNS      uint64 // nanoseconds from Decode to the begin of the decoding, over BatchImages
	DecodeNS    uint64 // nanoseconds of decoding, over BatchImages; a batch's are shared by its images
	Device      DeviceStats
}

// counters are what Stats is read from.
type counters struct {
	images, decoded, errors, panics, tolerated, dropped, helpers, waitNS, decodeNS atomic.Uint64

	deviceImages atomic.Uint64 // of images, decoded by a device
}

// onDevice counts an image that a device has decoded.
func (c *counters) onDevice() {
	c.images.Add(1)
	c.deviceImages.Add(1)
	c.decoded.Add(1)
}

// Stats returns the counts.
func (d *Decoder) Stats() Stats {
	c := &d.counters
	onDevice := c.deviceImages.Load() // which is never ahead of images
	images := c.images.Load()
	backend, device := d.deviceStats()
	return Stats{
		Backend:     backend,
		Device:      device,
		Batches:     images - onDevice + device.Batches,
		BatchImages: images,
		Decoded:     c.decoded.Load(),
		Errors:      c.errors.Load(),
		Panics:      c.panics.Load(),
		Tolerated:   c.tolerated.Load(),
		Dropped:     c.dropped.Load(),
		Helpers:     c.helpers.Load(),
		WaitNS:      c.waitNS.Load(),
		DecodeNS:    c.decodeNS.Load(),
	}
}
