package gpudecode

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/nvml"
)

// partPrefix is what the UUIDs of parts of a card begin with.
const partPrefix = "MIG-"

// visibleVariable is by what the driver shows a part of a card to a process: of
// those that are divided it shows one part alone.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// FindDevice returns the device that Open would take for Options.Device, and why it
// would take none. It takes none into use.
func FindDevice(name string, logger *slog.Logger) (cuda.DeviceInfo, error) {
	lib, ordinal, err := chooseDevice(name, logger)
	if err != nil {
		return cuda.DeviceInfo{}, fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	visible, err := lib.Devices()
	if err != nil {
		return cuda.DeviceInfo{}, fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	for _, d := range visible {
		if d.Ordinal == ordinal {
			return d, nil
		}
	}
	return cuda.DeviceInfo{}, fmt.Errorf("%w: device %d is gone", ErrNoDevice, ordinal)
}

// chooseDevice loads the driver and returns the number that it gives to the device
// that is asked for. NVML knows the devices better, where it is there.
func chooseDevice(name string, logger *slog.Logger) (*cuda.Library, int, error) {
	lib, err := loadCUDA(name)
	if err != nil {
		return nil, 0, err
	}
	visible, err := lib.Devices()
	if err != nil {
		return nil, 0, err
	}
	if len(visible) == 0 {
		return nil, 0, errors.New("the NVIDIA driver shows no device")
	}
	ordinal, err := chooseByNVML(name, visible)
	switch {
	case err == nil:
		return lib, ordinal, nil
	case name != "" && errors.Is(err, nvml.ErrNoDevice):
		return nil, 0, err
	}
	logger.Info("NVML cannot be asked for the best device", "reason", err)
	ordinal, err = chooseByCUDA(name, visible)
	return lib, ordinal, err
}

// loadCUDA loads the driver. A part of a card must be named before that.
func loadCUDA(name string) (*cuda.Library, error) {
	if !strings.HasPrefix(name, partPrefix) {
		return cuda.Load()
	}
	before, was := os.LookupEnv(visibleVariable)
	if err := os.Setenv(visibleVariable, name); err != nil {
		return nil, err
	}
	lib, err := cuda.Load()
	// Other programs that this one starts are to see what it saw.
	restore := os.Unsetenv(visibleVariable)
	if was {
		restore = os.Setenv(visibleVariable, before)
	}
	return lib, errors.Join(err, restore)
}

// chooseByNVML chooses among the visible devices by what NVML says of them.
func chooseByNVML(name string, visible []cuda.DeviceInfo) (int, error) {
	lib, err := nvml.Open()
	if err != nil {
		return 0, err
	}
	defer lib.Close()
	all, err := lib.Devices()
	if len(all) == 0 {
		return 0, errors.Join(errors.New("NVML lists no device"), err)
	}
	var chosen nvml.Device
	if name != "" {
		if chosen, err = nvml.Find(all, name); err != nil {
			return 0, err
		}
	} else if chosen, err = lib.Best(visibleOnes(all, visible)); err != nil {
		return 0, err
	}
	for _, v := range visible {
		if v.UUID == chosen.UUID {
			return v.Ordinal, nil
		}
	}
	return 0, fmt.Errorf("%w: %s is there, but %s or the driver does not show it to this process", nvml.ErrNoDevice, chosen.UUID, visibleVariable)
}

// visibleOnes returns the devices that CUDA shows as well.
func visibleOnes(all []nvml.Device, visible []cuda.DeviceInfo) []nvml.Device {
	var both []nvml.Device
	for _, d := range all {
		for _, v := range visible {
			if d.UUID == v.UUID {
				both = append(both, d)
			}
		}
	}
	return both
}

// chooseByCUDA chooses by what CUDA alone says: the first device if none is named.
func chooseByCUDA(name string, visible []cuda.DeviceInfo) (int, error) {
	if name == "" {
		return visible[0].Ordinal, nil
	}
	var known []string
	for _, v := range visible {
		if name == strconv.Itoa(v.Ordinal) || strings.EqualFold(name, v.UUID) {
			return v.Ordinal, nil
		}
		known = append(known, fmt.Sprintf("%d: %s (%s)", v.Ordinal, v.UUID, v.Name))
	}
	return 0, fmt.Errorf("%w: %q; there are %s", nvml.ErrNoDevice, name, strings.Join(known, ", "))
}
