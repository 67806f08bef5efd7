package dataset

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"prismfs/pcr"
)

// PCRSummary says what a PCR folder holds.
type PCRSummary struct {
	Path  string // of the folder in the source
	Index string // name of the index file, "" where the records themselves were walked

	Records int          // that the index names and the folder has, damaged ones included
	Images  int          // that are shown
	Labels  []LabelCount // ascending by label
	Levels  int          // the most scan groups of a record

	RepeatedEntries int // entries of the index that name a record again
	RepeatedImages  int // of the last record, which holds the images of the one before it again
	RefusedImages   int // with negative labels: they belong to no class
	Checksums       int // images, shown or not, of whose bytes the records have checksums

	// Unfinished says that pack has not ended: its marker lies in the folder, or
	// records that it has written and no index, or the index was removed since.
	Unfinished bool

	Stale    []string // records that the index does not name: not shown
	Unlisted []string // of those, records of the same dataset as listed ones: the index has lost them
	Missing  []string // records that the index names and the folder lacks
	// LostImages is how many images the records held, at most, that are missing or
	// of which nothing can be read; 0 where neither index nor other records tell.
	LostImages int
	// Mistaken are records of which the index says, once or always, what cannot be
	// right. Their images are shown, by what the record says itself, or by the entry
	// that fits its file.
	Mistaken []string
	Bad      []RefusedEntry // entries of the index, and records, of which nothing is shown
	Damaged  []RefusedEntry // records whose images are shown and may be unreadable

	MetadataBytes int64   // of all records
	GroupBytes    []int64 // of all records; GroupBytes[0] is scan group 1

	Table      string  // file with the tables, "" where they are kept in memory
	NoTable    error   // why there is no such file; nil where there is one
	TableBytes int64   // length of that file
	TableFull  float64 // part of the offsets and shapes that is known, 0 to 1
}

// LabelCount is the number of images that have a label; 0 for a class without
// any, which is shown as an empty folder.
type LabelCount struct {
	Label  int
	Folder string // in which they are shown
	Class  string // name of the class, "" where the dataset does not tell
	Images int
}

// RefusedEntry is something that is not usable, and why.
type RefusedEntry struct {
	Name   string
	Reason string
}

// ErrNotPCR says that a folder has neither an index of records nor records.
var ErrNotPCR = errors.New("not a folder of PCR records")

// PCRFolder describes a PCR folder. It reads what is needed for its tree, which
// is the index and the metadata of each record unless a table has them.
func (d *Dataset) PCRFolder(ctx context.Context, path string) (*PCRSummary, error) {
	f, err := d.mustBePCR(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &PCRSummary{
		Path: f.path, Index: f.notes.Index, Records: len(f.records), Images: f.tree.order.len(),
		RepeatedEntries: f.notes.RepeatedEntries, RepeatedImages: f.notes.RepeatedImages, RefusedImages: f.notes.RefusedImages,
		Unfinished: f.isUnfinished(), Unlisted: slices.Clone(f.notes.Unlisted), LostImages: f.notes.LostImages, Mistaken: slices.Clone(f.notes.Mistaken),
		Stale: slices.Clone(f.notes.Stale), Missing: slices.Clone(f.notes.Missing), Bad: slices.Clone(f.notes.Bad),
	}
	for i := range f.tree.classes {
		c := &f.tree.classes[i]
		s.Labels = append(s.Labels, LabelCount{Label: int(c.Label), Folder: f.tree.folder(c), Class: c.Name, Images: int(c.Count)})
	}
	for _, r := range f.records {
		s.addRecord(r)
	}
	err = f.table.safely(func() error {
		s.TableFull = f.known()
		return nil
	})
	if f.table.path != "" && !f.table.noBlocks.Load() {
		s.Table, s.TableBytes = f.table.path, int64(len(f.table.data))
	} else if why := f.noTable.Load(); why != nil {
		s.NoTable = *why
	}
	return s, err
}

func (s *PCRSummary) addRecord(r *record) {
	s.Levels = max(s.Levels, r.levels())
	if r.Sums {
		s.Checksums += r.Images
	}
	s.MetadataBytes += r.Lengths[0]
	for g, n := range r.Lengths[1:] {
		if g == len(s.GroupBytes) {
			s.GroupBytes = append(s.GroupBytes, 0)
		}
		s.GroupBytes[g] += n
	}
	if r.Damage != "" {
		s.Damaged = append(s.Damaged, RefusedEntry{Name: r.Name, Reason: r.Damage})
	}
}

// known returns which part of the offsets and shapes is known.
func (f *pcrFolder) known() float64 {
	var all, known float64
	for _, r := range f.records {
		all += float64(r.Images) * float64(r.levels()+1)
		for g := 1; g <= r.levels(); g++ {
			if _, ok := r.known(g); ok {
				known += float64(r.Images)
			}
		}
		for i := range r.Images {
			if r.cellAt(i).has(cellShape | cellUnreadable) {
				known++
			}
		}
	}
	if all == 0 {
		return 1
	}
	return known / all
}

// mustBePCR returns the PCR folder at a path of the source.
func (d *Dataset) mustBePCR(ctx context.Context, path string) (*pcrFolder, error) {
	info, err := d.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	above, _, err := d.pcrFolderOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if info.Kind == Dir && above == nil {
		f, err := d.folderAt(ctx, path)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, d.failed("look into", path, ErrNotPCR)
}

// BuildTables finds all offsets and shapes of a PCR folder, which are found when
// they are needed otherwise, and keeps them. It calls progress, unless that is
// nil, with the number of records that are done, and of all. What damaged records
// do not tell is left out; the error is of the first thing that could not be read
// by no fault of its content.
func (d *Dataset) BuildTables(ctx context.Context, path string, progress func(done, total int)) error {
	f, err := d.mustBePCR(ctx, path)
	if err != nil {
		return err
	}
	workers := runtime.GOMAXPROCS(0)
	if d.remoteReads {
		workers = storeRequests
	}
	var mu sync.Mutex
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, r := range f.records {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := f.withTable(func() error { return r.findAll(ctx) })
			if err != nil && !isDamage(err) {
				return d.failed("find images in", r.path, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			if progress != nil {
				progress(done, len(f.records))
			}
			return nil
		})
	}
	return group.Wait()
}

// findAll finds whatever is not known of a record. Groups that are damaged, and
// those that a truncated file lacks, do not keep it from the others.
func (r *record) findAll(ctx context.Context) error {
	k := r.levels()
	columns, err := r.columns(ctx, k, nil)
	for isDamage(err) {
		less := r.firstBad() - 1
		if less < 1 || less >= k {
			return err
		}
		k = less
		columns, err = r.columns(ctx, k, columns)
	}
	if err != nil {
		return err
	}
	f, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range r.Images {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.findCell(f, columns, i); err != nil && !isDamage(err) {
			return err
		}
	}
	if err := checkSame(f, r.info.ID); err != nil {
		r.folder.stale.Store(true)
		return err
	}
	return nil
}

// firstBad returns the first group that cannot be read, as far as is known, or
// L + 1. No image can be had at a fidelity beyond it.
func (r *record) firstBad() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.levels() + 1
	for g := range r.bad {
		first = min(first, g)
	}
	return first
}

// findCell finds what is not known of an image.
func (r *record) findCell(f File, columns []column, image int) error {
	c, before := r.cellAt(image), r.cellAt(image)
	if !c.has(cellShape | cellUnreadable) {
		shape, err := r.readShape(countingReader{f, &r.folder.d.bytesIndex}, &columns[0], image)
		if err != nil {
			return err
		}
		c |= shape
	}
	if !c.has(cellTail) && r.mayEnd(len(columns)) {
		last := 0
		for g := range columns {
			if columns[g].length(image) > 0 {
				last = g
			}
		}
		tail, err := r.readTail(f, &columns[last], image)
		if err != nil {
			return err
		}
		c |= tail
	}
	if c != before {
		r.addCell(image, c)
	}
	return nil
}

// isDamage tells what is wrong with a record from what went wrong in reading it.
func isDamage(err error) bool {
	return errors.Is(err, pcr.ErrDamaged) || errors.Is(err, pcr.ErrTooLarge) || errors.Is(err, pcr.ErrUnsupported)
}
