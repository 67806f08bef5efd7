package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// workCache is a cache whose fills take twice the size of their buffer.
func workCache(t *testing.T, budget, limit, spare int64) *Cache[int] {
	t.Helper()
	c, err := New[int](Options{Budget: budget, Medium: NewMemory(warmBytes), MaxWait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.LimitWork(limit, spare, func(_ int, size int64) int64 { return 2 * size })
	return c
}

// Many misses at once never work on more than the limit allows, and all of them
// are served. A fill that takes more than all may takes the rest of the budget.
func TestWorkIsBounded(t *testing.T) {
	for _, c := range []struct {
		what          string
		size          int64
		budget, limit int64
		atOnce        int64
	}{
		{"small", 8 << 10, 1 << 20, 64 << 10, 4},
		{"one fills it", 32 << 10, 1 << 20, 64 << 10, 1},
		{"larger than all", 100 << 10, 1 << 20, 64 << 10, 1},
		{"larger than the budget has room for", 200 << 10, 250 << 10, 64 << 10, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			cache := workCache(t, c.budget, c.limit, 512<<10)
			var running, most, made atomic.Int64
			var all sync.WaitGroup
			for key := range 16 {
				all.Go(func() {
					b, err := cache.Get(key, c.size, func(dst []byte) error {
						n := running.Add(1)
						for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
						}
						time.Sleep(time.Millisecond)
						running.Add(-1)
						made.Add(1)
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
					b.Unpin()
				})
			}
			all.Wait()
			if most.Load() > c.atOnce || made.Load() != 16 {
				t.Errorf("%d fills at once, want %d at most; %d made", most.Load(), c.atOnce, made.Load())
			}
			if s := cache.Stats(); s.Bytes > c.budget || s.PinnedBytes != 0 {
				t.Errorf("%+v: what was reserved for work has not come back", s)
			}
		})
	}
}

// A fill that fails gives its work back, and who fills ahead of a reader waits for
// work as others do: it ends.
func TestWorkComesBack(t *testing.T) {
	c := workCache(t, 1<<20, 64<<10, 0)
	failed := errors.New("failed")
	for range 20 {
		if _, err := c.Get(3, 30<<10, func([]byte) error { return failed }); !errors.Is(err, failed) {
			t.Fatal(err)
		}
	}
	begun, end := make(chan bool), make(chan bool)
	done := make(chan error)
	go func() {
		b, err := c.Get(1, 30<<10, func([]byte) error { close(begun); <-end; return nil })
		if err == nil {
			b.Unpin()
		}
		done <- err
	}()
	<-begun
	ahead := make(chan error)
	go func() {
		made, err := c.Prefetch(2, 30<<10, func([]byte) error { return nil })
		if err == nil && !made {
			err = errors.New("nothing was made")
		}
		ahead <- err
	}()
	select {
	case err := <-ahead:
		t.Errorf("it was made beside a fill that takes nearly all: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	for _, c := range []chan error{done, ahead} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
}

// A fill whose work fits neither beside the cache nor into it fails before it takes
// anything.
func TestWorkThatFitsNowhere(t *testing.T) {
	for _, c := range []struct {
		spare int64
		fits  bool
	}{{0, false}, {64 << 10, false}, {384 << 10, true}} {
		cache := workCache(t, 250<<10, 64<<10, c.spare) // 200 and twice that: 286 and overhead are beyond
		filled := false
		b, err := cache.Get(1, 200<<10, func([]byte) error { filled = true; return nil })
		if filled != c.fits || !c.fits && !errors.Is(err, ErrNoSpace) || c.fits && err != nil {
			t.Errorf("%d bytes to spare: filled %v, error %v", c.spare, filled, err)
		}
		if b != nil {
			b.Unpin()
		}
	}
}
