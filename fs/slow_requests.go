package fs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
)

// A reader that waits cannot say for what. The kernel layer therefore remembers
// every request that may have to wait, nodes note what it is about and what it waits
// for, and a watchdog logs those that take too long, each once.

const (
	// slowAfter is when a request has taken too long. Decoding takes
	// milliseconds, a disk tenths of a second; waiting for room in the cache ends
	// after ten seconds.
	slowAfter = 5 * time.Second
	// slowInterval is how often the watchdog looks.
	slowInterval = time.Second
)

// waitingFor says what holds a request up.
type waitingFor uint8

const (
	forSource  waitingFor = iota // listings, lookups and reads ask the source for something
	forTurn                      // somebody else decodes the same image, or the cache is full of files in use
	forDecoder                   // its bytes are here
)

// pending is a request of the kernel that is not answered yet.
type pending struct {
	op        operation
	since     time.Time
	backingID int32     // granted by a node's Open
	listing   *listing  // granted by a node's opening of a directory
	found     *sync.Map // string → target: what names of a listing stand for; nil for all others

	fillsPages bool // a read for the kernel's page cache

	mu    sync.Mutex
	about string // path, "" where the node did not say
	waits waitingFor
	bytes int64 // that a turn is waited for with
	told  bool
}

// requestsInFlight are the requests by their cancel channel: closing it interrupts
// one request, so there is one for each.
type requestsInFlight struct {
	all  sync.Map // <-chan struct{} → *pending
	slow atomic.Uint64
}

// begin remembers a request until end.
func (r *requestsInFlight) begin(cancel <-chan struct{}, op operation) *pending {
	q := &pending{op: op, since: time.Now()}
	r.all.Store(cancel, q)
	return q
}

func (r *requestsInFlight) end(cancel <-chan struct{}) { r.all.Delete(cancel) }

// of returns the request with a cancel channel, nil for none: what is done ahead
// is for nobody's request.
func (r *requestsInFlight) of(cancel <-chan struct{}) *pending {
	if cancel == nil {
		return nil
	}
	q, ok := r.all.Load(cancel)
	if !ok {
		return nil
	}
	return q.(*pending)
}

// note says what the request that ctx belongs to is about.
func (r *requestsInFlight) note(ctx context.Context, path string) {
	if q := r.of(ctx.Done()); q != nil {
		q.mu.Lock()
		q.about = path
		q.mu.Unlock()
	}
}

// waitsFor notes what a request waits for; it may be nil.
func (q *pending) waitsFor(what waitingFor, bytes int64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	q.waits, q.bytes = what, bytes
	q.mu.Unlock()
}

// watchRequests logs requests that take too long, until the mount is gone.
func (m *mount) watchRequests() {
	tick := time.NewTicker(slowInterval)
	defer tick.Stop()
	for {
		select {
		case <-m.closing:
			return
		case now := <-tick.C:
			m.tellSlow(now)
		}
	}
}

// tellSlow logs the requests that have become slow. One that hangs may have
// hundreds behind it, so not every line is written; the count is.
func (m *mount) tellSlow(now time.Time) {
	flight := &m.layer.flight
	flight.all.Range(func(_, v any) bool {
		q := v.(*pending)
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.told || now.Sub(q.since) < slowAfter {
			return true
		}
		q.told = true
		flight.slow.Add(1)
		if m.slowLines.allow(now) {
			m.log.Warn("a request takes long", "doing", operationNames[q.op], "path", q.about,
				"waits_for", m.whatFor(q), "for_s", int(now.Sub(q.since).Seconds()))
		}
		return true
	})
}

// whatFor says in words what a request waits for. Its lock is held.
func (m *mount) whatFor(q *pending) string {
	switch q.waits {
	case forDecoder:
		return "the decoder"
	case forTurn:
		if c := m.cacheStats(); c.PinnedBytes+q.bytes > c.Limit {
			return fmt.Sprintf("room in the cache: %s of %s are open or mapped",
				humanize.IBytes(uint64(c.PinnedBytes)), humanize.IBytes(uint64(c.Limit)))
		}
		return "somebody else who decodes the same image"
	}
	return "the source: its disk or network"
}
