package dataset

import (
	"math"
	"sync"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// DefaultHeaderBytes is the memory for remembered headers: enough for about
// six hundred thousand samples with short names.
const DefaultHeaderBytes = 256 << 20

// headerOverheadBytes is what the LRU adds to a Sample: its list element (96
// bytes), its map slot (24, in a table that is half to seven eighths full), and
// what the allocator rounds up to.
const headerOverheadBytes = 160

// headers remembers samples, the least recently used of which go first. An
// entry takes about 430 bytes: 240 for the Sample, 160 for being found again, and
// its strings: the path and the original name.
type headers struct {
	maxBytes int64

	mu    sync.Mutex
	bytes int64
	lru   *simplelru.LRU[string, *Sample]
}

func newHeaders(maxBytes int64) *headers {
	h := &headers{maxBytes: maxBytes}
	// The bound is on bytes, so there is none on the number.
	l, err := simplelru.NewLRU(math.MaxInt, func(_ string, s *Sample) { h.bytes -= headerBytes(s) })
	if err != nil {
		panic(err) // the size above is positive
	}
	h.lru = l
	return h
}

// headerBytes is what it costs to remember a sample.
func headerBytes(s *Sample) int64 {
	n := int64(unsafe.Sizeof(*s)) + headerOverheadBytes
	n += int64(len(s.Path))         // which the stem and the key share
	n += int64(len(s.OriginalName)) // samples of a class share its name
	if s.Label != nil {
		n += 8
	}
	return n
}

// get returns the sample of a path if its file is the one that is meant.
func (h *headers) get(path string, id Identity) *Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.lru.Get(path)
	if !ok || s.Info.ID != id {
		return nil
	}
	return s
}

// has reports whether anything is known of a path, right or outdated.
func (h *headers) has(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lru.Contains(path)
}

// add remembers a sample in the place of what was known of its path.
func (h *headers) add(s *Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lru.Remove(s.Path)
	h.lru.Add(s.Path, s)
	h.bytes += headerBytes(s)
	for h.bytes > h.maxBytes {
		h.lru.RemoveOldest()
	}
}
