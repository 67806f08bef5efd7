package fs

import (
	"errors"
	"sync"
	"time"

	"prismfs/gpudecode"
	"prismfs/gpudecode/nvml"
)

// healthInterval is how old the remembered health of a device becomes before
// somebody who reads stats has it asked for again. Asking takes the driver some
// 50 ms, and more if the device is ill.
const healthInterval = 5 * time.Second

// DeviceHealth is how a device fared when it was last asked. What is not known is
// −1, or empty, and said under missing.
type DeviceHealth struct {
	nvml.Status
	AgeSeconds float64 `json:"age_s"`
}

// healthMemory remembers how the device fares, so that reading stats waits for no
// driver. It asks only when somebody reads, in the background and once at a time:
// the first reader gets nothing, and one that comes after a long time an old value,
// of which the age is said.
type healthMemory struct {
	mu     sync.Mutex
	known  bool
	status nvml.Status
	at     time.Time // of the answer
	asked  time.Time
	asking bool
}

// read returns what is remembered, nil for nothing, and has ask called if that is
// too old.
func (h *healthMemory) read(ask func() (nvml.Status, error)) *DeviceHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asking && time.Since(h.asked) >= healthInterval {
		h.asking, h.asked = true, time.Now()
		go h.refresh(ask)
	}
	if !h.known {
		return nil
	}
	return &DeviceHealth{Status: h.status, AgeSeconds: time.Since(h.at).Seconds()}
}

// refresh asks. What a device that is gone was like is forgotten.
func (h *healthMemory) refresh(ask func() (nvml.Status, error)) {
	status, err := ask()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking, h.at = false, time.Now()
	if h.known = !errors.Is(err, gpudecode.ErrNoDevice); !h.known {
		return
	}
	if err != nil {
		status = nvml.Unknown(err.Error())
	}
	h.status = status
}
