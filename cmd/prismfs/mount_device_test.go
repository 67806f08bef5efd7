package main

import (
	"testing"

	"prismfs/fs"
	"prismfs/gpudecode"
)

func TestBackendFlags(t *testing.T) {
	for _, c := range []struct {
		backend, device string
		want            gpudecode.Backend
		bad             bool
	}{
		{"auto", "", gpudecode.BackendAuto, false},
		{"auto", "1", gpudecode.BackendAuto, false},
		{"cpu", "", gpudecode.BackendCPU, false},
		{"cuda", "", gpudecode.BackendCUDA, false},
		{"cuda", "GPU-1234", gpudecode.BackendCUDA, false},
		{"cpu", "0", 0, true},
		{"gpu", "", 0, true},
		{"", "", 0, true},
	} {
		f := mountFlags{view: "npy", jobs: 1, backend: c.backend, device: c.device}
		opt, err := f.mountOptions("a", "b")
		switch {
		case c.bad && statusOf(err) != statusUsage:
			t.Errorf("%+v: error %v", c, err)
		case !c.bad && (err != nil || opt.Backend != c.want || opt.Device != c.device):
			t.Errorf("%+v: backend %v, device %q, error %v", c, opt.Backend, opt.Device, err)
		}
	}
	if got := statusOfMount(&fs.DeviceError{Err: gpudecode.ErrNoDevice}); got != statusNoDevice {
		t.Errorf("a mount without a device ends with %v", got)
	}
}
