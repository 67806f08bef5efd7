package gpudecode

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// serve is the goroutine of a lane.
func (s *scheduler) serve(ses *session, ready chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := ses.device.newLane()
	ready <- err
	if err != nil {
		return
	}
	defer l.close()
	for b := s.next(ses); b != nil && s.run(ses, l, b); b = s.next(ses) {
	}
}

// next waits for a batch. It returns nil when there will be none.
func (s *scheduler) next(ses *session) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses.idle++
	defer func() { ses.idle-- }()
	for !s.worthABatch(ses) && !ses.broken && !s.closed {
		s.wake.Wait()
	}
	// While a session begins it has no batches yet.
	if ses.broken || s.waiting.len+s.ahead.len == 0 {
		return nil
	}
	b := s.compose()
	s.waitingBytes -= b.sampleBytes(len(b.jobs))
	if s.waiting.len+s.ahead.len > 0 {
		s.wake.Signal()
	}
	return b
}

// run decodes a batch and returns when its samples have been taken. It returns
// false if the lane is to end.
func (s *scheduler) run(ses *session, l lane, b *batch) bool {
	ran, took, err := runSafely(l, b.jobs)
	switch {
	case err != nil:
		s.failed(ses, b, err)
		return true
	case ran == 0 && s.retire(ses, b):
		return false
	}
	s.counters.busyNS.Add(uint64(took))
	b.jobs = s.shrink(ses, b, ran)
	if ran == 0 {
		s.counters.noMemory.Add(1)
		b.jobs[0].fail()
		return true
	}
	s.counters.batches.Add(1)
	s.counters.batchImages.Add(uint64(ran))
	raise(&s.counters.largestBatch, uint64(ran))
	s.mu.Lock()
	if !ses.broken { // by another lane, meanwhile
		s.failures, s.pause = 0, firstPause
	}
	if ses.warm(b) {
		s.costs.device.add(b.sampleBytes(ran), took)
	}
	s.mu.Unlock()
	b.deliver(s.owner, took)
	b.taken.Wait()
	return true
}

// retire ends a lane that gets no memory for a single image, if there are others,
// and leaves its batch and its memory to them.
func (s *scheduler) retire(ses *session, b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses.serving == 1 {
		return false
	}
	ses.serving--
	ses.retired++
	s.counters.shrunk.Add(1)
	s.putAllBack(b.jobs)
	return true
}

// revive begins the lanes again that got no memory. The lock is held.
func (s *scheduler) revive(ses *session) {
	for ; ses.retired > 0; ses.retired-- {
		ses.serving++
		ready := make(chan error, 1)
		ses.lanes.Go(func() {
			s.serve(ses, ready)
			if <-ready != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				ses.serving--
			}
		})
	}
}

// runSafely turns a panic into an error of the device: nobody knows what state it
// was left in.
func runSafely(l lane, jobs []*deviceJob) (ran int, took time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w\n%s", &PanicError{Value: v}, debug.Stack())
		}
	}()
	return l.run(jobs)
}

// shrink puts back what there was no memory for, and sees to it that the next
// batches are as small; after a while larger ones are tried again. It returns
// what has been decoded, or the first image if that is nothing.
func (s *scheduler) shrink(ses *session, b *batch, ran int) []*deviceJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ran == len(b.jobs) {
		if s.good++; s.good >= growAfter && !ses.broken {
			s.good, s.most = 0, ses.device.most()
			s.revive(ses)
		}
		return b.jobs
	}
	s.counters.shrunk.Add(1)
	kept := max(ran, 1)
	var size batchSize
	for _, j := range b.jobs[:kept] {
		size = size.plus(j.size)
	}
	s.most, s.good = size, 0
	s.putAllBack(b.jobs[kept:])
	return b.jobs[:kept]
}

// putAllBack puts jobs back in their order. The lock is held.
func (s *scheduler) putAllBack(jobs []*deviceJob) {
	for _, j := range slices.Backward(jobs) {
		s.putBack(j)
	}
}

// putBack puts a job that was taken at the head of the queue again, if there is
// still somebody to take it. The lock is held.
func (s *scheduler) putBack(j *deviceJob) {
	if s.session == nil {
		s.counters.failed.Add(1)
		j.fail()
		return
	}
	s.waitingBytes += int64(len(j.request.Pix))
	if j.request.Ahead {
		s.ahead.putBack(j)
	} else {
		s.waiting.putBack(j)
	}
	s.wake.Signal()
}

// fail gives a job back to its caller, who decodes it.
func (j *deviceJob) fail() {
	j.failed = true
	j.done <- struct{}{}
}

// deliver gives all jobs of a batch back to their callers.
func (b *batch) deliver(c *counters, took time.Duration) {
	n := len(b.jobs)
	for _, j := range b.jobs {
		if j.refusal == 0 {
			b.taken.Add(1)
		}
		c.waitNS.Add(uint64(b.begun.Sub(j.queued)))
		c.decodeNS.Add(uint64(took) / uint64(n))
	}
	for _, j := range b.jobs {
		j.batch = b
		j.done <- struct{}{}
	}
}

// failed gives a batch back of which nothing is known, and finds out whether the
// device is lost.
func (s *scheduler) failed(ses *session, b *batch, err error) {
	s.counters.failedBatches.Add(1)
	s.counters.failed.Add(uint64(len(b.jobs)))
	s.logger.Warn("a batch failed on the device; its images are decoded on the CPU",
		"device", ses.device.String(), "images", len(b.jobs), "error", err)
	lost := ses.device.check()
	s.mu.Lock()
	s.failures++
	if lost == nil && s.failures >= failuresInARow {
		lost = fmt.Errorf("%d batches failed one after another, the last with: %w", s.failures, err)
	}
	if lost != nil {
		s.lose(ses, fmt.Errorf("%w (%w)", err, lost))
	}
	s.mu.Unlock()
	for _, j := range b.jobs {
		j.fail()
	}
}
