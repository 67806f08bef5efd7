package dataset

import (
	"context"
	"sync"
	"time"
)

// Throttle makes a store as slow as a line of so many bytes a second, at least
// 1, which all of its files share. Closing it closes store. Descriptions and
// listings are not slowed down.
func Throttle(store Store, bytesPerSecond int64) Store {
	return &throttled{Store: store, line: &line{bytesPerSecond: float64(max(bytesPerSecond, 1))}}
}

type throttled struct {
	Store
	line *line
}

// Open opens a file whose bytes come by the line.
func (s *throttled) Open(ctx context.Context, path string) (File, error) {
	f, err := s.Store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return throttledFile{f, s.line}, nil
}

type throttledFile struct {
	File
	line *line
}

// ReadAt returns when the line has carried what was read.
func (f throttledFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.line.carry(n)
	return n, err
}

// line carries bytes one after another.
type line struct {
	bytesPerSecond float64

	mu   sync.Mutex
	free time.Time // when what it has been given is through
}

// carry waits its turn and then as long as n bytes take. Turns are kept as
// absolute times, so that sleeping too long once is made up for by the next.
func (l *line) carry(n int) {
	if n <= 0 {
		return
	}
	l.mu.Lock()
	if now := time.Now(); l.free.Before(now.Add(-maxLineCredit)) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.bytesPerSecond * float64(time.Second)))
	until := l.free
	l.mu.Unlock()
	time.Sleep(time.Until(until))
}

// maxLineCredit is how long a line may have been idle and still count as busy,
// which is about how much too long a sleep is.
const maxLineCredit = 2 * time.Millisecond
