package order

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// shelf is where the items of a Lookahead are made, of 100 bytes each.
type shelf struct {
	mu      sync.Mutex
	there   map[int64]bool
	makes   []int64 // in their order
	flying  int
	most    int // of flying
	flight  int
	bytes   int64
	fail    func(i int64) bool
	pending chan struct{} // closed lets Makes go on; nil for all
	takes   time.Duration // each Make
}

func newShelf() *shelf {
	return &shelf{there: make(map[int64]bool), flight: 4, bytes: 1 << 40}
}

func (s *shelf) options(window int64) LookaheadOptions {
	return LookaheadOptions{
		Make:   s.make,
		Flight: func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.flight },
		Bytes:  func() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.bytes },
		Window: window,
	}
}

func (s *shelf) make(i int64) (int64, bool, error) {
	s.mu.Lock()
	s.flying++
	s.most = max(s.most, s.flying)
	s.makes = append(s.makes, i)
	s.mu.Unlock()
	if s.pending != nil {
		<-s.pending
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying--
	switch {
	case s.fail != nil && s.fail(i):
		return 0, false, errors.New("damaged")
	case s.there[i]:
		return 0, false, nil
	}
	s.there[i] = true
	return 100, true, nil
}

// read does what a reader does, and lets what it starts come to its end.
func (s *shelf) read(l *Lookahead, i int64) (missed bool) {
	s.mu.Lock()
	missed = !s.there[i]
	s.there[i] = true
	s.mu.Unlock()
	l.Reached(i)
	time.Sleep(100 * s.takes)
	if s.pending == nil {
		synctest.Wait()
	}
	return missed
}

func (s *shelf) made() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.makes)
}

// lookahead runs f in a bubble.
func lookahead(t *testing.T, n, window int64, f func(t *testing.T, s *shelf, l *Lookahead)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		l := NewLookahead(n, s.options(window))
		f(t, s, l)
		l.Close()
		if l.working != 0 || l.held != 0 {
			t.Errorf("%d goroutines are left, %d bytes are held", l.working, l.held)
		}
		if st := l.Stats(); st.Made != st.Useful+st.Wasted {
			t.Errorf("at the end %+v", st)
		}
	})
}

// TestLookaheadInOrder: one reader misses the first item alone, each item is
// made once, in order, and not too far ahead.
func TestLookaheadInOrder(t *testing.T) {
	lookahead(t, 1000, 50, func(t *testing.T, s *shelf, l *Lookahead) {
		s.flight = 1
		for i := range int64(1000) {
			if missed := s.read(l, i); missed != (i == 0) {
				t.Fatalf("item %d: missed is %v", i, missed)
			}
			if far := slices.Max(append(s.made(), 0)) - i; far > 51 {
				t.Fatalf("%d items ahead are made", far)
			}
		}
		if makes := s.made(); len(makes) != 999 || !slices.IsSorted(makes) {
			t.Errorf("%d were made", len(makes))
		}
		if st := l.Stats(); st != (LookaheadStats{Made: 999, Useful: 999}) {
			t.Errorf("%+v", st)
		}
	})
}

// TestLookaheadBatches: as many are made together as fill a batch, also when the
// reader is slow and there is room for one after another.
func TestLookaheadBatches(t *testing.T) {
	lookahead(t, 10000, 1000, func(t *testing.T, s *shelf, l *Lookahead) {
		s.flight, s.bytes = 32, 100*100
		s.read(l, 0) // after which sizes are known
		s.most, s.takes = 0, time.Millisecond
		alone := 0
		for i := int64(1); i < 2000; i++ {
			before := len(s.made())
			s.read(l, i)
			if n := len(s.made()) - before; n > 0 && n < 32 {
				alone++
			}
			if ahead := int64(len(s.there)) - i - 1; ahead > 100 {
				t.Fatalf("%d items are made ahead, there is room for 100", ahead)
			}
		}
		if alone > 1 || s.most != 32 {
			t.Errorf("%d times fewer than a batch were made, %d at most at a time", alone, s.most)
		}
	})
}

// TestLookaheadOvertaken: what a slow worker has not read yet takes the room, and
// the others, who have come to what is not begun, get what room there is.
func TestLookaheadOvertaken(t *testing.T) {
	lookahead(t, 1000, 500, func(t *testing.T, s *shelf, l *Lookahead) {
		const room = 32
		s.flight, s.bytes = room/2, room*100
		l.MoveTo(0)
		synctest.Wait()
		for _, i := range []int64{15, 0, room - 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} {
			s.read(l, i)
		}
		if made := len(s.made()); made != room {
			t.Fatalf("%d are made, where there is room for %d, and not for many more", made, room)
		}
		s.read(l, 40)
		if made := len(s.made()); made != room+13 {
			t.Errorf("%d are made for readers who have come to what is not begun", made-room)
		}
		if s.read(l, 41) {
			t.Error("the next one is missed, too")
		}
	})
}

// TestLookaheadWorkers: workers that read batches in turns find nearly all made,
// and what is made for them is used.
func TestLookaheadWorkers(t *testing.T) {
	const workers, batch = 16, 64
	lookahead(t, 16*workers*batch, 4096, func(t *testing.T, s *shelf, l *Lookahead) {
		misses, reads := 0, 0
		for begin := int64(0); begin < 16*workers*batch; begin += workers * batch {
			for k := range int64(batch) {
				for w := range int64(workers) {
					reads++
					if s.read(l, begin+w*batch+k) {
						misses++
					}
				}
			}
		}
		st := l.Stats()
		if misses > reads/100 || st.Wasted != 0 || st.Useful != st.Made {
			t.Errorf("%d of %d were missed, %+v", misses, reads, st)
		}
	})
}

// TestLookaheadSkips: a reader that leaves out half of the items, or takes them
// roughly in their order, still finds those that it reads made.
func TestLookaheadSkips(t *testing.T) {
	lookahead(t, 20000, 1024, func(t *testing.T, s *shelf, l *Lookahead) {
		s.bytes = 200 * 100
		misses, reads := 0, 0
		for i := int64(0); i < 20000; i += 2 {
			reads++
			if s.read(l, i) {
				misses++
			}
		}
		st := l.Stats()
		if misses > reads/20 || st.Wasted > st.Made*6/10 || len(l.items) > 3*1024 {
			t.Errorf("%d of %d were missed, %+v, %d are remembered", misses, reads, st, len(l.items))
		}
	})
	lookahead(t, 20000, 1024, func(t *testing.T, s *shelf, l *Lookahead) {
		rng := rand.New(rand.NewPCG(1, 2))
		misses := 0
		for begin := int64(0); begin < 20000; begin += 100 {
			for _, k := range rng.Perm(100) {
				if s.read(l, begin+int64(k)) {
					misses++
				}
			}
		}
		if st := l.Stats(); misses > 200 || st.Useful < 19000 {
			t.Errorf("%d of 20000 were missed, %+v", misses, st)
		}
	})
}

// TestLookaheadMoveTo: after a jump nothing before it is made, and what was made
// there and not read is wasted.
func TestLookaheadMoveTo(t *testing.T) {
	lookahead(t, 10000, 20, func(t *testing.T, s *shelf, l *Lookahead) {
		s.read(l, 0)
		s.read(l, 5000) // which is not followed
		if i := slices.Max(s.made()); i > 21 {
			t.Errorf("%d is made after a jump that nobody told of", i)
		}
		made := l.Stats().Made
		l.MoveTo(5001)
		synctest.Wait()
		if st := l.Stats(); st.Wasted != made || st.Made != made+20 {
			t.Errorf("%+v, %d were made before the jump", st, made)
		}
		for i := int64(5001); i < 5100; i++ {
			if s.read(l, i) {
				t.Fatalf("item %d was missed", i)
			}
		}
		// Back to the begin, as at the begin of an epoch: what is there is used.
		clear(s.there)
		l.MoveTo(0)
		synctest.Wait()
		for i := range int64(5200) {
			if s.read(l, i) {
				t.Fatalf("item %d was missed in the second epoch", i)
			}
		}
		l.MoveTo(1 << 60)
		l.Reached(1 << 60)
		l.Reached(-1)
		l.MoveTo(-5)
		synctest.Wait()
		if i := slices.Min(s.made()); i < 0 {
			t.Errorf("item %d was made", i)
		}
	})
}

// TestLookaheadForgets: who pauses is given up; when it comes back, what is still
// there is not wasted, and what is gone is made again.
func TestLookaheadForgets(t *testing.T) {
	lookahead(t, 1000, 20, func(t *testing.T, s *shelf, l *Lookahead) {
		s.read(l, 0)
		made := l.Stats().Made
		time.Sleep(2 * forgetAfter)
		if st := l.Stats(); st.Wasted != made || l.held != 0 {
			t.Errorf("%+v, %d bytes are held", st, l.held)
		}
		delete(s.there, 7)
		makes := len(s.made())
		if s.read(l, 1) {
			t.Error("item 1 was missed")
		}
		if s.read(l, 7) || len(s.made()) == makes {
			t.Error("item 7 is gone and was not made again")
		}
		for i := int64(2); i < 100; i++ {
			s.read(l, i)
		}
		if st := l.Stats(); st.Wasted != 1 {
			t.Errorf("%+v after the pause", st)
		}
	})
}

// TestLookaheadFailures: items that cannot be made cost the others nothing, and
// where nothing can be made it is not tried for ever.
func TestLookaheadFailures(t *testing.T) {
	lookahead(t, 300, 50, func(t *testing.T, s *shelf, l *Lookahead) {
		s.fail = func(i int64) bool { return i%10 == 0 }
		misses := 0
		for i := range int64(300) {
			if s.read(l, i) {
				misses++
			}
		}
		if st := l.Stats(); misses != 30 || st.Failed != 29 || st.Wasted != 0 {
			t.Errorf("%d missed, %+v", misses, st)
		}
	})
	lookahead(t, 1e6, 1e6, func(t *testing.T, s *shelf, l *Lookahead) {
		s.fail = func(int64) bool { return true }
		s.read(l, 0)
		if n := len(s.made()); n < failuresInARow || n > failuresInARow+s.flight {
			t.Errorf("%d were tried", n)
		}
	})
}

// TestLookaheadClose waits for what is being made, and a reader never does.
func TestLookaheadClose(t *testing.T) {
	lookahead(t, 1000, 50, func(t *testing.T, s *shelf, l *Lookahead) {
		s.pending = make(chan struct{})
		s.read(l, 0)
		l.Reached(1) // while it is being made
		synctest.Wait()
		if s.flying == 0 {
			t.Fatal("nothing is being made")
		}
		closed := false
		go func() { l.Close(); closed = true }()
		synctest.Wait()
		if closed {
			t.Error("closed while items are made")
		}
		close(s.pending)
		synctest.Wait()
		if !closed {
			t.Error("not closed when no items are made")
		}
		if st := l.Stats(); st.Useful != 1 {
			t.Errorf("%+v: item 1 was read while it was made", st)
		}
		l.Reached(2)
		l.MoveTo(3)
		synctest.Wait()
		if st := l.Stats(); s.flying != 0 || st.Made != uint64(len(s.made())) {
			t.Errorf("%+v after the end", st)
		}
	})
}

// TestLookaheadAnything: whatever a reader does, the counts add up, the bounds
// hold, and nothing is made twice that is there.
func TestLookaheadAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf()
		s.flight = rapid.IntRange(1, 5).Draw(t, "flight")
		s.bytes = int64(rapid.IntRange(0, 3000).Draw(t, "bytes"))
		n := int64(rapid.IntRange(0, 200).Draw(t, "n"))
		window := int64(rapid.IntRange(0, 60).Draw(t, "window"))
		if rapid.Bool().Draw(t, "faults") {
			s.fail = func(i int64) bool { return i%7 == 3 }
		}
		l := NewLookahead(n, s.options(window))
		at := int64(0)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				at = int64(rapid.IntRange(-3, 220).Draw(t, "to"))
				l.MoveTo(at)
			case 1:
				l.Stats()
			case 2:
				s.mu.Lock()
				clear(s.there)
				s.mu.Unlock()
			case 3:
				l.Reached(int64(rapid.IntRange(-3, 220).Draw(t, "any")))
			default:
				at += int64(rapid.IntRange(-4, 6).Draw(t, "step"))
				l.Reached(at)
			}
		}
		l.running.Wait()
		l.mu.Lock()
		held, live := int64(0), uint64(0)
		for i, x := range l.items {
			held += x.bytes
			if x.made && !x.left && !x.reached {
				live++
			}
			if i < l.tail || i >= n {
				t.Errorf("item %d of %d is remembered from %d on", i, n, l.tail)
			}
		}
		if held != l.held || held > max(s.bytes, blindFlight*100) || int64(len(l.items)) > 3*max(window, 1) {
			t.Errorf("%d bytes are held, counted as %d, of %d; %d items are remembered", held, l.held, s.bytes, len(l.items))
		}
		if st := l.stats; st.Made != st.Useful+st.Wasted+live || l.working != 0 || s.most > s.flight {
			t.Errorf("%+v, %d are made and not read, %d goroutines, %d at a time", st, live, l.working, s.most)
		}
		l.mu.Unlock()
		l.Close()
	})
}

func BenchmarkLookahead(b *testing.B) {
	opt := LookaheadOptions{
		Make:   func(int64) (int64, bool, error) { return 100, true, nil },
		Flight: func() int { return 2 }, Bytes: func() int64 { return 1 << 20 }, Window: 4096,
	}
	l := NewLookahead(1<<40, opt)
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		l.Reached(i)
		i++
	}
	l.Close()
}
