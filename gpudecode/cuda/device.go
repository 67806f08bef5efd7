package cuda

import (
	"fmt"
	"unsafe"
)

// DeviceInfo describes a device that the driver shows to this process.
type DeviceInfo struct {
	Ordinal     int // of those that are visible (CUDA_VISIBLE_DEVICES)
	Name        string
	UUID        string // GPU-…, or MIG-… of a part of one; empty if the driver is too old to say
	Major       int    // of the compute capability
	Minor       int
	Processors  int // multiprocessors
	MemoryBytes int64
}

// Attributes of devices, as the driver numbers them.
const (
	attributeProcessors = 16
	attributeMajor      = 75
	attributeMinor      = 76
)

// Devices lists what is visible. Without any the driver does not start in the
// first place.
func (l *Library) Devices() ([]DeviceInfo, error) {
	var count int32
	if err := l.call("cuDeviceGetCount", l.symbols.deviceGetCount, uintptr(unsafe.Pointer(&count))); err != nil {
		return nil, err
	}
	var all []DeviceInfo
	for i := range int(count) {
		d, err := l.device(i)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func (l *Library) device(ordinal int) (DeviceInfo, error) {
	info := DeviceInfo{Ordinal: ordinal}
	handle, err := l.deviceHandle(ordinal)
	if err != nil {
		return info, err
	}
	var name [256]byte
	err = l.call("cuDeviceGetName", l.symbols.deviceGetName,
		uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)-1), handle)
	if err != nil {
		return info, err
	}
	info.Name = goString(&name[0])
	for _, a := range []struct {
		to     *int
		number uintptr
	}{{&info.Major, attributeMajor}, {&info.Minor, attributeMinor}, {&info.Processors, attributeProcessors}} {
		var v int32
		err := l.call("cuDeviceGetAttribute", l.symbols.deviceGetAttribute, uintptr(unsafe.Pointer(&v)), a.number, handle)
		if err != nil {
			return info, err
		}
		*a.to = int(v)
	}
	var bytes uintptr
	if err := l.call("cuDeviceTotalMem", l.symbols.deviceTotalMem, uintptr(unsafe.Pointer(&bytes)), handle); err != nil {
		return info, err
	}
	info.MemoryBytes = int64(bytes)
	info.UUID = l.deviceUUID(handle, info.Name)
	return info, nil
}

func (l *Library) deviceHandle(ordinal int) (uintptr, error) {
	var handle int32
	err := l.call("cuDeviceGet", l.symbols.deviceGet, uintptr(unsafe.Pointer(&handle)), uintptr(ordinal))
	return uintptr(handle), err
}

// deviceUUID returns the UUID as NVML and nvidia-smi write it, or nothing.
func (l *Library) deviceUUID(handle uintptr, name string) string {
	if l.symbols.deviceGetUUID == 0 {
		return ""
	}
	var u [16]byte
	if l.call("cuDeviceGetUuid", l.symbols.deviceGetUUID, uintptr(unsafe.Pointer(&u[0])), handle) != nil {
		return ""
	}
	kind := "GPU"
	if isPart(name) {
		kind = "MIG"
	}
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// isPart reports whether a name is that of a part of a device, such as "NVIDIA
// A100-SXM4-40GB MIG 1g.5gb".
func isPart(name string) bool {
	for i := range len(name) - 3 {
		if name[i:i+4] == "MIG " {
			return true
		}
	}
	return false
}

// A Device is one that is in use: its primary context is held, which everything
// in this process that uses the device shares.
type Device struct {
	Info    DeviceInfo
	lib     *Library
	handle  uintptr
	context uintptr
}

// Open takes a device into use. The calling goroutine need not be locked.
func (l *Library) Open(ordinal int) (*Device, error) {
	info, err := l.device(ordinal)
	if err != nil {
		return nil, err
	}
	d := &Device{Info: info, lib: l}
	if d.handle, err = l.deviceHandle(ordinal); err != nil {
		return nil, err
	}
	err = l.call("cuDevicePrimaryCtxRetain", l.symbols.primaryCtxRetain, uintptr(unsafe.Pointer(&d.context)), d.handle)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Bind makes the device the one that calls on this thread act on.
func (d *Device) Bind() error {
	return d.lib.call("cuCtxSetCurrent", d.lib.symbols.ctxSetCurrent, d.context)
}

// Unbind undoes Bind on this thread.
func (d *Device) Unbind() error {
	return d.lib.call("cuCtxSetCurrent", d.lib.symbols.ctxSetCurrent, 0)
}

// Check waits for all that the device does and returns an error if it works no
// more.
func (d *Device) Check() error { return d.lib.call("cuCtxSynchronize", d.lib.symbols.ctxSynchronize) }

// Close gives the device back.
func (d *Device) Close() error {
	return d.lib.call("cuDevicePrimaryCtxRelease", d.lib.symbols.primaryCtxRelease, d.handle)
}

// Abandon gives a lost device back: the context is destroyed with all that it
// holds, so that the next Open makes a new one. No thread may be bound to it.
func (d *Device) Abandon() error {
	reset := d.lib.call("cuDevicePrimaryCtxReset", d.lib.symbols.primaryCtxReset, d.handle)
	if err := d.Close(); err != nil {
		return err
	}
	return reset
}

// MemoryFree returns how many bytes of the device's memory are free, and how many
// there are.
func (d *Device) MemoryFree() (free, total int64, err error) {
	var f, t uintptr
	err = d.lib.call("cuMemGetInfo", d.lib.symbols.memGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}
