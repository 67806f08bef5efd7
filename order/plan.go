package order

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"sync"
	"time"
)

// jumpAfter is how many opens of other lines, one after another and near to each
// other, show that a reader has jumped.
const jumpAfter = 4

// ErrNothingToMake says of a path that nothing needs to be made before it is opened.
var ErrNothingToMake = errors.New("there is nothing to make")

// PlanOptions are the settings of a Plan.
type PlanOptions struct {
	Start int64 // the line that the reader begins with

	// Make makes the file of a path, unless it is there or being made: then it
	// reports false. It returns the memory that the file takes. What lies at no
	// path is fs.ErrNotExist, and where there is nothing to make, ErrNothingToMake.
	Make func(path string) (bytes int64, made bool, err error)

	Flight func() int   // as LookaheadOptions has them
	Bytes  func() int64 //
	Window int64        //
}

// Plan has files made in the order of its lines before their readers open them.
//
// A reader may open other files, which are none of the plan's business, and leave
// lines out. One that is found to open lines elsewhere, some of them in a row, has
// jumped, and is followed. Lines that come to be opened a second time are in their
// turn: a reader who begins anew is followed, too.
type Plan struct {
	lines *PlanLines
	ahead *Lookahead
	start int64

	mu     sync.Mutex
	other  otherPlace
	read   int64  // lines that were opened
	absent int64  // lines that lead to no file
	nought int64  // lines at which there is nothing to make
	failed string // the first line that could not be made, and why
	seen   time.Time
}

// otherPlace is where opens were found that do not fit to where the reader is.
type otherPlace struct {
	count int
	lines [jumpAfter]int64 // so many, the last one is where the place is now
}

func (o *otherPlace) last() int64 { return o.lines[o.count-1] }

// PlanStats say how far a plan is.
type PlanStats struct {
	Lines, Start int64
	Place        int64  // the line after the foremost one that was opened
	Read         int64  // lines that were opened
	Absent       int64  // lines that lead to no file
	Skipped      int64  // lines at which there is nothing to make
	OneFailure   string // the first line that could not be made, and why
	Idle         time.Duration
	Ahead        LookaheadStats // Absent is among Failed
}

// NewPlan follows readers along lines, and begins at once with what the first of
// them will open. Close ends it and closes the lines.
func NewPlan(lines *PlanLines, opt PlanOptions) *Plan {
	p := &Plan{lines: lines, start: opt.Start, seen: time.Now()}
	p.ahead = NewLookahead(lines.Len(), LookaheadOptions{
		Make: func(i int64) (int64, bool, error) { return p.make(i, opt.Make) }, Flight: opt.Flight, Bytes: opt.Bytes, Window: opt.Window,
	})
	p.ahead.MoveTo(opt.Start)
	return p
}

func (p *Plan) make(i int64, making func(string) (int64, bool, error)) (int64, bool, error) {
	name, err := p.lines.Path(i)
	if err != nil {
		return 0, false, err
	}
	bytes, made, err := making(name)
	if err == nil {
		return bytes, made, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(err, ErrNothingToMake) {
		p.nought++
		return 0, false, nil
	}
	if errors.Is(err, iofs.ErrNotExist) {
		p.absent++
	}
	if p.failed == "" {
		p.failed = fmt.Sprintf("%q: %v", name, err)
	}
	return bytes, made, err
}

// Opened says that the file of a path with the hash was opened, and reports
// whether that is the reader whom the plan follows.
func (p *Plan) Opened(hash uint64) bool {
	words := p.lines.find(hash)
	if len(words) == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	line, where := p.ahead.locate(words)
	switch where {
	case awaited:
		p.other = otherPlace{}
		p.read++
	case beyond:
		if line = p.elsewhere(words); line < 0 {
			return false
		}
		p.read++
	}
	p.seen = time.Now()
	p.ahead.Reached(line)
	return true
}

// elsewhere books an open of a line that is not near where the reader is. When it
// has been seen to be there, the plan follows, and the line is returned, else −1.
func (p *Plan) elsewhere(words []uint64) int64 {
	o := &p.other
	line := lineOf(words[0])
	for _, w := range words {
		if i := lineOf(w); o.count > 0 && distance(i, o.last()) < distance(line, o.last()) {
			line = i
		}
	}
	switch {
	case o.count == 0 || distance(line, o.last()) > p.ahead.opt.Window/2:
		*o = otherPlace{count: 1, lines: [jumpAfter]int64{line}}
	case line != o.last():
		o.lines[o.count] = line
		o.count++
	}
	if o.count < jumpAfter {
		return -1
	}
	p.ahead.MoveTo(slices.Min(o.lines[:]))
	for _, i := range o.lines {
		p.ahead.Reached(i)
	}
	p.read += jumpAfter - 1
	*o = otherPlace{}
	return line
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// Wants reports whether the file of a path with the hash will be opened soon.
func (p *Plan) Wants(hash uint64) bool {
	words := p.lines.find(hash)
	if len(words) == 0 {
		return false
	}
	_, where := p.ahead.locate(words)
	return where == awaited
}

// Idle is how long ago a reader was last seen.
func (p *Plan) Idle() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.seen)
}

// Stats says how far the plan is.
func (p *Plan) Stats() PlanStats {
	ahead, place := p.ahead.Stats(), p.ahead.place()
	p.mu.Lock()
	defer p.mu.Unlock()
	return PlanStats{
		Lines: p.lines.Len(), Start: p.start, Place: place, Read: p.read, Absent: p.absent, Skipped: p.nought, OneFailure: p.failed,
		Idle: time.Since(p.seen), Ahead: ahead,
	}
}

// Close ends the making, waits for it, and closes the lines. Nothing may be
// called after it, Stats excepted.
func (p *Plan) Close() error {
	p.ahead.Close()
	return p.lines.Close()
}

// whereabouts says where a line is, seen from the reader.
type whereabouts uint8

const (
	beyond  whereabouts = iota // far ahead, or behind
	lately                     // it was reached a short while ago
	awaited                    // it has not been reached and may be soon
)

// locate returns the first of some lines that is awaited, else one that was
// reached lately.
func (l *Lookahead) locate(words []uint64) (int64, whereabouts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	best, where := int64(0), beyond
	for _, w := range words {
		switch i := lineOf(w); l.whereIs(i) {
		case awaited:
			return i, awaited
		case lately:
			best, where = i, lately
		}
	}
	return best, where
}

// whereIs says where an item is. Where all have been reached, the next ones to be
// are the first ones. The lock is held.
func (l *Lookahead) whereIs(i int64) whereabouts {
	if i < l.tail || i >= l.front+l.opt.Window {
		return beyond
	}
	x := l.items[i]
	switch {
	case x == nil || !x.reached:
		return awaited
	case l.low == l.n && i < l.n-1, i < l.front-l.behind():
		return beyond
	}
	return lately
}

// place is the item after the foremost one that was reached.
func (l *Lookahead) place() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.front
}
