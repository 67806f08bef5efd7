package gpudecode

import "sync/atomic"

// Stats are counts since New. They are read one after another, while requests
// go on: sums over several fields may be off by what is on its way.
type Stats struct {
	Backend     string // what package l3 decodes with: "avx2" or "go"
	Batches     uint64 // as many as BatchImages: the CPU takes images one by one
	BatchImages uint64 // requests that were not dropped
	Decoded     uint64 // requests that gave samples
	Errors      uint64 // requests that failed, panics among them
	Panics      uint64
	Dropped     uint64 // requests whose context ended while they waited
	Helpers     uint64 // places that were lent to a large image beside its own
	WaitNS      uint64 // nanoseconds from Decode to the begin of the decoding, over BatchImages
	DecodeNS    uint64 // nanoseconds of decoding, over BatchImages
}

// counters are what Stats is read from.
type counters struct {
	images, decoded, errors, panics, dropped, helpers, waitNS, decodeNS atomic.Uint64
}

// Stats returns the counts.
func (d *Decoder) Stats() Stats {
	c := &d.counters
	images := c.images.Load()
	return Stats{
		Backend:     d.backend,
		Batches:     images,
		BatchImages: images,
		Decoded:     c.decoded.Load(),
		Errors:      c.errors.Load(),
		Panics:      c.panics.Load(),
		Dropped:     c.dropped.Load(),
		Helpers:     c.helpers.Load(),
		WaitNS:      c.waitNS.Load(),
		DecodeNS:    c.decodeNS.Load(),
	}
}
