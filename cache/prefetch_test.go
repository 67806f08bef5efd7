package cache

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPrefetch(t *testing.T) {
	c := newCache(t, Options{Budget: 8 * unit, Medium: NewMemory(warmBytes)})
	if did, err := c.Prefetch(1, 100, fillOf(1)); !did || err != nil {
		t.Fatalf("%v, %v", did, err)
	}
	if s := c.Stats(); s.Hits != 0 || s.Misses != 0 || s.Buffers != 1 || s.Pinned != 0 || s.Bytes != unit {
		t.Fatalf("stats %+v", s)
	}
	if did, err := c.Prefetch(1, 100, never(t)); did || err != nil {
		t.Errorf("of what is there: %v, %v", did, err)
	}
	b, err := c.Get(1, 100, never(t))
	if err != nil {
		t.Fatal(err)
	}
	if did, err := c.Prefetch(1, 100, never(t)); did || err != nil {
		t.Errorf("of what is pinned: %v, %v", did, err)
	}
	b.Unpin()
	if s := c.Stats(); s.Hits != 1 || s.Misses != 0 {
		t.Errorf("stats %+v", s)
	}
	mustAddUp(t, c)
}

// TestPrefetchIsJoined: whoever asks while it runs waits for it, and shares
// what it brings.
func TestPrefetchIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{Budget: 8 * unit, Medium: NewMemory(warmBytes)})
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if did, err := c.Prefetch(1, 100, func(dst []byte) error { <-release; return fillOf(1)(dst) }); !did || err != nil {
				t.Errorf("%v, %v", did, err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				b, err := c.Get(1, 100, never(t))
				if err != nil {
					t.Error(err)
					return
				}
				b.Unpin()
			})
		}
		synctest.Wait()
		if did, err := c.Prefetch(1, 100, never(t)); did || err != nil {
			t.Errorf("a second one: %v, %v", did, err)
		}
		close(release)
		wg.Wait()
		if s := c.Stats(); s.Hits != 3 || s.Misses != 0 || s.Pinned != 0 {
			t.Errorf("stats %+v", s)
		}
		mustAddUp(t, c)
	})
}

// TestPrefetchFails: its failures are its own. Whoever waits for it tries again.
func TestPrefetchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{Budget: 8 * unit, Medium: NewMemory(warmBytes)})
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if did, err := c.Prefetch(1, 100, func([]byte) error { <-release; return errFill }); did || err != errFill {
				t.Errorf("%v, %v", did, err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() { pass(t, c, 1, 100) })
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if s := c.Stats(); s.Hits+s.Misses != 3 || s.Buffers != 1 {
			t.Errorf("stats %+v", s)
		}
		mustAddUp(t, c)
	})
}

// TestPrefetchDoesNotWait: for pins to end.
func TestPrefetchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{Budget: 2 * unit, Medium: NewMemory(warmBytes)})
		held := []*Buffer[int]{mustGet(t, c, 1, 100), mustGet(t, c, 2, 100)}
		begun := time.Now()
		if did, err := c.Prefetch(3, 100, never(t)); did || !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v, %v", did, err)
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("it waited for %v", waited)
		}
		held[0].Unpin()
		if did, err := c.Prefetch(3, 100, fillOf(3)); !did || err != nil {
			t.Errorf("after a pin has ended: %v, %v", did, err)
		}
		held[1].Unpin()
		mustAddUp(t, c)
	})
}

func TestPrefetchOfAClosedCache(t *testing.T) {
	c := newCache(t, Options{Budget: 2 * unit, Medium: NewMemory(warmBytes)})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if did, err := c.Prefetch(1, 100, never(t)); did || !errors.Is(err, ErrClosed) {
		t.Errorf("%v, %v", did, err)
	}
}
