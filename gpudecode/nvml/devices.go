package nvml

import (
	"fmt"

	api "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Device is a card, or a part of one that is divided (MIG).
type Device struct {
	Index   int    // of the card, as nvidia-smi numbers them
	UUID    string // GPU-… or, of a part, MIG-…
	Name    string
	Parent  string // of a part: the UUID of its card
	Divided bool   // a card that only its parts can be used of

	handle api.Device
}

// maxParts bounds what a library may say of a card's parts.
const maxParts = 64

// Devices lists all cards and their parts. A card that does not answer is left
// out, and is the error beside the others.
func (l *Library) Devices() ([]Device, error) {
	if !l.has("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") || !l.has("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") ||
		!l.has("nvmlDeviceGetUUID") {
		return nil, fmt.Errorf("%w: it cannot list devices", ErrNoLibrary)
	}
	count, r := l.api.DeviceGetCount()
	if r != api.SUCCESS {
		return nil, failure("nvmlDeviceGetCount", r)
	}
	var all []Device
	var bad error
	for i := range count {
		d, err := l.card(i)
		if err != nil {
			bad = fmt.Errorf("device %d: %w", i, err)
			continue
		}
		parts := l.parts(&d)
		all = append(append(all, d), parts...)
	}
	return all, bad
}

func (l *Library) card(index int) (Device, error) {
	handle, r := l.api.DeviceGetHandleByIndex(index)
	if r != api.SUCCESS {
		return Device{}, failure("nvmlDeviceGetHandleByIndex", r)
	}
	d := Device{Index: index, handle: handle}
	return d, l.name(&d)
}

// name sets what a device is called.
func (l *Library) name(d *Device) error {
	uuid, r := d.handle.GetUUID()
	if r != api.SUCCESS {
		return failure("nvmlDeviceGetUUID", r)
	}
	d.UUID = uuid
	if l.has("nvmlDeviceGetName") {
		if name, r := d.handle.GetName(); r == api.SUCCESS {
			d.Name = name
		}
	}
	return nil
}

// parts lists the parts of a card and marks it if it is divided.
func (l *Library) parts(card *Device) []Device {
	if !l.has("nvmlDeviceGetMigMode") || !l.has("nvmlDeviceGetMaxMigDeviceCount") || !l.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return nil
	}
	mode, _, r := card.handle.GetMigMode()
	if r != api.SUCCESS || mode != api.DEVICE_MIG_ENABLE {
		return nil
	}
	card.Divided = true
	count, r := card.handle.GetMaxMigDeviceCount()
	if r != api.SUCCESS {
		return nil
	}
	var parts []Device
	for i := range min(count, maxParts) {
		handle, r := card.handle.GetMigDeviceHandleByIndex(i)
		if r != api.SUCCESS {
			continue // there are as many numbers as there could be parts
		}
		part := Device{Index: card.Index, Parent: card.UUID, handle: handle}
		if l.name(&part) == nil {
			parts = append(parts, part)
		}
	}
	return parts
}
