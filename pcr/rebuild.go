package pcr

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// RebuildIndexEntry finds the parts of a record of versions 0, 1 and 100 that no
// index knows, by walking it; size is that of the file. It returns where the
// images' bytes are in the groups, too, as [group][image]. A record of version
// 2 has nothing that could be walked and is ErrUnsupported.
//
// Nothing stands between the metadata and group 1, and both may have a field 1
// of bytes: packed labels in the one, images in the other. Labels come before
// the number of groups, as all writers put fields in order; so the first such
// field after it is an image, which must begin as a JPEG does.
func RebuildIndexEntry(r io.ReaderAt, size int64, name string) (IndexEntry, [][]Span, error) {
	e, spans, err := rebuild(r, size)
	e.Name = name
	if err == nil {
		err = e.Check()
	}
	if err != nil {
		return IndexEntry{}, nil, fmt.Errorf("walking the record %q, which no index knows: %w", name, err)
	}
	return e, spans, nil
}

func rebuild(r io.ReaderAt, size int64) (IndexEntry, [][]Span, error) {
	if size < 0 || size > MaxRecordBytes {
		return IndexEntry{}, nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, size)
	}
	metadataBytes, err := metadataEnd(r, size)
	if err != nil {
		return IndexEntry{}, nil, err
	}
	b := make([]byte, metadataBytes)
	if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
		return IndexEntry{}, nil, fmt.Errorf("reading %d bytes of metadata: %w", len(b), err)
	}
	m, err := ParseMetadata(b)
	if err != nil {
		return IndexEntry{}, nil, err
	}
	n := len(m.Labels)
	switch {
	case m.Raw():
		return IndexEntry{}, nil, fmt.Errorf("%w: a record of version 2 without an index", ErrUnsupported)
	case n == 0:
		return IndexEntry{}, nil, fmt.Errorf("%w: no image", ErrDamaged)
	case (size-metadataBytes)/minEntryBytes/int64(m.Levels) < int64(n):
		return IndexEntry{}, nil, fmt.Errorf("%w: %d bytes for %d images in %d groups", ErrDamaged, size, n, m.Levels)
	}
	return walkGroups(r, metadataBytes, size, n, m.Levels)
}

// MetadataBytes finds the length of the metadata of a record of versions 0, 1 and
// 100 as RebuildIndexEntry does, for a record whose index entry is wrong or
// missing; size is that of the file.
func MetadataBytes(r io.ReaderAt, size int64) (int64, error) {
	n, err := metadataEnd(r, size)
	if err != nil {
		return 0, fmt.Errorf("looking for the end of a record's metadata: %w", err)
	}
	return n, nil
}

// metadataEnd returns the bytes of the metadata.
func metadataEnd(r io.ReaderAt, size int64) (int64, error) {
	limit := min(size, MaxMetadataBytes)
	w := walker{r: r, end: size, window: metadataWindow}
	levels := false
	for w.at < limit {
		f, end, err := w.next()
		if err != nil {
			return 0, err
		}
		if levels && f.num == fieldImages && f.typ == protowire.BytesType {
			return w.at, checkSOI(r, f.body)
		}
		levels = levels || f.num == fieldLevels
		w.at = end
	}
	return 0, fmt.Errorf("%w: no image follows the metadata", ErrDamaged)
}

// checkSOI makes sure that a JPEG begins at a place in a file.
func checkSOI(r io.ReaderAt, s Span) error {
	var b [2]byte
	if s.Len >= int64(len(b)) {
		if _, err := r.ReadAt(b[:], s.Off); err != nil && err != io.EOF {
			return fmt.Errorf("reading the first image: %w", err)
		}
	}
	if b != [2]byte{0xff, markerSOI} {
		return fmt.Errorf("%w: byte %d: the first image does not begin as a JPEG does", ErrDamaged, s.Off)
	}
	return nil
}

// walkGroups finds the groups behind each other. A group has no end of its own:
// it ends with its last image, or with the unknown fields that follow it.
func walkGroups(r io.ReaderAt, at, size int64, n, levels int) (IndexEntry, [][]Span, error) {
	e := IndexEntry{Lengths: make([]int64, 1, levels+1)}
	e.Lengths[0] = at
	all := make([][]Span, 0, levels)
	w := walker{r: r, at: at, end: size, window: entryWindow}
	for g := 1; g <= levels; g++ {
		begin := w.at
		w.skips = maxSkips(n)
		spans, err := w.images(n)
		if err == nil {
			err = w.unknown()
		}
		if err != nil {
			return IndexEntry{}, nil, fmt.Errorf("group %d: %w", g, err)
		}
		for i := range spans {
			spans[i].Off -= begin
		}
		all = append(all, spans)
		e.Lengths = append(e.Lengths, w.at-begin)
	}
	if w.at != size {
		return IndexEntry{}, nil, fmt.Errorf("%w: %d bytes follow the last group", ErrDamaged, size-w.at)
	}
	return e, all, nil
}
