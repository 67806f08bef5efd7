package order

import (
	"slices"
	"strings"
)

// Readers go through a folder in one of two orders: as its listing has the
// names, or sorted, as most loaders do.
const (
	listed = iota
	sorted
	orders
)

// folder is what is known of a folder that is being read. Its images have
// numbers, which are their places in the listing.
type folder struct {
	state   folderState
	names   []string // in the order of the listing
	byName  []int32  // numbers, sorted by name
	ranks   []int32  // of each number: where it stands in byName
	streams []*stream
	ahead   map[int32]*image // by number, made or being made, not opened
	opened  []string         // the last names that were missed before it was listed
	misses  int              // opens of what was not there, since it was last listed
	used    uint64           // when, on the clock of opens
}

type folderState uint8

const (
	unlisted folderState = iota
	listing              // a goroutine is at it
	ready
	unlistable // it failed, or there are too many names
)

// remember keeps the name of an image that was missed, for when the names are
// known.
func (f *folder) remember(name string) {
	if len(f.opened) == firstRun {
		f.opened = f.opened[:copy(f.opened, f.opened[1:])]
	}
	f.opened = append(f.opened, name)
}

// setNames sets the names of a listing.
func (f *folder) setNames(names []string) {
	f.opened = nil
	f.names = names
	f.byName = make([]int32, len(names))
	for i := range f.byName {
		f.byName[i] = int32(i)
	}
	slices.SortFunc(f.byName, func(a, b int32) int { return strings.Compare(names[a], names[b]) })
	f.ranks = make([]int32, len(names))
	for rank, i := range f.byName {
		f.ranks[i] = int32(rank)
	}
	f.ahead = make(map[int32]*image)
	f.state = ready
}

// find returns the number of a name.
func (f *folder) find(name string) (int32, bool) {
	rank, ok := slices.BinarySearchFunc(f.byName, name, func(i int32, name string) int {
		return strings.Compare(f.names[i], name)
	})
	if !ok {
		return 0, false
	}
	return f.byName[rank], true
}

// place returns where a name stands in an order.
func (f *folder) place(number int32, order int) int {
	if order == sorted {
		return int(f.ranks[number])
	}
	return int(number)
}

// number returns the name that stands at a place of an order.
func (f *folder) number(place, order int) int32 {
	if order == sorted {
		return f.byName[place]
	}
	return int32(place)
}
