package fs

import (
	"slices"
	"strings"
	"time"
)

// Some programs open a file several times to read it once: np.load with
// mmap_mode three times, two of them while it is open, OpenCV twice, one after
// the other. Such opens are one request and get one content, or a header would
// be read of one image and the pixels of another. A thread goes on with its last
// request when it opens the same name again, next and soon, and either still has
// it open or is known to open each name more than once.

const (
	// maxOpens is how many opens make one request at most, and requestPause how
	// long after one the next may come.
	maxOpens     = 4
	requestPause = 10 * time.Second
	// habitRequests is how many of the last requests tell of a habit.
	habitRequests = 16
)

// echoReader is a thread that reads an echo view. The kernel has no number for
// threads of other containers: then all those that read one name are one, which
// go on with a request only while the name is open.
type echoReader struct {
	view   View
	thread uint64
	path   string // where thread is 0, else ""
}

// lastRequest is the last request of a thread.
type lastRequest struct {
	path    string
	own     bufferKey
	content content
	opens   int // of one request
	held    int // handles that are open
	at      time.Time
	habit   habit
}

// habit is whether the last requests took one open or more.
type habit struct {
	requests int // at most habitRequests
	several  uint16
}

func (h *habit) add(severalOpens bool) {
	h.requests = min(h.requests+1, habitRequests)
	h.several <<= 1
	if severalOpens {
		h.several |= 1
	}
}

// severalOpens reports whether most requests took more than one open, and whether
// anything is known of them.
func (h *habit) severalOpens() (several, known bool) {
	ones := 0
	for i := range h.requests {
		ones += int(h.several >> i & 1)
	}
	return 2*ones > h.requests, h.requests > 0
}

// last returns the last request of a reader, nil where it is not remembered or
// was for another name. The lock is held.
func (e *echoViews) last(name echoName, reader uint64) *lastRequest {
	r, ok := e.readers.Get(readerKey(name, reader))
	if !ok || r.path != name.path {
		return nil
	}
	return r
}

// forgetReader ends a request that others could have gone on with.
func (e *echoViews) forgetReader(name echoName, reader uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readers.Remove(readerKey(name, reader))
}

func readerKey(name echoName, reader uint64) echoReader {
	if reader == 0 {
		return echoReader{view: name.view, path: name.path}
	}
	return echoReader{view: name.view, thread: reader}
}

// goesOn reports whether a lookup of the same name is for another open of the
// request.
func (r *lastRequest) goesOn(own bufferKey, reader uint64, others *habit, now time.Time) bool {
	if r.own != own || r.opens >= maxOpens || now.Sub(r.at) >= requestPause {
		return false
	}
	if r.held > 0 {
		return true
	}
	if reader == 0 {
		return false
	}
	several, known := r.habit.severalOpens()
	if !known {
		several, known = others.severalOpens()
	}
	return several || !known
}

// opened books another open of the request.
func (r *lastRequest) opened(now time.Time) {
	r.opens++
	r.held++
	r.at = now
}

// began remembers a request. The lock is held.
func (e *echoViews) began(r *echoRequest) *lastRequest {
	key := readerKey(r.name, r.reader)
	next := &lastRequest{path: r.name.path, own: r.own, content: r.content}
	if before, ok := e.readers.Get(key); ok {
		next.habit = before.habit
		next.habit.add(before.opens > 1)
		if h := e.habits[r.name.view]; h != nil {
			h.add(before.opens > 1)
		}
	}
	next.opened(e.now())
	e.readers.Add(key, next)
	return next
}

// released ends an open.
func (e *echoViews) released(r *lastRequest) {
	if r == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r.held--
}

// folderOf returns the folder of a path, "" for the root.
func folderOf(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

func sortEchoViews(views []EchoViewStats) {
	slices.SortFunc(views, func(a, b EchoViewStats) int { return strings.Compare(a.View, b.View) })
}
