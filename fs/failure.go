package fs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// subject is what a request that failed was for.
type subject struct {
	path string // below the mount point, as the reader wrote it
	// What the path stands for in the source, where that was known before the error.
	known bool
	of    dataset.Culprit
	id    dataset.Identity
}

// fail maps an error to what the reader sees, counts it and logs what its
// owner should know: what is wrong with a file once for each content of the file, why
// a name with view terms leads nowhere once in a while.
func (m *mount) fail(doing string, s subject, err error) syscall.Errno {
	errno := toErrno(err)
	var why *errWhy
	switch {
	case errors.As(err, &why):
		if m.explained.allow(explanation{s.path, why.reason}, time.Now()) {
			m.log.Info("no such view", "path", s.path, "why", why.reason)
		}
	case errno == syscall.ENOENT, errno == syscall.ESTALE, errno == syscall.EROFS, errno == syscall.ENODATA:
		// Part of a file system's ordinary life.
	case errors.Is(err, errNoEchoes):
		// Was said once for the folder.
	default:
		m.errors.Add(1)
		if !s.known {
			s.of, s.known = m.ds.CulpritOf(err)
		}
		if !m.reported.seen(m.reportOf(s, errno, err)) {
			m.tellOf(doing, s, errno, err)
		}
	}
	return errno
}

// tellOf writes the line about a file that cannot be served. It has both names of the
// file: the one that the reader used, and the one by which the owner finds it.
func (m *mount) tellOf(doing string, s subject, errno syscall.Errno, err error) {
	args := []any{"doing", doing, "path", s.path}
	if s.known {
		args = append(args, "source", m.ds.Full(s.of.Path))
		if s.of.Image != dataset.NoImage {
			args = append(args, "image", s.of.Image)
		}
	}
	args = append(args, "errno", errno.Error(), "error", err)
	if errno == syscall.ENOMEM {
		args = append(args, "remedy", m.remedyOfNoMemory(err))
	}
	m.log.Error("cannot serve a file", args...)
}

// maxStack bounds what the log has of a panic's stack.
const maxStack = 8 << 10

// panicked answers a request whose handler has panicked: EIO for its reader, and
// an entry in the log from which the fault can be found. The mount goes on.
func (m *mount) panicked(what any) fuse.Status {
	m.errors.Add(1)
	m.panics.Add(1)
	stack := debug.Stack()
	m.log.Error("a fault in prismfs; the request is answered by EIO, and the mount goes on",
		"panic", fmt.Sprint(what), "stack", string(stack[:min(len(stack), maxStack)]))
	return fuse.EIO
}

// unchanged looks whether a path of the source still leads to the same file.
func (m *mount) unchanged(source string, id dataset.Identity) error {
	info, err := m.ds.Stat(background, source)
	if err != nil {
		return err
	}
	if info.ID != id {
		return dataset.ErrChanged
	}
	return nil
}

// reports remembers which failures were logged.
type reports struct {
	mu   sync.Mutex
	last map[report]struct{}
}

// report is a failure that is logged once: in whichever view the file was read, and
// until it is another file, or has another damage.
type report struct {
	of    dataset.Culprit
	path  string // as it was written, where it is not known what it stands for
	id    dataset.Identity
	errno syscall.Errno
	text  uint64 // of what is wrong with the content, which is the same at each try; else 0
}

var reportSeed = maphash.MakeSeed()

// reportOf returns the report of a failure. The identity of a file whose header is
// damaged or unreadable has to be asked for: nobody has come to know more of it.
func (m *mount) reportOf(s subject, errno syscall.Errno, err error) report {
	r := report{of: s.of, id: s.id, errno: errno}
	if !s.known {
		r.path = s.path
	}
	if errno != syscall.EIO {
		return r
	}
	if isDamage(err) {
		r.text = maphash.String(reportSeed, err.Error())
	}
	if s.known && r.id == (dataset.Identity{}) {
		if info, err := m.store.Stat(background, s.of.Path); err == nil {
			r.id = info.ID
		}
	}
	return r
}

// maxReports bounds the memory, of some 200 bytes and a path each; beyond it the memory
// starts anew.
const maxReports = 10_000

// seen reports whether a failure was logged before, and remembers it.
func (r *reports) seen(key report) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.last[key]; ok {
		return true
	}
	if r.last == nil || len(r.last) >= maxReports {
		r.last = make(map[report]struct{})
	}
	r.last[key] = struct{}{}
	return false
}

// rate lets a few events through at a time: tools probe many names.
type rate struct {
	mu    sync.Mutex
	start time.Time // of the present window
	count int       // of events in it
}

// At most rateBurst lines of a kind are logged in a rateWindow.
const (
	rateBurst  = 10
	rateWindow = 10 * time.Second
)

func (r *rate) allow(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.start) >= rateWindow {
		r.start, r.count = now, 0
	}
	r.count++
	return r.count <= rateBurst
}

// explained remembers why names lead nowhere, as far as the log has said so
// lately: one ls asks for a name several times, and tools probe many names.
type explained struct {
	mu   sync.Mutex
	last map[explanation]time.Time
}

type explanation struct{ path, reason string }

// At most maxExplained names are explained in a rateWindow, each once.
const maxExplained = 64

func (e *explained) allow(what explanation, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.last[what]; ok && now.Sub(at) < rateWindow {
		return false
	}
	if len(e.last) >= maxExplained {
		maps.DeleteFunc(e.last, func(_ explanation, at time.Time) bool { return now.Sub(at) >= rateWindow })
	}
	if len(e.last) >= maxExplained {
		return false
	}
	if e.last == nil {
		e.last = make(map[explanation]time.Time)
	}
	e.last[what] = now
	return true
}

// withTail returns a logger that also writes to the tail: what is worth knowing whatever
// the log's own level, and details if they were asked for.
func withTail(log *slog.Logger, tail *logTail) *slog.Logger {
	level := slog.LevelInfo
	if log.Enabled(background, slog.LevelDebug) {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewMultiHandler(log.Handler(), slog.NewTextHandler(tail, &slog.HandlerOptions{Level: level})))
}
