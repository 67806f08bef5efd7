package order

import (
	"errors"
	"fmt"
	"slices"
)

// The bounds of an epoch. An order takes 4 bytes for each of its items.
const (
	// MaxSamples is the most samples that can be put in order.
	MaxSamples = 1 << 28
	// MaxItems is the most items of an epoch, echoes included: 1 GiB.
	MaxItems = 1 << 28
	// DefaultBuffer is over how many items the echoes of a sample are spread where
	// a view does not say: so far apart that two of one sample seldom meet in a
	// batch, and photographs of a few hundred MB in the cache.
	DefaultBuffer = 1000
)

// ErrEpochTooLarge says that an epoch has more items than can be put in order.
var ErrEpochTooLarge = errors.New("too large an epoch")

// Epoch is the order in which the samples of a stream come in one epoch, for one
// rank. It is a function of its arguments alone; docs/streams.md describes it so
// that others can compute it. Nothing in it changes once it is made.
type Epoch struct {
	items []uint32
}

// Item is a place in an epoch: the number of a sample, and whether this is an
// echo of it, which has come before, and whether it comes no more.
type Item struct {
	Sample     int
	Echo, Last bool
}

const (
	echoFlag   uint32 = 1 << 31
	lastFlag   uint32 = 1 << 30
	sampleMask        = lastFlag - 1
	itemBytes         = 4
)

// EpochLen returns the number of items that NewEpoch would put in order, or an
// error that wraps ErrEpochTooLarge.
func EpochLen(samples int, v StreamView) (int, error) {
	if samples < 0 || samples > MaxSamples {
		return 0, fmt.Errorf("%w: %d samples, the most are %d", ErrEpochTooLarge, samples, MaxSamples)
	}
	items := copiesBefore(dealt(samples, v.Ranks), v.Factor)
	if items > MaxItems {
		return 0, fmt.Errorf("%w: %d samples make %d items with echo%v, the most are %d", ErrEpochTooLarge, samples, items, v.Factor, MaxItems)
	}
	return int(items), nil
}

// NewEpoch puts samples, which have the numbers from 0, into the order of an epoch
// of a view: a random permutation, which is dealt to the ranks in turn, with the
// echoes of each sample behind it. A million samples take 50 ms, and 150 ms more for
// each million echoes.
func NewEpoch(samples int, v StreamView, epoch uint64) (*Epoch, error) {
	n, err := EpochLen(samples, v)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return &Epoch{}, nil
	}
	mine := deal(permutation(samples, v.Seed, epoch), v)
	if n == len(mine) {
		for i := range mine {
			mine[i] |= lastFlag
		}
		return &Epoch{items: mine}, nil
	}
	items := spread(mine, n, v, epoch)
	flag(items, samples)
	return &Epoch{items: items}, nil
}

// Len returns the number of items.
func (e *Epoch) Len() int { return len(e.items) }

// At returns an item.
func (e *Epoch) At(i int) Item {
	x := e.items[i]
	return Item{Sample: int(x & sampleMask), Echo: x&echoFlag != 0, Last: x&lastFlag != 0}
}

// Part returns the items from a place to another, which it copies: the rest of
// the epoch need not be kept for them.
func (e *Epoch) Part(from, to int) *Epoch { return &Epoch{items: slices.Clone(e.items[from:to])} }

// Bytes returns the memory that the epoch takes.
func (e *Epoch) Bytes() int64 { return itemBytes * int64(len(e.items)) }

// permutation returns the numbers below n in the order of an epoch: Fisher and
// Yates's shuffle, from the end.
func permutation(n int, seed, epoch uint64) []uint32 {
	p := make([]uint32, n)
	for i := range p {
		p[i] = uint32(i)
	}
	r := newRandom(forPermutation, seed, epoch)
	for i := n - 1; i > 0; i-- {
		j := r.below(uint64(i + 1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// dealt is how many samples each of some ranks gets: as many as the others.
func dealt(samples, ranks int) int { return (samples + ranks - 1) / ranks }

// deal returns the part of a permutation that is a rank's: each rank gets one in
// turn. Where that does not come out even, the first ones come once more.
func deal(p []uint32, v StreamView) []uint32 {
	if v.Ranks == 1 {
		return p
	}
	mine := make([]uint32, dealt(len(p), v.Ranks))
	for i := range mine {
		mine[i] = p[(v.Rank+i*v.Ranks)%len(p)]
	}
	return mine
}

// copiesBefore returns how often the first n samples of a rank come in all: once
// and as often again as makes the factor, one more or less at a time.
func copiesBefore(n int, f Factor) uint64 { return uint64(n) * uint64(f) / uint64(NoEchoes) }

// spread returns the n items that samples make with their echoes. All of them go
// through a buffer, in their order and each as often as it is to come, and leave
// it at random.
func spread(samples []uint32, n int, v StreamView, epoch uint64) []uint32 {
	size := v.Buffer
	if size == 0 {
		size = DefaultBuffer
	}
	items := make([]uint32, 0, n)
	buffer := make([]uint32, 0, min(size, n))
	r := newRandom(forEchoes, v.Seed, epoch, uint64(v.Rank))
	draw := func() int {
		k := int(r.below(uint64(len(buffer))))
		items = append(items, buffer[k])
		return k
	}
	for i, s := range samples {
		for range copiesBefore(i+1, v.Factor) - copiesBefore(i, v.Factor) {
			if len(buffer) < cap(buffer) {
				buffer = append(buffer, s)
			} else {
				buffer[draw()] = s
			}
		}
	}
	for len(buffer) > 0 {
		k, end := draw(), len(buffer)-1
		buffer[k] = buffer[end]
		buffer = buffer[:end]
	}
	return items
}

// flag marks which items are echoes, and which are the last of their sample.
func flag(items []uint32, samples int) {
	seen := make([]bool, samples)
	for i, s := range items {
		if seen[s] {
			items[i] |= echoFlag
		}
		seen[s] = true
	}
	clear(seen)
	for i := len(items) - 1; i >= 0; i-- {
		if s := items[i] & sampleMask; !seen[s] {
			seen[s] = true
			items[i] |= lastFlag
		}
	}
}

// Key returns the key of an item: its place in the epoch, all ranks counted. Ranks
// that read one epoch together have keys of their own.
func (v StreamView) Key(i int) uint64 { return uint64(i)*uint64(v.Ranks) + uint64(v.Rank) }
