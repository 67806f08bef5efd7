package fs

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"prismfs/advice"
	"prismfs/dataset"
	"prismfs/l3"
	"prismfs/order"
	"prismfs/tensor"
)

// The limits of what is remembered of readers: some 2 MB, if all of it is in use.
const (
	timeShards     = 16  // readers share nothing with those of another one
	maxTimeThreads = 256 // in a shard
	maxTimeViews   = 64
	maxTimeSamples = 4 // images of a view, in a shard, that stand for all
	maxTimeFolders = 4 // named of a view: train, val; more are its classes
)

const (
	// timePeriod: what is said of readers is of the last period in which they read
	// and the one before, so that it follows a job that changes.
	timePeriod = 2 * time.Minute
	// pauseAfter is the time between two opens from which on a reader has done
	// something else than work on an image: an evaluation, a breakpoint. Loaders
	// without workers read a whole batch and then train on it, for seconds.
	pauseAfter = 20 * time.Second
)

// readerTimes knows how long the readers of each view wait in opens, and how long
// they take from one open to the next. Its cost is two looks at the clock and a
// lock that readers of other shards do not see: 0.3 µs an open.
type readerTimes struct {
	begun time.Time
	seed  maphash.Seed
	shard [timeShards]timeShard
}

type timeShard struct {
	mu      sync.Mutex
	threads map[uint64]*timeThread
	views   map[View]*viewTimes
}

// timeThread is the thread of a reader.
type timeThread struct {
	left time.Duration // since begun, when its last open was answered
	last uint64        // hash of what it opened then
	view *viewTimes
	of   View
}

// viewTimes is what was seen of a view in a shard.
type viewTimes struct {
	period    int64 // of now
	now, past timeSums
	distinct  distinctFiles
	samples   []content // of misses
	folders   topFolders
}

// timeSums are sums of a period.
type timeSums struct {
	readers       int
	opens, misses int64
	bytes         int64 // of the files
	own, waited   time.Duration
	took          fillTimes
}

// fillTimes say where the time of making a file went.
type fillTimes struct{ store, decode time.Duration }

func newReaderTimes() *readerTimes {
	return &readerTimes{begun: time.Now(), seed: maphash.MakeSeed()}
}

// anOpen is an open of a sample that succeeded.
type anOpen struct {
	reader uint64 // as readerOf has it
	view   View
	file   content
	begun  time.Time
	missed bool
	took   fillTimes
}

// opened books an open, at its end. Readers that the kernel does not name, those
// of another container, cannot be told from each other and are left out.
func (t *readerTimes) opened(o anOpen) {
	if o.reader == 0 {
		return
	}
	if o.view.Auto.Word != "" {
		o.view.Fidelity = 0 // that of the moment
	}
	end := time.Since(t.begun)
	begun := o.begun.Sub(t.begun)
	hash := maphash.String(t.seed, o.file.sample.Path)
	s := &t.shard[o.reader%timeShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	thread := s.thread(o.reader, o.view, begun)
	v := thread.view
	own := begun - thread.left
	if thread.left == 0 || own > pauseAfter {
		own = 0
	}
	sums := v.at(int64(end / timePeriod))
	if thread.left == 0 || int64(thread.left/timePeriod) != v.period {
		sums.readers++
	}
	sums.own += max(own, 0)
	sums.waited += end - begun
	// np.load(mmap_mode=…) and others open a file several times for one use.
	if thread.last != hash || own > time.Second {
		sums.opens++
		sums.bytes += o.file.size
		v.distinct.add(hash)
		v.folders.enter(o.file.sample.Path)
	}
	if o.missed {
		sums.misses++
		sums.took.store += o.took.store
		sums.took.decode += o.took.decode
		v.remember(o.file, sums.misses)
	}
	thread.left, thread.last = end, hash
}

// thread returns what is known of a thread, which reads a view now.
func (s *timeShard) thread(id uint64, of View, now time.Duration) *timeThread {
	thread := s.threads[id]
	if thread == nil {
		if s.threads == nil {
			s.threads = make(map[uint64]*timeThread)
		}
		if len(s.threads) >= maxTimeThreads {
			s.dropOldestThread()
		}
		thread = new(timeThread)
		s.threads[id] = thread
	}
	if thread.view == nil || thread.of != of {
		// The same sample in another view is another file.
		thread.view, thread.of, thread.last = s.view(of, now), of, 0
	}
	return thread
}

func (s *timeShard) dropOldestThread() {
	var oldest uint64
	left := time.Duration(math.MaxInt64)
	for id, thread := range s.threads {
		if thread.left < left {
			oldest, left = id, thread.left
		}
	}
	delete(s.threads, oldest)
}

// view returns what is known of a view, and drops the one that was not read for
// longest if there are too many.
func (s *timeShard) view(of View, now time.Duration) *viewTimes {
	v := s.views[of]
	if v != nil {
		return v
	}
	if s.views == nil {
		s.views = make(map[View]*viewTimes)
	}
	if len(s.views) >= maxTimeViews {
		var oldest View
		period := int64(math.MaxInt64)
		for of, v := range s.views {
			if v.period < period {
				oldest, period = of, v.period
			}
		}
		delete(s.views, oldest)
		for _, thread := range s.threads {
			if thread.of == oldest {
				thread.view = nil
			}
		}
	}
	v = &viewTimes{period: int64(now / timePeriod)}
	s.views[of] = v
	return v
}

// at returns the sums of a period, which is the last one.
func (v *viewTimes) at(period int64) *timeSums {
	switch {
	case period == v.period+1:
		v.past, v.now = v.now, timeSums{}
	case period > v.period+1:
		v.past, v.now = timeSums{}, timeSums{}
	}
	v.period = max(v.period, period)
	return &v.now
}

// topFolders are the first folders of paths, while there are few.
type topFolders struct {
	names []string
	more  bool // there are more, or paths with none
}

func (t *topFolders) enter(path string) {
	if top, _, below := strings.Cut(path, "/"); below {
		t.add(top)
	} else {
		t.names, t.more = nil, true
	}
}

func (t *topFolders) add(top string) {
	switch {
	case t.more || slices.Contains(t.names, top):
	case len(t.names) == maxTimeFolders:
		t.names, t.more = nil, true
	default:
		t.names = append(t.names, top)
	}
}

func (t *topFolders) merge(other topFolders) {
	for _, top := range other.names {
		t.add(top)
	}
	if other.more {
		t.names, t.more = nil, true
	}
}

// remember keeps a few of the images that were missed, one in sixteen.
func (v *viewTimes) remember(c content, miss int64) {
	switch {
	case len(v.samples) < maxTimeSamples:
		v.samples = append(v.samples, c)
	case miss%16 == 0:
		v.samples[miss/16%maxTimeSamples] = c
	}
}

// distinctFiles estimates how many different hashes it was given (HyperLogLog:
// one register is the longest run of zero bits among the hashes that it gets).
// With 1024 registers it is wrong by 3 %, one time in three by more.
type distinctFiles struct{ runs [1024]uint8 }

func (d *distinctFiles) add(hash uint64) {
	register := hash % uint64(len(d.runs))
	run := uint8(bits.LeadingZeros64(hash|uint64(len(d.runs)-1)) + 1)
	d.runs[register] = max(d.runs[register], run)
}

func (d *distinctFiles) merge(other *distinctFiles) {
	for i, run := range other.runs {
		d.runs[i] = max(d.runs[i], run)
	}
}

func (d *distinctFiles) count() int64 {
	m := float64(len(d.runs))
	sum, empty := 0.0, 0
	for _, run := range d.runs {
		sum += math.Ldexp(1, -int(run))
		if run == 0 {
			empty++
		}
	}
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && empty > 0 { // counting empty registers is better then
		estimate = m * math.Log(m/float64(empty))
	}
	return int64(math.Round(estimate))
}

// seenView is what all shards have of a view.
type seenView struct {
	of   View
	name string
	timeSums
	distinct distinctFiles
	folders  topFolders
	samples  []content
}

// seen returns what is known of the views, the ones read most first.
func (t *readerTimes) seen() []*seenView {
	all := make(map[View]*seenView)
	for i := range t.shard {
		s := &t.shard[i]
		s.mu.Lock()
		for of, v := range s.views {
			x := all[of]
			if x == nil {
				x = &seenView{of: of}
				all[of] = x
			}
			x.add(&v.now)
			x.add(&v.past)
			x.readers += max(v.now.readers, v.past.readers, 1) // a thread that reads several views is counted in one
			x.distinct.merge(&v.distinct)
			x.samples = append(x.samples, v.samples...)
			x.folders.merge(v.folders)
		}
		s.mu.Unlock()
	}
	var list []*seenView
	for _, x := range all {
		slices.Sort(x.folders.names)
		if len(x.folders.names) == 1 {
			x.name = x.folders.names[0]
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *seenView) int {
		return int(b.opens-a.opens) + strings.Compare(a.of.String(), b.of.String())
	})
	return list
}

// add adds the sums of a shard, but not the readers: those of two periods are
// the same ones.
func (s *timeSums) add(other *timeSums) {
	s.opens += other.opens
	s.misses += other.misses
	s.bytes += other.bytes
	s.own += other.own
	s.waited += other.waited
	s.took.store += other.took.store
	s.took.decode += other.took.decode
}

// viewName writes a view as a name below the mount point, in as few terms as give it
// in a mount whose own view is another.
func viewName(folder string, v, mount View) string {
	switch {
	case v.Echo.Factor != 0:
		folder = v.Echo.Folder
	case v.Auto.Word != "":
		folder = v.Auto.Folder
	}
	var words []string
	switch {
	case v.Auto == mount.Auto && v.Fidelity == mount.Fidelity:
	case v.Auto.Word != "":
		words = append(words, v.Auto.Word)
	case v.Fidelity != 0:
		words = append(words, strconv.Itoa(v.Fidelity))
	}
	words = append(words, formWords(v.Form, mount.Form)...)
	words = append(words, v.readingOrder().words()...)
	if len(words) == 0 {
		return folder
	}
	return folder + "+" + strings.Join(words, "+")
}

// formWords are the terms that make a form of that of the mount: those that are
// added to it or, where that does not do, all.
func formWords(f, mount tensor.Form) []string {
	more := f
	more.CHW, more.RGB, more.Wide = f.CHW && !mount.CHW, f.RGB && !mount.RGB, f.Wide && !mount.Wide
	sum := mount
	sum.CHW, sum.RGB, sum.Wide = mount.CHW || f.CHW, mount.RGB || f.RGB, mount.Wide || f.Wide
	if sum == f {
		return strings.Split(more.String(), "+")[1:]
	}
	return strings.Split(f.String(), "+")
}

// codingOf sorts a file by what it takes to make it.
func codingOf(c content) advice.Coding {
	switch {
	case !c.form.Decoded():
		return advice.Stored
	case c.sample.Format == dataset.PCR:
		return advice.JPEG
	}
	switch c.sample.Coding {
	case l3.Dense8, l3.Dense16:
		return advice.Dense
	case l3.Fast8, l3.Fast16, l3.Published:
		return advice.Fast
	}
	return advice.Stored
}

// echoOf is the factor of a view, as advice has it.
func echoOf(v View) float64 {
	return float64(v.Echo.Factor) / float64(order.NoEchoes)
}
