package nvml

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNoDevice is wrapped by the errors of Find and Best where there is none that
// is meant.
var ErrNoDevice = errors.New("no such device")

// leastUUID is how much of a UUID must be given, so that a number is an index and
// not the beginning of a UUID by chance.
const leastUUID = len("GPU-0")

// Find returns the device that a name means: the index of a card, or a UUID of a
// card or part, or the beginning of one if it is the beginning of no other.
func Find(devices []Device, name string) (Device, error) {
	var found []Device
	index, err := strconv.Atoi(name)
	for _, d := range devices {
		isIndex := err == nil && d.Index == index && d.Parent == ""
		isUUID := len(name) >= leastUUID && strings.HasPrefix(strings.ToLower(d.UUID), strings.ToLower(name))
		if isIndex || isUUID {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Device{}, fmt.Errorf("%w: %q; there are %s", ErrNoDevice, name, list(devices))
	}
	return Device{}, fmt.Errorf("%w: %q is more than one; there are %s", ErrNoDevice, name, list(devices))
}

func list(devices []Device) string {
	if len(devices) == 0 {
		return "none"
	}
	var names []string
	for _, d := range devices {
		names = append(names, fmt.Sprintf("%d: %s (%s)", d.Index, d.UUID, d.Name))
	}
	return strings.Join(names, ", ")
}

// Best returns the device that has the most memory free and the least to do: the
// free bytes, less the share of the time in which it is busy. One that does not
// say how busy it is, as parts do not, is taken to be idle.
func (l *Library) Best(devices []Device) (Device, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	best, most := -1, int64(-1)
	for i, d := range devices {
		if d.Divided {
			continue
		}
		s := Status{MemoryFree: 0, Busy: -1}
		l.askMemory(d, &s)
		l.askBusy(d, &s)
		if v := worth(s); v > most {
			best, most = i, v
		}
	}
	if best < 0 {
		return Device{}, fmt.Errorf("%w: there are %s", ErrNoDevice, list(devices))
	}
	return devices[best], nil
}

// worth is how good a device is to choose.
func worth(s Status) int64 { return s.MemoryFree / 100 * int64(100-max(0, min(s.Busy, 100))) }
