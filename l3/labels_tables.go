package l3

import (
	_ "embed" // for the built-in set
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
)

const (
	labelSlotBits = 12 // log2 of the slots of a table
	labelSlots    = 1 << labelSlotBits

	labelTableCount = 48

	labelBounds    = labelTokens - 1
	labelTableBits = labelBounds * labelSlotBits // of a table in a section
)

// A labelTable is where the slots of tokens 1, 2 and 3 begin. Each token has at
// least one slot.
type labelTable [labelBounds]uint16

// A labelModel is what a file's patches are decoded with.
type labelModel struct {
	tableOf *[labelContexts]uint8 // table of each context
	tables  [labelTableCount]labelTable

	// The labels that occur, in ascending order, of which rawBits bits say one.
	palette     [256]uint8
	paletteSize int
	rawBits     uint
}

// A labelSet is a built-in table set. It never changes: files depend on it.
type labelSet struct {
	tableOf [labelContexts]uint8
	tables  [labelTableCount]labelTable
}

//go:embed tables/labels-0.bin
var labelSet0Data []byte

// labelSetBytes is the size of a built-in set: the table of each context, and the
// bounds of each table as words.
const labelSetBytes = labelContexts + labelTableCount*labelBounds*2

var labelSet0 = sync.OnceValue(func() *labelSet {
	set := new(labelSet)
	if err := set.parse(labelSet0Data); err != nil {
		panic(fmt.Sprintf("l3: built-in label tables: %v", err)) // of this program, not of a file
	}
	return set
})

func (s *labelSet) parse(data []byte) error {
	if len(data) != labelSetBytes {
		return corrupt("%d bytes of label tables, not %d", len(data), labelSetBytes)
	}
	for context, table := range data[:labelContexts] {
		if table >= labelTableCount {
			return corrupt("context %d with table %d", context, table)
		}
		s.tableOf[context] = table
	}
	data = data[labelContexts:]
	for i := range s.tables {
		for k := range s.tables[i] {
			s.tables[i][k] = binary.LittleEndian.Uint16(data[2*(i*labelBounds+k):])
		}
		if err := s.tables[i].check(); err != nil {
			return fmt.Errorf("table %d: %w", i, err)
		}
	}
	return nil
}

func (s *labelSet) appendTo(b []byte) []byte {
	b = append(b, s.tableOf[:]...)
	for i := range s.tables {
		for _, bound := range s.tables[i] {
			b = binary.LittleEndian.AppendUint16(b, bound)
		}
	}
	return b
}

func (t *labelTable) check() error {
	if !(0 < t[0] && t[0] < t[1] && t[1] < t[2] && t[2] < labelSlots) {
		return corrupt("bounds %d", *t)
	}
	return nil
}

// symbol returns how the entropy coder codes a token.
func (t *labelTable) symbol(token int) ransSymbol {
	first, end := uint16(0), uint16(labelSlots)
	if token > 0 {
		first = t[token-1]
	}
	if token < labelBounds {
		end = t[token]
	}
	return ransSymbol{first: first, frequency: end - first}
}

// The built-in set that a file's own tables are changes of, and the only one.
const labelBaseSet = 0

// reset sets m to what a file's header and sections say.
func (m *labelModel) reset(h *header, sections []byte) error {
	if h.tableSet == tableSetOwn {
		return m.parse(findSection(sections, sectionTables))
	}
	if h.tableSet != labelBaseSet {
		return unsupported("built-in table set %d of the %v coding", h.tableSet, h.coding)
	}
	m.setBase()
	return nil
}

// setBase sets m to the built-in set, with all labels.
func (m *labelModel) setBase() {
	base := labelSet0()
	m.tableOf, m.tables = &base.tableOf, base.tables
	m.setAllLabels()
}

func (m *labelModel) setAllLabels() {
	for i := range m.palette {
		m.palette[i] = uint8(i)
	}
	m.paletteSize, m.rawBits = len(m.palette), 8
}

// parse sets m to the data of a section: the number of a built-in set, the
// palette, a bit for each table that is not the set's, and these tables.
func (m *labelModel) parse(data []byte) error {
	if len(data) < 2 {
		return corrupt("%d bytes of label tables", len(data))
	}
	if data[0] != labelBaseSet {
		return unsupported("changes of the built-in label table set %d", data[0])
	}
	m.setBase()
	data, err := m.parsePalette(data[1:])
	if err != nil {
		return err
	}
	const flagBytes = labelTableCount / 8
	if len(data) < flagBytes {
		return corrupt("label tables break off")
	}
	flags, data := data[:flagBytes], data[flagBytes:]
	changed := 0
	for _, f := range flags {
		changed += bits.OnesCount8(f)
	}
	if want := (changed*labelTableBits + 7) / 8; len(data) != want {
		return corrupt("%d bytes of %d label tables, not %d", len(data), changed, want)
	}
	return m.parseTables(flags, data)
}

// parsePalette reads runs of labels: their number, then the first and the last
// label of each. None means all labels.
func (m *labelModel) parsePalette(data []byte) ([]byte, error) {
	runs, data := int(data[0]), data[1:]
	if runs == 0 {
		return data, nil
	}
	if len(data) < 2*runs {
		return nil, corrupt("the palette breaks off")
	}
	m.paletteSize = 0
	after := -1
	for i := range runs {
		first, last := int(data[2*i]), int(data[2*i+1])
		if first <= after || last < first {
			return nil, corrupt("labels %d to %d after label %d in the palette", first, last, after)
		}
		for label := first; label <= last; label++ {
			m.palette[m.paletteSize] = uint8(label)
			m.paletteSize++
		}
		after = last
	}
	m.rawBits = uint(bits.Len(uint(m.paletteSize - 1)))
	return data[2*runs:], nil
}

func (m *labelModel) parseTables(flags, data []byte) error {
	at := 0
	for i := range m.tables {
		if flags[i/8]>>(i%8)&1 == 0 {
			continue
		}
		for k := range m.tables[i] {
			// The bits of a bound lie in two bytes.
			pair := uint(data[at/8]) | uint(data[at/8+1])<<8
			m.tables[i][k] = uint16(pair >> (at % 8) & (labelSlots - 1))
			at += labelSlotBits
		}
		if err := m.tables[i].check(); err != nil {
			return fmt.Errorf("table %d: %w", i, err)
		}
	}
	return nil
}

// appendTo appends m as the data of a section, changed being the tables that
// differ from the built-in ones.
func (m *labelModel) appendTo(b []byte, changed *[labelTableCount]bool) []byte {
	b = append(b, labelBaseSet)
	b = m.appendPalette(b)
	var flags [labelTableCount / 8]byte
	for i, c := range changed {
		if c {
			flags[i/8] |= 1 << (i % 8)
		}
	}
	w := bitWriter{b: append(b, flags[:]...)}
	for i, c := range changed {
		if c {
			for _, bound := range m.tables[i] {
				w.put(uint64(bound), labelSlotBits)
			}
		}
	}
	return w.finish()
}

func (m *labelModel) appendPalette(b []byte) []byte {
	if m.paletteSize == len(m.palette) {
		return append(b, 0)
	}
	count := len(b)
	b = append(b, 0)
	for i := 0; i < m.paletteSize; {
		first := i
		for i++; i < m.paletteSize && m.palette[i] == m.palette[i-1]+1; i++ {
		}
		b = append(b, m.palette[first], m.palette[i-1])
		b[count]++
	}
	return b
}
