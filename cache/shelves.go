package cache

import (
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// shelf is where a buffer stands while nobody uses it.
type shelf uint8

const (
	passing shelf = iota // an LRU, under policy Pin of newcomers
	kept                 // has a place, under policy Pin
	spent                // read for the last time, as far as anybody knows
	numShelves
)

// shelves are the buffers that nobody uses, each shelf in the order of their use.
// Its methods want the cache's lock.
type shelves[K comparable] struct {
	lru   [numShelves]*simplelru.LRU[K, *Buffer[K]]
	bytes [numShelves]int64
	// open has those that hold a descriptor, which may be as scarce as memory.
	open *simplelru.LRU[K, *Buffer[K]]
}

func newShelves[K comparable]() (shelves[K], error) {
	var s shelves[K]
	var err error
	for i := range s.lru {
		if s.lru[i], err = simplelru.NewLRU[K, *Buffer[K]](maxBuffers, nil); err != nil {
			return s, fmt.Errorf("an index of buffers: %w", err)
		}
	}
	if s.open, err = simplelru.NewLRU[K, *Buffer[K]](maxBuffers, nil); err != nil {
		return s, fmt.Errorf("an index of buffers: %w", err)
	}
	return s, nil
}

// add puts a buffer on its shelf as the one that was used last.
func (s *shelves[K]) add(b *Buffer[K]) {
	s.lru[b.shelf].Add(b.key, b)
	s.bytes[b.shelf] += b.charge
	if b.content.fd >= 0 {
		s.open.Add(b.key, b)
	}
}

// remove takes a buffer from its shelf.
func (s *shelves[K]) remove(b *Buffer[K]) {
	s.lru[b.shelf].Remove(b.key)
	s.bytes[b.shelf] -= b.charge
	if b.content.fd >= 0 {
		s.open.Remove(b.key)
	}
}

// oldest returns the buffer of a shelf that was used longest ago, nil if there is
// none.
func (s *shelves[K]) oldest(from shelf) *Buffer[K] {
	_, b, _ := s.lru[from].GetOldest()
	return b
}

// oldestOpen returns the buffer whose descriptor is to be closed next.
func (s *shelves[K]) oldestOpen() *Buffer[K] {
	_, b, _ := s.open.GetOldest()
	return b
}

// len returns how many buffers there are.
func (s *shelves[K]) len() int {
	n := 0
	for _, lru := range s.lru {
		n += lru.Len()
	}
	return n
}

// purge forgets all of them.
func (s *shelves[K]) purge() {
	for i, lru := range s.lru {
		lru.Purge()
		s.bytes[i] = 0
	}
	s.open.Purge()
}
