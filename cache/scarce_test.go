package cache

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestScarce: a fill that finds no room beside pins gets that of pins which can
// be spared, at once.
func TestScarce(t *testing.T) {
	const size = 8 << 12
	var spare atomic.Pointer[Buffer[int]]
	var asked atomic.Int64
	c, err := New[int](Options{Budget: 3 * size, Medium: NewMemory(warmBytes), MaxWait: time.Hour, Scarce: func(bytes int64) {
		asked.Add(1)
		if b := spare.Swap(nil); b != nil {
			b.Unpin()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fill := func([]byte) error { return nil }
	first, err := c.Get(1, size, fill)
	if err != nil {
		t.Fatal(err)
	}
	first.Pin()
	spare.Store(first)
	first.Unpin() // the pin that is left can be spared
	if _, err := c.Get(2, size, fill); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Pinned != 2 || asked.Load() != 0 {
		t.Fatalf("%d buffers are pinned, want 2; asked for pins %d times, want 0", s.Pinned, asked.Load())
	}
	if made, err := c.Prefetch(3, size, fill); made || err == nil || asked.Load() != 0 {
		t.Errorf("a prefetch beside pins: made %v, error %v, asked for pins %d times", made, err, asked.Load())
	}
	if _, err := c.Get(3, size, fill); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); asked.Load() != 1 || s.Evictions != 1 || s.Pinned != 2 {
		t.Errorf("asked for pins %d times, %d evictions, %d pinned; want 1, 1, 2", asked.Load(), s.Evictions, s.Pinned)
	}
}
