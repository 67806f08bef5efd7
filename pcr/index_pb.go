package pcr

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of an index and of its entries.
const (
	fieldEntry protowire.Number = 1

	fieldEntryName    protowire.Number = 1
	fieldEntryLengths protowire.Number = 2
)

// ParseIndexPB reads an index in protobuf form. Entries that cannot be used are
// in Bad; what is no message at all, or has no entries, is an error.
func ParseIndexPB(data []byte) (*Index, error) {
	b := newIndexBuilder()
	first := map[string][]byte{} // what the first entry of each name is made of
	err := eachField(data, func(f field) error {
		if f.num != fieldEntry || f.typ != protowire.BytesType {
			return nil
		}
		// Every entry stands as often as its record has groups.
		name, err := entryName(f.bytes)
		if err != nil {
			b.refuse("", err)
			return nil
		}
		if before, ok := first[name]; ok && bytes.Equal(before, f.bytes) {
			if _, good := b.seen[name]; good {
				b.Repeated++
			}
			return nil
		} else if !ok {
			first[name] = f.bytes
		}
		lengths, err := entryLengths(f.bytes)
		if err != nil {
			b.refuse(name, err)
			return nil
		}
		b.add(IndexEntry{Name: name, Lengths: lengths})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading a PCR index: %w", err)
	}
	idx, err := b.index()
	if err != nil {
		return nil, fmt.Errorf("reading a PCR index: %w", err)
	}
	return idx, nil
}

// entryName returns the name in an entry, the last one as protobuf has it.
func entryName(entry []byte) (string, error) {
	var name []byte
	err := eachField(entry, func(f field) error {
		if f.num == fieldEntryName && f.typ == protowire.BytesType {
			name = f.bytes
		}
		return nil
	})
	return string(name), err
}

// entryLengths returns the lengths in an entry, packed or not.
func entryLengths(entry []byte) ([]int64, error) {
	var out []int64
	err := eachField(entry, func(f field) error {
		if f.num != fieldEntryLengths {
			return nil
		}
		return f.eachVarint(func(v uint64) error {
			if len(out) > MaxLevels {
				return fmt.Errorf("%w: more than %d lengths", ErrTooLarge, MaxLevels+1)
			}
			// A negative number reads as one of 2^63 or more.
			out = append(out, int64(v))
			return nil
		})
	})
	return out, err
}

// errLengthsOverflow is why a record cannot stand in an index in protobuf form.
var errLengthsOverflow = errors.New("records of 2 GiB and more cannot be indexed: lengths are int32")

// AppendIndex appends an index in protobuf form, in which every entry stands as
// often as its record has groups, as the reference writes it. An entry that
// readers would refuse is an error, and so is a record of 2 GiB or more.
func AppendIndex(dst []byte, entries []IndexEntry) ([]byte, error) {
	for i := range entries {
		e := &entries[i]
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("writing an index entry of %q: %w", e.Name, err)
		}
		if e.Size() > math.MaxInt32 {
			return nil, fmt.Errorf("writing an index entry of %q: %w: %w", e.Name, ErrTooLarge, errLengthsOverflow)
		}
		message := appendEntry(nil, e)
		for range e.Levels() {
			dst = protowire.AppendTag(dst, fieldEntry, protowire.BytesType)
			dst = protowire.AppendBytes(dst, message)
		}
	}
	return dst, nil
}

func appendEntry(dst []byte, e *IndexEntry) []byte {
	dst = protowire.AppendTag(dst, fieldEntryName, protowire.BytesType)
	dst = protowire.AppendString(dst, e.Name)
	var packed []byte
	for _, n := range e.Lengths {
		packed = protowire.AppendVarint(packed, uint64(n))
	}
	dst = protowire.AppendTag(dst, fieldEntryLengths, protowire.BytesType)
	return protowire.AppendBytes(dst, packed)
}
