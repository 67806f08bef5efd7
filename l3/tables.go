package l3

import "math/bits"

// The entropy coder of the dense and label codings looks a symbol's
// probabilities up in one of a few tables, which the symbol's context chooses.
// A table gives each token, which is a small value or a range of larger ones, a
// frequency; the frequencies of a table add up to a power of two. Tables and
// the map from contexts to tables make a set. An image brings its own set, in
// section 1, or names one that is built in.

// tableSetOwn is the number of a table set that stands in the file itself, in
// section 1. Smaller numbers are built in.
const tableSetOwn = 255

const (
	// maxTables is the largest number of tables that contexts are mapped to.
	// The table of predictor ids, which no context is mapped to, is one more.
	maxTables = 15
	tableOfID = maxTables

	maxTokens   = 64   // of any shape
	maxContexts = 1024 // of any shape

	// maxIDTokens is the number of tokens that ids, 0 to 31, can have: the
	// frequencies of others in the table of ids must be 0, so that no decoded
	// id is out of range.
	maxIDTokens = 18
)

// maxTablesBytes bounds the section of entropy tables: it is more than sixteen
// tables and the map of any shape can take.
const maxTablesBytes = 1 << 12

// A tableShape is what the table sets of one coding have in common. Context
// numbers are class × levels + level.
type tableShape struct {
	bits    uint // log2 of the sum of a table's frequencies
	tokens  int
	classes int
	levels  int
	ids     bool // there is a table of ids

	// slot makes the entry of a slot for decoding; nil stands for
	// token | offset<<6 | frequency<<16.
	slot func(token, offset, frequency uint32) uint32
}

func (s *tableShape) contexts() int { return s.classes * s.levels }

// numbers returns the numbers of the tables of a set that maps contexts to
// count of them.
func (s *tableShape) numbers(count int) []int {
	numbers := [maxTables + 1]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, tableOfID}
	if s.ids {
		numbers[count] = tableOfID
		count++
	}
	return numbers[:count]
}

// A tableSet is the tables of an image and the map from contexts to them.
type tableSet struct {
	shape       tableShape
	count       int     // of tables that contexts are mapped to
	contexts    []uint8 // table of each context
	frequencies [maxTables + 1][maxTokens]uint16

	// slots are for decoding: table t has 2^bits of them from t<<bits on. For
	// each there is its token, how many slots of the same token precede it, and
	// the token's frequency, as shape.slot puts them together.
	slots []uint32
}

// parse sets t from a section, reusing its memory. What it returns nil for is
// safe to decode with: every context has a table, and every slot a token.
func (t *tableSet) parse(section []byte, s *tableShape) error {
	t.shape = *s
	if len(t.contexts) != s.contexts() {
		t.contexts = make([]uint8, s.contexts())
	}
	r := bitReader{b: section}
	t.count = int(r.take(tableCountBits))
	if t.count == 0 {
		return corrupt("entropy tables: none")
	}
	if err := t.parseContexts(&r); err != nil {
		return err
	}
	for _, i := range s.numbers(t.count) {
		if err := t.parseFrequencies(&r, i); err != nil {
			return err
		}
	}
	if !r.ends() {
		return corrupt("entropy tables: %d bytes, %d bits of which are used", len(section), r.bit)
	}
	t.makeSlots()
	return nil
}

func (t *tableSet) parseContexts(r *bitReader) error {
	for class := range t.shape.classes {
		levels := t.contexts[class*t.shape.levels:][:t.shape.levels]
		for len(levels) > 0 {
			table, run := int(r.take(tableCountBits)), r.number()
			if run == 0 {
				run = len(levels)
			}
			if table >= t.count || run > len(levels) {
				return corrupt("entropy tables: class %d: table %d of %d for %d levels of %d",
					class, table, t.count, run, len(levels))
			}
			for i := range levels[:run] {
				levels[i] = uint8(table)
			}
			levels = levels[run:]
		}
	}
	return nil
}

func (t *tableSet) parseFrequencies(r *bitReader, i int) error {
	f := &t.frequencies[i]
	sum := 0
	for token := range f {
		f[token] = 0
		if token < t.shape.tokens {
			n := r.number()
			f[token] = uint16(n)
			sum += n
		}
	}
	if sum != 1<<t.shape.bits {
		return corrupt("entropy tables: frequencies of table %d add up to %d instead of %d", i, sum, 1<<t.shape.bits)
	}
	if i == tableOfID {
		for token, n := range f[maxIDTokens:] {
			if n != 0 {
				return corrupt("entropy tables: an id has token %d", maxIDTokens+token)
			}
		}
	}
	return nil
}

// makeSlots fills slots from frequencies, each table's being whole.
func (t *tableSet) makeSlots() {
	if n := (maxTables + 1) << t.shape.bits; len(t.slots) != n {
		t.slots = make([]uint32, n)
	}
	slot := t.shape.slot
	if slot == nil {
		slot = func(token, offset, frequency uint32) uint32 { return token | offset<<6 | frequency<<16 }
	}
	for _, i := range t.shape.numbers(t.count) {
		slots := t.slots[i<<t.shape.bits:]
		for token, n := range t.frequencies[i][:t.shape.tokens] {
			for offset := range slots[:n] {
				slots[offset] = slot(uint32(token), uint32(offset), uint32(n))
			}
			slots = slots[n:]
		}
	}
}

// appendTo appends t as a section's data.
func (t *tableSet) appendTo(b []byte) []byte {
	w := bitWriter{b: b}
	w.put(uint64(t.count), tableCountBits)
	for class := range t.shape.classes {
		levels := t.contexts[class*t.shape.levels:][:t.shape.levels]
		for len(levels) > 0 {
			run := 1
			for run < len(levels) && levels[run] == levels[0] {
				run++
			}
			w.put(uint64(levels[0]), tableCountBits)
			if run == len(levels) {
				w.number(0)
			} else {
				w.number(run)
			}
			levels = levels[run:]
		}
	}
	for _, i := range t.shape.numbers(t.count) {
		for _, n := range t.frequencies[i][:t.shape.tokens] {
			w.number(int(n))
		}
	}
	return w.finish()
}

// Numbers in a section of entropy tables, 0 to 32,767, are four bits that say
// how many bits the number has, then all of these but the first.
const (
	tableCountBits  = 4
	numberSizeBits  = 4
	maxNumberDigits = 1<<numberSizeBits - 1
)

func (w *bitWriter) number(n int) {
	size := bits.Len(uint(n))
	w.put(uint64(size), numberSizeBits)
	if size > 1 {
		w.put(uint64(n)-1<<(size-1), uint(size-1))
	}
}

// A bitReader reads bits, least significant first. Past the end all are 0.
type bitReader struct {
	b   []byte
	bit int
}

// take returns the next n bits, 16 at most.
func (r *bitReader) take(n int) uint32 {
	var v uint32
	for i := range 3 {
		if at := r.bit>>3 + i; at < len(r.b) {
			v |= uint32(r.b[at]) << (8 * i)
		}
	}
	v = v >> (r.bit & 7) & (1<<n - 1)
	r.bit += n
	return v
}

func (r *bitReader) number() int {
	size := int(r.take(numberSizeBits))
	if size == 0 {
		return 0
	}
	return 1<<(size-1) | int(r.take(size-1))
}

// ends reports whether all bytes have been read, and no more than there are,
// and what is left of the last one is 0.
func (r *bitReader) ends() bool {
	if (r.bit+7)>>3 != len(r.b) {
		return false
	}
	return r.take(-r.bit&7) == 0
}
