package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"prismfs/pcr"
)

// maxImages bounds the images of a folder: their numbers have 32 bits.
const maxImages = math.MaxInt32

// recordLoad is what reading the metadata of a record gives.
type recordLoad struct {
	head    recordHead
	info    Info
	labels  []int32
	names   []string // of the images; nil where there are none
	classes []pcr.Class
	dataset uint64 // number of the dataset, 0 where it is not told
	block   []byte // the columns, where they are known by now

	mistaken bool // the index, or one of its entries, says something else
}

// build reads the index and the metadata of all records, and makes tree and
// table out of them. It returns f, or the folder out of a table that somebody else
// has made meanwhile: who is at it already writes to that one.
func (f *pcrFolder) build(ctx context.Context, tablePath string, files *folderFiles) (*pcrFolder, error) {
	f.notes = folderNotes{}
	index, err := f.indexEntries(ctx, files)
	if err != nil {
		return nil, err
	}
	w := f.newTableFile(tablePath)
	defer w.discard()
	loads, err := f.readRecords(ctx, files, index, w)
	if err != nil {
		return nil, err
	}
	f.classes = nil
	if err := f.findUnlisted(ctx, files, loads); err != nil {
		return nil, err
	}
	if err := number(loads); err != nil {
		return nil, err
	}
	f.table = w.begin(f)
	for _, l := range loads {
		r := newRecord(f, l.head, l.info)
		f.records = append(f.records, r)
		if l.block != nil && f.table.noBlocks.Load() {
			r.takeBlock(l.block)
		}
	}
	t := newTree(f.records)
	hidden := 0
	if hidden, err = f.repeatedImages(ctx, loads); err != nil {
		return nil, err
	}
	f.notes.RepeatedImages = hidden
	if f.d.keepDuplicates {
		hidden = 0
	}
	f.notes.RefusedImages = t.fill(loads, hidden, len(f.notes.Missing)+len(f.notes.Bad) > 0)
	f.tree = t
	if f.unread {
		// The table would keep for ever what a second look would put right.
		w.discard()
		f.table.path = ""
		f.withoutTable(errUnread)
	}
	unlock := lockTables(tablePath)
	defer unlock()
	if other := f.madeMeanwhile(tablePath, files); other != nil {
		return other, nil
	}
	err = w.finish(f)
	if err != nil {
		f.table.path = ""
	} else {
		err = w.reason()
	}
	f.withoutTable(err)
	if err != nil && !errors.Is(err, errNoTableDir) {
		f.d.log.Warn("no table is kept, each mount looks for offsets again: free some room in the folder, or name another one by --table-dir",
			"folder", f.d.full(f.path), "table_dir", f.d.tableDir, "error", err)
	}
	f.tell()
	return f, nil
}

// errUnread says that no table is kept because it would lack what may be read yet.
var errUnread = errors.New("a record could not be read, and may be another time")

// withoutTable keeps the first reason for which what is found out about the folder
// does not go to a file.
func (f *pcrFolder) withoutTable(err error) {
	if err != nil {
		f.noTable.CompareAndSwap(nil, &err)
	}
}

// takeBlock keeps columns that are known from the beginning, in memory.
func (r *record) takeBlock(data []byte) {
	b := r.memoryBlock()
	copy(b.data, data)
	for g := 1; g <= r.levels(); g++ {
		r.check(b, g)
	}
}

// readRecords reads the metadata of the records that the index names, or of all,
// if there is none.
func (f *pcrFolder) readRecords(ctx context.Context, files *folderFiles, index *folderIndex, w *tableFile) ([]*recordLoad, error) {
	loads := make([]*recordLoad, len(files.records))
	lost := slices.Clone(f.notes.Missing)
	var mu sync.Mutex // of the notes
	bad := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		f.notes.Bad = append(f.notes.Bad, RefusedEntry{Name: name, Reason: err.Error()})
		lost = append(lost, name)
		if !isDamage(err) {
			f.unread = true
			f.unreadable = append(f.unreadable, name)
		}
	}
	for name, err := range files.unseen {
		bad(name, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(storeRequests)
	for i, name := range files.records {
		info, there := files.infos[name]
		known := index.records[name]
		if !there || f.notes.Index != "" && known == nil {
			continue
		}
		group.Go(func() error {
			l, err := f.readRecord(ctx, info, name, known, index.full[name])
			if err == nil {
				w.place(l)
				loads[i] = l
				return nil
			}
			if ctx.Err() != nil || isScarcity(err) || errors.Is(err, ErrChanged) {
				return err
			}
			bad(name, err)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(f.notes.Bad, func(a, b RefusedEntry) int { return strings.Compare(a.Name, b.Name) })
	loads = slices.DeleteFunc(loads, func(l *recordLoad) bool { return l == nil })
	datasets := map[uint64]bool{}
	for _, l := range loads {
		if l.mistaken {
			f.notes.Mistaken = append(f.notes.Mistaken, l.head.Name)
		}
		f.notes.Own = f.notes.Own || l.head.Extension
		datasets[l.dataset] = true
	}
	f.notes.Datasets = len(datasets)
	f.notes.LostImages = lostImages(lost, loads, index.batch, index.full)
	return loads, nil
}

// readRecord reads the metadata of a record.
func (f *pcrFolder) readRecord(ctx context.Context, info Info, name string, known *indexed, full [][]uint32) (*recordLoad, error) {
	file, err := f.d.store.Open(ctx, join(f.path, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Info().ID != info.ID {
		return nil, fmt.Errorf("%s: %w while its folder was looked into", name, ErrChanged)
	}
	var reader io.ReaderAt = countingReader{file, &f.d.bytesIndex}
	if known == nil {
		reader = f.metadataReader(file, info.Size)
	}
	l := &recordLoad{info: info, head: recordHead{Name: strings.Clone(name), Size: info.Size}}
	meta, spans, err := l.settle(reader, known)
	if err != nil {
		return nil, err
	}
	if full != nil && (len(full) != l.head.levels() || len(full[0]) != l.head.Images) {
		full = nil
	}
	l.head.FullIndex = full != nil && l.head.Version == pcr.VersionRaw
	if meta.Extension != nil {
		l.useExtension(meta.Extension)
		f.shareClasses(l)
	} else if meta.ExtensionErr != nil {
		f.d.log.Warn("the extension of a record is not used", "record", f.d.full(join(f.path, name)), "error", meta.ExtensionErr)
	}
	if err := l.head.checkBlock(); err != nil {
		return nil, err
	}
	if changed := checkSame(file, info.ID); changed != nil {
		return nil, changed
	}
	l.knownColumns(meta.Extension, full, spans)
	return l, nil
}

// useExtension takes names from an extension, and notes what else it has.
func (l *recordLoad) useExtension(x *pcr.Extension) {
	l.names, l.classes, l.dataset = x.Names, x.Classes, x.DatasetID
	l.head.Extension = len(x.Lengths) == l.head.levels() && l.head.Version != pcr.VersionRaw
	l.head.Sums = l.head.Extension && len(x.Checksums) == l.head.levels()
}

// shareClasses keeps what all records say alike once.
func (f *pcrFolder) shareClasses(l *recordLoad) {
	f.classesMu.Lock()
	defer f.classesMu.Unlock()
	if slices.Equal(f.classes, l.classes) {
		l.classes = f.classes
		return
	}
	f.classes = l.classes
}

// knownColumns writes what is known of the images without looking at them.
func (l *recordLoad) knownColumns(x *pcr.Extension, full [][]uint32, spans [][]pcr.Span) {
	h := &l.head
	if !h.Extension && !h.FullIndex && spans == nil {
		return
	}
	l.block = make([]byte, h.blockBytes())
	if h.Extension {
		for i := range min(len(x.Shapes), h.Images) {
			l.putShape(i, x.Shapes[i])
		}
	}
	for g := 1; g <= h.levels(); g++ {
		var places []pcr.Span
		var sums []uint32
		switch {
		case h.Extension:
			places = x.Spans(g)
			if h.Sums {
				sums = x.Checksums[g-1]
			}
		case h.FullIndex:
			places = pcr.SpansOf(full[g-1])
		default:
			places = spans[g-1]
		}
		at := int64(h.Images)*cellBytes + int64(g-1)*h.columnBytes()
		// Spans of an odd form are found again when they are needed.
		if err := h.encodeColumn(l.block[at:at+h.columnBytes()], g, places, sums); err != nil {
			clear(l.block[at : at+h.columnBytes()])
		}
	}
}

// putShape writes what the extension says of an image. Records that have one
// never store EOI, so its end is known as well.
func (l *recordLoad) putShape(image int, s pcr.ImageShape) {
	if s.Width < 1 || s.Height < 1 || s.Width > math.MaxUint16 || s.Height > math.MaxUint16 ||
		s.Components != 1 && s.Components != 3 && s.Components != 4 {
		return
	}
	c := shapeCell(s.Width, s.Height, s.Components).with(cellShape | cellTail).sealed(image)
	binary.NativeEndian.PutUint64(l.block[cellBytes*image:], uint64(c))
}

// number gives every image of the folder its number.
func number(loads []*recordLoad) error {
	total := 0
	for _, l := range loads {
		if total+l.head.Images > maxImages {
			return fmt.Errorf("%w: more than %d images in a folder", pcr.ErrTooLarge, maxImages)
		}
		l.head.First = uint32(total)
		total += l.head.Images
	}
	return nil
}

func newTree(records []*record) *tree {
	t := &tree{records: records, byRecord: make(map[string]*record, len(records))}
	for _, r := range records {
		t.byRecord[r.stem] = r
	}
	return t
}

// fill makes the arrays of a tree. The first hidden images of the last record,
// and those with negative labels, are not shown; it returns the number of the
// latter. lost says that images of other records may be missing.
func (t *tree) fill(loads []*recordLoad, hidden int, lost bool) (refused int) {
	total, named, nameBytes := 0, false, 0
	for _, l := range loads {
		total += len(l.labels)
		for _, name := range l.names {
			if usableName(name) {
				named = true
				nameBytes += len(name)
			}
		}
	}
	t.images = total
	if named && nameBytes <= math.MaxUint32 {
		t.forms, t.nameEnds, t.names = make([]byte, total), make(u32s, 4*total), make([]byte, 0, nameBytes)
	}
	counts := map[int32]uint32{}
	shown := 0
	isShown := func(l *recordLoad, i int) bool {
		return l.labels[i] >= 0 && !(l == loads[len(loads)-1] && i < hidden)
	}
	for _, l := range loads {
		for i, label := range l.labels {
			image := int(l.head.First) + i
			if len(t.forms) > 0 {
				if i < len(l.names) && usableName(l.names[i]) {
					t.forms[image] = formStem
					t.names = append(t.names, l.names[i]...)
				}
				t.nameEnds.set(image, uint32(len(t.names)))
			}
			switch {
			case isShown(l, i):
				counts[label]++
				shown++
			case label < 0:
				refused++
			}
		}
	}
	t.makeClasses(loads, counts, lost)
	t.order = make(u32s, 4*shown)
	next := make([]uint32, len(t.classes))
	for _, l := range loads {
		for i, label := range l.labels {
			if !isShown(l, i) {
				continue
			}
			n, _ := t.classOf(label)
			c := &t.classes[n]
			image := int(l.head.First) + i
			t.order.set(int(c.Start+next[n]), uint32(image))
			next[n]++
			c.Named = c.Named || len(t.forms) > 0 && t.forms[image] != formNumber
		}
	}
	for i := range t.classes {
		if t.classes[i].Named {
			t.nameClass(&t.classes[i])
		}
	}
	return refused
}

// makeClasses makes the class folders of the labels that occur, and of those
// that any record has a name for: they are there even if all of their images are
// lost, since who numbers the folders would take the next ones for them. The name
// that a record, in order, tells first is the one of a class. Where no record has
// names and some are lost, there is a folder for every label below the largest.
func (t *tree) makeClasses(loads []*recordLoad, counts map[int32]uint32, lost bool) {
	names := map[int32]string{}
	var before []pcr.Class
	for _, l := range loads {
		if len(l.classes) == 0 || len(before) == len(l.classes) && &before[0] == &l.classes[0] {
			continue // the very same, as a rule; see shareClasses
		}
		before = l.classes
		for _, c := range l.classes {
			if _, ok := names[c.Label]; !ok && c.Name != "" && c.Label >= 0 {
				names[c.Label] = c.Name
			}
		}
	}
	labels := maps.Clone(counts)
	for label := range names {
		labels[label] += 0
	}
	if largest := largestLabel(counts); lost && len(names) == 0 && largest < maxFilledLabels {
		for label := range largest {
			labels[label] += 0
		}
	}
	var start uint32
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		c := class{Label: label, Start: start, Count: counts[label], Name: names[label]}
		if usablePart(c.Name) && !strings.Contains(c.Name, "/") {
			c.Folder = c.Name
		}
		start += c.Count
		t.classes = append(t.classes, c)
	}
	t.setDigits()
	taken := map[string]bool{}
	for i := range t.classes {
		if t.classes[i].Folder == "" {
			taken[t.padded(t.classes[i].Label)] = true
		}
	}
	for i := range t.classes {
		c := &t.classes[i]
		if c.Folder == "" {
			continue
		}
		for taken[c.Folder] {
			c.Folder += "~" + t.padded(c.Label)
		}
		taken[c.Folder] = true
	}
	t.indexClasses()
}

// maxFilledLabels bounds the empty folders that stand for labels whose images may
// be lost: labels beyond are no numbers of classes.
const maxFilledLabels = 1 << 16

func largestLabel(counts map[int32]uint32) int32 {
	var largest int32
	for label := range counts {
		largest = max(largest, label)
	}
	return largest
}

// setDigits finds out how wide the names of labels are.
func (t *tree) setDigits() {
	t.digits = 1
	if n := len(t.classes); n > 0 {
		t.digits = len(fmt.Sprint(t.classes[n-1].Label))
	}
}

func (t *tree) indexClasses() {
	t.byFolder = map[string]int{}
	for i := range t.classes {
		if c := &t.classes[i]; c.Folder != "" {
			t.byFolder[c.Folder] = i
		}
	}
}
