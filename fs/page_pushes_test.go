package fs

import (
	"math/rand/v2"
	"sync"
	"testing"
)

const kib = 1 << 10

// fill reads a file in pieces of the kernel's read-ahead as the kernel does: what has
// pages already is not asked for. It returns how often it had to ask.
func fill(r *fillRun, size int64, offsets func(yield func(int64) bool)) (asked int) {
	const page = 4 * kib
	has := make([]bool, (size+page-1)/page)
	mark := func(s span) {
		for at := s.from; at < s.to; at += page {
			has[at/page] = true
		}
	}
	for off := range offsets {
		if has[off/page] {
			continue
		}
		piece := span{off, min(size, off+128*kib)}
		asked++
		mark(piece)
		if push, _ := r.read(piece, size); push.size() > 0 {
			mark(push)
			r.ended()
		}
	}
	return asked
}

func up(size int64) func(func(int64) bool) {
	return func(yield func(int64) bool) {
		for off := int64(0); off < size; off += 4 * kib {
			if !yield(off) {
				return
			}
		}
	}
}

func downFrom(size int64) func(func(int64) bool) {
	return func(yield func(int64) bool) {
		for off := (size - 1) / (4 * kib) * (4 * kib); off >= 0; off -= 4 * kib {
			// A fault reads around itself; here, what is before it.
			if !yield(max(0, off-124*kib)) {
				return
			}
		}
	}
}

func TestWholeFilesAreFilledInFewRequests(t *testing.T) {
	for _, c := range []struct {
		size         int64
		most, mostUp int
	}{
		{100 * kib, 1, 1}, {1200 * kib, 4, 2}, {6 << 20, 5, 3}, {18 << 20, 6, 4}, {200 << 20, 20, 17},
	} {
		var r fillRun
		for range 2 { // the kernel has dropped all pages in between
			if got := fill(&r, c.size, up(c.size)); got > c.mostUp {
				t.Errorf("%d KiB from the start: the kernel asks %d times, want at most %d", c.size/kib, got, c.mostUp)
			}
			if got := fill(&r, c.size, downFrom(c.size)); got > c.most {
				t.Errorf("%d KiB from the end: the kernel asks %d times, want at most %d", c.size/kib, got, c.most)
			}
		}
	}
}

// A reader of pieces here and there, and one that stops, have little stored for nothing.
func TestLittleIsPushedInVain(t *testing.T) {
	const size = 64 << 20
	var scattered fillRun
	for off := int64(60 << 20); off > 0; off -= 2 << 20 {
		if push, _ := scattered.read(span{off, off + 128*kib}, size); push.size() > 0 {
			t.Errorf("%d bytes are stored beside a piece at %d that follows none", push.size(), off)
		}
	}
	var header fillRun
	if push, _ := header.read(span{0, 4 * kib}, size); push.size() > 0 {
		t.Errorf("a header alone has %d bytes stored after it", push.size())
	}
	var stops fillRun
	for off := int64(0); off < 4<<20; {
		push, _ := stops.read(span{off, off + 128*kib}, size)
		if off += 128 * kib; push.size() > pushShare*off {
			t.Errorf("after %d bytes, %d are stored that may be for nothing", off, push.size())
		}
		off += push.size()
	}
}

// A reader that is quicker than what is stored ahead of it has nothing stored twice.
func TestNothingIsPushedBesideAPush(t *testing.T) {
	const size = 64 << 20
	var r fillRun
	push, _ := r.read(span{0, 128 * kib}, size)
	if push.size() == 0 {
		t.Fatal("nothing is stored after the first piece of a file")
	}
	for off := push.from; off < push.to; off += 128 * kib {
		if again, _ := r.read(span{off, off + 128*kib}, size); again.size() > 0 {
			t.Errorf("%+v is stored while %+v is", again, push)
		}
	}
	r.ended()
	r.read(push, size)
	if next, _ := r.read(span{push.to, push.to + 128*kib}, size); next.size() == 0 {
		t.Error("nothing is stored when it goes on")
	}
}

// Whatever is asked for in whatever order, what is stored lies in the file, at
// boundaries of pages, and beside nothing but what was seen.
func TestPushesStayInTheFile(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 30))
	for range 200 {
		var r fillRun
		size := random.Int64N(8<<20) + 1
		for range 100 {
			from := random.Int64N(size) / (4 * kib) * (4 * kib)
			asked := span{from, min(size, from+(1+random.Int64N(32))*4*kib)}
			push, down := r.read(asked, size)
			if push.size() == 0 {
				continue
			}
			if push.from < 0 || push.to > size || push.size() < minPushBytes || push.size() > maxPushBytes {
				t.Fatalf("%+v of a file of %d bytes", push, size)
			}
			if push.from%(4*kib) != 0 || push.to%(4*kib) != 0 && push.to != size {
				t.Fatalf("%+v are no whole pages", push)
			}
			if push.from < asked.to && asked.from < push.to {
				t.Fatalf("%+v is stored, of which the kernel waits for %+v", push, asked)
			}
			if down != (push.to <= asked.from) {
				t.Fatalf("%+v beside %+v goes the wrong way", push, asked)
			}
		}
	}
}

func TestPushesAreBounded(t *testing.T) {
	var p pagePushes
	var began sync.Map
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			if p.begin() {
				began.Store(i, true)
			}
		})
	}
	wait.Wait()
	n := 0
	began.Range(func(any, any) bool { n++; return true })
	if n < 1 || n > maxPushes {
		t.Errorf("%d pushes at once, want at most %d", n, maxPushes)
	}
	for range n {
		p.end()
	}
	if !p.begin() {
		t.Error("no push begins after the others have ended")
	}
}
