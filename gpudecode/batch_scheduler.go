package gpudecode

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"prismfs/l3"
)

// A scheduler is what stands in front of a device. What waits becomes the next
// batch as soon as a lane is free, and a request that finds one free does not
// wait, unless it is ahead of its reader (see worthABatch); there are no timers.
// Whatever the device does not do, its caller decodes on the CPU.
type scheduler struct {
	open     func() (device, error)
	now      func() time.Time
	limits   l3.Limits
	logger   *slog.Logger
	always   bool // whatever the device can decode goes to it
	free     func() (placeIdle bool, waiting float64)
	counters deviceCounters
	owner    *counters // of the Decoder

	jobs sync.Pool // of *deviceJob

	mu             sync.Mutex
	wake           sync.Cond // a lane is to look: for a batch, or the end
	waiting, ahead turns
	waitingBytes   int64     // of samples
	most           batchSize // of the next batch
	typical        batchSize // of an image of late
	good           int       // batches since most was changed
	costs          costs
	session        *session // nil: no device
	name           string   // of the last device
	reason         error    // why there is no session
	retry          time.Time
	pause          time.Duration // before the next attempt
	failures       int           // batches that failed one after another
	busy           int           // goroutines that end a session or begin one
	settled        sync.Cond     // busy has become 0
	absent         bool          // there is no device, and there will be none
	closed         bool
}

const (
	// deviceLanes is how many batches are on their way at a time: one goes up,
	// one is decoded, one comes down.
	deviceLanes = 3

	// aheadMost is how many images that are decoded ahead wait for a device while
	// nothing is known of their sizes.
	aheadMost = 64

	// A device that fails is left alone, first for firstPause, then for twice as
	// long each time, up to longestPause.
	firstPause   = 5 * time.Second
	longestPause = 10 * time.Minute

	// failuresInARow is how many batches may fail one after another before a
	// device that says it works is taken to be lost.
	failuresInARow = 3

	// growAfter is how many batches must have had memory before larger ones are
	// tried again.
	growAfter = 64
)

func newScheduler(d *Decoder, open func() (device, error), always bool) *scheduler {
	s := &scheduler{
		open: open, now: time.Now, limits: d.limits, logger: d.logger, always: always,
		free: d.cpuLoad, owner: &d.counters, pause: firstPause,
	}
	s.wake.L, s.settled.L = &s.mu, &s.mu
	s.jobs.New = func() any { return &deviceJob{done: make(chan struct{}, 1)} }
	return s
}

// decode decodes r on the device and reports whether it did. If it did not, r is
// to be decoded on the CPU, unless there is an error: then r was dropped. refused
// is whether the device found something wrong with the image.
func (s *scheduler) decode(ctx context.Context, r *Request) (decoded, refused bool, err error) {
	if r.Codec != L3 || !s.up() {
		return false, false, nil
	}
	j := s.jobs.Get().(*deviceJob)
	defer func() {
		j.clear()
		s.jobs.Put(j)
	}()
	if !s.plan(j, r) {
		return false, false, nil
	}
	if admitted, err := s.admit(j); !admitted {
		return false, false, err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if s.drop(j) {
			return false, false, ctx.Err()
		}
		<-j.done
	}
	return s.outcome(j)
}

// plan is setPlan for codecs that panic: the CPU meets that again, where it is
// told.
func (s *scheduler) plan(j *deviceJob, r *Request) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if ok = j.setPlan(r, s.limits); !ok && j.isRaw() {
		s.counters.noKernel.Add(1)
	}
	return ok
}

// outcome takes what came out of a job.
func (s *scheduler) outcome(j *deviceJob) (decoded, refused bool, err error) {
	switch {
	case j.failed:
		return false, false, nil
	case j.refusal != 0:
		s.counters.refused.Add(1)
		s.logger.Debug("a device refused an image", "image", j.request.Name, "status", j.refusal.String())
		return false, true, nil
	case !j.takeSamples():
		s.counters.refused.Add(1)
		s.logger.Debug("samples from a device have another checksum", "image", j.request.Name)
		return false, true, nil
	}
	s.counters.patches.Add(uint64(len(j.plan.Patches)))
	s.counters.encodedBytes.Add(uint64(len(j.request.Encoded)))
	s.counters.sampleBytes.Add(uint64(len(j.request.Pix)))
	return true, false, nil
}

// up reports whether there is a device, and if not, sees to it that one is looked
// for when it is time.
func (s *scheduler) up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return true
	}
	if !s.closed && !s.absent && s.busy == 0 && !s.now().Before(s.retry) {
		s.busy++
		go s.probe()
	}
	return false
}

// spare reports whether an image would be decoded ahead on the device.
func (s *scheduler) spare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chosen() && s.waiting.len == 0 && s.ahead.len < s.aheadLimit()
}

// admit puts a job into the queue, or returns false if it is for the CPU. What
// would be decoded ahead, on a device that must do everything and has something
// better to do, is ErrBusy.
func (s *scheduler) admit(j *deviceJob) (bool, error) {
	placeIdle, cpuWaiting := s.free() // which has another lock
	s.mu.Lock()
	defer s.mu.Unlock()
	coding := j.plan.Info.Coding
	switch {
	case s.session == nil || s.closed:
		return false, nil
	case !s.session.device.takes(coding):
		s.counters.noKernel.Add(1)
		return false, nil
	case !j.size.fits(s.session.device.most()):
		s.counters.tooLarge.Add(1)
		return false, nil
	case j.request.Ahead && s.ahead.len >= s.aheadLimit():
		if s.always {
			return false, ErrBusy
		}
		return false, nil
	}
	s.learn(j.size)
	bytes, key := int64(len(j.request.Pix)), keyOf(coding, j.request)
	if !s.always {
		now := load{laneIdle: s.session.idle > 0, deviceWaiting: s.waitingBytes, placeIdle: placeIdle, cpuWaiting: cpuWaiting}
		first := s.costs.deviceFirst(key, bytes, now)
		s.costs.chosen(key, first)
		if !first {
			s.counters.onCPU.Add(1)
			return false, nil
		}
	}
	s.waitingBytes += bytes
	j.queued = time.Now()
	if j.request.Ahead {
		s.ahead.push(j)
	} else {
		s.waiting.push(j)
	}
	s.wake.Signal()
	return true, nil
}

// keyOf is the kind of work that a request would be for the CPU.
func keyOf(coding l3.Coding, r *Request) costKey {
	return costKey{coding: coding, helped: len(r.Pix) >= helpedBytes && !r.Ahead}
}

// decodedHere is told what the CPU took.
func (s *scheduler) decodedHere(coding l3.Coding, r *Request, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.costs.decodedHere(keyOf(coding, r), int64(len(r.Pix)), took)
}

// drop withdraws a job and reports whether it still waited.
func (s *scheduler) drop(j *deviceJob) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !j.withdraw() {
		return false
	}
	s.waitingBytes -= int64(len(j.request.Pix))
	s.owner.dropped.Add(1)
	return true
}

// stats returns the counts.
func (s *scheduler) stats() DeviceStats {
	stats := s.counters.stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Name = s.name
	if s.typical != (batchSize{}) {
		stats.FullBatch = s.filling()
	}
	switch {
	case s.session != nil:
		stats.State = DeviceUp
	case s.counters.losses.Load() > 0:
		stats.State = DeviceLost
	default:
		stats.State = DeviceNone
	}
	if s.reason != nil {
		stats.Reason = s.reason.Error()
	}
	return stats
}
