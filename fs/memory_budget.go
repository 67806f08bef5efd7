package fs

import (
	"time"

	"prismfs/cache"
)

const (
	// memoryInterval is how often free memory is looked at. A loader that
	// starts beside us takes gigabytes in seconds, not in less.
	memoryInterval = time.Second
	// The cache leaves so much memory free on the machine and in its cgroup: a
	// quarter of its budget, within these bounds. Below it the kernel reclaims,
	// and then kills.
	minReserve = 32 << 20
	maxReserve = 512 << 20
	// shrunkShare: a cache under pressure keeps 1/16 of its budget.
	shrunkShare = 16
)

// firstBudget returns the cache's budget: what was asked for (0: a share of
// free memory), and no more than what is free has room for, pins included.
func firstBudget(asked int64, mem cache.Memory) int64 {
	if asked == 0 {
		return mem.DefaultBudget()
	}
	room := mem.Free() / (pinAllowanceShare + 1) * pinAllowanceShare
	return min(asked, max(room, cache.MinBudget))
}

// nextBudget returns the budget for the next moment: less by what is missing
// when free memory falls below the reserve, and a part of what is free more
// when there is plenty again.
func nextBudget(full, now, used, free int64) int64 {
	reserve := min(max(full/4, minReserve), maxReserve)
	switch {
	case free < reserve:
		return max(min(now, used-(reserve-free)), full/shrunkShare)
	case free > 2*reserve:
		return min(full, now+(free-2*reserve)/4)
	}
	return now
}

// watchMemory keeps the budget within what the machine can spare, until the
// mount is gone.
func (m *mount) watchMemory(full int64) {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	shrunk := false
	for {
		select {
		case <-m.closing:
			return
		case <-tick.C:
		}
		mem, err := cache.ReadMemory()
		if err != nil {
			continue // it was readable at the start; the next second tells
		}
		c := m.cacheStats()
		next := nextBudget(full, c.Budget, c.Bytes, mem.Free())
		if next == c.Budget {
			continue
		}
		m.cache.SetBudget(next)
		if next < c.Budget && !shrunk {
			m.log.Warn("memory is short; the cache shrinks", "cache_bytes", next, "free_bytes", mem.Free())
		}
		if next == full {
			m.log.Info("memory is free again; the cache has its full size", "cache_bytes", full)
		}
		shrunk = next < full
	}
}
