package cache

import (
	"bytes"
	"testing"
	"testing/synctest"
)

// TestSpend: what was spent goes before all others, in the order in which it
// was, and not before room is needed.
func TestSpend(t *testing.T) {
	c := newCache(t, Options{Budget: 5 * unit})
	for key := range 5 {
		pass(t, c, key, 100)
	}
	c.Spend(3)
	b := mustGet(t, c, 4, 100)
	b.Spend() // while it is in use
	b.Unpin()
	c.Spend(99) // there is none
	if s := c.Stats(); s.Buffers != 5 || s.Evictions != 0 {
		t.Fatalf("spending evicts: %+v", s)
	}
	for i, gone := range []int{3, 4, 0, 1} {
		pass(t, c, 10+i, 100)
		if c.Holds(gone) || c.Stats().Buffers != 5 {
			t.Fatalf("after %d new ones, %d is still there", i+1, gone)
		}
	}
	mustAddUp(t, c)
}

// TestGetTakesBack what was spent.
func TestGetTakesBack(t *testing.T) {
	c := newCache(t, Options{Budget: 3 * unit})
	for key := range 3 {
		pass(t, c, key, 100)
	}
	c.Spend(1)
	c.Spend(2)
	pass(t, c, 2, 100)
	b := mustGet(t, c, 0, 100)
	b.Spend()
	pass(t, c, 0, 100) // by another reader, while the first still has it
	b.Unpin()
	pass(t, c, 3, 100)
	if c.Holds(1) || !c.Holds(2) || !c.Holds(0) {
		t.Error("what was read again went before what was not")
	}
	pass(t, c, 4, 100)
	if c.Holds(2) || !c.Holds(0) {
		t.Error("what was read again is not in the order of use")
	}
	mustAddUp(t, c)
}

// TestSpendOfWhatIsGone does nothing to what has taken its place.
func TestSpendOfWhatIsGone(t *testing.T) {
	c := newCache(t, Options{Budget: 2 * unit})
	old := mustGet(t, c, 1, 100)
	old.Unpin()
	pass(t, c, 2, 100)
	pass(t, c, 3, 100)
	pass(t, c, 1, 100) // made anew
	old.Spend()
	pass(t, c, 4, 100)
	if !c.Holds(1) || c.Holds(3) {
		t.Error("spending a buffer that is gone spent the new one of its key")
	}
	mustAddUp(t, c)
}

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{Budget: 2 * unit})
		if c.Holds(1) {
			t.Error("an empty cache holds something")
		}
		release := make(chan struct{})
		done := make(chan error)
		go func() {
			_, err := c.Prefetch(1, 100, func(dst []byte) error { <-release; return fillOf(1)(dst) })
			done <- err
		}()
		synctest.Wait()
		if c.Holds(1) {
			t.Error("it holds what is being filled")
		}
		close(release)
		if err := <-done; err != nil || !c.Holds(1) {
			t.Errorf("it does not hold what was filled (%v)", err)
		}
		if s := c.Stats(); s.Hits+s.Misses != 0 {
			t.Errorf("looking counts: %+v", s)
		}
	})
}

// TestReadable: of every medium, registered or not, GetReadable and
// PrefetchReadable give buffers that are read here, beside those that the kernel
// serves.
func TestReadable(t *testing.T) {
	eachMedium(t, 8<<20, func(t *testing.T, m Medium) {
		k := newKernel()
		opt := Options{Budget: 4 << 20, Medium: m}
		if m.Name() != "memory" {
			opt.Register, opt.Unregister = k.register, k.unregister
		}
		c := newCache(t, opt)
		for key, size := range []int64{0, 1, 777, 12288 + 128, 1_200_000} {
			if key%2 == 0 {
				if did, err := c.PrefetchReadable(key, size, fillOf(key)); !did || err != nil {
					t.Fatalf("prefetching %d: %v, %v", key, did, err)
				}
			}
			for range 2 {
				b, err := c.GetReadable(key, size, fillOf(key))
				if err != nil {
					t.Fatal(err)
				}
				got, err := b.Slice(make([]byte, size), 0, int(size))
				if err != nil || !bytes.Equal(got, expect(key, size)) || b.BackingID() != 0 {
					t.Errorf("%d bytes differ (%v), backing id %d", size, err, b.BackingID())
				}
				b.Unpin()
			}
			pass(t, c, 100+key, size)
		}
		registered := 0
		if opt.Register != nil {
			registered = 5
		}
		k.mustBeInOrder(t, registered)
		if s := c.Stats(); s.RegisterFailures != 0 || s.Buffers != 10 {
			t.Errorf("stats %+v", s)
		}
		mustAddUp(t, c)
	})
}

// TestDescriptorsOfReadableBuffers: where they are scarce, buffers that hold one
// give way, and no others.
func TestDescriptorsOfReadableBuffers(t *testing.T) {
	k := newKernel()
	m := &watched{Medium: NewMemfd(), descriptors: 4}
	c := newCache(t, Options{Budget: 1 << 20, Medium: m, Register: k.register, Unregister: k.unregister})
	for key := range 10 {
		pass(t, c, key, 1)
	}
	for key := 100; key < 120; key++ {
		b, err := c.GetReadable(key, 1, fillOf(key))
		if err != nil {
			t.Fatal(err)
		}
		b.Unpin()
		if c.descs > 4 {
			t.Fatalf("%d descriptors are held", c.descs)
		}
	}
	for key := range 10 {
		if !c.Holds(key) {
			t.Errorf("%d went, which holds no descriptor", key)
		}
	}
	if !c.Holds(119) || c.Holds(115) {
		t.Error("the readable ones did not go in the order of their use")
	}
	mustAddUp(t, c)
}
