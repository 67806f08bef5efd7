package fs

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"prismfs/order"
	"prismfs/tensor"
)

// In an echo view a name does not say which sample it is: its next open gets
// either its own or one that was decoded lately for the same folder. Package
// order decides which. Here it is seen to that a lookup, a stat and an open
// agree about it.
//
// A lookup settles what the name's next request gets, and makes the node for
// that content (names of echo views are not remembered by the kernel, so that
// every open begins with a lookup). The first open of the node takes it; the next
// lookup settles anew. What is settled and never taken is given back when there
// is too much of it.

const (
	// echoShare: what pools hold for echoes takes at most half of the cache's
	// budget. The rest is for what is open, and for samples to be found again.
	echoShare = 2
	// echoOverhead is what a sample counts for beside its bytes: the kernel's
	// and our bookkeeping, as in the cache, and the samples' in the pool.
	echoOverhead = 2048
	// maxEchoDescriptors bounds pooled buffers that hold a descriptor here,
	// which is those whose files the kernel does not take.
	maxEchoDescriptors = 256
	// maxSettled bounds what is settled at a time: one who stats a tree settles
	// something for every name.
	maxSettled = 4096
	// maxEchoReaders bounds the threads of which the last request is remembered.
	maxEchoReaders = 4096
)

// echoPool names what echoes may be drawn from: samples of one folder, label and
// form. Their fidelity is the variant of package order.
type echoPool struct {
	folder string
	label  int // noLabel for none
	form   tensor.Form
}

const noLabel = -1

// echoed is a sample in a pool, whose buffer the pool keeps pinned.
type echoed struct {
	content content
	buf     *buffer
}

type (
	echoOrder   = order.EchoOrder[echoPool, bufferKey, echoed]
	echoSettled = order.Settled[echoPool, bufferKey, echoed]
)

// echoViews are the echo views of a mount.
type echoViews struct {
	log    *slog.Logger
	now    func() time.Time
	echoes *order.Echoes[echoPool, bufferKey, echoed]
	labels labelChecks

	share       atomic.Int64 // bytes that pools may take
	descriptors atomic.Int64 // that pooled buffers hold

	mu      sync.Mutex
	orders  map[View]*echoOrder
	settled *simplelru.LRU[echoName, *settlement]
	readers *simplelru.LRU[echoReader, *lastRequest]
	habits  map[View]*habit
}

// echoName is a name of an echo view: the view, as viewOf has it, and the path of
// the sample whose name it is.
type echoName struct {
	view View
	path string
}

// settlement is what the next request of a name gets.
type settlement struct {
	own     bufferKey // of the sample whose name it is
	content content
	order   *echoSettled
}

func newEchoViews(m *mount) *echoViews {
	e := &echoViews{log: m.log, now: time.Now, orders: make(map[View]*echoOrder), habits: make(map[View]*habit)}
	e.labels = labelChecks{ds: m.ds, log: m.log, now: time.Now}
	e.echoes = order.NewEchoes[echoPool, bufferKey](order.EchoOptions[echoed]{Bytes: e.share.Load, Drop: e.drop})
	// The sizes are above 0, which is all that can be wrong with them.
	e.settled, _ = simplelru.NewLRU(maxSettled, func(_ echoName, s *settlement) {
		if s.order != nil {
			s.order.GiveBack()
		}
	})
	e.readers, _ = simplelru.NewLRU[echoReader, *lastRequest](maxEchoReaders, nil)
	return e
}

// setBudget says how much the cache may hold now.
func (e *echoViews) setBudget(bytes int64) {
	e.share.Store(bytes / echoShare)
	e.echoes.Trim()
}

func (e *echoViews) drop(s echoed) {
	if s.buf.HoldsDescriptor() {
		e.descriptors.Add(-1)
	}
	s.buf.Unpin()
}

// viewOf returns what is the same for all lookups of a view: without the fidelity
// that an auto view has at the moment.
func viewOf(v View) View {
	if v.Auto.Word != "" {
		v.Fidelity = 0
	}
	return v
}

// poolOf returns what echoes of a sample may be drawn from.
func poolOf(c content) echoPool {
	p := echoPool{folder: folderOf(c.sample.Path), label: noLabel, form: c.form}
	if c.sample.Label != nil {
		p.label = *c.sample.Label
	}
	return p
}

// orderOf returns what package order knows of a view. The lock is held.
func (e *echoViews) orderOf(v View) *echoOrder {
	o := e.orders[v]
	if o != nil && !o.Gone() {
		return o
	}
	for old, o := range e.orders {
		if o.Gone() {
			delete(e.orders, old)
			delete(e.habits, old)
		}
	}
	o = e.echoes.Open(v.Echo)
	e.orders[v] = o
	e.habits[v] = new(habit)
	return o
}

// lookup returns the content that the next open of a name gets, where own is the
// content of the sample whose name it is.
func (e *echoViews) lookup(v View, own content, reader uint64) content {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := echoName{viewOf(v), own.sample.Path}
	o := e.orderOf(name.view)
	if r := e.last(name, reader); r != nil && r.goesOn(own.key(), reader, e.habits[name.view], e.now()) {
		return r.content
	}
	return e.settle(name, v.Fidelity, own, o).content
}

// settle returns what is settled for a name, and settles it where nothing is. The
// lock is held.
func (e *echoViews) settle(name echoName, fidelity int, own content, o *echoOrder) *settlement {
	if s, ok := e.settled.Get(name); ok {
		if s.own == own.key() {
			return s
		}
		e.settled.Remove(name) // its sample was replaced, or has another fidelity now
	}
	s := &settlement{
		own: own.key(), content: own,
		order: o.Settle(order.HashName(name.view.Echo.Seed, name.path), poolOf(own), fidelity),
	}
	if echo, ok := s.order.Echo(); ok {
		s.content = echo.content
	}
	e.settled.Add(name, s)
	return s
}

// nextFresh reports whether the next request of a name of an echo view is sure to
// get the very sample, and settles that. Where it gets an echo there is nothing to
// decode for it. A name whose turn has not come is left alone: long before it is
// read its pool may be empty, and all names of a plan would be fresh early.
func (m *mount) nextFresh(v View, own content) bool {
	if v.Echo.Factor == 0 {
		return true
	}
	e := m.echo
	e.mu.Lock()
	defer e.mu.Unlock()
	name := echoName{viewOf(v), own.sample.Path}
	o := e.orderOf(name.view)
	if !e.settled.Contains(name) && !o.Due(order.HashName(name.view.Echo.Seed, name.path)) {
		return false
	}
	return e.settle(name, v.Fidelity, own, o).content.key() == own.key()
}

// echoRequest is an open of a name of an echo view. The methods of nil do
// nothing.
type echoRequest struct {
	all     *echoViews
	name    echoName
	reader  uint64
	content content
	own     bufferKey
	order   *echoSettled // nil where nothing was settled for it
	again   *lastRequest // nil unless it goes on with the reader's last request
}

// take begins an open of a node that has a content, under the name of own: nil
// where it is in no echo view.
func (e *echoViews) take(own *bufferKey, v View, c content, reader uint64) *echoRequest {
	if own == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &echoRequest{all: e, name: echoName{viewOf(v), own.path}, reader: reader, content: c, own: *own}
	if s, ok := e.settled.Peek(r.name); ok && s.content.key() == c.key() {
		r.order = s.order
		s.order = nil // taken: there is nothing to give back
		e.settled.Remove(r.name)
		r.order.Take()
		return r
	}
	if last := e.last(r.name, reader); last != nil && last.content.key() == c.key() {
		r.again = last
		return r
	}
	// Two readers were told of one settlement; this one opens later. Or the file
	// is opened by way of one that is open.
	e.orderOf(r.name.view).Again(order.HashName(r.name.view.Echo.Seed, own.path), c.key() == *own)
	return r
}

// served ends an open that is served from a buffer, and returns what its release
// is to end.
func (r *echoRequest) served(buf *buffer) *lastRequest {
	if r == nil {
		return nil
	}
	if r.order != nil {
		r.all.join(r.order, r.content, buf)
	}
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	if r.again != nil {
		r.again.opened(r.all.now())
		return r.again
	}
	return r.all.began(r)
}

// join puts a fresh sample into its pool.
func (e *echoViews) join(s *echoSettled, c content, buf *buffer) {
	if _, echo := s.Echo(); echo {
		s.Join(c.key(), echoed{}, 0)
		return
	}
	bytes := c.size + echoOverhead
	if buf.HoldsDescriptor() && e.descriptors.Add(1) > maxEchoDescriptors {
		e.descriptors.Add(-1)
		s.Damaged() // is not kept
		return
	}
	buf.Pin()
	if !s.Join(c.key(), echoed{c, buf}, bytes) {
		e.drop(echoed{c, buf})
	}
}

// failed ends an open that could not be served, and returns the error for it: an
// echo is not the name's own fault, so the kernel looks the name up once more.
func (r *echoRequest) failed(err error) error {
	if r == nil {
		return err
	}
	if r.order == nil {
		r.all.forgetReader(r.name, r.reader)
		return err
	}
	r.order.Damaged()
	if _, echo := r.order.Echo(); echo {
		return errEchoGone
	}
	return err
}

// forget drops what is settled for a name, whose content is not there any more.
func (e *echoViews) forget(own *bufferKey, v View) {
	if own == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	name := echoName{viewOf(v), own.path}
	if s, ok := e.settled.Peek(name); ok {
		settled := s.order
		s.order = nil
		e.settled.Remove(name)
		settled.Take()
		settled.Damaged()
	}
}

func (e *echoViews) close() {
	e.mu.Lock()
	e.settled.Purge()
	e.mu.Unlock()
	e.echoes.Close()
}

// EchoViewStats are the counts of one echo view.
type EchoViewStats struct {
	View string `json:"view"`
	order.EchoStats
}

// stats returns the counts of all views, and of each that is remembered.
func (e *echoViews) stats() (all order.EchoStats, each []EchoViewStats) {
	e.mu.Lock()
	orders := make(map[View]*echoOrder, len(e.orders))
	for v, o := range e.orders {
		orders[v] = o
	}
	e.mu.Unlock()
	each = make([]EchoViewStats, 0, len(orders))
	for v, o := range orders {
		if !o.Gone() {
			each = append(each, EchoViewStats{v.Echo.Folder + "+" + v.String(), o.Stats()})
		}
	}
	sortEchoViews(each)
	return e.echoes.Stats(), each
}
