package fs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prismfs/order"
)

// The limits of the plans of a mount.
const (
	// maxPlans is how many there are at a time: one for each rank of the jobs of a
	// machine.
	maxPlans = 64
	// maxPlannedLines is the sum of their lines, which take 8¼ bytes of memory
	// each: all of ImageNet-21k once, or of ImageNet-1k for twelve jobs.
	maxPlannedLines = order.MaxPlanLines
	// planShare: what is decoded along plans and not yet opened takes at most 1/4
	// of the cache's budget, or what its policy has room for, that of all plans
	// together.
	planShare = 4
	// planWindow is how many images a plan may be ahead of its reader, if they are
	// small: more than what fills a device.
	planWindow = 4096
	// idlePlan is the age from which a plan that nobody reads by makes room for
	// another one, if there are too many.
	idlePlan = 10 * time.Minute
	// activePlan is how long after the last open of its reader a plan still gets
	// its share of what all may make.
	activePlan = 10 * time.Second
	// planReader is what decoding takes plans for, beside processes that read.
	planReader = 1 << 62
)

// plans are those of a mount.
type plans struct {
	m       *mount
	running sync.WaitGroup // plans that end
	uploads uploads        // those that are being sent
	pause   time.Duration  // that a sender may make

	// settling is held for a plan that has come, until it is among the others or
	// was refused: memory has the lines of one such at a time.
	settling sync.Mutex

	// sharers is how many plans share what all may make. It is asked for by
	// plans, which hold locks of theirs, and therefore under no lock.
	sharers atomic.Int64
	counted atomic.Int64 // when sharers was last counted, in seconds

	mu     sync.RWMutex // read by opens
	byName map[string]*plan
	lastID uint64
	ending map[*plan]bool
	gone   order.LookaheadStats // of plans that have ended
	closed bool
}

// plan is an order of reading that somebody has handed over.
type plan struct {
	*order.Plan
	name  string
	lines int64
}

func newPlans(m *mount) *plans {
	return &plans{m: m, pause: planPause, byName: make(map[string]*plan), ending: make(map[*plan]bool)}
}

// opened says that a file was opened, by its inode number, and reports whether
// that was to come by a plan.
func (ps *plans) opened(ino uint64) bool {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	known := false
	for _, p := range ps.byName {
		known = p.Opened(ino) || known
	}
	if now := time.Now().Unix(); known && now != ps.counted.Load() {
		ps.countSharers()
	}
	return known
}

// wanted reports whether a file will be opened soon by a plan.
func (ps *plans) wanted(ino uint64) bool {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, p := range ps.byName {
		if p.Wants(ino) {
			return true
		}
	}
	return false
}

// countSharers counts the plans whose readers were seen of late. The lock is held,
// at least for reading.
func (ps *plans) countSharers() {
	n := int64(0)
	for _, p := range ps.byName {
		if p.Idle() < activePlan {
			n++
		}
	}
	ps.sharers.Store(n)
	ps.counted.Store(time.Now().Unix())
}

// share is the part of something that one of the plans gets.
func (ps *plans) share(of int64) int64 { return of / max(1, ps.sharers.Load()) }

// errTooManyPlans says that no more plans are taken.
var errTooManyPlans = errors.New("there are too many plans")

// put begins a plan, in the place of the one of its name. Unless there is an error
// the lines belong to the plan.
func (ps *plans) put(name string, lines *order.PlanLines, start int64) (*plan, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return nil, errors.New("the mount is about to end")
	}
	old := ps.byName[name]
	if err := ps.makeRoom(old, lines.Len()); err != nil {
		return nil, err
	}
	if old != nil {
		ps.end(old)
	}
	ps.lastID++
	source := &planSource{m: ps.m, reader: planReader | ps.lastID}
	p := &plan{name: name, lines: lines.Len()}
	ps.countSharers()
	ps.sharers.Add(1)
	p.Plan = order.NewPlan(lines, order.PlanOptions{
		Start: start, Make: source.make, Window: planWindow,
		Flight: func() int { return int(max(1, ps.share(int64(ps.m.decoder.Appetite())))) },
		Bytes:  func() int64 { return ps.share(ps.m.cache.Ahead(planShare)) },
	})
	ps.byName[name] = p
	return p, nil
}

// makeRoom sees to it that a plan of so many lines fits, when old is gone. The
// lock is held.
func (ps *plans) makeRoom(old *plan, lines int64) error {
	total, count := lines, 1
	for _, p := range ps.byName {
		if p != old {
			total, count = total+p.lines, count+1
		}
	}
	for count > maxPlans || total > maxPlannedLines {
		idle := ps.mostIdle(old)
		if idle == nil || idle.Idle() < idlePlan {
			return fmt.Errorf("%w: %d are possible, of %d lines in all; remove one", errTooManyPlans, maxPlans, int64(maxPlannedLines))
		}
		ps.end(idle)
		total, count = total-idle.lines, count-1
	}
	return nil
}

// mostIdle returns the plan, other than keep, that nobody has read by for
// longest, nil where there is none. The lock is held.
func (ps *plans) mostIdle(keep *plan) *plan {
	var most *plan
	for _, p := range ps.byName {
		if p != keep && (most == nil || p.Idle() > most.Idle()) {
			most = p
		}
	}
	return most
}

// remove ends a plan and reports whether there was one of the name.
func (ps *plans) remove(name string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byName[name]
	if p != nil {
		ps.end(p)
	}
	return p != nil
}

// end takes a plan away from the others and ends it, without keeping opens
// waiting for what is being decoded. The lock is held.
func (ps *plans) end(p *plan) {
	delete(ps.byName, p.name)
	ps.countSharers()
	ps.ending[p] = true
	ps.running.Go(func() {
		if err := p.Close(); err != nil {
			ps.m.log.Warn("a plan was not closed in order", "plan", p.name, "error", err)
		}
		ps.mu.Lock()
		defer ps.mu.Unlock()
		delete(ps.ending, p)
		ps.gone.Add(p.Stats().Ahead)
	})
}

// all returns the plans, sorted by name.
func (ps *plans) all() []*plan {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return slices.SortedFunc(maps.Values(ps.byName), func(a, b *plan) int { return strings.Compare(a.name, b.name) })
}

// stats returns the counts of all plans that there were.
func (ps *plans) stats() order.LookaheadStats {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	sum := ps.gone
	for _, p := range ps.byName {
		sum.Add(p.Stats().Ahead)
	}
	for p := range ps.ending {
		sum.Add(p.Stats().Ahead)
	}
	return sum
}

// close ends all plans and waits for them.
func (ps *plans) close() {
	ps.mu.Lock()
	ps.closed = true
	for _, p := range ps.byName {
		ps.end(p)
	}
	ps.mu.Unlock()
	ps.running.Wait()
}
