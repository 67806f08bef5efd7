package gpudecode

import (
	"sync"
	"time"

	"prismfs/l3"
)

// A batch is what a lane decodes at once.
type batch struct {
	jobs  []*deviceJob
	begun time.Time

	// taken ends when all samples have been copied out of the lane's memory.
	// The callers of Decode do that, each its own.
	taken sync.WaitGroup
}

// compose takes the next batch out of the queue, the turns being the readers'.
// The lock is held, and something waits.
func (s *scheduler) compose() *batch {
	b := &batch{begun: time.Now()}
	var size batchSize
	add := func(t *turns, most int) {
		for ; most > 0 && t.len > 0; most-- {
			next := size.plus(t.first().size)
			if len(b.jobs) > 0 && !next.fits(s.most) {
				return
			}
			b.jobs, size = append(b.jobs, t.pop()), next
		}
	}
	// What is decoded ahead gets what is left, but one image always: somebody
	// may have come to wait for it.
	if s.ahead.len > 0 && s.waiting.len > 0 {
		add(&s.ahead, 1)
	}
	add(&s.waiting, s.waiting.len)
	add(&s.ahead, s.ahead.len)
	return b
}

// sampleBytes is the size of all samples of the first n images.
func (b *batch) sampleBytes(n int) int64 {
	total := int64(0)
	for _, j := range b.jobs[:n] {
		total += int64(len(j.request.Pix))
	}
	return total
}

// copiedBytes is how much is copied at a time: its checksum is computed while it
// is in the processor's cache.
const copiedBytes = 64 << 10

// takeSamples copies a job's samples out of the lane's memory and reports whether
// they have the checksum that the file says.
func (j *deviceJob) takeSamples() bool {
	defer j.batch.taken.Done()
	dst, src, sum := j.request.Pix, j.samples, uint32(0)
	for len(src) > 0 {
		n := min(copiedBytes, len(src))
		copy(dst, src[:n])
		if j.plan.Info.HasPixelCRC {
			sum = l3.AppendChecksum(sum, dst[:n])
		}
		dst, src = dst[n:], src[n:]
	}
	return j.plan.Info.CheckSum(sum) == nil
}
