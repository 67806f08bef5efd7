package fs

import (
	"math"
	"testing"
	"time"

	"prismfs/cache"
)

func TestCacheBudget(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct{ asked, available, cgroup, want int64 }{
		{0, 16 * gib, math.MaxInt64, 4 * gib},
		{0, 16 * gib, 2 * gib, gib / 2},
		{4 * gib, 16 * gib, math.MaxInt64, 4 * gib},
		{256 << 20, 16 * gib, 500 << 20, 256 << 20},
		{1 << 20, 16 * gib, math.MaxInt64, 1 << 20},
		{4 * gib, 16 * gib, 0, leastBudget},
		{0, 16 * gib, 0, leastBudget},
		{0, 16 * gib, 133 << 20, 50 << 20}, // pins, work, slack and the rest have the other 83
		{0, 16 * gib, 256 << 20, cache.MinBudget},
	} {
		if got := CacheBudget(c.asked, cache.Memory{Available: c.available, CgroupFree: c.cgroup}); got != c.want {
			t.Errorf("asked %d, free %d and %d: %d, want %d", c.asked, c.available, c.cgroup, got, c.want)
		}
	}
}

// What is asked for never makes buffers, pins, decoding and the rest together
// take more than is free, unless that is hardly anything; and is not cut without
// need.
func TestCacheBudgetFits(t *testing.T) {
	const asked = 1 << 50
	for free := int64(1); free < 1<<44; free += free/3 + 1<<20 {
		b := CacheBudget(asked, cache.Memory{Available: free, CgroupFree: math.MaxInt64})
		all := tmpfsSize(b) + workLimit(b) + restBytes
		if all > free && b > leastBudget {
			t.Errorf("of %d free bytes a budget of %d takes %d in all", free, b, all)
		}
		if b > leastBudget && all < free*95/100 {
			t.Errorf("of %d free bytes a budget of %d takes %d only", free, b, all)
		}
	}
}

func TestNextBudget(t *testing.T) {
	const mib, full = 1 << 20, 1024 << 20 // so the reserve is 256 MiB
	for _, c := range []struct {
		what                  string
		now, used, free, want int64
	}{
		{"plenty", full, 900 * mib, 4096 * mib, full},
		{"enough", full, 900 * mib, 300 * mib, full},
		{"short by 56", full, 900 * mib, 200 * mib, (900 - 56) * mib},
		{"short, though nearly empty", full, 10 * mib, 0, full / shrunkShare},
		{"short, shrunk already", 100 * mib, 100 * mib, 250 * mib, 94 * mib},
		{"never grows while short", 100 * mib, 400 * mib, 200 * mib, 100 * mib},
		{"free again", 100 * mib, 100 * mib, 912 * mib, 200 * mib},
		{"up to the full size", 1000 * mib, 900 * mib, 4096 * mib, full},
	} {
		if got := nextBudget(full, c.now, c.used, c.free); got != c.want {
			t.Errorf("%s: %d MiB, want %d", c.what, got/mib, c.want/mib)
		}
	}
}

func TestUntilNextLook(t *testing.T) {
	const mib = 1 << 20
	for free, want := range map[int64]time.Duration{0: nearInterval, 255 * mib: nearInterval, 256 * mib: memoryInterval, 1 << 40: memoryInterval} {
		if got := untilNextLook(256*mib, free); got != want { // so the reserve is 64 MiB
			t.Errorf("%d MiB free: %v, want %v", free/mib, got, want)
		}
	}
}
