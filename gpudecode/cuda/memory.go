package cuda

import "unsafe"

// Memory is memory of a device. The zero value is none.
type Memory struct {
	Address uint64
	Bytes   int64
}

// Alloc allocates memory of the device, at least one byte. What it holds is
// anything.
func (d *Device) Alloc(bytes int64) (Memory, error) {
	m := Memory{Bytes: bytes}
	err := d.lib.call("cuMemAlloc", d.lib.symbols.memAlloc, uintptr(unsafe.Pointer(&m.Address)), uintptr(bytes))
	if err != nil {
		return Memory{}, err
	}
	return m, nil
}

// Free frees memory that nothing uses any more.
func (d *Device) Free(m Memory) error {
	if m.Bytes == 0 {
		return nil
	}
	return d.lib.call("cuMemFree", d.lib.symbols.memFree, uintptr(m.Address))
}

// hostPortable makes pinned memory that all contexts take for such.
const hostPortable = 1

// AllocHost allocates pinned memory of the machine: the device reads and writes
// it by itself, while the processor goes on. It is not Go's, and must be freed by
// FreeHost.
func (d *Device) AllocHost(bytes int) ([]byte, error) {
	var p unsafe.Pointer
	err := d.lib.call("cuMemHostAlloc", d.lib.symbols.memHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes), hostPortable)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// FreeHost frees pinned memory that nothing uses any more.
func (d *Device) FreeHost(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return d.lib.call("cuMemFreeHost", d.lib.symbols.memFreeHost, uintptr(unsafe.Pointer(&b[0])))
}
