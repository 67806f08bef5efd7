package fs

import (
	"errors"
	"time"

	"prismfs/cache"
)

const (
	// memoryInterval is how often free memory is looked at. A loader that
	// starts beside us takes gigabytes in seconds, not in less. Where less than
	// nearReserves times the reserve is free, as in a small container, the cache itself
	// could take it in that time, and it is looked at every nearInterval.
	memoryInterval = time.Second
	nearInterval   = 50 * time.Millisecond
	nearReserves   = 4
	// The cache leaves so much memory free on the machine and in its cgroup: a
	// quarter of its budget, within these bounds. Below it the kernel reclaims,
	// and then kills.
	minReserve = 32 << 20
	maxReserve = 512 << 20
	// shrunkShare: a cache under pressure keeps 1/16 of its budget.
	shrunkShare = 16
	// What is being decoded takes 1/4 of the budget beside it, and at least half of
	// the budget or minWork: enough for small images to be decoded many at a time.
	// Larger images take the rest from the budget.
	workShare      = 4
	smallWorkShare = 2
	minWork        = 64 << 20
	// keptScratchShare: where memory is short, scratch memory of more than 1/8 of what all
	// of it may take is not kept for the next image.
	keptScratchShare = 8
	// restBytes is what the daemon takes for everything else before names are
	// looked up: its code, stacks, go-fuse's buffers.
	restBytes = 32 << 20
	// leastBudget is what a cache has where nothing is free at all: a mount can be
	// made, and images that do not fit fail.
	leastBudget = 1 << 20
)

// CacheBudget returns the budget of a mount's cache: what was asked for (0: a share of
// free memory, and a few photos at least), and no more than what is free has room
// for, with pins and what is being decoded.
func CacheBudget(asked int64, mem cache.Memory) int64 {
	if asked == 0 {
		asked = mem.DefaultBudget()
	}
	return max(min(asked, roomFor(mem.Free())), leastBudget)
}

// roomFor returns the largest budget that fits into what is free.
func roomFor(free int64) int64 {
	least, most := int64(0), max(free-restBytes, 0)
	for least < most {
		middle := least + (most-least+1)/2
		if spareOf(free, middle) >= 0 {
			least = middle
		} else {
			most = middle - 1
		}
	}
	return least
}

// spareOf returns what is left of free memory where a cache has such a budget.
func spareOf(free, budget int64) int64 {
	return free - restBytes - tmpfsSize(budget) - workLimit(budget)
}

// workLimit is what all images that are being decoded may take beside a budget.
func workLimit(budget int64) int64 {
	return max(budget/workShare, min(budget/smallWorkShare, minWork))
}

// tellOfLittleMemory says in the log why the cache is smaller than it would be, and
// what comes of it.
func (m *mount) tellOfLittleMemory(budget int64, mem cache.Memory) {
	m.cut = budget < m.opt.CacheBytes || m.opt.CacheBytes == 0 && budget < cache.MinBudget
	if m.cut {
		m.keepScratch = workLimit(budget) / keptScratchShare
	}
	args := []any{"cache_bytes", budget, "free_bytes", mem.Free(), "largest_bytes", budget + budget/pinAllowanceShare}
	switch {
	case spareOf(mem.Free(), budget) < 0:
		m.log.Warn("machine or cgroup have hardly any memory free: images larger than the cache fail with ENOMEM, "+
			"and the daemon itself may be killed; give the container or machine more memory", args...)
	case m.opt.CacheBytes == 0 && m.cut:
		m.log.Warn("machine or cgroup have little memory free: larger images fail with ENOMEM; "+
			"give the container or machine more memory", args...)
	case m.cut:
		m.log.Warn("the cache is smaller than asked for: machine or cgroup have less free",
			append(args, "asked_bytes", m.opt.CacheBytes)...)
	}
}

// remedyOfNoMemory says what to do where an image finds no room.
func (m *mount) remedyOfNoMemory(err error) string {
	remedy := "mount with a larger --cache"
	if m.cut {
		remedy = "give the container or machine more memory (it bounds the cache here)"
	}
	if errors.Is(err, cache.ErrNeverFits) {
		return remedy
	}
	return remedy + ", or hold fewer files open or mapped"
}

// work is what filling a buffer takes beside the buffer: the encoded bytes, scratch
// memory where buffers are files, and the samples where the form has them in
// another order.
func (m *mount) work(key bufferKey, size int64) int64 {
	if !key.form.Decoded() {
		return size
	}
	n := min(key.id.Size, size) // of L3 files the encoded bytes; of JPEGs, more
	if m.medium != "memory" {   // there the scratch memory is the buffer
		n += size
	}
	if key.form.CHW || key.form.RGB {
		n += size
	}
	return n
}

// reserve is how much memory a cache leaves free.
func reserve(full int64) int64 { return min(max(full/4, minReserve), maxReserve) }

// nextBudget returns the budget for the next moment: less by what is missing
// when free memory falls below the reserve, and a part of what is free more
// when there is plenty again.
func nextBudget(full, now, used, free int64) int64 {
	reserve := reserve(full)
	switch {
	case free < reserve:
		return max(min(now, used-(reserve-free)), full/shrunkShare)
	case free > 2*reserve:
		return min(full, now+(free-2*reserve)/4)
	}
	return now
}

// untilNextLook returns how long what is free is sure to last.
func untilNextLook(full, free int64) time.Duration {
	if free < nearReserves*reserve(full) {
		return nearInterval
	}
	return memoryInterval
}

// watchMemory keeps the budget within what the machine can spare, until the
// mount is gone.
func (m *mount) watchMemory(full int64) {
	timer := time.NewTimer(memoryInterval)
	defer timer.Stop()
	shrunk := false
	var pins pinAlarm
	for whole := time.Now(); ; {
		select {
		case <-m.closing:
			return
		case <-timer.C:
		}
		// What is counted in seconds, and growth, wait for a whole one.
		second := time.Since(whole) >= memoryInterval
		if second {
			whole = time.Now()
			raiseHeapLimit()
		}
		mem, err := cache.ReadMemory()
		timer.Reset(untilNextLook(full, mem.Free()))
		if err != nil {
			continue // it was readable at the start; the next look tells
		}
		c := m.cacheStats()
		if second && pins.look(c.PinnedBytes-m.echo.echoes.Bytes(), c.Budget) {
			m.log.Warn("files that are open or mapped fill the cache: what is opened next may wait, then fail with ENOMEM; "+
				"close maps that are no longer needed, or mount with a larger --cache",
				"pinned_bytes", c.PinnedBytes, "cache_bytes", c.Budget, "limit_bytes", c.Limit)
		}
		next := nextBudget(full, c.Budget, c.Bytes, mem.Free())
		if next == c.Budget || next > c.Budget && !second {
			continue
		}
		m.cache.SetBudget(next)
		m.echo.setBudget(next)
		if next < c.Budget && !shrunk {
			m.log.Warn("memory is short; the cache shrinks", "cache_bytes", next, "free_bytes", mem.Free())
		}
		if next == full {
			m.log.Info("memory is free again; the cache has its full size", "cache_bytes", full)
		}
		shrunk = next < full
	}
}
