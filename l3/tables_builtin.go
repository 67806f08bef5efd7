package l3

import (
	"fmt"
	"sync"
)

// builtinTables are the built-in table sets of a coding, by number. A set never
// changes: files depend on it. Better ones get new numbers.
type builtinTables struct {
	shape *tableShape
	sets  func() []*tableSet
}

// newBuiltinTables takes sets as sections have them. They are parsed when the
// first of them is needed.
func newBuiltinTables(shape *tableShape, sections ...[]byte) *builtinTables {
	return &builtinTables{shape: shape, sets: sync.OnceValue(func() []*tableSet {
		sets := make([]*tableSet, len(sections))
		for i := range sets {
			sets[i] = new(tableSet)
			if err := sets[i].parse(sections[i], shape); err != nil {
				panic(fmt.Sprintf("l3: built-in table set %d: %v", i, err)) // of this program, not of a file
			}
		}
		return sets
	})}
}

// choose returns the set that a file uses: one that is built in, or own, which
// it sets to that in the file's sections.
func (b *builtinTables) choose(h *header, sections []byte, own *tableSet) (*tableSet, error) {
	if h.tableSet == tableSetOwn {
		return own, own.parse(findSection(sections, sectionTables), b.shape)
	}
	sets := b.sets()
	if h.tableSet >= len(sets) {
		return nil, unsupported("built-in table set %d of the %v coding", h.tableSet, h.coding)
	}
	return sets[h.tableSet], nil
}
