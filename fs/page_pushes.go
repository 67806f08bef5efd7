package fs

import (
	"os"
	"sync"
	"sync/atomic"
)

// Where reads come to us, the kernel fills its page cache by requests of the size of
// its read-ahead, a round trip each: 128 KiB, which only root can raise. But FUSE takes
// pages that it has not asked for. So what follows in a file that is being read, or
// faulted in, from one end to the other is stored there ahead of the reader, by few large
// writes. Only what the kernel asks for itself begins that; a reader of pieces here
// and there causes none of it.
//
// The bytes are those that the kernel would be given if it asked, for a node stands for
// one content: they cannot be wrong, and storing them twice changes nothing.

const (
	// pushShare: ahead of a reader are stored so many times the bytes that it has read in
	// sequence, so that what a reader who stops has no use for is bounded by what it used.
	pushShare = 4
	// minPushedFile is how large files are that this is for: smaller ones are a few
	// requests, whoever fills their pages, and nothing was found to be gained there.
	minPushedFile = 2 << 20
	// minPushBytes is the least that is worth a write, maxPushBytes the most that is
	// stored ahead of a reader: more than most files.
	minPushBytes = 64 << 10
	maxPushBytes = 16 << 20
	// pushPieceBytes are stored at a time; a push ends after a piece when its reader has
	// closed the file.
	pushPieceBytes = 1 << 20
	// maxPushes go on at once. A push may wait for pages that the kernel has just asked for.
	// It must not take the threads that answer, so there are few, and readers who find none
	// free are served as the kernel asks.
	maxPushes = 4
)

// pageBytes: the kernel believes in whole pages alone, but at the end of a file.
var pageBytes = int64(os.Getpagesize())

// pagePushes bounds the pushes of a mount.
type pagePushes struct {
	running atomic.Int32
	bytes   atomic.Uint64 // stored so far
}

func (p *pagePushes) begin() bool {
	if p.running.Add(1) <= maxPushes {
		return true
	}
	p.end()
	return false
}

func (p *pagePushes) end() { p.running.Add(-1) }

// span is a part of a file.
type span struct{ from, to int64 }

func (s span) size() int64 { return s.to - s.from }

// fillRun follows the requests by which the kernel fills its pages of a file.
type fillRun struct {
	mu      sync.Mutex
	seen    span // read or stored in sequence, with no gap
	pushing int  // pushes that have not ended
}

// read is told of a request for a part of a file, and returns what to store beside
// it; that has no size where there is nothing to store, else ended is to be called
// afterwards. Copies out of maps go down as often as up: the C library chooses by the
// addresses.
func (r *fillRun) read(asked span, size int64) (push span, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.seen
	within := before.from <= asked.from && asked.to <= before.to
	switch {
	case within && r.pushing > 0: // the reader is ahead of a push
		return span{}, false
	case within, asked.from > before.to, asked.to < before.from:
		// Pages that were there are gone, or the reader is somewhere else: it begins anew.
		before = span{asked.from, asked.to}
		if asked.from == 0 {
			before.to = 0
		}
		r.seen = asked
	}
	r.seen = span{min(r.seen.from, asked.from), max(r.seen.to, asked.to)}
	ahead := min(r.seen.size()*pushShare, maxPushBytes) / pageBytes * pageBytes
	switch {
	case r.seen.to > before.to:
		push = span{r.seen.to, min(size, r.seen.to+ahead)}
	case r.seen.from < before.from:
		push, down = span{max(0, r.seen.from-ahead), r.seen.from}, true
	}
	if push.size() < minPushBytes {
		return span{}, false
	}
	r.seen = span{min(r.seen.from, push.from), max(r.seen.to, push.to)}
	r.pushing++
	return push, down
}

// ended is told that a push has stored what it could.
func (r *fillRun) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushing--
}

// pushAround stores what follows a request for pages of the file, if it seems to be
// read in sequence.
func (h *sampleHandle) pushAround(asked span) {
	if !h.buf.InMemory() || h.buf.Size() < minPushedFile {
		return
	}
	push, down := h.run.read(asked, h.buf.Size())
	if push.size() == 0 {
		return
	}
	if !h.node.m.pushes.begin() {
		h.run.ended()
		return
	}
	h.buf.Pin()
	go h.push(push, down)
}

// push stores a part of the file in the kernel's page cache, its end first if the
// reader goes down.
func (h *sampleHandle) push(all span, down bool) {
	defer h.node.m.pushes.end()
	defer h.buf.Unpin()
	defer h.run.ended()
	for all.size() > 0 && !h.closed.Load() {
		piece := span{all.from, min(all.to, all.from+pushPieceBytes)}
		if down {
			piece = span{max(all.from, all.to-pushPieceBytes), all.to}
		}
		data, err := h.buf.Slice(nil, piece.from, int(piece.size()))
		// The kernel may have forgotten the file meanwhile, or be short of memory: it asks
		// for what it needs.
		if err != nil || h.node.WriteCache(piece.from, data) != 0 {
			return
		}
		h.node.m.pushes.bytes.Add(uint64(len(data)))
		h.filled.Add(int64(len(data)))
		if down {
			all.to = piece.from
		} else {
			all.from = piece.to
		}
	}
}
