package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/cudasim"
	"prismfs/gpudecode/nvml"
)

// simulate makes the driver of this process the simulated one.
func simulate(t *testing.T) {
	t.Helper()
	libraries, err := cudasim.Build()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, libraries.CUDA)
	t.Setenv(nvml.LibraryVariable, libraries.NVML)
}

// TestSimulated runs everything but the mount, for which there is no command here,
// on the simulated device.
func TestSimulated(t *testing.T) {
	simulate(t)
	opt := options{prismfs: filepath.Join(t.TempDir(), "prismfs"), each: 10 * time.Millisecond, quick: true}
	var out bytes.Buffer
	if status := run(t.Context(), opt, &out); status != statusRight {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"device: Simulated GPU", "l3_raw ", "damaged images refused", "dense, 16 bits", "all is right"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Logf("it says:\n%s", out.String())
	}
}

// TestSeesWrongSamples makes sure that a kernel which gives other samples is found.
func TestSeesWrongSamples(t *testing.T) {
	simulate(t)
	c, err := openCard("device 0,")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	samples, err := makeSamples(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkKernels(c, samples); err != nil {
		t.Fatal(err)
	}
	last := samples[len(samples)-1]
	last.image.Pix[len(last.image.Pix)-1]++
	if _, err := checkKernels(c, samples); err == nil || !strings.Contains(err.Error(), last.name) {
		t.Errorf("a wrong sample: %v", err)
	}
}

func TestNoGPU(t *testing.T) {
	t.Setenv(cuda.LibraryVariable, filepath.Join(t.TempDir(), "libcuda.so.1"))
	var out bytes.Buffer
	if status := run(t.Context(), options{quick: true}, &out); status != statusNoGPU || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("status %d, and it says:\n%s", status, out.String())
	}
}
