package fs

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Who stats what it lists goes on so: find -size, du, rsync and ls -l do, and ls -f,
// find -type f and ImageFolder's scan never begin. So it is remembered of readers
// (threads, as the kernel numbers them) how many names they got without attributes,
// and how many of them they looked up then. Where that is most of them, attributes
// come with the next names.

const (
	// wishesOf is how many readers are remembered.
	wishesOf = 256
	// leastListed is how many names must have been listed to tell anything.
	leastListed = 32
	// For each name that a reader looked up, so many are told of with attributes
	// before it has to show again that it wants them: what is told in vain is never
	// more than that.
	toldForEach = 32
)

// wishes are what readers want of listings.
type wishes struct {
	mu      sync.Mutex
	readers *lru.Cache[uint32, *wish]
}

// wish is what one reader wants.
type wish struct {
	folder uint64 // node of the one that was listed last
	listed int    // names without attributes
	looked int    // lookups in the folder while it was the last
	credit int    // names to be told of
}

func newWishes() (*wishes, error) {
	readers, err := lru.New[uint32, *wish](wishesOf)
	return &wishes{readers: readers}, err
}

// lookedUp books a lookup.
func (w *wishes) lookedUp(reader uint32, folder uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := w.readers.Get(reader); ok && r.folder == folder {
		r.looked++
	}
}

// listed books names that were listed, and whether attributes were told with them.
func (w *wishes) listed(reader uint32, folder uint64, names int, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.readers.Get(reader)
	switch {
	case told && ok:
		r.credit -= names
		return
	case !ok:
		r = new(wish)
		w.readers.Add(reader, r)
	}
	r.folder = folder
	r.listed += names
}

// attributes reports whether a reader wants attributes with the next names.
func (w *wishes) attributes(reader uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.readers.Get(reader)
	if !ok {
		return false
	}
	// Between a name that is listed and its stat there can be many others: a phase of
	// listing is judged when the one of lookups after it has ended.
	if r.credit <= 0 && r.looked > 0 && r.listed >= leastListed {
		r.credit = 0
		if 2*r.looked >= r.listed {
			r.credit = toldForEach * min(r.looked, r.listed)
		}
		r.listed, r.looked = 0, 0
	}
	return r.credit > 0
}
