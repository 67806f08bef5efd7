package order

import (
	"sync"
	"time"
)

// The limits of what is remembered.
const (
	maxFolders = 64      // that are being read
	maxNames   = 1 << 18 // of all of them: some 20 MB
	maxStreams = 16      // in one folder
)

const (
	// firstRun is how many opens in order make a stream for which something is
	// made, and lastRun how many it takes when nothing was ever used.
	firstRun, lastRun = 3, 64
	// listMisses is how many misses in a folder are worth a listing of it, with
	// no more than listWithin opens elsewhere from one to the next: a reader
	// that jumps about among many folders is in no order.
	listMisses, listWithin = 2, 32
	// idleImages is how many images in a row that are there already put a
	// stream to sleep, until its reader misses something.
	idleImages = 2
	// forgetAfter is when a stream that opens nothing is given up, and with it
	// what was made for it.
	forgetAfter = 10 * time.Second
	// forgetEvery is how long it is at least between two looks for such.
	forgetEvery = time.Second
)

// DefaultImages is how many images are made ahead of a reader: enough to keep
// two processors busy while it handles a batch, few enough to be wasted.
const DefaultImages = 8

// Source is where images come from. Folders are named by an F.
type Source[F comparable] interface {
	// List returns the names of the images in a folder, in the order in which a
	// listing shows them. More than max are an error.
	List(folder F, max int) ([]string, error)

	// Next returns the folder after this one in sorted order, false where it is
	// the last one beside its siblings.
	Next(folder F) (F, bool)

	// Make makes an image, unless it is there or being made: then it reports
	// false. It returns the memory that the image takes.
	Make(folder F, name string) (bytes int64, made bool, err error)

	// Spare reports whether a processor has nothing better to do just now.
	Spare() bool
}

// Options are the settings of a ReadAhead.
type Options struct {
	Images  int          // made ahead of one reader
	Workers int          // images made at a time
	Bytes   func() int64 // what all that is made and not opened may take
}

// Stats are counts since New.
type Stats struct {
	Made   uint64 // images made ahead
	Useful uint64 // of them, opened since
	Wasted uint64 // of them, not opened before their reader was given up
}

// ReadAhead has images made before they are asked for. Its methods may be
// called by any number of goroutines.
type ReadAhead[F comparable] struct {
	source  Source[F]
	opt     Options
	now     func() time.Time
	running sync.WaitGroup

	mu      sync.Mutex
	folders map[F]*folder
	names   int       // of all folders
	clock   uint64    // counts opens
	working int       // goroutines
	unread  int       // images that were begun and not opened
	bytes   int64     // of the last image: what one takes
	need    int       // opens in order that make a stream
	crossed bool      // a reader went on from the end of a folder to the next one
	forgot  time.Time // when streams were last given up for being old
	closed  bool
	stats   Stats
}

// New returns a ReadAhead for a source. Close ends it.
func New[F comparable](source Source[F], opt Options) *ReadAhead[F] {
	return &ReadAhead[F]{source: source, opt: opt, now: time.Now, folders: make(map[F]*folder), need: firstRun}
}

// Opened says that an image was opened, and whether it had to be made for that.
// It takes a few microseconds; what is made is made by other goroutines.
func (a *ReadAhead[F]) Opened(in F, name string, missed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.clock++
	if now := a.now(); now.Sub(a.forgot) >= forgetEvery {
		a.forget(now)
	}
	f := a.folder(in)
	if f.state == unlisted && a.clock-f.used > listWithin {
		f.misses = 0
	}
	f.used = a.clock
	if missed {
		f.misses++
	}
	if f.state == ready {
		number, known := f.find(name)
		if known {
			a.follow(f, number, missed)
		} else if f.misses > len(f.names) { // there are new names
			a.unlist(f)
		}
	} else if missed {
		f.remember(name)
	}
	a.start()
}

// Stats returns the counts.
func (a *ReadAhead[F]) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(a.now())
	return a.stats
}

// Close ends the making and returns when nothing is made any more.
func (a *ReadAhead[F]) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.running.Wait()
}

// folder returns what is known of a folder, and makes room for it.
func (a *ReadAhead[F]) folder(in F) *folder {
	f := a.folders[in]
	if f == nil {
		f = new(folder)
		a.folders[in] = f
		for len(a.folders) > maxFolders {
			a.dropOldest(f)
		}
	}
	return f
}

// dropOldest forgets the folder, other than keep, that was not read for longest,
// and reports whether there was one.
func (a *ReadAhead[F]) dropOldest(keep *folder) bool {
	var key F
	var oldest *folder
	for k, f := range a.folders {
		if f != keep && (oldest == nil || f.used < oldest.used) {
			key, oldest = k, f
		}
	}
	if oldest == nil {
		return false
	}
	a.unlist(oldest)
	delete(a.folders, key)
	return true
}

// unlist forgets a folder's names and readers.
func (a *ReadAhead[F]) unlist(f *folder) {
	for len(f.streams) > 0 {
		a.giveUp(f, 0)
	}
	a.names -= len(f.names)
	*f = folder{used: f.used}
}

// follow finds the stream that an open belongs to, or begins one.
func (a *ReadAhead[F]) follow(f *folder, number int32, missed bool) {
	if x := f.ahead[number]; x != nil {
		delete(f.ahead, number)
		a.unread--
		x.fate = useful
		x.stream.useful++
		a.stats.Useful++
		if x.stream.useful%a.opt.Images == 0 {
			a.need = firstRun
		}
	}
	var s *stream
	for _, have := range f.streams {
		if order, place, ok := have.follows(f, number); ok {
			s = have
			s.advance(order, place)
			break
		}
	}
	if s == nil {
		s = newStream(f, number)
		f.streams = append(f.streams, s)
		if len(f.streams) > maxStreams {
			a.giveUp(f, oldestStream(f.streams))
		}
	}
	s.seen = a.now()
	if missed {
		s.awake, s.idle = true, 0
	}
	if s.expected {
		s.expected, a.crossed = false, true
	}
}

func oldestStream(streams []*stream) int {
	oldest := 0
	for i, s := range streams {
		if s.seen.Before(streams[oldest].seen) {
			oldest = i
		}
	}
	return oldest
}

// giveUp ends a stream. What was made for it and not opened is wasted, and if
// that is most of it, the next streams must show more of an order.
func (a *ReadAhead[F]) giveUp(f *folder, i int) {
	s := f.streams[i]
	f.streams = append(f.streams[:i], f.streams[i+1:]...)
	s.awake = false
	left := 0
	for number, x := range f.ahead {
		if x.stream == s {
			delete(f.ahead, number)
			x.fate = wasted
			left++
		}
	}
	a.unread -= left
	a.stats.Wasted += uint64(left)
	switch {
	case s.expected: // its reader has not come
		a.crossed = false
	case left > s.useful:
		a.need = min(2*a.need, lastRun)
	}
}

// forget gives up the streams that have not opened anything for long.
func (a *ReadAhead[F]) forget(now time.Time) {
	a.forgot = now
	before := now.Add(-forgetAfter)
	for _, f := range a.folders {
		for i := 0; i < len(f.streams); i++ {
			if f.streams[i].seen.Before(before) {
				a.giveUp(f, i)
				i--
			}
		}
	}
}

// job is what a task is.
type job uint8

const (
	makeImage job = iota
	listFolder
	findNext // the folder that a reader will go on to, which is listed as well
)

// task is something to do for a folder.
type task[F comparable] struct {
	job    job
	in     F
	folder *folder
	image  *image
	number int32
	place  int
	name   string
}

// start begins as much as is to be done and there are goroutines for. The lock
// is held.
func (a *ReadAhead[F]) start() {
	for a.working < a.opt.Workers && !a.closed {
		t, ok := a.pick()
		if !ok {
			return
		}
		a.working++
		a.running.Go(func() { a.work(t) })
	}
}

// pick chooses what is most urgent. The lock is held.
func (a *ReadAhead[F]) pick() (task[F], bool) {
	var best task[F]
	var of *stream
	for in, f := range a.folders {
		if f.state == unlisted && f.misses >= listMisses {
			f.state = listing
			return task[F]{job: listFolder, in: in, folder: f}, true
		}
		for _, s := range f.streams {
			if !s.awake || s.order == orders || s.run < a.need || s.ahead() >= a.opt.Images {
				continue
			}
			if s.to == len(f.names) {
				if s.order == sorted && !s.continued {
					s.continued = true
					return task[F]{job: findNext, in: in, folder: f}, true
				}
				continue
			}
			if of == nil || s.ahead() < of.ahead() {
				best, of = task[F]{in: in, folder: f}, s
			}
		}
	}
	if of == nil || a.opt.Bytes != nil && int64(a.unread+1)*a.bytes > a.opt.Bytes() {
		return task[F]{}, false
	}
	best.place = of.to
	best.number = best.folder.number(of.to, of.order)
	best.name = best.folder.names[best.number]
	best.image = &image{stream: of}
	of.to++
	if best.folder.ahead[best.number] != nil { // for another reader of the folder
		return a.pick()
	}
	best.folder.ahead[best.number] = best.image
	a.unread++
	return best, true
}

// work does a task, and what there is after it.
func (a *ReadAhead[F]) work(t task[F]) {
	for ok := true; ok; {
		switch t.job {
		case listFolder:
			names, err := a.source.List(t.in, maxNames)
			t, ok = a.after(func() { a.listedAs(t.folder, names, err) }, true)
			continue
		case findNext:
			next, found := a.source.Next(t.in)
			if !found {
				t, ok = a.after(func() {}, true)
				continue
			}
			names, err := a.source.List(next, maxNames)
			t, ok = a.after(func() { a.expect(next, names, err) }, true)
			continue
		}
		if !a.source.Spare() {
			t, ok = a.after(func() { a.leave(t) }, false)
			continue
		}
		bytes, made, err := a.source.Make(t.in, t.name)
		t, ok = a.after(func() { a.madeAs(t, bytes, made, err) }, true)
	}
}

// after books the outcome of a task and returns the next one, if the goroutine
// is to go on and there is one.
func (a *ReadAhead[F]) after(book func(), goOn bool) (next task[F], ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	book()
	if goOn && !a.closed {
		next, ok = a.pick()
	}
	if !ok {
		a.working--
	}
	return next, ok
}

// listedAs books a listing.
func (a *ReadAhead[F]) listedAs(f *folder, names []string, err error) {
	if f.state != listing { // forgotten meanwhile
		return
	}
	f.misses = 0
	for err == nil && a.names+len(names) > maxNames {
		if !a.dropOldest(f) {
			break
		}
	}
	if err != nil || len(names) > maxNames {
		f.state = unlistable
		return
	}
	a.names += len(names)
	opened := f.opened
	f.setNames(names)
	for _, name := range opened {
		if number, known := f.find(name); known {
			a.follow(f, number, true)
		}
	}
}

// expect books a listing of the folder to which a reader will go on if it goes
// through all of them. Images are made for it beforehand if one did so before.
func (a *ReadAhead[F]) expect(in F, names []string, err error) {
	f := a.folder(in)
	f.used = a.clock
	if f.state == unlisted {
		f.state = listing
		a.listedAs(f, names, err)
	}
	if f.state != ready || len(f.names) == 0 || len(f.streams) >= maxStreams {
		return
	}
	f.streams = append(f.streams, &stream{
		order: sorted, run: a.need, seen: a.now(), awake: a.crossed, expected: true,
	})
}

// leave books an image that was not begun: its turn comes when the reader opens
// the next one, if there is a processor then.
func (a *ReadAhead[F]) leave(t task[F]) {
	a.retract(t)
	if s := t.image.stream; s.to == t.place+1 {
		s.to = max(t.place, s.next[s.order])
	}
}

// madeAs books an image that was made, or not.
func (a *ReadAhead[F]) madeAs(t task[F], bytes int64, made bool, err error) {
	s := t.image.stream
	if err == nil && made {
		a.stats.Made++
		a.bytes = bytes
		s.idle = 0
		return
	}
	a.retract(t)
	s.idle++
	if err != nil || s.idle >= idleImages {
		s.awake = false
	}
}

// retract takes back what was booked of an image when it was begun.
func (a *ReadAhead[F]) retract(t task[F]) {
	switch t.image.fate {
	case unread:
		delete(t.folder.ahead, t.number)
		a.unread--
	case useful:
		t.image.stream.useful--
		a.stats.Useful--
	case wasted:
		a.stats.Wasted--
	}
}
