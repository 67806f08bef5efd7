package cache

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// work bounds the memory that running fills take beside their buffers: scratch
// memory of the medium, and what fill functions take. Without it many misses at
// once take many times what the cache was given, and the kernel kills.
//
// A fill waits until its work fits beside that of the others. One that takes
// more than all of them may has the rest reserved from the budget, so that large
// images on a small budget are filled one after another. One that does not fit even
// then takes what is spare beside all of it, alone; what is beyond that fails.
type work[K comparable] struct {
	limit int64 // of all running fills
	spare int64 // what one may take beyond limit and cache
	of    func(key K, size int64) int64
	now   *semaphore.Weighted
}

// LimitWork bounds the memory of running fills to limit bytes, and spare beside the
// whole cache for one that is alone; of says what one takes. It comes before the
// first Get. Without it there is no bound.
func (c *Cache[K]) LimitWork(limit, spare int64, of func(key K, size int64) int64) {
	c.work = work[K]{limit: limit, spare: spare, of: of, now: semaphore.NewWeighted(limit)}
}

// takes returns the work of a fill, and how much of it is beyond what work is for
// in all.
func (w *work[K]) takes(key K, size int64) (part, beyond int64) {
	if w.now == nil {
		return 0, 0
	}
	all := max(w.of(key, size), 0)
	part = min(all, w.limit)
	return part, all - part
}

// begin waits until a fill can do its work beside the others, however long these
// take: they end.
func (w *work[K]) begin(part int64) error {
	if part == 0 {
		return nil
	}
	return w.now.Acquire(context.Background(), part)
}

func (w *work[K]) end(part int64) {
	if part > 0 {
		w.now.Release(part)
	}
}
