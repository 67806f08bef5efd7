package fs

import (
	"runtime/debug"
	"testing"

	"prismfs/cache"
)

func TestPinAlarm(t *testing.T) {
	var a pinAlarm
	rings := 0
	for i := range 5 * pinAlarmAfter {
		if i == 2*pinAlarmAfter {
			if a.look(100, 100) {
				t.Error("it rings while the budget is kept")
			}
		}
		if a.look(101, 100) {
			rings++
		}
	}
	if rings != 2 {
		t.Errorf("it rang %d times, want once before and once after the budget was kept", rings)
	}
}

func TestLimitHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const gib = 1 << 30
	for _, c := range []struct{ cache, free, want int64 }{
		{64 << 20, 64 * gib, minGoHeap}, {16 * gib, 64 * gib, 2 * gib}, {256 << 20, 500 << 20, 96 << 20}, {256 << 20, 0, leastGoHeap},
	} {
		if got := heapLimit(c.cache, c.free); got != c.want {
			t.Errorf("cache of %d, %d free: a limit of %d, want %d", c.cache, c.free, got, c.want)
		}
	}
	for _, c := range []struct{ limit, live, want int64 }{{gib, gib / 2, gib}, {gib, gib, gib * 3 / 2}, {gib, 0, gib}} {
		if got := nextHeapLimit(c.limit, c.live); got != c.want {
			t.Errorf("limit %d, %d alive: %d, want %d", c.limit, c.live, got, c.want)
		}
	}
	for _, c := range []struct{ cache, want int64 }{{64 << 20, minGoHeap}} {
		t.Setenv("GOMEMLIMIT", "")
		LimitHeap(c.cache)
		use := memoryUse(cache.Stats{Bytes: 7, PinnedBytes: 5})
		if use.HeapLimit != c.want || use.Cache != 7 || use.Pinned != 5 || use.Heap <= 0 || use.MachineFree <= 0 {
			t.Errorf("cache of %d: %+v, want a limit of %d", c.cache, use, c.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	LimitHeap(64 << 30)
	if got := debug.SetMemoryLimit(-1); got != minGoHeap {
		t.Errorf("the limit of the environment was replaced by %d", got)
	}
}
