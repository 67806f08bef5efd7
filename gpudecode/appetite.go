package gpudecode

// mostAppetite bounds the images that are asked for ahead of their readers: each
// holds a goroutine, its file and its samples.
const mostAppetite = 4096

// Appetite is how many requests at a time keep what decodes now busy: on a device
// as many as fill a batch for each lane, going by the sizes of images of late, and
// on the CPU as many as there are places.
func (d *Decoder) Appetite() int {
	if d.device != nil {
		if images, ok := d.device.appetite(); ok {
			return max(images, d.all)
		}
	}
	return d.all
}

// appetite returns how many images fill all lanes. It reports false where the
// device decodes nothing, or nothing is known of the images yet.
func (s *scheduler) appetite() (images int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.chosen() || s.typical == (batchSize{}) {
		return 0, false
	}
	return s.filling() * deviceLanes, true
}

// chosen reports whether there is a device that images go to: where the last one
// was not worth it, the next one is not either. The lock is held.
func (s *scheduler) chosen() bool { return s.session != nil && (s.always || s.costs.skipped == 0) }

// filling returns how many images of the typical size are a full batch. The lock
// is held.
func (s *scheduler) filling() int {
	fill := int64(mostAppetite / deviceLanes)
	for _, d := range [...]struct{ most, typical int64 }{
		{s.most.up, s.typical.up}, {s.most.down, s.typical.down}, {int64(s.most.patches), int64(s.typical.patches)},
	} {
		fill = min(fill, d.most/max(d.typical, 1))
	}
	return int(max(fill, 1))
}

// aheadLimit is how many images that are decoded ahead may wait for the device.
// The lock is held.
func (s *scheduler) aheadLimit() int {
	if s.typical == (batchSize{}) {
		return aheadMost
	}
	return max(s.filling()*deviceLanes, aheadMost)
}

// learn learns how large images are of late. The lock is held.
func (s *scheduler) learn(size batchSize) {
	t := &s.typical
	if *t == (batchSize{}) {
		*t = size
		return
	}
	t.up += (size.up - t.up) / 16
	t.down += (size.down - t.down) / 16
	t.patches += (size.patches - t.patches) / 16
}

// worthABatch reports whether a lane is to take what waits. What somebody waits
// for, it takes at once. What is decoded ahead is left to gather while another
// lane is at work, until it is half a batch: the lane that becomes free next takes
// it. The lock is held.
func (s *scheduler) worthABatch(ses *session) bool {
	switch {
	case s.waiting.len > 0:
		return true
	case s.ahead.len == 0:
		return false
	}
	return ses.idle >= ses.serving || 2*s.ahead.len >= s.filling()
}
