package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"prismfs/pcr"
)

const (
	// maxIndexBytes bounds the index file of a folder: an entry for each of a
	// million records, or the sizes of the images of ten million.
	maxIndexBytes = 1 << 30

	// storeRequests is how many requests are under way at once where many files
	// are looked at. It hides the latency of a store.
	storeRequests = 16

	// blockShare: what is kept of a record is at most that many times its size, or
	// it claims more groups or images than it can have. Real ones take a few
	// percent; images of a byte a group would take 9 times as much.
	blockShare = 32
	// smallBlockBytes is allowed to any record.
	smallBlockBytes = 1 << 20
)

// pcrFolder is a PCR folder as it was found at one time. When records or index
// change, another one takes its place.
type pcrFolder struct {
	d       *Dataset
	path    string
	index   string // name of the index file, readable or not; "" for none
	real    atomic.Pointer[map[string]struct{}]
	table   *table
	tree    *tree
	records []*record
	notes   folderNotes
	print   fingerprint

	classesMu sync.Mutex // while the folder is built
	classes   []pcr.Class

	kept   atomic.Bool // it stays as it was as long as others write to it
	stale  atomic.Bool // a record is no longer what it was, or the table is lost
	unread bool        // a record could not be read, by no fault of its content
	loaded time.Time

	unreadable []string              // records that could not be read
	noTable    atomic.Pointer[error] // why the table is not, or no longer, a file that is written to

	// Guarded by the state's mu:
	watched  []watched
	patience time.Duration // see beSoPatient
	unsure   bool          // the store failed when it was last looked into, and nothing of it was taken
}

// folderNotes is what was found out about a folder besides its tree. It is kept
// in the table.
type folderNotes struct {
	Index           string
	RepeatedEntries int
	RepeatedImages  int
	RefusedImages   int
	LostImages      int
	Stale           []string
	Unlisted        []string // of the stale ones
	Missing         []string
	Mistaken        []string
	Bad             []RefusedEntry
	Own             bool // there are records that pack has written
	Datasets        int  // of how many the records are
}

// isUnfinished says that not all of a dataset may be there.
func (f *pcrFolder) isUnfinished() bool {
	return f.isReal(PackMarker) || f.kept.Load() || f.index == "" && f.notes.Own
}

// recordHead is what is kept of a record in the table.
type recordHead struct {
	Name      string
	Size      int64   // bytes of the file
	Images    int     // that it holds
	Version   int     // see package pcr
	Lengths   []int64 // of the metadata and the groups
	First     uint32  // number of its first image in the folder
	Block     int64   // where its columns are in the table
	Extension bool    // its metadata has the lengths of the images
	Sums      bool    // and their checksums, so that the columns have room for them
	FullIndex bool    // the index has the lengths of the images
	Damage    string  // why some of its images may be unreadable, else ""
}

// fingerprint tells one state of a folder from another.
type fingerprint [sha256.Size]byte

// isStale says that the folder is to be looked into again.
func (f *pcrFolder) isStale() bool { return f.stale.Load() || f.table.lost.Load() }

func (f *pcrFolder) isReal(name string) bool {
	_, ok := (*f.real.Load())[name]
	return ok
}

// folderFiles is a listing of a PCR folder.
type folderFiles struct {
	real    map[string]struct{} // all but records and indexes
	records []string            // ascending by number, then by name
	infos   map[string]Info     // of the records
	unseen  map[string]error    // records of which the store could say nothing, and why
}

// loadFolder reads what the tree of a PCR folder takes: out of the table where
// one is there that belongs to it, else from the index and the metadata of each
// record. before is the folder as it was known, or nil; if only other files have
// changed, it stays.
func (d *Dataset) loadFolder(ctx context.Context, path, index string, indexInfo Info, before *pcrFolder) (*pcrFolder, error) {
	files, err := d.listFolder(ctx, path)
	if err != nil {
		return nil, err
	}
	print := folderPrint(index, indexInfo, files, d.keepDuplicates)
	if before != nil {
		before.unsure = len(files.unseen) > 0
	}
	if before != nil && before.unsure {
		// What is known may be right again when the store has recovered.
		before.stale.Store(false)
		return before, nil
	}
	if before != nil && before.print == print && !before.table.lost.Load() && !before.unread && sameIDs(before, files) {
		before.real.Store(&files.real)
		before.stale.Store(false)
		before.kept.Store(false)
		before.watch(files)
		return before, nil
	}
	f := &pcrFolder{d: d, path: strings.Clone(path), index: index, print: print, loaded: time.Now()}
	f.real.Store(&files.real)
	tablePath := d.tablePath(path)
	if (before == nil || !before.table.lost.Load()) && len(files.unseen) == 0 {
		if err := f.openTable(tablePath, files); err == nil {
			f.watch(files)
			f.tell()
			return f, nil
		} else if !isNoTable(err) {
			d.log.Warn("a table is of no use, another one takes its place", "table", tablePath, "error", err)
		}
	}
	built, err := f.build(ctx, tablePath, files)
	if err != nil {
		return nil, err
	}
	built.beSoPatient(before)
	built.watch(files)
	return built, nil
}

// madeMeanwhile returns the folder out of its table, if there is one now, which
// there was not when f was begun.
func (f *pcrFolder) madeMeanwhile(tablePath string, files *folderFiles) *pcrFolder {
	if f.unread {
		return nil
	}
	other := &pcrFolder{d: f.d, path: f.path, index: f.index, print: f.print, loaded: f.loaded}
	other.real.Store(&files.real)
	if other.openTable(tablePath, files) != nil {
		return nil
	}
	other.tell()
	return other
}

// sameIDs reports whether the records of a folder are the very files.
func sameIDs(f *pcrFolder, files *folderFiles) bool {
	for _, r := range f.records {
		if files.infos[r.Name].ID != r.info.ID {
			return false
		}
	}
	return true
}

// listFolder lists a PCR folder and looks at its records.
func (d *Dataset) listFolder(ctx context.Context, path string) (*folderFiles, error) {
	files := &folderFiles{real: map[string]struct{}{}, infos: map[string]Info{}, unseen: map[string]error{}}
	err := d.store.ReadDir(ctx, path, func(e DirEntry) bool {
		switch {
		case isHidden(e) && pcr.IsRecordName(e.Name):
			files.records = append(files.records, e.Name)
		case isHidden(e) || e.Kind == Special || e.Kind == Broken:
		default:
			files.real[e.Name] = struct{}{}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files.records, compareRecords)
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(storeRequests)
	for _, name := range files.records {
		group.Go(func() error {
			info, err := d.store.Stat(ctx, join(path, name))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				files.infos[name] = info
			case isScarcity(err):
				return err
			case storeFails(err):
				files.unseen[name] = err
			}
			return nil // any other is gone meanwhile, and counts as missing
		})
	}
	return files, group.Wait()
}

// compareRecords orders records by their number, and those that have none, or
// the same, by name.
func compareRecords(a, b string) int {
	x, xok := pcr.RecordNumber(a)
	y, yok := pcr.RecordNumber(b)
	switch {
	case xok && yok && x != y:
		if x < y {
			return -1
		}
		return 1
	case xok != yok:
		if xok {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// folderPrint is over everything that says whether a folder is still the same:
// sizes and times, since identities do not outlive a copy of the dataset to
// another machine or a remount.
func folderPrint(index string, indexInfo Info, files *folderFiles, keepDuplicates bool) fingerprint {
	h := sha256.New()
	var number [8]byte
	put := func(v int64) {
		binary.LittleEndian.PutUint64(number[:], uint64(v))
		h.Write(number[:])
	}
	putName := func(s string) {
		put(int64(len(s)))
		io.WriteString(h, s)
	}
	if keepDuplicates {
		put(1)
	} else {
		put(0)
	}
	putName(index)
	put(indexInfo.Size)
	put(indexInfo.ID.MTimeNS)
	for _, name := range files.records {
		info, ok := files.infos[name]
		if !ok {
			continue
		}
		putName(name)
		put(info.Size)
		put(info.ID.MTimeNS)
	}
	return fingerprint(h.Sum(nil))
}

// readIndex reads the index of a folder. An index that cannot be read is as
// good as none: then the records themselves are asked.
func (f *pcrFolder) readIndex(ctx context.Context) (*pcr.Index, error) {
	file, err := f.d.store.Open(ctx, join(f.path, f.index))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := file.Info().Size
	if size > maxIndexBytes {
		return nil, fmt.Errorf("%w: an index of %d bytes", pcr.ErrTooLarge, size)
	}
	data := make([]byte, size)
	if err := readFull(ctx, countingReader{file, &f.d.bytesIndex}, data); err != nil {
		return nil, err
	}
	if err := checkSame(file, file.Info().ID); err != nil {
		return nil, err
	}
	if f.index == pcr.IndexNameSQLite {
		if err := f.checkSettled(ctx); err != nil {
			return nil, err
		}
		return pcr.ParseIndexSQLite(data)
	}
	return pcr.ParseIndexPB(data)
}

// errUnsettled says that SQLite has not put everything into the file of an index.
var errUnsettled = errors.New("SQLite has not put everything into it: open it once with sqlite3, and close it")

// checkSettled looks for what SQLite keeps beside a file while it is written to, or
// after its writer was killed: a log, or a journal by which the file is undone.
func (f *pcrFolder) checkSettled(ctx context.Context) error {
	for _, suffix := range []string{"-wal", "-journal"} {
		name := f.index + suffix
		if info, err := f.d.store.Stat(ctx, join(f.path, name)); err == nil && info.Size > 0 {
			return fmt.Errorf("%w: %s has %d bytes", errUnsettled, name, info.Size)
		}
	}
	return nil
}

// folderIndex is what an index says of the records of a folder. The zero value
// is that of a folder without one.
type folderIndex struct {
	records map[string]*indexed   // of the folder, by name
	full    map[string][][]uint32 // see pcr.Index
	batch   int64                 // images of a record, 0 where it is not told
}

// indexEntries returns what is known of the records before they are opened.
func (f *pcrFolder) indexEntries(ctx context.Context, files *folderFiles) (*folderIndex, error) {
	if f.index == "" {
		return &folderIndex{}, nil
	}
	index, err := f.readIndex(ctx)
	if err != nil {
		if ctx.Err() != nil || isScarcity(err) {
			return nil, err
		}
		f.d.log.Error("an index cannot be read; the records are walked instead",
			"index", f.d.full(join(f.path, f.index)), "error", err)
		f.notes.Bad = append(f.notes.Bad, RefusedEntry{Name: f.index, Reason: err.Error()})
		f.notes.Index = ""
		return &folderIndex{}, nil
	}
	f.notes.Index = f.index
	f.notes.RepeatedEntries = index.Repeated
	out := &folderIndex{records: make(map[string]*indexed, len(index.Entries)), full: index.FullSizes, batch: index.BatchSize}
	for _, b := range index.Bad {
		if _, ok := files.infos[b.Name]; ok { // the record may tell what the index does not
			out.records[b.Name] = &indexed{why: b.Err.Error()}
			continue
		}
		f.notes.Bad = append(f.notes.Bad, RefusedEntry{Name: b.Name, Reason: b.Err.Error()})
	}
	for _, e := range index.Entries {
		if _, unseen := files.unseen[e.Name]; unseen {
			continue // readRecords says so
		}
		if _, ok := files.infos[e.Name]; !ok {
			f.notes.Missing = append(f.notes.Missing, e.Name)
			continue
		}
		out.records[e.Name] = &indexed{entries: append([]pcr.IndexEntry{e}, index.Variants[e.Name]...)}
	}
	for _, name := range files.records {
		if _, ok := out.records[name]; !ok {
			f.notes.Stale = append(f.notes.Stale, name)
		}
	}
	slices.Sort(f.notes.Missing)
	return out, nil
}

// tell writes to the log what the owner of a folder should know of it.
func (f *pcrFolder) tell() {
	n := &f.notes
	log, where := f.d.log, f.d.full(f.path)
	few := func(names []string) []string { return names[:min(len(names), 5)] }
	if f.isUnfinished() {
		log.Warn("a dataset is unfinished: pack has not ended, or the index was removed; what is there is shown",
			"folder", where, "records", len(f.records), "datasets", n.Datasets)
	}
	if len(n.Missing) > 0 {
		log.Error("records that the index names are missing", "folder", where, "records", len(n.Missing), "for_example", few(n.Missing))
	}
	if n.LostImages > 0 {
		log.Error("images are lost with records that are missing or cannot be read", "folder", where, "images_at_most", n.LostImages)
	}
	if len(n.Mistaken) > 0 {
		log.Warn("the index is wrong, or contradicts itself; lengths that fit the records are used",
			"index", f.d.full(join(f.path, f.index)), "records", len(n.Mistaken), "for_example", few(n.Mistaken))
	}
	if len(n.Unlisted) > 0 {
		log.Error("records of the same dataset are not in its index, and not shown",
			"index", f.d.full(join(f.path, f.index)), "records", len(n.Unlisted), "for_example", few(n.Unlisted))
	}
	if len(n.Stale) > len(n.Unlisted) {
		log.Warn("records that the index does not name are not shown", "folder", where, "records", len(n.Stale), "for_example", few(n.Stale))
	}
	for _, b := range n.Bad[:min(len(n.Bad), 5)] {
		log.Error("an entry of the index, or a record, cannot be used", "folder", where, "of", len(n.Bad), "name", b.Name, "why", b.Reason)
	}
	if n.RefusedImages > 0 {
		log.Error("images with negative labels are not shown", "folder", where, "images", n.RefusedImages)
	}
	if n.RepeatedImages > 0 {
		log.Info("the last record repeats images of the one before it", "folder", where, "images", n.RepeatedImages, "shown", f.d.keepDuplicates)
	}
	damaged := 0
	for _, r := range f.records {
		if r.Damage == "" {
			continue
		}
		if damaged++; damaged <= 5 {
			log.Error("a record is damaged; some of its images cannot be read", "record", f.d.full(r.path), "why", r.Damage)
		}
	}
	if damaged > 5 {
		log.Error("more records are damaged", "folder", where, "records", damaged)
	}
	if hidden := f.hiddenClasses(); len(hidden) > 0 {
		log.Warn("folders of the source hide classes", "folder", where, "classes", len(hidden), "for_example", few(hidden))
	}
}

// hiddenClasses lists the class folders with images in them that something real
// has the name of.
func (f *pcrFolder) hiddenClasses() []string {
	var hidden []string
	for name := range *f.real.Load() {
		if i, ok := f.tree.class(name); ok && f.tree.classes[i].Count > 0 {
			hidden = append(hidden, name)
		}
	}
	slices.Sort(hidden)
	return hidden
}
