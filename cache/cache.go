// Package cache keeps decoded files in memory that the kernel can serve from.
//
// A Buffer is the whole content of one virtual file. It is written once, out
// of scratch memory, and never again: pages of it may still sit in a pipe or
// socket after everybody has closed it. A file that is evicted is given back to
// the kernel; only memory that readers got copies of is reused.
//
// The cache promises:
//   - One fill for any number of concurrent misses of a key.
//   - A pinned buffer stays. The others form an LRU by bytes, or stay in the
//     order in which they came (Policy): their sum with the pinned ones stays
//     within the budget where pins leave room for that. Those that were spent
//     go before all others.
//   - Pins may exceed the budget by an allowance. Beyond it a miss waits for a
//     pin to end and then fails with ErrNoSpace; nothing is killed by the
//     kernel for want of memory that the cache had promised to bound.
//
// Where the bytes live is the medium's business: unnamed files of a private
// tmpfs, memfds, or plain memory (see medium.go). A file medium can be
// registered with a kernel interface (FUSE passthrough) once for the buffer's
// life; the cache only carries the number that the registration gave.
//
// The package does not know what a key stands for, how a buffer is filled, or
// who serves it.
package cache

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ErrNoSpace says that a buffer does not fit beside what is pinned.
var ErrNoSpace = errors.New("no room in the cache of decoded files")

// ErrNeverFits is the ErrNoSpace of a buffer that does not fit if it is alone either.
var ErrNeverFits = fmt.Errorf("%w, were it alone", ErrNoSpace)

// ErrClosed says that the cache was closed.
var ErrClosed = errors.New("decoded cache is closed")

// errAbandoned answers those who wait for a fill whose goroutine ended
// (runtime.Goexit) before the fill did.
var errAbandoned = errors.New("filling a buffer was abandoned")

// pageBytes is the granule in which every medium takes memory.
var pageBytes = int64(os.Getpagesize())

const (
	// overheadBytes is charged for each buffer beside its pages: the kernel's
	// inode and backing entry, and our own bookkeeping. It bounds what a
	// cache full of tiny images costs.
	overheadBytes = 1024
	// maxBytes bounds budgets, so that no sum of sizes overflows.
	maxBytes = 1 << 60
	// maxBuffers bounds the LRU's index; at 5 KiB a buffer it is never what
	// limits a cache below 5 TiB.
	maxBuffers = 1 << 30
	// defaultWait is how long a miss waits for pins to end. Loaders hold a
	// file for milliseconds; what is held longer than this is mapped.
	defaultWait = 10 * time.Second
	// mediumPoll is how long a fill waits before it looks again whether a medium
	// that is full has room: nobody tells when the kernel frees the pages of a file
	// that the cache has given back.
	mediumPoll = 10 * time.Millisecond
)

// Options configure a cache.
type Options struct {
	// Budget is the number of bytes kept, pinned buffers included. The memory of
	// running fills comes on top; see LimitWork.
	Budget int64
	// PinAllowance is how far pinned buffers may exceed Budget. Zero means
	// none.
	PinAllowance int64
	// Medium says where buffers live. The cache closes it.
	Medium Medium
	// Register, when set, is called once for each buffer that has a file.
	// The number that it returns, above 0, is the buffer's BackingID, and the
	// cache closes the descriptor, since the registration holds the file. On an
	// error the buffer keeps its descriptor and has no BackingID.
	Register func(fd int) (int32, error)
	// Unregister undoes Register when the buffer is evicted. It is needed
	// with Register and must not call the cache.
	Unregister func(id int32)
	// Scarce, when set, is called before a fill waits for pins to end: who holds
	// pins that can be spared may end pins of that many bytes. It is called
	// without a lock.
	Scarce func(bytes int64)
	// Policy says what stays when room is needed.
	Policy Policy
	// MaxWait is how long a miss waits for pins to end; zero means 10 s.
	MaxWait time.Duration
}

// Stats are counts since the cache was made, and what it holds now.
type Stats struct {
	Hits, Misses, Evictions uint64 // who waits for another's fill counts as a hit
	Bytes                   int64  // of published buffers, running fills and what is being freed
	PinnedBytes             int64  // of published buffers in use
	Buffers, Pinned         int
	KeptBytes               int64 // of published buffers that have a place, under policy Pin
	Budget, Limit           int64 // of the moment; the most that buffers and pins may take
	RegisterFailures        uint64
}

// Cache maps keys to buffers. It is safe for concurrent use.
type Cache[K comparable] struct {
	opt      Options
	maxDescs int // descriptors that idle buffers may hold
	work     work[K]

	mu        sync.Mutex
	changed   *sync.Cond // signalled when bytes are freed, a pin ends, or the cache closes
	buffers   map[K]*Buffer[K]
	idle      shelves[K] // published and not pinned
	resident  residents
	flights   map[K]*flight[K]
	budget    int64 // of the moment, at most opt.Budget
	used      int64 // charged for published buffers and running fills, until really freed
	dying     int64 // the part of used that is being given back just now
	wanted    int64 // asked for by fills that have no room yet
	pinned    int64
	nPinned   int
	descs     int // buffers that hold a descriptor
	closed    bool
	hits      uint64
	misses    uint64
	evictions uint64
	refused   uint64
}

// flight is a fill that is running. Who asks for the same key waits for it.
type flight[K comparable] struct {
	done    chan struct{}
	waiters int  // who will have a pin of the buffer
	unasked bool // begun by Prefetch
	buf     *Buffer[K]
	err     error
}

// New returns an empty cache.
func New[K comparable](opt Options) (*Cache[K], error) {
	if opt.Budget < pageBytes {
		return nil, fmt.Errorf("cache of %d bytes: at least %d are needed", opt.Budget, pageBytes)
	}
	if opt.PinAllowance < 0 {
		return nil, fmt.Errorf("cache with a pin allowance of %d bytes", opt.PinAllowance)
	}
	if opt.Budget > maxBytes-opt.PinAllowance {
		return nil, fmt.Errorf("cache of %d bytes and %d for pins: at most %d are possible", opt.Budget, opt.PinAllowance, int64(maxBytes))
	}
	if opt.Medium == nil {
		return nil, errors.New("cache without a medium")
	}
	if opt.Register != nil && opt.Unregister == nil {
		return nil, errors.New("cache that registers files and never unregisters them")
	}
	if opt.MaxWait == 0 {
		opt.MaxWait = defaultWait
	}
	idle, err := newShelves[K]()
	if err != nil {
		return nil, err
	}
	c := &Cache[K]{
		opt:      opt,
		maxDescs: opt.Medium.maxDescriptors(),
		budget:   opt.Budget,

		buffers: make(map[K]*Buffer[K]),
		idle:    idle,
		flights: make(map[K]*flight[K]),
	}
	c.changed = sync.NewCond(&c.mu)
	return c, nil
}

// Get returns the buffer of key, pinned: the caller ends the pin with Unpin.
// On a miss the first caller runs fill with scratch memory of size bytes,
// which fill must write in full; concurrent callers of the same key wait for it
// and share its result, errors included. An error is not remembered. A panic of
// fill is an error too. fill must not ask the cache for the same key.
func (c *Cache[K]) Get(key K, size int64, fill func(dst []byte) error) (*Buffer[K], error) {
	return c.get(filling[K]{key: key, size: size, fill: fill})
}

// GetReadable is Get for a buffer that this process reads with Slice: the kernel
// interface never gets it. A key is used with Get and Prefetch or with
// GetReadable and PrefetchReadable, not with both.
func (c *Cache[K]) GetReadable(key K, size int64, fill func(dst []byte) error) (*Buffer[K], error) {
	return c.get(filling[K]{key: key, size: size, fill: fill, readable: true})
}

// filling is what is to be made of a key.
type filling[K comparable] struct {
	key      K
	size     int64
	fill     func(dst []byte) error
	readable bool      // by Slice, so that it is not registered
	deadline time.Time // until which pins are waited for
}

func (c *Cache[K]) get(what filling[K]) (*Buffer[K], error) {
	for counted := false; ; counted = true {
		f, b, err := c.board(what.key, counted)
		switch {
		case b != nil || err != nil:
			return b, err
		case f.mine:
			what.deadline = time.Now().Add(c.opt.MaxWait)
			c.run(f.flight, what)
			return f.buf, f.err
		}
		<-f.done
		if f.err == nil || !f.unasked {
			return f.buf, f.err
		}
		// It has failed for reasons that were its own, such as that it would
		// not wait for room.
	}
}

// ticket is a flight for somebody who wants its buffer.
type ticket[K comparable] struct {
	*flight[K]
	mine bool // who has it is to run the fill
}

// board returns the buffer of key, pinned, or a flight that brings it. It counts
// a hit or a miss, unless that has been done.
func (c *Cache[K]) board(key K, counted bool) (ticket[K], *Buffer[K], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ticket[K]{}, nil, ErrClosed
	}
	b, f := c.buffers[key], c.flights[key]
	switch {
	case counted:
	case b != nil || f != nil:
		c.hits++
	default:
		c.misses++
	}
	switch {
	case b != nil:
		c.pin(b)
		return ticket[K]{}, b, nil
	case f != nil:
		f.waiters++
		return ticket[K]{flight: f}, nil, nil
	}
	f = c.takeOff(key, 1)
	return ticket[K]{f, true}, nil, nil
}

// takeOff makes the flight of a key that has none. The lock is held.
func (c *Cache[K]) takeOff(key K, waiters int) *flight[K] {
	f := &flight[K]{done: make(chan struct{}), waiters: waiters}
	c.flights[key] = f
	return f
}

// Prefetch fills the buffer of key for whoever will ask for it. It does not wait
// for pins to end, and counts neither as a hit nor as a miss. It reports false
// where there was nothing to do: the buffer is there, or somebody is filling it.
func (c *Cache[K]) Prefetch(key K, size int64, fill func(dst []byte) error) (bool, error) {
	return c.prefetch(filling[K]{key: key, size: size, fill: fill})
}

// PrefetchReadable is Prefetch for what GetReadable will ask for.
func (c *Cache[K]) PrefetchReadable(key K, size int64, fill func(dst []byte) error) (bool, error) {
	return c.prefetch(filling[K]{key: key, size: size, fill: fill, readable: true})
}

func (c *Cache[K]) prefetch(what filling[K]) (bool, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false, ErrClosed
	}
	if c.buffers[what.key] != nil || c.flights[what.key] != nil {
		c.mu.Unlock()
		return false, nil
	}
	f := c.takeOff(what.key, 0)
	f.unasked = true
	c.mu.Unlock()

	what.deadline = time.Now()
	c.run(f, what)
	return f.err == nil, f.err
}

// run answers the flight whatever fill does: whoever waits for it must go on.
func (c *Cache[K]) run(f *flight[K], what filling[K]) {
	f.err = errAbandoned
	defer c.land(what.key, f)
	f.buf, f.err = c.fill(what)
}

// land publishes what a flight brought and lets its waiters go on, each with a
// pin of its own.
func (c *Cache[K]) land(key K, f *flight[K]) {
	c.mu.Lock()
	delete(c.flights, key)
	b := f.buf
	if b != nil && c.closed {
		f.buf, f.err = nil, ErrClosed
	}
	if f.buf != nil {
		c.buffers[key] = b
		c.resident.now += b.charge
		if b.pins = f.waiters; b.pins > 0 {
			c.pinned += b.charge
			c.nPinned++
		} else {
			c.idle.add(b)
			c.trim()
			c.changed.Broadcast()
		}
	}
	c.mu.Unlock()
	if b != f.buf {
		c.drop(b)
	}
	close(f.done)
}

// fill makes room, lets fill write the content and registers it.
func (c *Cache[K]) fill(what filling[K]) (b *Buffer[K], err error) {
	charge, err := c.chargeOf(what.size)
	if err != nil {
		return nil, err
	}
	part, beyond := c.work.takes(what.key, what.size)
	if over := charge + beyond - c.limit(); over > 0 {
		if over > c.work.spare {
			return nil, c.neverFilled(what.size, part+beyond)
		}
		beyond -= over // nobody else fills meanwhile: it has the whole cache
	}
	if err := c.reserve(charge+beyond, what.deadline); err != nil {
		return nil, err
	}
	defer func() {
		if b == nil {
			c.unreserve(charge + beyond)
		} else if beyond > 0 {
			c.unreserve(beyond)
		}
	}()
	// After the reservation: who works needs nothing more, and so ends.
	if err := c.work.begin(part); err != nil {
		return nil, err
	}
	defer c.work.end(part)
	content, err := c.write(what, charge)
	if err != nil {
		return nil, err
	}
	b = &Buffer[K]{cache: c, key: what.key, size: what.size, charge: charge, content: content}
	c.register(b, what.readable)
	return b, nil
}

// write returns the content that fill wrote.
func (c *Cache[K]) write(what filling[K], charge int64) (content, error) {
	scratch, err := c.opt.Medium.scratch(what.size)
	if err != nil {
		return content{}, fmt.Errorf("taking %d bytes of memory: %w", what.size, err)
	}
	published := false
	defer func() {
		if !published {
			c.opt.Medium.discard(scratch)
		}
	}()
	err = guard("a buffer was filled", func() error { return what.fill(scratch[:what.size:what.size]) })
	if err != nil {
		return content{}, err
	}
	made, err := c.publish(scratch, charge, what.deadline)
	published = err == nil
	return made, err
}

// publish makes a content of scratch. Where the medium is full although the
// budget is not (a reader who closes a file and keeps it mapped holds its pages
// unseen, and a file that was given back lives until its last reader has really
// closed it), buffers that nobody uses make room, else a pin that ends may.
func (c *Cache[K]) publish(scratch []byte, charge int64, deadline time.Time) (content, error) {
	for {
		made, err := c.opt.Medium.publish(scratch)
		if !errors.Is(err, ErrNoSpace) || !c.awaitEviction(charge, deadline) {
			return made, err
		}
	}
}

// guard turns a panic of run into an error that says while what it happened.
func guard(what string, run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while %s: %v", what, p)
		}
	}()
	return run()
}

// register hands a new buffer's file to the kernel interface, if there is one
// and the buffer is not to be read here.
func (c *Cache[K]) register(b *Buffer[K], readable bool) {
	if b.content.fd < 0 {
		return
	}
	refused := false
	if c.opt.Register != nil && !readable {
		var id int32
		err := guard("a buffer was registered", func() (err error) {
			id, err = c.opt.Register(b.content.fd)
			return err
		})
		if err == nil && id > 0 {
			b.backingID = id
			b.content.closeFD()
			return
		}
		refused = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.descs++
	if refused {
		c.refused++
	}
}

// limit is what the cache may hold in all.
func (c *Cache[K]) limit() int64 { return c.opt.Budget + c.opt.PinAllowance }

// chargeOf returns what a buffer of size bytes counts for, or an error where
// that can never fit.
func (c *Cache[K]) chargeOf(size int64) (int64, error) {
	if size < 0 {
		return 0, fmt.Errorf("a buffer of %d bytes", size)
	}
	if size > c.limit() {
		return 0, c.neverFits(size)
	}
	charge := (size+pageBytes-1)/pageBytes*pageBytes + overheadBytes
	if charge > c.limit() {
		return 0, c.neverFits(size)
	}
	return charge, nil
}

func (c *Cache[K]) neverFits(size int64) error {
	return fmt.Errorf("%w: this one takes %d bytes, all of them together may take %d", ErrNeverFits, size, c.limit())
}

func (c *Cache[K]) neverFilled(size, work int64) error {
	return fmt.Errorf("%w: this one takes %d bytes, and %d while it is made; all of them together may take %d, and %d while they are made",
		ErrNeverFits, size, work, c.limit(), c.work.limit+c.work.spare)
}

// reserve makes room for charge bytes: by evicting what nobody uses, else out
// of the pin allowance, else by waiting for a pin to end.
func (c *Cache[K]) reserve(charge int64, deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted += charge
	defer func() { c.wanted -= charge }()
	asked := false
	for {
		switch {
		case c.closed:
			return ErrClosed
		case c.used+charge <= c.budget && !c.tooManyDescriptors():
			c.used += charge
			return nil
		case c.shortOfRoom() && c.evict(c.victim()):
		case c.tooManyDescriptors() && c.evict(c.idle.oldestOpen()):
		case c.dying > 0:
			c.changed.Wait()
		case c.used+charge <= c.limit():
			c.used += charge
			return nil
		case !asked && c.askForPins(charge, deadline):
			asked = true
		case !c.waitUntil(deadline):
			return fmt.Errorf("%w: files that are open or mapped hold %d of %d bytes, and none was closed for %v", ErrNoSpace, c.used, c.limit(), c.opt.MaxWait)
		}
	}
}

// shortOfRoom says whether those who wait for room need another eviction, after
// the ones that are under way. Without it two misses at once evict for each
// other's need too.
func (c *Cache[K]) shortOfRoom() bool {
	return c.used-c.dying+c.wanted > c.budget
}

// tooManyDescriptors says whether buffers hold as many descriptors as the
// medium may keep open, and some can be closed.
func (c *Cache[K]) tooManyDescriptors() bool {
	return c.descs >= c.maxDescs && c.idle.open.Len() > 0
}

// awaitEviction evicts the oldest buffer that nobody uses, or waits a moment for
// a change. It reports false when that is of no use: the deadline has passed.
func (c *Cache[K]) awaitEviction(charge int64, deadline time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.evict(c.victim()) || c.askForPins(charge, deadline) && c.evict(c.victim()) {
		return true
	}
	if time.Until(deadline) <= 0 {
		return false
	}
	return c.waitUntil(earlier(deadline, time.Now().Add(mediumPoll)))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// askForPins asks those who hold pins that can be spared to end some, and reports
// false where that cannot be asked or who asks would not wait. The lock is held,
// and given up meanwhile.
func (c *Cache[K]) askForPins(charge int64, deadline time.Time) bool {
	if c.opt.Scarce == nil || time.Until(deadline) <= 0 {
		return false
	}
	c.mu.Unlock()
	c.opt.Scarce(charge)
	c.mu.Lock()
	return true
}

// waitUntil waits for a change or the deadline and reports false when that had
// passed before.
func (c *Cache[K]) waitUntil(deadline time.Time) bool {
	left := time.Until(deadline)
	if left <= 0 {
		return false
	}
	// The lock keeps a timer that ends at once from waking nobody: Wait gives
	// it up only when it is listening.
	timer := time.AfterFunc(left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	c.changed.Wait()
	timer.Stop()
	return true
}

func (c *Cache[K]) unreserve(charge int64) {
	c.mu.Lock()
	c.used -= charge
	c.changed.Broadcast()
	c.mu.Unlock()
}

// evict evicts a buffer that nobody uses, and reports false where b is nil. The
// lock is given up while its memory is freed; its bytes count until then, so
// that the medium's own limit is never exceeded.
func (c *Cache[K]) evict(b *Buffer[K]) bool {
	if b == nil {
		return false
	}
	c.idle.remove(b)
	delete(c.buffers, b.key)
	c.dismiss(b)
	c.evictions++
	c.dying += b.charge
	c.forgetDescriptor(b)
	c.mu.Unlock()
	c.free(b)
	c.mu.Lock()
	c.dying -= b.charge
	c.used -= b.charge
	c.changed.Broadcast()
	return true
}

// drop frees a buffer that was never published.
func (c *Cache[K]) drop(b *Buffer[K]) {
	c.mu.Lock()
	c.forgetDescriptor(b)
	c.mu.Unlock()
	c.free(b)
	c.unreserve(b.charge)
}

// forgetDescriptor uncounts the descriptor of a buffer that is about to be
// freed. The lock is held.
func (c *Cache[K]) forgetDescriptor(b *Buffer[K]) {
	if b.content.fd >= 0 {
		c.descs--
	}
}

// free gives a buffer's memory back to the kernel.
func (c *Cache[K]) free(b *Buffer[K]) {
	if b.backingID != 0 {
		c.opt.Unregister(b.backingID)
	}
	c.opt.Medium.free(&b.content)
}

// pin takes a published buffer from its shelf. The lock is held.
func (c *Cache[K]) pin(b *Buffer[K]) {
	if b.pins == 0 {
		c.idle.remove(b)
		c.pinned += b.charge
		c.nPinned++
	}
	c.hit(b)
	b.pins++
}

// unpin ends one pin; the last one makes the buffer the newest of its shelf.
func (c *Cache[K]) unpin(b *Buffer[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.pins == 0 {
		panic("cache: Unpin of a buffer that is not pinned")
	}
	b.pins--
	if b.pins > 0 || c.closed { // Close freed it
		return
	}
	c.pinned -= b.charge
	c.nPinned--
	c.settle(b)
	c.idle.add(b)
	c.trim()
	c.changed.Broadcast()
}

// Spend says of a buffer what Buffer.Spend does, if there is one of the key.
func (c *Cache[K]) Spend(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.buffers[key]; b != nil {
		c.spend(b)
	}
}

// spend moves a buffer to the shelf of those that were spent, where it stands
// from its last Unpin on if it is in use. One that has a place keeps it: the next
// pass will want it. The lock is held.
func (c *Cache[K]) spend(b *Buffer[K]) {
	if b.shelf == kept || c.buffers[b.key] != b { // evicted since
		return
	}
	if b.pins > 0 {
		b.shelf = spent
		return
	}
	c.idle.remove(b)
	b.shelf = spent
	c.idle.add(b)
}

// Holds reports whether the buffer of a key is there. It may be evicted the next
// moment.
func (c *Cache[K]) Holds(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buffers[key] != nil
}

// SetBudget changes the budget, between one page and the one of the options, and
// evicts what is too much. What is pinned stays, and may still grow to the limit
// of the options: it is memory in use, not a cache.
func (c *Cache[K]) SetBudget(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = min(max(bytes, pageBytes), c.opt.Budget)
	c.trim()
	c.changed.Broadcast()
}

// trim evicts until the budget is kept or nothing is idle. The lock is held,
// and given up while memory is freed.
func (c *Cache[K]) trim() {
	for c.used-c.dying > c.budget && c.evict(c.victim()) {
	}
}

// Stats returns the counters.
func (c *Cache[K]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Hits: c.hits, Misses: c.misses, Evictions: c.evictions,
		Bytes: c.used, PinnedBytes: c.pinned, KeptBytes: c.resident.bytes,
		Buffers: len(c.buffers), Pinned: c.nPinned,
		Budget: c.budget, Limit: c.limit(),
		RegisterFailures: c.refused,
	}
}

// Close evicts everything, pinned buffers too, and closes the medium. Who
// waits for space gets ErrClosed. It is called when the kernel's side is gone:
// nobody may read a buffer any more, though pins may still be ended. A fill
// that runs is not waited for; it ends with ErrClosed and frees its memory.
func (c *Cache[K]) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.changed.Broadcast()
	buffers := c.buffers
	c.buffers = make(map[K]*Buffer[K])
	c.idle.purge()
	c.pinned, c.nPinned, c.resident.bytes = 0, 0, 0
	for _, b := range buffers {
		c.forgetDescriptor(b)
	}
	c.mu.Unlock()
	for _, b := range buffers {
		c.free(b)
		c.unreserve(b.charge)
	}
	return c.opt.Medium.Close()
}
