package order

import (
	"sync"
)

// The numbers of echoes.
const (
	// DefaultEchoBuffer is how many images a class folder keeps for echoes: enough
	// to part an echo from its fresh image by about as many requests.
	DefaultEchoBuffer = 64
	// A pool is to owe between a quarter and three quarters of what it can: then
	// names can be fresh early or late within their cycle, and neither runs a
	// pool dry nor full. It is not filled beyond lowSamples in one go.
	lowShare, highShare, levelShares = 1, 3, 4
	lowSamples                       = 4
	// choices is out of how many a victim is chosen: the largest pool of all
	// would take a look at each.
	choices = 8
	// A pool from which nothing was drawn for staleRequests times as many
	// requests as there are pools is left behind: its reader has gone on.
	staleRequests = 16
	// maxSlots bounds the turns of all names of all views: 128 MiB. Names beyond
	// are fresh at random, once in e requests on average.
	maxSlots = 1 << 24
	// manySlots is when the oldest views are forgotten for new ones.
	manySlots = maxSlots / 2
	// maxPools bounds the folders of which a pool is kept, at some 300 bytes each.
	maxPools = 1 << 16
	// MaxEchoViews bounds the views of which anything is remembered.
	MaxEchoViews = 64
)

// EchoOptions are the settings of Echoes.
type EchoOptions[S any] struct {
	Bytes func() int64 // what the samples of all pools may take
	Drop  func(S)      // called, without a lock, for a sample that has left its pool
}

// EchoStats are counts since the view was first read, and what it holds.
type EchoStats struct {
	Fresh    uint64 `json:"fresh"`   // requests that were served their own image
	Echoes   uint64 `json:"echoes"`  // requests that were served another one of their folder
	Early    uint64 `json:"early"`   // fresh before their turn: the folder had too few echoes
	Late     uint64 `json:"late"`    // put off: it had enough
	Forced   uint64 `json:"forced"`  // fresh once more than their turn: it had no image at all
	Repeats  uint64 `json:"repeats"` // echoes of images that had been served often enough
	Lost     uint64 `json:"lost"`    // echoes of images that had to go before
	Names    int    `json:"names"`
	Buffered int    `json:"buffered"` // images in pools
	Bytes    int64  `json:"buffered_bytes"`
}

func (s *EchoStats) add(o EchoStats) {
	s.Fresh += o.Fresh
	s.Echoes += o.Echoes
	s.Early += o.Early
	s.Late += o.Late
	s.Forced += o.Forced
	s.Repeats += o.Repeats
	s.Lost += o.Lost
	s.Names += o.Names
	s.Buffered += o.Buffered
	s.Bytes += o.Bytes
}

// Echoes says what requests of echo views are served, and keeps the images that
// are served again. A P names a class folder in its form, a K a sample, and an S
// is what stands for its decoded file. Its methods, and those of its views, may
// be called by any number of goroutines.
//
// What it promises, of any order of requests: a name is fresh as often as its
// factor says in each cycle of its requests (once in 2 with echo2, twice in 3
// with echo1.5), as long as its folder holds any image when it is not; an echo is
// an image that was fresh in the same view and folder.
type Echoes[P, K comparable, S any] struct {
	opt EchoOptions[S]

	mu       sync.Mutex
	orders   []*EchoOrder[P, K, S] // by use, the oldest first
	pools    []*echoPool[P, K, S]
	bytes    int64
	slots    int // of all tables of names
	clock    uint64
	shuffles uint64 // random numbers taken
	gone     EchoStats
}

// NewEchoes returns Echoes that hold nothing.
func NewEchoes[P, K comparable, S any](opt EchoOptions[S]) *Echoes[P, K, S] {
	return &Echoes[P, K, S]{opt: opt}
}

// EchoOrder is what is known of one view.
type EchoOrder[P, K comparable, S any] struct {
	all   *Echoes[P, K, S]
	view  EchoView
	cycle cycle
	names nameTable
	pools map[P]*echoPool[P, K, S]
	made  uint64 // pools
	stats EchoStats
	gone  bool
}

// Open returns what is known of a new view. The oldest ones are forgotten where
// there are too many.
func (e *Echoes[P, K, S]) Open(view EchoView) *EchoOrder[P, K, S] {
	if view.Buffer == 0 {
		view.Buffer = DefaultEchoBuffer
	}
	o := &EchoOrder[P, K, S]{all: e, view: view, cycle: view.Factor.cycle(), pools: make(map[P]*echoPool[P, K, S])}
	dropped := e.locked(func(d *drops[S]) {
		for len(e.orders) > 0 && (len(e.orders) >= MaxEchoViews || e.slots >= manySlots) {
			e.forget(e.orders[0], d)
		}
		e.orders = append(e.orders, o)
	})
	dropped.run(e.opt.Drop)
	return o
}

// drops are samples that have left their pools.
type drops[S any] struct{ samples []S }

func (d *drops[S]) run(drop func(S)) {
	for _, s := range d.samples {
		drop(s)
	}
}

// locked runs a change under the lock and returns what has to be dropped when it
// is given up.
func (e *Echoes[P, K, S]) locked(change func(*drops[S])) *drops[S] {
	var d drops[S]
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&d)
	return &d
}

// Gone reports whether the view was forgotten; Open returns a new one.
func (o *EchoOrder[P, K, S]) Gone() bool {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	return o.gone
}

// Settled is what the next request of a name gets.
type Settled[P, K comparable, S any] struct {
	order *EchoOrder[P, K, S]
	name  uint64
	pool  *echoPool[P, K, S]
	echo  *pooled[P, K, S] // nil for fresh
	kind  settledKind
}

type settledKind uint8

const (
	onTime   settledKind = iota
	early                // fresh before its turn
	late                 // an echo, though its turn to be fresh has come
	forced               // fresh though its turn was there
	repeated             // an echo that its image did not owe
)

// Echo returns the sample that is served instead of the name's own, false where
// it is its own.
func (s *Settled[P, K, S]) Echo() (sample S, ok bool) {
	if s.echo == nil {
		return sample, false
	}
	return s.echo.sample, true
}

// Settle says what the next request of a name, by its hash, gets. What is
// settled ends with Take or GiveBack. A pool holds samples of one
// variant: where another one is asked for, it begins anew.
func (o *EchoOrder[P, K, S]) Settle(name uint64, pool P, variant int) (s *Settled[P, K, S]) {
	dropped := o.all.locked(func(d *drops[S]) {
		p := o.pool(pool, variant, d)
		s = &Settled[P, K, S]{order: o, name: name, pool: p}
		fresh, kind := o.decide(name, p)
		s.kind = kind
		if fresh {
			p.promised++
			return
		}
		var again bool
		if s.echo, again = p.draw(); again {
			s.kind = repeated
		}
	})
	dropped.run(o.all.opt.Drop)
	return s
}

// decide says whether the next request of a name is fresh.
func (o *EchoOrder[P, K, S]) decide(name uint64, p *echoPool[P, K, S]) (fresh bool, kind settledKind) {
	d := o.due(name)
	low, high := o.levels(p)
	gain := int(o.view.Factor - NoEchoes)
	level := p.credits*int(NoEchoes) + p.promised*gain
	switch {
	case d == dueLast:
		return true, onTime
	case len(p.samples) == 0 && d == dueEcho:
		return true, forced
	case d == dueEcho:
		return false, onTime
	case p.credits == 0 || level < low:
		if d == dueNow {
			return true, onTime
		}
		return true, early
	case d == dueNow && level+gain <= high:
		return true, onTime
	case d == dueNow:
		return false, late
	}
	return false, onTime
}

// due says what the next request of a name can get. Of a name whose turn cannot
// be kept that is a matter of chance.
func (o *EchoOrder[P, K, S]) due(name uint64) due {
	t, known := o.names.get(name, len(o.names.slots)+maxSlots-o.all.slots)
	if known {
		return o.cycle.due(t, uint32(mix(name^o.view.Seed)%uint64(o.cycle.requests)))
	}
	o.all.shuffles++
	if uint32(mix(o.view.Seed+o.all.shuffles)%uint64(o.cycle.requests)) < o.cycle.fresh {
		return dueNow
	}
	return dueEcho
}

// Due reports whether the next request of a name, by its hash, is scheduled to be
// fresh. Where its turn cannot be kept that is not known beforehand.
func (o *EchoOrder[P, K, S]) Due(name uint64) bool {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	t, known := o.names.get(name, len(o.names.slots)+maxSlots-o.all.slots)
	if !known {
		return false
	}
	d := o.cycle.due(t, uint32(mix(name^o.view.Seed)%uint64(o.cycle.requests)))
	return d == dueNow || d == dueLast
}

// levels returns between which levels, in hundredths of an echo, a pool is to
// stay.
func (o *EchoOrder[P, K, S]) levels(p *echoPool[P, K, S]) (low, high int) {
	room := o.view.Buffer
	if o.all.bytes+p.last > o.all.opt.Bytes() { // no further one will come
		room = min(room, max(len(p.samples), 1))
	}
	gain := int(o.view.Factor - NoEchoes)
	low = min(room*lowShare/levelShares, lowSamples) * gain
	return low, max(room*gain*highShare/levelShares, gain)
}

// pool returns the pool of a folder, and makes it where there is none.
func (o *EchoOrder[P, K, S]) pool(key P, variant int, d *drops[S]) *echoPool[P, K, S] {
	e := o.all
	e.clock++
	e.touch(o)
	p := o.pools[key]
	if p == nil {
		o.made++
		p = &echoPool[P, K, S]{of: o, key: key, variant: variant, seed: mix(o.view.Seed) + mix(o.made), place: -1}
		if o.gone {
			return p // nothing is kept of it
		}
		if len(e.pools) >= maxPools {
			e.closePool(e.idlePool(), d)
		}
		o.pools[key] = p
		p.place = len(e.pools)
		e.pools = append(e.pools, p)
	}
	if p.variant != variant {
		e.empty(p, d)
		p.variant = variant
	}
	p.used = e.clock
	return p
}

// touch makes a view the one that was used last.
func (e *Echoes[P, K, S]) touch(o *EchoOrder[P, K, S]) {
	last := len(e.orders) - 1
	if last < 0 || e.orders[last] == o {
		return
	}
	for i, x := range e.orders {
		if x == o {
			copy(e.orders[i:], e.orders[i+1:])
			e.orders[last] = o
			return
		}
	}
}

// Take books the request that was settled: the next one of the name is settled
// anew. It ends with Join or Damaged.
func (s *Settled[P, K, S]) Take() {
	o := s.order
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.advance(s.name, s.echo == nil)
	o.count(s)
}

// Join ends a request. A fresh one brings its sample, which joins its pool unless
// Join reports false: then it stays the caller's.
func (s *Settled[P, K, S]) Join(key K, sample S, bytes int64) (joined bool) {
	if s.echo != nil {
		return false
	}
	e := s.order.all
	dropped := e.locked(func(d *drops[S]) {
		s.pool.promised--
		joined = e.join(s.pool, key, sample, bytes, d)
	})
	dropped.run(e.opt.Drop)
	return joined
}

// count books how a request was served.
func (o *EchoOrder[P, K, S]) count(s *Settled[P, K, S]) {
	if s.echo == nil {
		o.stats.Fresh++
	} else {
		o.stats.Echoes++
	}
	switch s.kind {
	case early:
		o.stats.Early++
	case late:
		o.stats.Late++
	case forced:
		o.stats.Forced++
	case repeated:
		o.stats.Repeats++
	}
}

// advance books a request of a name.
func (o *EchoOrder[P, K, S]) advance(name uint64, fresh bool) {
	t, known := o.names.get(name, len(o.names.slots)+maxSlots-o.all.slots)
	if known && !o.gone {
		o.all.slots += o.names.set(name, o.cycle.after(t, fresh))
	}
}

// Again books a request that was served along with another one, of the same
// name and content: both had been told of it before either opened it. own says
// that the content is the name's own.
func (o *EchoOrder[P, K, S]) Again(name uint64, own bool) {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	fresh := own && o.due(name) != dueEcho
	o.advance(name, fresh)
	if fresh {
		o.stats.Fresh++
		return
	}
	o.stats.Echoes++
	o.stats.Repeats++
}

// GiveBack ends what was settled for a request that does not come.
func (s *Settled[P, K, S]) GiveBack() {
	e := s.order.all
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case s.echo == nil:
		s.pool.promised--
	case s.kind == repeated:
	case s.echo.place >= 0:
		s.pool.owe(s.echo, 1)
	default:
		s.order.stats.Lost++
	}
}

// Damaged ends a request that could not be served: an echo is not drawn again.
func (s *Settled[P, K, S]) Damaged() {
	e := s.order.all
	dropped := e.locked(func(d *drops[S]) {
		switch {
		case s.echo == nil:
			s.pool.promised--
		case s.echo.place >= 0:
			e.evict(s.echo, d)
		}
	})
	dropped.run(e.opt.Drop)
}

// join puts a fresh sample into its pool, with the echoes that it owes, and
// makes room for it. One that owes none takes nobody's place.
func (e *Echoes[P, K, S]) join(p *echoPool[P, K, S], key K, sample S, bytes int64, d *drops[S]) bool {
	owes := p.grant(p.of.view.Factor)
	if x := p.byKey[key]; x != nil { // it is still there from its last time
		p.owe(x, owes)
		return false
	}
	p.last = bytes
	if p.place < 0 || p.of.view.Factor == NoEchoes || !e.roomFor(p, owes, bytes, d) {
		p.of.stats.Lost += uint64(owes)
		return false
	}
	x := p.add(key, sample, bytes)
	e.bytes += bytes
	p.owe(x, owes)
	return true
}

// roomFor makes room for a sample.
func (e *Echoes[P, K, S]) roomFor(p *echoPool[P, K, S], owes int, bytes int64, d *drops[S]) bool {
	limit := e.opt.Bytes()
	if bytes > limit {
		return false
	}
	if owes == 0 {
		return e.bytes+bytes <= limit && len(p.samples) < p.of.view.Buffer
	}
	for len(p.samples) >= p.of.view.Buffer {
		e.evict(p.leastOwing(), d)
	}
	for e.bytes+bytes > limit {
		victim := e.victim(p)
		if victim == nil {
			return false
		}
		e.evict(victim.leastOwing(), d)
	}
	return true
}

// victim returns the pool that has to give a sample for one of p: one that was
// left behind, else the largest out of a few, p among them. None gives its last
// one: where there is not room for one of each, some folders have echoes.
func (e *Echoes[P, K, S]) victim(p *echoPool[P, K, S]) *echoPool[P, K, S] {
	best := p
	for range choices {
		x := e.anyPool()
		if len(x.samples) > 0 && e.clock-x.used > staleRequests*uint64(len(e.pools)) {
			return x
		}
		if x.bytes > best.bytes {
			best = x
		}
	}
	if len(best.samples) > 1 || best == p && len(p.samples) > 0 {
		return best
	}
	return nil
}

func (e *Echoes[P, K, S]) anyPool() *echoPool[P, K, S] {
	e.shuffles++
	return e.pools[mix(e.shuffles)%uint64(len(e.pools))]
}

// evict takes a sample out of its pool; what it still owes is lost.
func (e *Echoes[P, K, S]) evict(x *pooled[P, K, S], d *drops[S]) {
	x.in.of.stats.Lost += uint64(x.left)
	x.in.remove(x)
	e.bytes -= x.bytes
	d.samples = append(d.samples, x.sample)
}

func (e *Echoes[P, K, S]) empty(p *echoPool[P, K, S], d *drops[S]) {
	for len(p.samples) > 0 {
		e.evict(p.samples[len(p.samples)-1], d)
	}
}

// idlePool returns the pool out of a few that was not used for longest.
func (e *Echoes[P, K, S]) idlePool() *echoPool[P, K, S] {
	idle := e.anyPool()
	for range choices - 1 {
		if p := e.anyPool(); p.used < idle.used {
			idle = p
		}
	}
	return idle
}

// closePool gives up a pool. What was settled with it still ends as it would.
func (e *Echoes[P, K, S]) closePool(p *echoPool[P, K, S], d *drops[S]) {
	e.empty(p, d)
	delete(p.of.pools, p.key)
	last := len(e.pools) - 1
	e.pools[p.place] = e.pools[last]
	e.pools[p.place].place = p.place
	e.pools[last] = nil
	e.pools = e.pools[:last]
	p.place = -1
}

// forget ends a view: its names are as new, and its pools are given up.
func (e *Echoes[P, K, S]) forget(o *EchoOrder[P, K, S], d *drops[S]) {
	for _, p := range o.pools {
		e.closePool(p, d)
	}
	e.slots -= len(o.names.slots)
	o.gone, o.pools, o.names = true, nil, nameTable{}
	for i, x := range e.orders {
		if x == o {
			e.orders = append(e.orders[:i], e.orders[i+1:]...)
			break
		}
	}
	stats := o.stats
	stats.Names, stats.Buffered, stats.Bytes = 0, 0, 0
	e.gone.add(stats)
}

// Trim gives up samples until all of them together take no more than the options
// allow now.
func (e *Echoes[P, K, S]) Trim() { e.trim(func() int64 { return e.opt.Bytes() }) }

// Release gives up samples of so many bytes in all, or all that there are.
func (e *Echoes[P, K, S]) Release(bytes int64) {
	e.trim(func() int64 { return max(e.bytes-bytes, 0) })
}

func (e *Echoes[P, K, S]) trim(to func() int64) {
	dropped := e.locked(func(d *drops[S]) {
		limit := max(to(), 0)
		for e.bytes > limit {
			largest := e.anyPool()
			for range choices {
				if x := e.anyPool(); x.bytes > largest.bytes {
					largest = x
				}
			}
			if len(largest.samples) > 0 {
				e.evict(largest.leastOwing(), d)
			}
		}
	})
	dropped.run(e.opt.Drop)
}

// Bytes returns what the samples of all pools take.
func (e *Echoes[P, K, S]) Bytes() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bytes
}

// Close gives up all samples.
func (e *Echoes[P, K, S]) Close() {
	dropped := e.locked(func(d *drops[S]) {
		for len(e.orders) > 0 {
			e.forget(e.orders[0], d)
		}
	})
	dropped.run(e.opt.Drop)
}

// Stats returns the counts of a view.
func (o *EchoOrder[P, K, S]) Stats() EchoStats {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	return o.statsLocked()
}

func (o *EchoOrder[P, K, S]) statsLocked() EchoStats {
	s := o.stats
	s.Names = o.names.used
	for _, p := range o.pools {
		s.Buffered += len(p.samples)
		s.Bytes += p.bytes
	}
	return s
}

// Stats returns the counts of all views, those that were forgotten included.
func (e *Echoes[P, K, S]) Stats() EchoStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.gone
	for _, o := range e.orders {
		s.add(o.statsLocked())
	}
	return s
}
