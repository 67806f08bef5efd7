package gpudecode

import "sync/atomic"

// Stats are counts since New. They are read one after another, while requests
// go on: sums over several fields may be off by what is on its way.
type Stats struct {
	Backend     string // "cpu"
	Batches     uint64 // taken by workers
	BatchImages uint64 // requests in them that were not dropped
	Decoded     uint64 // requests that gave samples
	Errors      uint64 // requests that failed, panics among them
	Panics      uint64
	Dropped     uint64 // requests whose context ended while they waited
	WaitNS      uint64 // nanoseconds from Decode to the begin of the decoding, over BatchImages
	DecodeNS    uint64 // nanoseconds of decoding, over BatchImages
}

// counters are what Stats is read from.
type counters struct {
	batches, batchImages, decoded, errors, panics, dropped, waitNS, decodeNS atomic.Uint64
}

// Stats returns the counts.
func (d *Decoder) Stats() Stats {
	c := &d.counters
	return Stats{
		Backend:     "cpu",
		Batches:     c.batches.Load(),
		BatchImages: c.batchImages.Load(),
		Decoded:     c.decoded.Load(),
		Errors:      c.errors.Load(),
		Panics:      c.panics.Load(),
		Dropped:     c.dropped.Load(),
		WaitNS:      c.waitNS.Load(),
		DecodeNS:    c.decodeNS.Load(),
	}
}
