package pcr

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// fieldImages is the one field of a scan group: the bytes of each image.
const fieldImages protowire.Number = 1

// minEntryBytes is an image without bytes in a group: a tag and a zero.
const minEntryBytes = 2

// Span is a place in a group: bytes from its start.
type Span struct{ Off, Len int64 }

// entrySize returns what an image of n bytes takes in a group of version 1: a
// tag, its length and the bytes.
func entrySize(n uint32) int64 { return 1 + int64(protowire.SizeVarint(uint64(n))) + int64(n) }

// WalkGroup finds the images' bytes in a group of versions 0, 1 and 100, which
// lies at off in r and has size bytes. It reads at most 8 bytes for each entry
// and each field that is not known, and 24 more where these are too few, which
// they are for no length below 2^49. It returns the number of bytes that it
// read, with an error too. The group must have n entries; what ends early is
// ErrDamaged.
func WalkGroup(r io.ReaderAt, off, size int64, n int) (spans []Span, read int64, err error) {
	if err := checkGroup(size, n); err != nil {
		return nil, 0, err
	}
	w := walker{r: r, at: off, end: off + size, window: entryWindow, skips: maxSkips(n)}
	spans, err = w.images(n)
	if err == nil {
		err = w.rest()
	}
	if err != nil {
		return nil, w.read, fmt.Errorf("walking a scan group at byte %d: %w", off, err)
	}
	for i := range spans {
		spans[i].Off -= off
	}
	return spans, w.read, nil
}

// checkGroup bounds the number of entries before anything is allocated for them.
func checkGroup(size int64, n int) error {
	if n < 0 || size < 0 || int64(n) > size/minEntryBytes {
		return fmt.Errorf("%w: a scan group of %d bytes for %d images", ErrDamaged, size, n)
	}
	return nil
}

// ParseGroup is WalkGroup for a group in memory.
func ParseGroup(group []byte, n int) ([]Span, error) {
	if err := checkGroup(int64(len(group)), n); err != nil {
		return nil, err
	}
	spans := make([]Span, 0, n)
	err := eachField(group, func(f field) error {
		if f.num != fieldImages || f.typ != protowire.BytesType {
			return nil
		}
		if len(spans) == n {
			return fmt.Errorf("%w: more than %d images", ErrDamaged, n)
		}
		size := len(f.bytes)
		spans = append(spans, Span{Off: int64(f.end - size), Len: int64(size)})
		return nil
	})
	if err == nil && len(spans) < n {
		err = fmt.Errorf("%w: %d images of %d", ErrDamaged, len(spans), n)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a scan group: %w", err)
	}
	return spans, nil
}

// SpansOf returns the spans of images of these sizes that follow each other, as
// they do in groups of version 2.
func SpansOf(sizes []uint32) []Span {
	spans := make([]Span, len(sizes))
	var off int64
	for i, n := range sizes {
		spans[i] = Span{Off: off, Len: int64(n)}
		off += int64(n)
	}
	return spans
}

// AppendEOI appends the marker that ends a JPEG, where b does not end with it.
func AppendEOI(b []byte) []byte {
	if n := len(b); n >= 2 && b[n-2] == 0xff && b[n-1] == markerEOI {
		return b
	}
	return append(b, 0xff, markerEOI)
}
