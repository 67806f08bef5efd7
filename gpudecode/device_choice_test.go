package gpudecode

import (
	"errors"
	"path/filepath"
	"testing"

	"prismfs/gpudecode/cuda"
)

// TestFindDevice: it is the device that Open takes, and nothing of it is held.
func TestFindDevice(t *testing.T) {
	sim := simulate(t)
	found, err := FindDevice("", quiet)
	if err != nil || found.UUID == "" || found.Major < 7 {
		t.Fatalf("%+v, error %v", found, err)
	}
	sim.checkNothingHeld(t)
	if again, err := FindDevice(found.UUID, quiet); err != nil || again != found {
		t.Errorf("by its UUID: %+v, error %v", again, err)
	}
	if _, err := FindDevice("GPU-none", quiet); !errors.Is(err, ErrNoDevice) {
		t.Errorf("one that is not there: error %v", err)
	}
	t.Setenv(cuda.LibraryVariable, filepath.Join(t.TempDir(), "libcuda.so.1"))
	if _, err := FindDevice("", quiet); !errors.Is(err, ErrNoDevice) || !errors.Is(err, cuda.ErrNoLibrary) {
		t.Errorf("without a driver: error %v", err)
	}
}
