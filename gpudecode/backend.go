package gpudecode

import (
	"errors"
	"fmt"
	"log/slog"
)

// Backend says where images are decoded.
type Backend uint8

// The backends.
const (
	// BackendAuto decodes on a device where there is one, each image where it is
	// done first, and on the CPU where there is none.
	BackendAuto Backend = iota
	// BackendCPU leaves devices alone.
	BackendCPU
	// BackendCUDA must have a device, on which everything is decoded that can be.
	// Only while it fails, or is lost, the CPU takes its place.
	BackendCUDA
)

var backendNames = [...]string{BackendAuto: "auto", BackendCPU: "cpu", BackendCUDA: "cuda"}

// String returns the name of the backend, as ParseBackend reads it.
func (b Backend) String() string {
	if int(b) < len(backendNames) {
		return backendNames[b]
	}
	return fmt.Sprintf("Backend(%d)", uint8(b))
}

// ErrBackend is wrapped by the errors of ParseBackend.
var ErrBackend = errors.New("unknown backend")

// ParseBackend reads the name of a backend.
func ParseBackend(name string) (Backend, error) {
	for b, n := range backendNames {
		if n == name {
			return Backend(b), nil
		}
	}
	return 0, fmt.Errorf("%w %q: it is auto, cpu or cuda", ErrBackend, name)
}

// ErrNoDevice is wrapped by the errors of Open where BackendCUDA finds no device,
// or none that works.
var ErrNoDevice = errors.New("no device can be used")

// Open makes a Decoder with the backend that the options say. With BackendCUDA it
// returns when the device is ready. With BackendAuto it returns at once, and the
// CPU decodes until a device is ready: when the driver sees the kernels for the
// first time it compiles them, which may take many seconds. Why there is no device
// is in the log and in Stats then. Close ends it.
func Open(opt Options) (*Decoder, error) {
	return openWith(opt, func(logger *slog.Logger) (device, error) { return openCUDA(opt.Device, logger) })
}

// openWith is Open with a function that opens a device.
func openWith(opt Options, open func(*slog.Logger) (device, error)) (*Decoder, error) {
	d := New(opt)
	if opt.Backend == BackendCPU {
		d.noDevice = "the backend is cpu"
		return d, nil
	}
	s := newScheduler(d, func() (device, error) { return open(d.logger) }, opt.Backend == BackendCUDA)
	s.logger = d.logger.With("backend", opt.Backend.String())
	if opt.Backend == BackendAuto {
		s.startLater()
	} else if err := s.begin(); err != nil {
		d.Close()
		return nil, fmt.Errorf("%w: %w", ErrNoDevice, err)
	} else {
		s.logger.Info("images are decoded on a device", "device", s.name)
	}
	d.device = s
	return d, nil
}

// enter counts a request that a device may decode, unless the decoder ends.
func (d *Decoder) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.inside++
	return true
}

// leave is the end of what enter began.
func (d *Decoder) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside--; d.inside == 0 && d.ending {
		d.left.Broadcast()
	}
}

// endDevice lets all requests that are inside come to their end, those among them
// that go from a device to the CPU, and gives the device back.
func (d *Decoder) endDevice() {
	d.mu.Lock()
	d.ending = true
	for d.inside > 0 {
		d.left.Wait()
	}
	d.mu.Unlock()
	d.device.close()
}

// cpuLoad is how busy the CPU is: whether a place is free, and how many images
// wait for each place.
func (d *Decoder) cpuLoad() (placeIdle bool, waiting float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free > 0 && d.queue.len == 0, float64(d.queue.len) / float64(d.all)
}

// disagreed reports that a device refused an image that is good: it, or a kernel,
// has a fault.
func (d *Decoder) disagreed(r *Request) {
	d.device.counters.disagreed.Add(1)
	d.logger.Error("the device refused an image that the CPU decodes; the CPU's samples are used",
		"image", r.Name, "device", d.device.stats().Name)
}

// deviceStats returns the name of the backend and the counts of the device.
func (d *Decoder) deviceStats() (backend string, s DeviceStats) {
	if d.device == nil {
		return d.backend, DeviceStats{State: DeviceNone, Reason: d.noDevice}
	}
	if s = d.device.stats(); s.State == DeviceUp {
		return "cuda", s
	}
	return d.backend, s
}
