package order

import (
	"sync"
	"time"
)

const (
	// leastBehind is how far behind the foremost read an item may be, at least,
	// that is still expected to be read.
	leastBehind = 16
	// skewForget is the part of the known skew of a reader's workers that each
	// read makes forgotten: what was seen once counts for some thousand reads.
	skewForget = 1.0 / 1024
	// blindFlight is how many items are made at a time before it is known how
	// large one is.
	blindFlight = 4
	// wellAhead is how many times what is made at a time must be ready for the
	// reader for half of that to do: the reader needs processors, too.
	wellAhead = 8
	// failuresInARow is how many items may fail one after another before nothing
	// is made until the reader goes on.
	failuresInARow = 16
)

// LookaheadOptions are the settings of a Lookahead.
type LookaheadOptions struct {
	// Make makes an item, unless it is there or being made: then it reports
	// false. It returns the memory that the item takes.
	Make func(i int64) (bytes int64, made bool, err error)

	// Flight is how many are made at a time: what fills the decoder's batches.
	// Bytes is what all that is made and not reached may take. Neither may call
	// the Lookahead.
	Flight func() int
	Bytes  func() int64

	Window int64 // at most so many items beyond the reader are made
}

// LookaheadStats are counts since NewLookahead.
type LookaheadStats struct {
	Made   uint64 // items made ahead
	Useful uint64 // of them, reached since
	Wasted uint64 // of them, left by the reader
	Failed uint64 // items that could not be made
}

// Add adds the counts of another Lookahead.
func (s *LookaheadStats) Add(o LookaheadStats) {
	s.Made += o.Made
	s.Useful += o.Useful
	s.Wasted += o.Wasted
	s.Failed += o.Failed
}

// Lookahead has items 0 to n−1, whose order of reading is known, made before a
// reader comes to them.
//
// A reader is not at one place. Workers of a loader read batches of their own at
// the same time, so that items are reached in an order that is only roughly
// theirs. Items are made from the lowest one on that is still expected to be
// read. How far behind the foremost read that may be is learned from the reads:
// a single reader who passes by an item is not expected to come back.
//
// Once all that is allowed is made, nothing is until there is room for many, so
// that they are decoded together, or until the reader has come to what nobody has
// begun. Its memory is bounded by Window, some hundred
// bytes for each, and does not depend on n. Its methods may be called by any
// number of goroutines and wait for nothing that is made, Close excepted.
type Lookahead struct {
	n       int64
	opt     LookaheadOptions
	running sync.WaitGroup

	mu       sync.Mutex
	items    map[int64]*item // what is known of those from tail on
	tail     int64           // nothing before it is remembered
	low      int64           // all from tail up to it were reached
	front    int64           // the one after the foremost that was reached
	base     int64           // nothing before it is made
	to       int64           // of base and what follows, the first that may have to be begun
	skew     float64         // how far behind front items are reached
	held     int64           // bytes of what is made and not reached
	size     int64           // of an item, in bytes, of late; 0: not known
	working  int             // goroutines, each with an item
	full     bool            // there was no room, and has not been enough since
	failures int             // one after another
	seen     time.Time       // when the reader last reached an item
	closed   bool
	stats    LookaheadStats
}

// item is what is known of an item: its last making, and whether it was reached.
type item struct {
	making  bool
	made    bool  // by us; then it is counted as useful if reached, as wasted if left
	left    bool  // given up
	lost    bool  // it was made and left, and is being made again, should it be gone
	reached bool  // at least once
	bytes   int64 // that are held
}

// NewLookahead returns a Lookahead of n items. Nothing is made before the reader
// has reached an item, or MoveTo has said where it begins. Close ends it.
func NewLookahead(n int64, opt LookaheadOptions) *Lookahead {
	opt.Window = max(opt.Window, 1)
	return &Lookahead{n: n, opt: opt, items: make(map[int64]*item)}
}

// Reached says that the reader has come to item i. It may come to one many times,
// and workers come in any order. Who has jumped by more than Window is to be
// followed by MoveTo; until then such an item is none of ours.
func (l *Lookahead) Reached(i int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || i < l.tail || i >= min(l.n, l.front+l.opt.Window) {
		return
	}
	l.wake()
	x := l.items[i]
	if x == nil {
		x = new(item)
		l.items[i] = x
	}
	if !x.reached {
		if i >= l.to {
			l.full = false // it came to what is not even begun: whatever there is room for is better than nothing
		}
		l.reach(i, x)
	}
	l.start()
}

// MoveTo says that the reader is at item i now, and that nothing before it is
// needed: it has jumped, forward or back, or begins there.
func (l *Lookahead) MoveTo(i int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.wake()
	i = min(max(i, 0), l.n)
	for k, x := range l.items {
		if x.reached || k < i || k >= i+l.opt.Window {
			l.leave(x)
			delete(l.items, k)
		}
	}
	l.tail, l.low, l.front, l.base, l.to = i, i, i, i, i
	l.full = false
	l.start()
}

// Stats returns the counts.
func (l *Lookahead) Stats() LookaheadStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.seen) > forgetAfter {
		l.leaveAll()
	}
	return l.stats
}

// Close ends the making and returns when nothing is made any more.
func (l *Lookahead) Close() {
	l.mu.Lock()
	l.closed = true
	l.leaveAll()
	l.mu.Unlock()
	l.running.Wait()
}

// wake notes that there is a reader. What was made for one who paused may have
// been evicted: it is made again, unless it is there. The lock is held.
func (l *Lookahead) wake() {
	now := time.Now()
	if now.Sub(l.seen) > forgetAfter {
		l.leaveAll()
	}
	l.seen = now
	l.failures = 0
}

// leaveAll gives up all that is made and not reached. The lock is held.
func (l *Lookahead) leaveAll() {
	for _, x := range l.items {
		l.leave(x)
	}
	l.to, l.full = l.base, false
}

// leave gives an item up. The lock is held.
func (l *Lookahead) leave(x *item) {
	if x.left || x.reached {
		return
	}
	x.left = true
	if x.made {
		l.stats.Wasted++
		l.release(x)
	}
}

// release takes an item out of what is held. The lock is held.
func (l *Lookahead) release(x *item) {
	l.held -= x.bytes
	x.bytes = 0
}

// reach books that an item was reached for the first time. The lock is held.
func (l *Lookahead) reach(i int64, x *item) {
	x.reached = true
	if x.made {
		l.stats.Useful++
		if x.left {
			l.stats.Wasted--
		}
		l.release(x)
	}
	if behind := float64(l.front - 1 - i); behind > l.skew {
		l.skew = behind
	} else {
		l.skew *= 1 - skewForget
	}
	l.front = max(l.front, i+1)
	for y := l.items[l.low]; y != nil && y.reached; y = l.items[l.low] {
		l.low++
	}
	l.forget()
	l.setBase()
}

// forget forgets what is far behind the reader. The lock is held.
func (l *Lookahead) forget() {
	for ; l.tail < l.front-l.opt.Window; l.tail++ {
		if x := l.items[l.tail]; x != nil {
			l.leave(x)
			delete(l.items, l.tail)
		}
	}
	l.low = max(l.low, l.tail)
}

// setBase says anew from where on items are made, and gives up those before it.
// The lock is held.
func (l *Lookahead) setBase() {
	base := max(l.low, l.front-l.behind())
	for k := l.base; k < base; k++ {
		if x := l.items[k]; x != nil {
			l.leave(x)
		}
	}
	if base < l.base {
		l.to = base
	}
	l.base = base
	l.to = max(l.to, base)
}

// behind is how far behind the foremost read an item is still expected to be
// read. The lock is held.
func (l *Lookahead) behind() int64 {
	return min(l.opt.Window/2, int64(l.skew*1.25)+leastBehind)
}

// start begins as much as is to be done. The lock is held.
func (l *Lookahead) start() {
	for !l.closed && l.working < l.flight() {
		i, x, ok := l.pick()
		if !ok {
			return
		}
		l.working++
		l.running.Go(func() { l.work(i, x) })
	}
}

// flight is how many items are made at a time. The lock is held.
func (l *Lookahead) flight() int {
	most := max(l.opt.Flight(), 1)
	switch {
	case l.size == 0:
		return min(most, blindFlight)
	case l.held/l.size > wellAhead*int64(most):
		return (most + 1) / 2
	}
	return most
}

// pick chooses the next item to be made. The lock is held.
func (l *Lookahead) pick() (int64, *item, bool) {
	if l.closed || l.failures >= failuresInARow || l.full && !l.roomForMany() || time.Since(l.seen) > forgetAfter {
		return 0, nil, false
	}
	l.full = false
	for end := l.end(); l.to < end; l.to++ {
		x := l.items[l.to]
		switch {
		case x != nil && (x.making || x.reached || !x.left):
			continue
		case l.room() < 1:
			l.full = true
			return 0, nil, false
		case x == nil:
			x = new(item)
			l.items[l.to] = x
		}
		x.lost = x.made
		x.making, x.made, x.left = true, false, false
		i := l.to
		l.to++
		return i, x, true
	}
	l.full = l.to < l.n
	return 0, nil, false
}

// end is the item before which all may be made. The lock is held.
func (l *Lookahead) end() int64 { return min(l.n, l.base+l.opt.Window) }

// room is how many more items the bytes are enough for. The lock is held.
func (l *Lookahead) room() int64 {
	if l.size == 0 {
		return blindFlight
	}
	return (l.opt.Bytes()-l.held)/l.size - int64(l.working)
}

// roomForMany reports whether there is room for so many items that it is worth
// beginning again. The lock is held.
func (l *Lookahead) roomForMany() bool {
	end := l.end()
	room := min(l.room(), end-l.to)
	if end == l.n && room >= l.n-l.to {
		return true
	}
	capacity := l.opt.Window
	if l.size > 0 {
		capacity = min(capacity, l.opt.Bytes()/l.size)
	}
	return room >= max(1, min(int64(l.flight()), capacity/2))
}

// work makes an item, and others after it.
func (l *Lookahead) work(i int64, x *item) {
	for ok := true; ok; {
		bytes, made, err := l.opt.Make(i)
		i, x, ok = l.after(x, bytes, made, err)
	}
}

// after books the outcome of a making and returns the next item, if there is one.
func (l *Lookahead) after(x *item, bytes int64, made bool, err error) (i int64, next *item, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book(x, bytes, made, err)
	l.working--
	if l.working < l.flight() {
		i, next, ok = l.pick()
	}
	if ok {
		l.working++
		l.start() // the size may have become known
	}
	return i, next, ok
}

// book books the outcome of a making. The lock is held.
func (l *Lookahead) book(x *item, bytes int64, made bool, err error) {
	x.making = false
	if err != nil {
		l.stats.Failed++
		l.failures++
		return
	}
	l.failures = 0
	switch {
	case made:
		l.stats.Made++
		l.learnSize(bytes)
	case !x.lost:
		return // it was there
	default:
		l.stats.Wasted--
		bytes = 0
	}
	x.made = true
	switch {
	case x.reached:
		l.stats.Useful++
	case x.left:
		l.stats.Wasted++
	default:
		x.bytes = bytes
		l.held += bytes
	}
}

// learnSize learns how large items are of late. The lock is held.
func (l *Lookahead) learnSize(bytes int64) {
	bytes = max(bytes, 1)
	if l.size == 0 {
		l.size = bytes
	}
	l.size = max(1, l.size+(bytes-l.size)/8)
}
