package gpudecode

import (
	"math/bits"

	"prismfs/gpudecode/cuda"
)

// leastMemory is what a lane takes at first, of memory in each direction. It
// doubles from there, so that a lane which sees small batches stays small.
const leastMemory = 1 << 20

// grow sees to it that there is memory for a batch, if there is so much free. An
// error is one of the device; that memory is short is none.
func (l *cudaLane) grow(size batchSize) error {
	if err := l.growPair(&l.upHost, &l.upDevice, size.up, l.device.limits.up); err != nil {
		return err
	}
	return l.growPair(&l.downHost, &l.downDevice, size.down, l.device.limits.down)
}

// growPair sees to it that there are so many bytes of pinned memory and as many
// on the device, or else as many as there were.
func (l *cudaLane) growPair(host *[]byte, device *cuda.Memory, bytes, most int64) error {
	had := int64(len(*host))
	if bytes <= had {
		return nil
	}
	d := l.device.device
	if err := d.FreeHost(*host); err != nil {
		return err
	}
	*host = nil
	if err := d.Free(*device); err != nil {
		return err
	}
	*device = cuda.Memory{}
	roomy := min(max(leastMemory, int64(1)<<bits.Len64(uint64(bytes-1))), max(most, bytes))
	for _, n := range []int64{roomy, bytes, had} {
		if n == 0 {
			return nil
		}
		err := l.allocPair(host, device, n)
		if err == nil || cuda.ErrorCode(err) != cuda.OutOfMemory {
			return err
		}
	}
	return nil
}

// allocPair allocates both or nothing.
func (l *cudaLane) allocPair(host *[]byte, device *cuda.Memory, bytes int64) error {
	d := l.device.device
	m, err := d.Alloc(bytes)
	if err != nil {
		return err
	}
	h, err := d.AllocHost(int(bytes))
	if err != nil {
		if e := d.Free(m); e != nil {
			return e
		}
		return err
	}
	*host, *device = h, m
	return nil
}
