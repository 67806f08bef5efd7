package gpudecode

import (
	"fmt"
	"testing"
)

// TestAppetite: on the CPU it is the places; on a device, once an image was seen,
// what fills the lanes, within bounds.
func TestAppetite(t *testing.T) {
	cpu := New(Options{Workers: 3, Logger: quiet})
	defer cpu.Close()
	if n := cpu.Appetite(); n != 3 {
		t.Errorf("on the CPU %d", n)
	}
	f := newFakeDevice()
	d := openFake(t, f, Options{Backend: BackendCUDA, Workers: 2})
	if n := d.Appetite(); n != 2 {
		t.Errorf("before the first image %d", n)
	}
	mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("first", 0)))
	if n := d.Appetite(); n != mostAppetite/deviceLanes*deviceLanes {
		t.Errorf("with boundless batches %d", n)
	}
	s := d.device
	s.mu.Lock()
	for _, most := range []batchSize{
		{up: 5 * s.typical.up, down: 1 << 40, patches: 1 << 20},
		{up: 1 << 40, down: 5 * s.typical.down, patches: 1 << 20},
		{up: 1 << 40, down: 1 << 40, patches: 5 * s.typical.patches},
	} {
		s.most = most
		s.mu.Unlock()
		if n := d.Appetite(); n != 5*deviceLanes {
			t.Errorf("with batches of five images %d", n)
		}
		s.mu.Lock()
	}
	s.most = batchSize{}
	s.mu.Unlock()
	if n := d.Appetite(); n != deviceLanes {
		t.Errorf("with batches that hold nothing %d", n)
	}
	s.mu.Lock()
	s.always, s.costs.skipped = false, 1
	s.mu.Unlock()
	if n := d.Appetite(); n != 2 {
		t.Errorf("where the CPU is sooner %d", n)
	}
}

// TestAheadGathers: what is decoded ahead becomes large batches. A lane takes it
// when no other one is at work, or when it is half a batch; what somebody waits
// for it takes at once.
func TestAheadGathers(t *testing.T) {
	const full = 8
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA, Workers: 1})
	var all []decoding
	ahead := func(n, waiting int) {
		for i := range n {
			r := smallImage().request(fmt.Sprint("ahead", i), 0)
			r.Ahead = true
			all = append(all, deviceDecoding(t.Context(), d, r))
			if waiting > 0 {
				waitDevice(t, d, waiting)
				waiting++
			}
		}
	}
	ahead(1, 0)
	if names := <-f.begun; len(names) != 1 {
		t.Errorf("the first batch is %q", names)
	}
	d.device.mu.Lock()
	one := d.device.typical
	d.device.most = batchSize{up: full*one.up + one.up/2, down: full*one.down + one.down/2, patches: 1 << 20}
	d.device.mu.Unlock()
	ahead(full/2-1, 1) // they gather
	select {
	case names := <-f.begun:
		t.Errorf("%q did not gather", names)
	default:
	}
	ahead(1, 0)
	if names := <-f.begun; len(names) != full/2 {
		t.Errorf("half a batch is %q", names)
	}
	ahead(1, 1)
	all = append(all, deviceDecoding(t.Context(), d, smallImage().request("now", 0)))
	if names := <-f.begun; len(names) != 2 {
		t.Errorf("with one that somebody waits for: %q", names)
	}
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
}
