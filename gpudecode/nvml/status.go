package nvml

import (
	"fmt"

	api "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Status is how a device fares. What is not known is −1, and Missing says why.
type Status struct {
	Name        string `json:"name"` // empty if the driver does not say
	MemoryTotal int64  `json:"memory_total_bytes"`
	MemoryFree  int64  `json:"memory_free_bytes"`
	MemoryUsed  int64  `json:"memory_used_bytes"`   // by all programs
	Busy        int    `json:"busy_percent"`        // of the last second or less: time in which a kernel ran
	MemoryBusy  int    `json:"memory_busy_percent"` // the same for reading or writing of its memory
	Temperature int    `json:"temperature_celsius"`
	PCIeSent    int64  `json:"pcie_sent_bytes_per_s"`     // by the device
	PCIeGot     int64  `json:"pcie_received_bytes_per_s"` // by the device

	Xids    uint64 `json:"xids"`     // critical errors since the library was opened
	LastXid uint64 `json:"last_xid"` // 0: none

	Missing []string `json:"missing,omitempty"`
}

// Unknown returns the status of which nothing is known, for these reasons.
func Unknown(missing ...string) Status {
	return Status{
		MemoryTotal: -1, MemoryFree: -1, MemoryUsed: -1, Busy: -1, MemoryBusy: -1, Temperature: -1,
		PCIeSent: -1, PCIeGot: -1, Missing: missing,
	}
}

// xids are the critical errors of a device.
type xids struct{ count, last uint64 }

// pcieUnit is in what the library counts traffic.
const pcieUnit = 1000

// Status asks a device how it fares. The library watches PCIe for some 20 ms for
// each direction to answer.
func (l *Library) Status(d Device) Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Unknown()
	s.Name = d.Name
	l.askMemory(d, &s)
	l.askBusy(d, &s)
	l.ask(&s, "nvmlDeviceGetTemperature", func() api.Return {
		v, r := d.handle.GetTemperature(api.TEMPERATURE_GPU)
		if r == api.SUCCESS {
			s.Temperature = int(v)
		}
		return r
	})
	for counter, to := range map[api.PcieUtilCounter]*int64{api.PCIE_UTIL_TX_BYTES: &s.PCIeSent, api.PCIE_UTIL_RX_BYTES: &s.PCIeGot} {
		l.ask(&s, "nvmlDeviceGetPcieThroughput", func() api.Return {
			v, r := d.handle.GetPcieThroughput(counter)
			if r == api.SUCCESS {
				*to = int64(v) * pcieUnit
			}
			return r
		})
	}
	l.readEvents()
	if x := l.xids[d.UUID]; x != nil {
		s.Xids, s.LastXid = x.count, x.last
	}
	return s
}

// askMemory and askBusy are what choosing a device takes.
func (l *Library) askMemory(d Device, s *Status) {
	l.ask(s, "nvmlDeviceGetMemoryInfo", func() api.Return {
		v, r := d.handle.GetMemoryInfo()
		if r == api.SUCCESS {
			s.MemoryTotal, s.MemoryFree, s.MemoryUsed = int64(v.Total), int64(v.Free), int64(v.Used)
		}
		return r
	})
}

func (l *Library) askBusy(d Device, s *Status) {
	l.ask(s, "nvmlDeviceGetUtilizationRates", func() api.Return {
		v, r := d.handle.GetUtilizationRates()
		if r == api.SUCCESS {
			s.Busy, s.MemoryBusy = int(v.Gpu), int(v.Memory)
		}
		return r
	})
}

// ask calls an entry point if the library has it, and notes why there is no
// answer.
func (l *Library) ask(s *Status, call string, do func() api.Return) {
	switch {
	case l.closed:
		s.Missing = append(s.Missing, call+": the device has been given back")
		return
	case !l.has(call):
		s.Missing = append(s.Missing, call+": the driver lacks it")
		return
	}
	if r := do(); r != api.SUCCESS {
		s.Missing = append(s.Missing, failure(call, r).Error())
	}
}

// Watch begins to count the critical errors (Xid) of a device.
func (l *Library) Watch(d Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range []string{"nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetFree"} {
		if !l.has(call) {
			return fmt.Errorf("%w: it has no %s", ErrNoLibrary, call)
		}
	}
	if !l.has("nvmlEventSetWait_v2", "nvmlEventSetWait") {
		return fmt.Errorf("%w: it has no nvmlEventSetWait", ErrNoLibrary)
	}
	if l.events == nil {
		events, r := l.api.EventSetCreate()
		if r != api.SUCCESS {
			return failure("nvmlEventSetCreate", r)
		}
		l.events = events
	}
	if r := d.handle.RegisterEvents(api.EventTypeXidCriticalError, l.events); r != api.SUCCESS {
		return failure("nvmlDeviceRegisterEvents", r)
	}
	l.xids[d.UUID] = new(xids)
	return nil
}

// eventsAtOnce bounds how many events are read at once.
const eventsAtOnce = 256

// readEvents takes what has happened and waits for nothing. The lock is held.
func (l *Library) readEvents() {
	if l.events == nil {
		return
	}
	for range eventsAtOnce {
		e, r := l.events.Wait(0)
		if r != api.SUCCESS {
			return
		}
		if e.EventType != api.EventTypeXidCriticalError || e.Device == nil {
			continue
		}
		uuid, r := e.Device.GetUUID()
		if x := l.xids[uuid]; r == api.SUCCESS && x != nil {
			x.count++
			x.last = e.EventData
		}
	}
}

// MemoryTotal returns how much memory a device has, −1 if that is not known. Unlike
// Status it waits for nothing.
func (l *Library) MemoryTotal(d Device) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Unknown()
	l.askMemory(d, &s)
	return s.MemoryTotal
}
