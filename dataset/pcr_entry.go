package dataset

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"prismfs/pcr"
)

// This file settles how long the parts of a record are, where the index, the
// record and the size of its file may contradict each other. A record that has
// the lengths of its images, under a checksum, is believed before the index.

// indexed is what an index says of a record.
type indexed struct {
	entries []pcr.IndexEntry // that can be right, no two the same
	why     string           // there are none
}

// best returns the entry whose sum is the size of the file, or else the first;
// nil if there is none.
func (x *indexed) best(size int64) *pcr.IndexEntry {
	for i := range x.entries {
		if x.entries[i].Size() == size {
			return &x.entries[i]
		}
	}
	if len(x.entries) == 0 {
		return nil
	}
	return &x.entries[0]
}

// settle finds out how long the parts of a record are, and reads its metadata.
// Without an index, known is nil. spans are where the images' bytes are, if that
// was seen meanwhile.
func (l *recordLoad) settle(reader io.ReaderAt, known *indexed) (meta *pcr.Metadata, spans [][]pcr.Span, err error) {
	if known != nil {
		if err = l.settleByIndex(reader, known, &meta); err == nil || !isDamage(err) {
			return meta, nil, err
		}
	}
	own, ownErr := l.settleByItself(reader)
	switch {
	case ownErr == nil && own != nil:
		l.mistaken = known != nil
		return own, nil, nil
	case ownErr != nil && !isDamage(ownErr):
		return nil, nil, ownErr
	case known != nil:
		return nil, nil, err
	}
	// Nothing tells but the record as a whole.
	entry, spans, err := pcr.RebuildIndexEntry(reader, l.info.Size, l.head.Name)
	if err != nil {
		return nil, nil, err
	}
	if meta, err = l.readMetadata(reader, entry.Lengths[0]); err != nil {
		return nil, nil, err
	}
	return meta, spans, l.use(entry.Lengths, meta)
}

// settleByIndex takes what the index says, unless the record knows better.
func (l *recordLoad) settleByIndex(reader io.ReaderAt, known *indexed, meta **pcr.Metadata) error {
	entry := known.best(l.info.Size)
	if entry == nil {
		return fmt.Errorf("%w: %s", pcr.ErrDamaged, known.why)
	}
	m, err := l.readMetadata(reader, entry.Lengths[0])
	if err != nil {
		return err
	}
	lengths := entry.Lengths
	if own, ok := ownEntry(m, lengths[0]); ok {
		lengths = own.Lengths
	}
	*meta = m
	l.mistaken = len(known.entries) > 1 || !slices.Equal(lengths, entry.Lengths)
	return l.use(lengths, m)
}

// settleByItself takes what the record says. It returns nothing where that does
// not suffice, which is so for all but those that package pcr writes.
func (l *recordLoad) settleByItself(reader io.ReaderAt) (*pcr.Metadata, error) {
	n, err := pcr.MetadataBytes(reader, l.info.Size)
	if err != nil {
		return nil, err
	}
	m, err := l.readMetadata(reader, n)
	if err != nil {
		return nil, err
	}
	own, ok := ownEntry(m, n)
	if !ok {
		return nil, nil
	}
	return m, l.use(own.Lengths, m)
}

// ownEntry returns how long a record says its parts are.
func ownEntry(m *pcr.Metadata, metadataBytes int64) (pcr.IndexEntry, bool) {
	if m.Extension == nil {
		return pcr.IndexEntry{}, false
	}
	return m.Extension.Entry(metadataBytes)
}

// use makes lengths those of the record, if its metadata allows for them.
func (l *recordLoad) use(lengths []int64, m *pcr.Metadata) error {
	l.head.Lengths = lengths
	switch {
	case len(lengths) < 2:
		return fmt.Errorf("%w: a record without scan groups", pcr.ErrDamaged)
	case m.Levels != l.head.levels():
		return fmt.Errorf("%w: the record says that it has %d scan groups, the index %d", pcr.ErrDamaged, m.Levels, l.head.levels())
	case len(m.Labels) == 0:
		return fmt.Errorf("%w: a record without images", pcr.ErrDamaged)
	}
	l.head.Images, l.head.Version, l.labels = len(m.Labels), m.Version, m.Labels
	var sum int64
	for _, n := range lengths {
		sum += n
	}
	if sum != l.info.Size {
		l.head.Damage = fmt.Sprintf("its parts have %d bytes, and the file has %d", sum, l.info.Size)
	}
	return nil
}

// readMetadata reads the first part of a record, of n bytes.
func (l *recordLoad) readMetadata(reader io.ReaderAt, n int64) (*pcr.Metadata, error) {
	if n > pcr.MaxMetadataBytes {
		return nil, fmt.Errorf("%w: metadata of %d bytes", pcr.ErrTooLarge, n)
	}
	if n > l.info.Size {
		return nil, fmt.Errorf("%w: metadata of %d bytes in a file of %d", pcr.ErrDamaged, n, l.info.Size)
	}
	b := make([]byte, n)
	if got, err := reader.ReadAt(b, 0); got < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return pcr.ParseMetadata(b)
}

// findUnlisted notes which of the records that the index does not name are of
// the same dataset as those that it names: then it is the index that is wrong.
func (f *pcrFolder) findUnlisted(ctx context.Context, files *folderFiles, loads []*recordLoad) error {
	listed := map[uint64]bool{}
	for _, l := range loads {
		if l.dataset != 0 {
			listed[l.dataset] = true
		}
	}
	if len(listed) == 0 {
		return nil
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(storeRequests)
	for _, name := range f.notes.Stale {
		group.Go(func() error {
			id, err := f.datasetOf(ctx, name, files.infos[name])
			if err != nil && (ctx.Err() != nil || isScarcity(err)) {
				return err
			}
			if err == nil && listed[id] {
				mu.Lock()
				defer mu.Unlock()
				f.notes.Unlisted = append(f.notes.Unlisted, name)
			}
			return nil
		})
	}
	err := group.Wait()
	slices.SortFunc(f.notes.Unlisted, compareRecords)
	return err
}

// datasetOf returns the dataset number that a record tells, 0 for none.
func (f *pcrFolder) datasetOf(ctx context.Context, name string, info Info) (uint64, error) {
	file, err := f.d.store.Open(ctx, join(f.path, name))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	l := recordLoad{info: info}
	m, err := l.settleByItself(f.metadataReader(file, info.Size))
	if err != nil || m == nil {
		return 0, err
	}
	return m.Extension.DatasetID, nil
}

// metadataReader reads a record whose metadata have no known length.
func (f *pcrFolder) metadataReader(file File, size int64) io.ReaderAt {
	reader := countingReader{file, &f.d.bytesIndex}
	if f.d.remoteReads {
		return newChunkReader(reader, 0, size)
	}
	return reader
}

// lostImages returns how many images the records held, at most, that cannot be
// read or are missing, where the index or the other records tell; else 0. All
// records but the last are as long as each other.
func lostImages(lost []string, loads []*recordLoad, batch int64, full map[string][][]uint32) int {
	usual := int(min(batch, maxImages))
	last := ""
	for _, name := range lost {
		if last == "" || compareRecords(name, last) > 0 {
			last = name
		}
	}
	for i, l := range loads {
		if i == len(loads)-1 && compareRecords(l.head.Name, last) > 0 {
			break // this one may be shorter
		}
		if batch == 0 {
			usual = max(usual, l.head.Images)
		}
	}
	total := 0
	for _, name := range lost {
		if sizes := full[name]; len(sizes) > 0 {
			total += len(sizes[0])
			continue
		}
		if usual == 0 {
			return 0
		}
		total += usual
	}
	return total
}
