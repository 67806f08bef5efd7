package gpudecode

import (
	"context"
	"errors"
	"sync"

	"prismfs/l3"
)

// errStarting says why there is no device at first.
var errStarting = errors.New("it is being made ready")

// A session is the time from taking a device into use to its end.
type session struct {
	device device
	lanes  sync.WaitGroup
	idle   int  // lanes that wait; under the scheduler's lock, as what follows
	broken bool // no more batches

	// serving is how many lanes there are, and retired how many there were
	// that got no memory.
	serving, retired int

	// seen are the codings that have been decoded before. The driver may load a
	// kernel when it is first used, which says nothing of its cost.
	seen map[l3.Coding]bool
}

// warm reports whether all kernels of a batch had been used before it. The
// scheduler's lock is held.
func (ses *session) warm(b *batch) bool {
	warm := true
	for _, j := range b.jobs {
		if c := j.plan.Info.Coding; !ses.seen[c] {
			warm, ses.seen[c] = false, true
		}
	}
	return warm
}

// begin takes the device into use.
func (s *scheduler) begin() error {
	dev, err := s.open()
	if err != nil {
		return err
	}
	ses := &session{device: dev, seen: make(map[l3.Coding]bool), serving: deviceLanes}
	ready := make(chan error, deviceLanes)
	for range deviceLanes {
		ses.lanes.Go(func() { s.serve(ses, ready) })
	}
	for range deviceLanes {
		if e := <-ready; e != nil {
			err = e
		}
	}
	s.mu.Lock()
	s.name = dev.String()
	if err == nil {
		s.session, s.reason, s.failures = ses, nil, 0
		s.most, s.good, s.costs.device = dev.most(), 0, line{}
	} else {
		ses.broken = true
	}
	s.wake.Broadcast()
	s.mu.Unlock()
	if err != nil {
		ses.lanes.Wait()
		s.give(dev, true)
	}
	return err
}

// startLater takes the device into use without keeping anybody waiting.
func (s *scheduler) startLater() {
	s.busy, s.reason = 1, errStarting
	go s.startUp()
}

func (s *scheduler) startUp() {
	err := s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest()
	if err == nil {
		s.logger.Info("images are decoded on a device", "device", s.name)
		return
	}
	if s.absent = hopeless(err); s.absent {
		s.reason = err
	} else {
		s.sleep(err)
	}
	s.logger.Log(context.Background(), levelWithout(err), "images are decoded on the CPU: no device can be used", "reason", err)
}

// give gives a device back.
func (s *scheduler) give(dev device, lost bool) {
	if err := dev.close(lost); err != nil {
		s.logger.Debug("a device was not given back in order", "device", dev.String(), "error", err)
	}
}

// lose ends a session whose device works no more. The lock is held.
func (s *scheduler) lose(ses *session, why error) {
	if ses.broken {
		return
	}
	ses.broken = true
	s.session = nil
	s.counters.losses.Add(1)
	s.sleep(why)
	s.logger.Error("the device is lost; images are decoded on the CPU until it works again",
		"device", ses.device.String(), "error", why, "tried_again_in", s.retry.Sub(s.now()).String())
	for _, t := range []*turns{&s.waiting, &s.ahead} {
		for t.len > 0 {
			s.counters.failed.Add(1)
			t.pop().fail()
		}
	}
	s.waitingBytes = 0
	s.wake.Broadcast()
	s.busy++
	go s.bury(ses)
}

// bury ends a session that is broken.
func (s *scheduler) bury(ses *session) {
	ses.lanes.Wait()
	s.give(ses.device, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest()
}

// rest counts a goroutine that is done. The lock is held.
func (s *scheduler) rest() {
	if s.busy--; s.busy == 0 {
		s.settled.Broadcast()
	}
}

// sleep sets when the device is tried again. The lock is held.
func (s *scheduler) sleep(why error) {
	s.reason = why
	s.retry = s.now().Add(s.pause)
	s.pause = min(2*s.pause, longestPause)
}

// probe tries to take a lost device into use again.
func (s *scheduler) probe() {
	s.counters.probes.Add(1)
	err := s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest()
	if err != nil {
		s.sleep(err)
		s.logger.Warn("the device is still lost", "error", err, "tried_again_in", s.retry.Sub(s.now()).String())
		return
	}
	s.logger.Info("the device works again", "device", s.name)
}

// close lets what waits be decoded and gives the device back. What comes after it
// is decoded as if there was no device.
func (s *scheduler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake.Broadcast()
	s.settle()
	ses := s.session
	if ses == nil {
		return
	}
	s.mu.Unlock()
	ses.lanes.Wait()
	s.mu.Lock()
	s.settle()
	if s.session == nil {
		return // it was lost at the end
	}
	s.session, s.reason = nil, ErrClosed
	s.give(ses.device, false)
}

// settle waits until no session is ended or begun. The lock is held.
func (s *scheduler) settle() {
	for s.busy > 0 {
		s.settled.Wait()
	}
}
