package pcr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The names of index files.
const (
	IndexNamePB     = "PCR_index.pb"
	IndexNameSQLite = "PCR.db"
)

// recordSuffix ends the name of every record.
const recordSuffix = ".pcr"

// IndexEntry says how long the parts of a record are.
type IndexEntry struct {
	Name    string  // file name of the record
	Lengths []int64 // bytes of the metadata, then of group 1 to L
}

// BadEntry is an entry of an index that cannot be used.
type BadEntry struct {
	Name string // as the index has it, shortened if it is very long
	Err  error
}

// Index is what an index file says.
type Index struct {
	Entries   []IndexEntry // in the order of the file, each record once: the first that can be one
	Repeated  int          // entries that name a record named before
	Differing int          // of those, entries that differ from the one in Entries
	// Variants has, by record, the entries that differ from the one in Entries and
	// from each other, in the order of the file. Something is wrong with them or
	// with the first; the size of the record's file tells which.
	Variants map[string][]IndexEntry
	Bad      []BadEntry // entries that are left out, and whose record has no other
	// FullSizes has, by record, the bytes of each image in each group, as
	// [group][image], where the index holds them. Their sums are Lengths.
	FullSizes map[string][][]uint32
	// DatasetSize and BatchSize are what an SQLite index says of the number of
	// images in the dataset and in a record; 0 where it does not.
	DatasetSize, BatchSize int64
}

// Levels returns the number of groups.
func (e *IndexEntry) Levels() int { return max(len(e.Lengths)-1, 0) }

// GroupOffset returns where group g begins in the record; group 1 is the first,
// and L+1 gives the size of the record.
func (e *IndexEntry) GroupOffset(g int) int64 {
	var off int64
	for _, n := range e.Lengths[:g] {
		off += n
	}
	return off
}

// Size returns the bytes of the record.
func (e *IndexEntry) Size() int64 { return e.GroupOffset(len(e.Lengths)) }

// Check returns an error that wraps ErrDamaged or ErrTooLarge unless the name is
// one of a record and the lengths can be those of one.
func (e *IndexEntry) Check() error {
	if err := checkFileName(e.Name); err != nil {
		return err
	}
	if !IsRecordName(e.Name) {
		return fmt.Errorf("%w: %q is no name of a record", ErrDamaged, e.Name)
	}
	return e.checkLengths()
}

// checkLengths is Check for the lengths alone.
func (e *IndexEntry) checkLengths() error {
	switch n := len(e.Lengths); {
	case n < 2:
		return fmt.Errorf("%w: %d lengths, want those of the metadata and of at least one group", ErrDamaged, n)
	case n-1 > MaxLevels:
		return fmt.Errorf("%w: %d groups, at most %d are read", ErrTooLarge, n-1, MaxLevels)
	case e.Lengths[0] == 0:
		return fmt.Errorf("%w: no metadata", ErrDamaged)
	case e.Lengths[0] > MaxMetadataBytes:
		return fmt.Errorf("%w: metadata of %d bytes", ErrTooLarge, e.Lengths[0])
	}
	left := int64(MaxRecordBytes)
	for _, n := range e.Lengths {
		if n < 0 {
			return fmt.Errorf("%w: a length of %d bytes", ErrDamaged, n)
		}
		if n > left {
			return fmt.Errorf("%w: a record of more than %d bytes", ErrTooLarge, int64(MaxRecordBytes))
		}
		left -= n
	}
	return nil
}

// checkFileName accepts what can be the name of a file in a folder.
func checkFileName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: an empty name", ErrDamaged)
	case name == "." || name == "..":
		return fmt.Errorf("%w: the name %q", ErrDamaged, name)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%w: a name of %d bytes", ErrTooLarge, len(name))
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%w: the name %q", ErrDamaged, name)
	}
	return nil
}

// IsRecordName says whether a file of this name is taken for a record: *.pcr.
func IsRecordName(name string) bool {
	return len(name) > len(recordSuffix) && strings.HasSuffix(name, recordSuffix)
}

// RecordNumber returns the number in a name such as PCR_12.pcr; ok is false
// where there is none.
func RecordNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "PCR_")
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, recordSuffix); !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// indexBuilder collects entries, each name once.
type indexBuilder struct {
	Index
	seen map[string]int  // names to positions in Entries
	bad  map[string]bool // names in Bad
}

func newIndexBuilder() *indexBuilder {
	b := &indexBuilder{seen: map[string]int{}, bad: map[string]bool{}}
	b.Variants = map[string][]IndexEntry{}
	return b
}

// maxVariants is how many different entries of one record are kept. All of them
// together are no more than an index has bytes.
const maxVariants = 64

// add takes an entry in. The first of a name is the one that the reference
// readers use.
func (b *indexBuilder) add(e IndexEntry) {
	if err := e.Check(); err != nil {
		b.refuse(e.Name, err)
		return
	}
	if at, ok := b.seen[e.Name]; ok {
		b.Repeated++
		if slices.Equal(b.Entries[at].Lengths, e.Lengths) {
			return
		}
		b.Differing++
		known := func(v IndexEntry) bool { return slices.Equal(v.Lengths, e.Lengths) }
		if variants := b.Variants[e.Name]; len(variants) < maxVariants && !slices.ContainsFunc(variants, known) {
			b.Variants[e.Name] = append(variants, e)
		}
		return
	}
	b.seen[e.Name] = len(b.Entries)
	b.Entries = append(b.Entries, e)
}

// refuse notes a bad entry, once a name.
func (b *indexBuilder) refuse(name string, err error) {
	if b.bad[name] {
		return
	}
	b.bad[name] = true
	if len(name) > maxNameBytes {
		name = name[:maxNameBytes] + "…"
	}
	b.Bad = append(b.Bad, BadEntry{Name: name, Err: fmt.Errorf("index entry %q: %w", name, err)})
}

// errNoEntries says that a file holds nothing of an index: it is something else,
// or was cut.
var errNoEntries = errors.New("no entry")

// index returns what was collected.
func (b *indexBuilder) index() (*Index, error) {
	if len(b.Entries) == 0 && len(b.Bad) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, errNoEntries)
	}
	// A record that another entry describes is not lost with a bad one.
	b.Bad = slices.DeleteFunc(b.Bad, func(bad BadEntry) bool {
		_, ok := b.seen[bad.Name]
		if ok {
			b.Repeated++
			b.Differing++
		}
		return ok
	})
	return &b.Index, nil
}
