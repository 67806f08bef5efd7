package cache

import "fmt"

// Policy says which of the buffers that nobody uses stay when room is needed.
type Policy uint8

const (
	// LRU keeps what was used last. A job that reads more than fits, in another
	// order each time, finds little of it: of a dataset of twice the budget
	// 15 %, of four times the budget 3 %, and nothing in the same order each time.
	LRU Policy = iota
	// Pin keeps what came first, as long as it is read again: the same part of
	// a dataset is found in every pass over it, whatever the order. What finds
	// no place lives in a small part, an LRU of its own, and goes first.
	Pin
)

func (p Policy) String() string {
	if p == Pin {
		return "pin"
	}
	return "lru"
}

// ParsePolicy reads lru or pin.
func ParsePolicy(text string) (Policy, error) {
	for _, p := range []Policy{LRU, Pin} {
		if text == p.String() {
			return p, nil
		}
	}
	return LRU, fmt.Errorf("%q is no cache policy: lru or pin", text)
}

const (
	// newcomerShare and maxNewcomers: under Pin, newcomers have 1/8 of the
	// budget, and 512 MiB at most. It is what readers hold at a time, what is
	// made ahead of them and has not been read, and no more: what it takes is
	// missing from what stays.
	newcomerShare = 8
	maxNewcomers  = 512 << 20
	// Half of it is for what is made ahead.
	aheadOfNewcomers = 2
	// A quarter of it is left to pins that come and go: as long as they take no
	// more, what stays does not have to give way to them.
	pinsOfNewcomers = 4
	// staleBudgets: what came first and is not read again while eight budgets of
	// other buffers are made has lost its place. A job that has gone on to other
	// files, or to another fidelity, gets the cache by that. It bounds the
	// datasets for which Pin is of use when they are read in the same order each
	// time; with another order each time, the gaps that are seen raise it.
	staleBudgets = 8
)

// Ahead returns how many bytes may be made before somebody asks for them, so
// that they are still there when somebody does: a part of the budget, 1/share,
// but no more than the policy has room for.
func (c *Cache[K]) Ahead(share int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opt.Policy == Pin {
		return min(c.budget/share, newcomers(c.budget)/aheadOfNewcomers)
	}
	return c.budget / share
}

// newcomers returns the part of a budget that Pin leaves to them.
func newcomers(budget int64) int64 { return min(budget/newcomerShare, maxNewcomers) }

// residents is what Pin knows of the buffers that have a place. Times are counted
// in bytes that were made since the cache was.
type residents struct {
	bytes   int64 // in use or not
	now     int64
	lastHit int64 // of any of them
	gap     int64 // the longest from one use of a buffer to the next
}

// victim returns the buffer that is to give way next, nil if there is none. The
// lock is held.
func (c *Cache[K]) victim() *Buffer[K] {
	part := newcomers(c.budget)
	order := []shelf{spent, kept, passing}
	if c.idle.bytes[passing] > part-part/pinsOfNewcomers {
		order = []shelf{spent, passing, kept}
	}
	for _, from := range order {
		if b := c.idle.oldest(from); b != nil {
			return b
		}
	}
	return nil
}

// hit books that a buffer is used that nobody used before. The lock is held.
func (c *Cache[K]) hit(b *Buffer[K]) {
	switch b.shelf {
	case spent:
		b.shelf = passing
	case kept:
		r := &c.resident
		r.gap = max(r.gap, r.now-b.used)
		r.lastHit = r.now
	}
}

// settle chooses the shelf of a buffer that was read: under Pin it gets a place
// if there is one. The lock is held, and no pin of the buffer is counted.
func (c *Cache[K]) settle(b *Buffer[K]) {
	if c.opt.Policy != Pin {
		return
	}
	b.used = c.resident.now
	if b.shelf == kept {
		return
	}
	for !c.hasPlace(b.charge) {
		if !c.dismissStale() {
			return
		}
	}
	b.shelf = kept
	c.resident.bytes += b.charge
}

// hasPlace reports whether a buffer may stay beside those that do, leaving their
// part to newcomers. The lock is held.
func (c *Cache[K]) hasPlace(charge int64) bool {
	newcomersInUse := c.pinned - (c.resident.bytes - c.idle.bytes[kept])
	return c.resident.bytes+newcomersInUse+charge <= c.budget-newcomers(c.budget)
}

// dismissStale takes the place of the buffer that was not read for longest, if
// that is longer than one that is read again and again would wait. The lock is
// held.
func (c *Cache[K]) dismissStale() bool {
	r := &c.resident
	patience := staleBudgets * min(c.opt.Budget, maxBytes/staleBudgets)
	if r.now-r.lastHit > patience {
		r.gap = 0 // it is of files that nobody reads any more
	}
	b := c.idle.oldest(kept)
	if b == nil || r.now-b.used <= max(patience, 2*r.gap) {
		return false
	}
	c.vacate(b)
	return true
}

// vacate moves a buffer that nobody uses from its place to those that go first.
// The lock is held.
func (c *Cache[K]) vacate(b *Buffer[K]) {
	c.idle.remove(b)
	c.dismiss(b)
	b.shelf = spent
	c.idle.add(b)
}

// Retire takes the places of the buffers whose keys match: it is known that they
// will not be read again soon. They go first, as if they were spent, and like
// those are taken back by a Get. It looks at every buffer.
func (c *Cache[K]) Retire(match func(key K) bool) {
	if c.opt.Policy != Pin {
		return // they will be the oldest by themselves
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, b := range c.buffers {
		if b.shelf == kept && b.pins == 0 && match(key) {
			c.vacate(b)
		}
	}
}

// dismiss uncounts a buffer that had a place. The lock is held.
func (c *Cache[K]) dismiss(b *Buffer[K]) {
	if b.shelf == kept {
		c.resident.bytes -= b.charge
	}
}
