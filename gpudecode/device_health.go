package gpudecode

import (
	"errors"
	"fmt"

	"prismfs/gpudecode/nvml"
)

// A monitor asks NVML how a device fares.
type monitor struct {
	lib    *nvml.Library
	device nvml.Device
	why    error // it cannot
}

// newMonitor begins to watch the device with this UUID. Decoding goes on without
// it.
func newMonitor(uuid string) *monitor {
	lib, err := nvml.Open()
	if err != nil {
		return &monitor{why: err}
	}
	devices, err := lib.Devices()
	for _, d := range devices {
		if d.UUID == uuid {
			m := &monitor{lib: lib, device: d}
			if err := lib.Watch(d); err != nil {
				m.why = fmt.Errorf("critical errors (Xid) are not counted: %w", err)
			}
			return m
		}
	}
	lib.Close()
	return &monitor{why: errors.Join(fmt.Errorf("NVML does not list %s", uuid), err)}
}

func (m *monitor) status() (nvml.Status, error) {
	if m.lib == nil {
		return nvml.Status{}, m.why
	}
	s := m.lib.Status(m.device)
	if m.why != nil {
		s.Missing = append(s.Missing, m.why.Error())
	}
	return s, nil
}

func (m *monitor) close() {
	if m.lib != nil {
		m.lib.Close()
	}
}

// DeviceHealth says how the device fares that images are decoded on. It asks the
// driver, which takes some 50 ms. Without a device that works the error wraps
// ErrNoDevice.
func (d *Decoder) DeviceHealth() (nvml.Status, error) {
	if d.device == nil {
		return nvml.Status{}, fmt.Errorf("%w: %s", ErrNoDevice, d.noDevice)
	}
	return d.device.health()
}

// health asks the device of the session.
func (s *scheduler) health() (nvml.Status, error) {
	s.mu.Lock()
	ses, reason := s.session, s.reason
	s.mu.Unlock()
	if ses == nil {
		return nvml.Status{}, fmt.Errorf("%w: %w", ErrNoDevice, reason)
	}
	return ses.device.health()
}
