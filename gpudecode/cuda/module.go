package cuda

import (
	"errors"
	"runtime"
	"strings"
	"unsafe"
)

// A Module is a piece of code on the device.
type Module struct {
	device *Device
	handle uintptr
}

// Options of the compiler in the driver, as it numbers them.
const (
	optionErrorLog      = 5
	optionErrorLogBytes = 6
)

// compilerLogBytes is how much is kept of what the compiler says.
const compilerLogBytes = 1 << 13

// LoadModule compiles PTX for the device, or takes the result from the driver's
// own cache.
func (d *Device) LoadModule(ptx string) (*Module, error) {
	// The driver takes options as an array of pointers, and a number where a
	// pointer would be. All of it must stay in its place meanwhile.
	type options struct {
		image   []byte
		log     [compilerLogBytes]byte
		numbers [2]int32
		values  [2]uintptr
	}
	o := &options{image: append([]byte(ptx), 0), numbers: [2]int32{optionErrorLog, optionErrorLogBytes}}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(o)
	o.values = [2]uintptr{uintptr(unsafe.Pointer(&o.log[0])), uintptr(len(o.log))}
	m := &Module{device: d}
	err := d.lib.call("cuModuleLoadDataEx", d.lib.symbols.moduleLoadDataEx,
		uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&o.image[0])), uintptr(len(o.numbers)),
		uintptr(unsafe.Pointer(&o.numbers[0])), uintptr(unsafe.Pointer(&o.values[0])))
	var failed *Error
	if errors.As(err, &failed) {
		text, _, _ := strings.Cut(string(o.log[:]), "\x00")
		failed.Detail = strings.TrimSpace(text)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Unload removes the code.
func (m *Module) Unload() error {
	return m.device.lib.call("cuModuleUnload", m.device.lib.symbols.moduleUnload, m.handle)
}

// A Kernel is a function of a module that the device runs in many threads.
type Kernel struct {
	device *Device
	handle uintptr
	Name   string
}

// Kernel returns a kernel by its name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	text := append([]byte(name), 0)
	k := &Kernel{device: m.device, Name: name}
	err := m.device.lib.call("cuModuleGetFunction", m.device.lib.symbols.moduleGetFunction,
		uintptr(unsafe.Pointer(&k.handle)), m.handle, uintptr(unsafe.Pointer(&text[0])))
	var failed *Error
	if errors.As(err, &failed) {
		failed.Detail = name
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// MaxArguments is the largest number of arguments of a kernel.
const MaxArguments = 16

// Launch queues a kernel, in blocks of so many threads. Arguments are numbers of
// four or eight bytes, of which the driver takes as many as the kernel declares,
// from the lowest on. They are copied before Launch returns.
func (k *Kernel) Launch(s *Stream, blocks, threads int, arguments ...uint64) error {
	type block struct {
		values   [MaxArguments]uint64
		pointers [MaxArguments]uintptr
	}
	if len(arguments) > MaxArguments {
		return &Error{Call: "cuLaunchKernel", Code: 1, Name: "CUDA_ERROR_INVALID_VALUE", Detail: k.Name}
	}
	b := new(block)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(b)
	copy(b.values[:], arguments)
	for i := range arguments {
		b.pointers[i] = uintptr(unsafe.Pointer(&b.values[i]))
	}
	err := k.device.lib.call("cuLaunchKernel", k.device.lib.symbols.launchKernel, k.handle,
		uintptr(blocks), 1, 1, uintptr(threads), 1, 1, 0, s.handle, uintptr(unsafe.Pointer(&b.pointers[0])), 0)
	var failed *Error
	if errors.As(err, &failed) {
		failed.Detail = k.Name
	}
	return err
}
