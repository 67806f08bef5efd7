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
	for _, c := range []struct{ cache, want int64 }{{64 << 20, minGoHeap}, {16 << 30, 2 << 30}} {
		t.Setenv("GOMEMLIMIT", "")
		LimitHeap(c.cache)
		use := memoryUse(cache.Stats{Bytes: 7, PinnedBytes: 5})
		if use.HeapLimit != c.want || use.Cache != 7 || use.Pinned != 5 || use.Heap <= 0 || use.MachineFree <= 0 {
			t.Errorf("cache of %d: %+v, want a limit of %d", c.cache, use, c.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	LimitHeap(64 << 30)
	if got := debug.SetMemoryLimit(-1); got != 2<<30 {
		t.Errorf("the limit of the environment was replaced by %d", got)
	}
}
