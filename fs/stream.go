package fs

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"prismfs/dataset"
	"prismfs/order"
	"prismfs/order/shard"
	"prismfs/tensor"
)

// The limits of what a mount remembers of its streams. What is forgotten is found
// again.
const (
	maxCatalogues = 8
	maxEpochs     = 16
	maxEpochBytes = 256 << 20 // of all of them, beside the one that is asked for
)

const (
	// streamRecheck is how long the folders of a stream are taken to be as they
	// were, at least; the looking takes a part of 1/recheckShare of the time.
	streamRecheck = time.Second
	recheckShare  = 20
	// slowCatalogue is when the log is told that a stream takes time to begin.
	slowCatalogue = 5 * time.Second
)

// streams is what a mount knows of its streams: what they are made of and the
// orders of their epochs.
type streams struct {
	m *mount

	mu         sync.Mutex
	catalogues *simplelru.LRU[catalogueKey, *catalogueSlot]
	epochs     *simplelru.LRU[epochKey, *epochSlot]
	epochBytes int64
	following  map[*follower]struct{}

	closing sync.WaitGroup // followers that end
	gone    order.LookaheadStats

	opened, served, damaged atomic.Uint64
}

// catalogueKey is what a catalogue depends on. Fidelities of decoded forms share
// one: sizes are the same.
type catalogueKey struct {
	folder   string
	form     tensor.Form
	fidelity int
}

// catalogueSlot has the catalogue that is valid now. Its lock is held while one is
// made, for which others wait.
type catalogueSlot struct {
	mu      sync.Mutex
	now     *catalogue
	err     error // why there is none
	checked time.Time
	took    time.Duration // the last look
	stale   atomic.Bool

	warnedOfBuffer atomic.Bool
}

type epochKey struct {
	samples int
	view    order.StreamView // without folder and shards
	number  uint64
}

type epochSlot struct {
	once  sync.Once
	epoch *order.Epoch
	err   error
	bytes int64 // that are booked
}

func newStreams(m *mount) (*streams, error) {
	s := &streams{m: m, following: make(map[*follower]struct{})}
	var err error
	if s.catalogues, err = simplelru.NewLRU[catalogueKey, *catalogueSlot](maxCatalogues, nil); err != nil {
		return nil, err
	}
	s.epochs, err = simplelru.NewLRU(maxEpochs, func(_ epochKey, slot *epochSlot) { s.epochBytes -= slot.bytes })
	return s, err
}

// slot returns where the catalogue of a view is kept.
func (s *streams) slot(v View) *catalogueSlot {
	key := catalogueKey{folder: v.Stream.Folder, form: v.Form}
	if !v.Form.Decoded() || v.Form.Container == tensor.Orig {
		key.fidelity = v.Fidelity
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.catalogues.Get(key)
	if !ok {
		slot = new(catalogueSlot)
		s.catalogues.Add(key, slot)
	}
	return slot
}

// catalogue returns what a stream is made of as the source is now. That is looked
// at by the times of the folders, every second at most; a file that was written
// to in place shows when it is read.
func (s *streams) catalogue(v View) (*catalogue, error) {
	slot := s.slot(v)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	stale := slot.stale.Swap(false)
	if !stale && time.Since(slot.checked) < max(streamRecheck, recheckShare*slot.took) {
		return slot.now, slot.err
	}
	began := time.Now()
	if stale || slot.now == nil || slot.now.young || !slot.now.unchanged(background, s.m.ds) {
		before := slot.now
		slot.now, slot.err = makeCatalogue(background, s.m.ds, v.Stream.Folder, v)
		s.report(v, before, slot.now, time.Since(began))
	}
	slot.checked = time.Now()
	slot.took = 0
	if slot.err == nil {
		slot.took = slot.checked.Sub(began)
	}
	return slot.now, slot.err
}

// unchanged reports whether the folders of a catalogue are as they were.
func (c *catalogue) unchanged(ctx context.Context, ds *dataset.Dataset) bool {
	for i := range c.folders {
		info, err := ds.Stat(ctx, c.folders[i].path)
		if err != nil || info.ID != c.folders[i].id {
			return false
		}
	}
	return true
}

// outdated says that a file of the catalogue of a view has changed.
func (s *streams) outdated(v View) { s.slot(v).stale.Store(true) }

// report tells the log what the owner of a dataset should know of its stream.
func (s *streams) report(v View, before, c *catalogue, took time.Duration) {
	if c == nil {
		return
	}
	folder := v.Stream.Folder
	if before != nil && before.fingerprint == c.fingerprint {
		return
	}
	if before != nil {
		s.m.log.Info("the folder of a stream has changed; its epochs are others now", "folder", folder, "samples", len(c.samples))
	}
	if took > slowCatalogue {
		s.m.log.Info("the headers of a stream's samples were read", "folder", folder, "samples", len(c.samples), "seconds", int(took.Seconds()))
	}
	if c.leftOut > 0 {
		s.m.log.Warn("samples are left out of a stream", "folder", folder, "view", v.String(), "left_out", c.leftOut, "one_reason", c.whyLeftOut)
	}
	if c.unpacked > 0 {
		s.m.log.Warn("images that are not packed are no part of a stream; pack them with --mode dense", "folder", folder, "images", c.unpacked)
	}
}

// epoch returns the order of an epoch.
func (s *streams) epoch(samples int, v order.StreamView, number uint64) (*order.Epoch, error) {
	v.Folder, v.Shard = "", 0
	key := epochKey{samples: samples, view: v, number: number}
	s.mu.Lock()
	slot, ok := s.epochs.Get(key)
	if !ok {
		slot = new(epochSlot)
		s.epochs.Add(key, slot)
	}
	s.mu.Unlock()
	slot.once.Do(func() {
		slot.epoch, slot.err = order.NewEpoch(samples, v, number)
		if slot.err == nil {
			s.book(key, slot)
		}
	})
	return slot.epoch, slot.err
}

// book counts the memory of an order, and forgets others where it is too much.
func (s *streams) book(key epochKey, slot *epochSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.epochs.Peek(key); !ok || now != slot {
		return // forgotten already
	}
	slot.bytes = slot.epoch.Bytes()
	s.epochBytes += slot.bytes
	for s.epochBytes > maxEpochBytes && s.epochs.Len() > 1 {
		s.epochs.RemoveOldest()
	}
}

// shards returns how many shards an epoch of a view has.
func (s *streams) shards(v View) (int, error) {
	c, err := s.catalogue(v)
	if err != nil {
		return 0, err
	}
	items, err := order.EpochLen(len(c.samples), v.Stream)
	return (items + v.Stream.Shard - 1) / v.Stream.Shard, err
}

// streamShard is a shard of an epoch, as the source is at one moment.
type streamShard struct {
	c     *catalogue
	plan  *shard.Plan
	first int          // item of the epoch
	part  *order.Epoch // the items
	view  View         // with the fidelity of this moment
}

// key is the key of an item of the shard.
func (s *streamShard) key(i int) uint64 { return s.view.Stream.Key(s.first + i) }

// shard lays out a shard, nil where the epoch has no such.
func (s *streams) shard(v View, epoch uint64, number int) (*streamShard, error) {
	c, err := s.catalogue(v)
	if err != nil {
		return nil, err
	}
	items, err := order.EpochLen(len(c.samples), v.Stream)
	if err != nil || number < 0 || number >= (items+v.Stream.Shard-1)/v.Stream.Shard {
		return nil, err
	}
	e, err := s.epoch(len(c.samples), v.Stream, epoch)
	if err != nil {
		return nil, err
	}
	first := number * v.Stream.Shard
	x := &streamShard{c: c, view: v, first: first, part: e.Part(first, min(first+v.Stream.Shard, e.Len()))}
	x.plan, err = shard.New(x.part.Len(), func(i int) shard.Sample {
		return c.member(x.part.At(i).Sample, x.key(i))
	})
	return x, err
}

// close ends what is made ahead, for handles that the kernel never released, too.
func (s *streams) close() {
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.following))
	s.mu.Unlock()
	for _, f := range left {
		s.leave(f)
	}
	s.closing.Wait()
}
