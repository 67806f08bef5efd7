package pack

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// sliceBytes is the least part of an image, in bytes of samples, that is worth
// a goroutine of its own when it is encoded.
const sliceBytes = 1 << 20

// slots are the processors that a run may use. Each image in work holds one;
// where there are fewer images than slots, at the end of a run or where images
// are few and large, an encoder borrows those that nobody holds.
type slots struct {
	total int
	free  *semaphore.Weighted
}

func newSlots(total int) *slots {
	return &slots{total: total, free: semaphore.NewWeighted(int64(total))}
}

// enter waits for a slot, leave gives it back.
func (s *slots) enter(ctx context.Context) error { return s.free.Acquire(ctx, 1) }
func (s *slots) leave()                          { s.free.Release(1) }

// borrow returns how many goroutines may encode an image of this many bytes of
// samples for a caller that holds one slot. They must be given back.
func (s *slots) borrow(bytes int64) int {
	workers := 1
	for workers < s.total && int64(workers+1)*sliceBytes <= bytes && s.free.TryAcquire(1) {
		workers++
	}
	return workers
}

func (s *slots) giveBack(workers int) { s.free.Release(int64(workers - 1)) }
