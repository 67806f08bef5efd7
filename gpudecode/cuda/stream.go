package cuda

import "unsafe"

// A Stream is a queue of copies and kernels, which the device does one after
// another. Those of several streams overlap.
type Stream struct {
	device *Device
	handle uintptr
}

// streamNonBlocking makes a stream that does not wait for the default one.
const streamNonBlocking = 1

// NewStream makes a stream.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{device: d}
	err := d.lib.call("cuStreamCreate", d.lib.symbols.streamCreate, uintptr(unsafe.Pointer(&s.handle)), streamNonBlocking)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close destroys the stream.
func (s *Stream) Close() error {
	return s.device.lib.call("cuStreamDestroy", s.device.lib.symbols.streamDestroy, s.handle)
}

// Upload queues a copy of pinned memory to offset at of m. It belongs to the
// device until the stream has been synchronised, and so it is with all that
// follows.
func (s *Stream) Upload(m Memory, at int64, pinned []byte) error {
	if len(pinned) == 0 {
		return nil
	}
	return s.device.lib.call("cuMemcpyHtoDAsync", s.device.lib.symbols.memcpyHtoDAsync,
		uintptr(m.Address+uint64(at)), uintptr(unsafe.Pointer(&pinned[0])), uintptr(len(pinned)), s.handle)
}

// Download queues a copy from offset at of m to pinned memory.
func (s *Stream) Download(pinned []byte, m Memory, at int64) error {
	if len(pinned) == 0 {
		return nil
	}
	return s.device.lib.call("cuMemcpyDtoHAsync", s.device.lib.symbols.memcpyDtoHAsync,
		uintptr(unsafe.Pointer(&pinned[0])), uintptr(m.Address+uint64(at)), uintptr(len(pinned)), s.handle)
}

// Fill queues the setting of words of m, of four bytes each, to one value.
func (s *Stream) Fill(m Memory, at, words int64, value uint32) error {
	if words == 0 {
		return nil
	}
	return s.device.lib.call("cuMemsetD32Async", s.device.lib.symbols.memsetD32Async,
		uintptr(m.Address+uint64(at)), uintptr(value), uintptr(words), s.handle)
}

// Synchronize waits until all that was queued is done, and returns its error.
func (s *Stream) Synchronize() error {
	return s.device.lib.call("cuStreamSynchronize", s.device.lib.symbols.streamSynchronize, s.handle)
}
