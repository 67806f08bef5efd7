package fs

import (
	"errors"
	"fmt"
	"sync"

	"prismfs/dataset"
	"prismfs/order"
)

const (
	// streamWindow is how many images beyond the reader are made at most, if they
	// are small: more than what fills a device. What they take is bounded as well.
	streamWindow = 4096
	// streamShare: what is made ahead of readers of shards and not yet read takes
	// at most 1/4 of the cache's budget, as with plans: the order is known.
	streamShare = 4
	// orderSlack is how far apart reads of one who reads in order may be: the
	// kernel reads ahead in several requests, which overtake each other.
	orderSlack = 8 << 20
	// A reader is in order who has read so much of what he went over. One who goes
	// from header to header reads a few pages of each image.
	orderShare, orderOf = 3, 4
	// orderImages is how many images he must have gone over: the kernel reads ahead
	// for whoever begins at the beginning.
	orderImages = 3
)

// follower has the images of a shard made that its reader will come to, once the
// reader has shown that he does not leave them out.
type follower struct {
	s      *streams
	shard  *streamShard
	reader uint64

	mu                   sync.Mutex
	begin, furthest, sum int64 // of a run of reads: where it began, how far and how much was read
	inOrder              bool
	ahead                *order.Lookahead // nil until the first time
}

// follow begins to follow a reader.
func (s *streams) follow(x *streamShard, reader uint64) *follower {
	f := &follower{s: s, shard: x, reader: reader}
	s.mu.Lock()
	s.following[f] = struct{}{}
	s.mu.Unlock()
	return f
}

// leave ends the following. What is being made is not waited for.
func (s *streams) leave(f *follower) {
	s.closing.Go(func() {
		f.mu.Lock()
		ahead := f.ahead
		f.mu.Unlock()
		if ahead != nil {
			ahead.Close()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.following, f)
		if ahead != nil {
			s.gone.Add(ahead.Stats())
		}
	})
}

// saw judges by a read whether the reader goes on in order.
func (f *follower) saw(off, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sum == 0 || off < f.begin || off > f.furthest+orderSlack {
		f.begin, f.furthest, f.sum = off, off, 0
	}
	f.sum += n
	f.furthest = max(f.furthest, off+n)
	was := f.inOrder
	p := f.shard.plan
	shown := min(p.Find(f.begin)+orderImages, p.Len()-1)
	f.inOrder = f.furthest > p.Start(shown) && f.sum >= (f.furthest-f.begin)/orderOf*orderShare && f.s.m.opt.ReadAhead >= 0
	if f.inOrder && !was {
		if f.ahead == nil {
			f.ahead = f.s.newLookahead(f)
		}
		f.ahead.MoveTo(int64(p.Find(off)))
	}
}

// reached says that the reader comes to an image.
func (f *follower) reached(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inOrder {
		f.ahead.Reached(int64(i))
	}
}

func (s *streams) newLookahead(f *follower) *order.Lookahead {
	return order.NewLookahead(int64(f.shard.part.Len()), order.LookaheadOptions{
		Make: func(i int64) (int64, bool, error) {
			return s.prefetch(f.shard, f.shard.part.At(int(i)).Sample, f.reader)
		},
		// Readers of a stream, such as the workers of a loader, share what fills
		// the decoder and the memory.
		Flight: func() int { return max(s.m.decoder.Appetite()/s.followers(), 1) },
		Bytes:  func() int64 { return s.m.cache.Ahead(streamShare) / int64(s.followers()) },
		Window: streamWindow,
	})
}

// followers is how many readers there are.
func (s *streams) followers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(len(s.following), 1)
}

// streamKey is what an image is kept under for shards: where the kernel serves
// files by itself, those cannot be read here.
func (m *mount) streamKey(c content) bufferKey {
	key := c.key()
	key.readable = m.passthrough
	return key
}

// load returns the pinned buffer of a sample, for a reader who waits for it.
func (s *streams) load(x *streamShard, sample int, by asked) (*buffer, error) {
	c, err := s.content(x, sample)
	if err != nil {
		return nil, err
	}
	s.m.layer.flight.of(by.request).waitsFor(forTurn, c.size)
	buf, err := s.m.cache.GetReadable(s.m.streamKey(c), c.size, func(dst []byte) error {
		if err := s.m.fill(c, dst, by); err != nil {
			return fmt.Errorf("decoding: %w", err)
		}
		return nil
	})
	return buf, s.noteChange(x, err)
}

// prefetch makes a sample for a reader who will come to it.
func (s *streams) prefetch(x *streamShard, sample int, reader uint64) (int64, bool, error) {
	c, err := s.content(x, sample)
	if err != nil {
		return 0, false, err
	}
	made, err := s.m.cache.PrefetchReadable(s.m.streamKey(c), c.size, func(dst []byte) error {
		return s.m.fill(c, dst, asked{by: reader, ahead: true})
	})
	return c.size, made, s.noteChange(x, err)
}

func (s *streams) content(x *streamShard, sample int) (content, error) {
	c, err := x.c.content(s.m.ds, sample, x.view)
	return c, s.noteChange(x, err)
}

// noteChange has the stream looked at anew where a file of it is another one now.
func (s *streams) noteChange(x *streamShard, err error) error {
	if errors.Is(err, dataset.ErrChanged) {
		s.outdated(x.view)
	}
	return err
}

// aheadStats counts what was made ahead of readers of shards.
func (s *streams) aheadStats() order.LookaheadStats {
	s.mu.Lock()
	all := s.gone
	var live []*follower
	for f := range s.following {
		live = append(live, f)
	}
	s.mu.Unlock()
	for _, f := range live {
		f.mu.Lock()
		if f.ahead != nil {
			all.Add(f.ahead.Stats())
		}
		f.mu.Unlock()
	}
	return all
}

// warnOfBuffer tells the log, once for a stream, where echoes come so late that
// the cache cannot have their samples any more.
func (s *streams) warnOfBuffer(x *streamShard) {
	v := x.view.Stream
	if v.Factor <= order.NoEchoes {
		return
	}
	buffer := v.Buffer
	if buffer == 0 {
		buffer = order.DefaultBuffer
	}
	needed := x.c.meanBytes() * int64(min(buffer, len(x.c.samples)))
	budget := s.m.cacheStats().Budget
	if needed > budget && !s.slot(x.view).warnedOfBuffer.Swap(true) {
		s.m.log.Warn("the cache is too small for a stream's echoes, which are decoded anew then; ask for a smaller bufferN or mount with a larger --cache",
			"view", x.view.String(), "buffer_bytes", needed, "cache_bytes", budget)
	}
}

// countInto adds what streams count to the statistics.
func (s *streams) countInto(out *Stats) {
	out.StreamOpens, out.StreamImages, out.StreamDamaged = s.opened.Load(), s.served.Load(), s.damaged.Load()
	a := s.aheadStats()
	out.StreamAheadMade, out.StreamAheadUse, out.StreamAheadWaste = a.Made, a.Useful, a.Wasted
}
