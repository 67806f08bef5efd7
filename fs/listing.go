package fs

import (
	"context"
	"iter"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// listedEntry is an entry of a listing. sample is the name in the source of the
// sample that its name stands for, "" where only a lookup can tell what that is.
type listedEntry struct {
	fuse.DirEntry
	sample string
}

// listing is an open directory. Entries stream from the source: neither it nor
// we hold all the names.
//
// It answers the kernel by itself (kernelLayer.ReadDir). go-fuse's way loses
// names when the kernel seeks back into the last answer, which it does when a
// reader took a part of it, and goes on with a buffer of another size.
//
// The offset of an entry is its number, counted from 1: where to go on.
type listing struct {
	entries iter.Seq2[listedEntry, error]
	fail    func(error) syscall.Errno
	told    bool // attributes may be told with the names: the kernel may keep them
	in      *dirNode

	mu     sync.Mutex
	next   func() (listedEntry, error, bool)
	stop   func()
	taken  uint64           // entries that came from the stream
	at     uint64           // the offset that the kernel has come to
	last   []listedEntry    // of the last answer; the kernel may go back into it
	ahead  []listedEntry    // entries that come before those of the stream
	failed syscall.Errno    // to be told with the next answer
	from   dataset.Identity // of the folder in the source when the stream began
}

// read answers with the entries behind an offset, as many as there is room for.
func (l *listing) read(off uint64, add func(listedEntry) bool) fuse.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	if off != l.at {
		if errno := l.seek(off); errno != 0 {
			return fuse.Status(errno)
		}
	}
	l.last = l.last[:0]
	for {
		e, errno := l.entry()
		switch {
		case errno != 0 && len(l.last) > 0:
			l.failed = errno
			return fuse.OK
		case errno != 0 || e == nil:
			return fuse.Status(errno)
		case !add(*e):
			l.ahead = slices.Insert(l.ahead, 0, *e)
			return fuse.OK
		}
		l.last = append(l.last, *e)
		l.at = e.Off
	}
}

// entry returns the next entry, nil at the end.
func (l *listing) entry() (*listedEntry, syscall.Errno) {
	if errno := l.failed; errno != 0 {
		l.failed = 0
		return nil, errno
	}
	if len(l.ahead) > 0 {
		e := l.ahead[0]
		l.ahead = l.ahead[1:]
		return &e, 0
	}
	if l.next == nil {
		l.next, l.stop = iter.Pull2(l.entries)
	}
	e, err, ok := l.next()
	if !ok {
		return nil, 0
	}
	if err != nil {
		return nil, l.fail(err)
	}
	l.taken++
	e.Off = l.taken
	return &e, 0
}

// seek goes to an offset: back into the last answer, forward, or from the start
// again, which is what rewinddir means and is rare otherwise.
func (l *listing) seek(off uint64) syscall.Errno {
	if n := len(l.last); off > 0 && n > 0 && off < l.at && off >= l.last[0].Off-1 {
		back := l.last[off-(l.last[0].Off-1):]
		l.ahead = slices.Concat(back, l.ahead)
		l.at = off
		return 0
	}
	if off < l.at {
		l.close()
	}
	for l.at < off {
		e, errno := l.entry()
		if errno != 0 {
			return errno
		}
		if e == nil {
			break // there were more entries once
		}
		l.at = e.Off
	}
	l.at = off
	return 0
}

// Releasedir ends the listing.
func (l *listing) Releasedir(ctx context.Context, flags uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

func (l *listing) close() {
	if l.stop != nil {
		l.stop()
	}
	l.next, l.stop, l.taken, l.at = nil, nil, 0, 0
	l.last, l.ahead, l.failed = nil, nil, 0
}
