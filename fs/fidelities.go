package fs

import (
	"errors"
	"fmt"
	"sync"
)

// maxAutoViews bounds the settings that a mount remembers.
const maxAutoViews = 4096

// errManyAutoViews says that no more settings are remembered.
var errManyAutoViews = errors.New("too many auto views have been set")

// fidelities are the settings of the auto views. A view that was never set has
// full fidelity.
type fidelities struct {
	mu  sync.RWMutex
	set map[AutoView]int
}

// of returns the fidelity of a view at this moment, 0 being full.
func (f *fidelities) of(a AutoView) int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.set[a]
}

// put sets the fidelity of a view and returns the one before.
func (f *fidelities) put(a AutoView, k int) (before int, err error) {
	if k < 0 || k > maxFidelity {
		return 0, fmt.Errorf("fidelity %d is not from 0 (full) to %d", k, maxFidelity)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.set[a]
	if !known && len(f.set) >= maxAutoViews {
		return 0, fmt.Errorf("%w: %d", errManyAutoViews, len(f.set))
	}
	if f.set == nil {
		f.set = make(map[AutoView]int)
	}
	f.set[a] = k
	return before, nil
}

// all returns the settings by the path of the view.
func (f *fidelities) all() map[string]int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make(map[string]int, len(f.set))
	for a, k := range f.set {
		all[a.String()] = k
	}
	return all
}

// now returns the view with the fidelity that it has at this moment.
func (f *fidelities) now(v View) View {
	if v.Auto.Word != "" {
		v.Fidelity = f.of(v.Auto)
	}
	return v
}
