package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"prismfs/pcr"
)

// maxLooks is how often a folder is looked into again that changes while
// something is looked up in it.
const maxLooks = 3

// look finds path in the tree of a folder, and describes the record if it is an
// image. If that is no longer the one that the folder was made of, the folder is
// looked into again.
func (d *Dataset) look(ctx context.Context, path string, f *pcrFolder, inside string) (f2 *pcrFolder, at found, info Info, err error) {
	for range maxLooks {
		err = f.table.safely(func() error {
			var ok bool
			if at, ok = f.tree.find(inside); !ok {
				return fs.ErrNotExist
			}
			return nil
		})
		if err == nil && at.folder {
			info, err = d.store.Stat(ctx, f.path)
			return f, at, folderInfo(info, inside), err
		}
		if err == nil {
			info, err = d.store.Stat(ctx, at.record.path)
			if err == nil && info.ID == at.record.info.ID {
				return f, at, info, nil
			}
			if err != nil && storeFails(err) {
				return f, found{}, Info{}, err // the record may be there as it was
			}
			if err == nil && at.record.Damage != "" && time.Since(f.loaded) < d.recheck {
				// It was half there a moment ago, and may be written to all the time.
				return f, found{}, Info{}, d.failed("look at", path, ErrChanged)
			}
			f.stale.Store(true)
		}
		if !f.isStale() {
			return f, found{}, Info{}, d.failed("look at", path, err)
		}
		f.stale.Store(true)
		again, insideAgain, looked := d.pcrFolderOf(ctx, path)
		switch {
		case looked != nil:
			return f, found{}, Info{}, looked
		case again == nil: // it is something real by now, or nothing
			info, err = d.store.Stat(ctx, path)
			if err == nil {
				err = d.failed("look at", path, ErrChanged)
			}
			return f, found{}, Info{}, err
		}
		f, inside = again, insideAgain
	}
	return f, found{}, Info{}, d.failed("look at", path, ErrChanged)
}

// folderInfo makes the description of a PCR folder that of a folder in its tree,
// which must not be taken for the same one.
func folderInfo(info Info, inside string) Info {
	h := fnv.New64a()
	h.Write([]byte(inside))
	info.ID.Ino ^= h.Sum64() | 1
	return info
}

// statInside describes what is at a path in the tree of a folder.
func (d *Dataset) statInside(ctx context.Context, path string, f *pcrFolder, inside string) (Info, found, error) {
	_, at, info, err := d.look(ctx, path, f, inside)
	if err != nil || at.folder {
		return info, at, err
	}
	return info.ofImage(at.record, at.index), at, nil
}

// ofImage makes the description of a record that of an image in it.
func (info Info) ofImage(r *record, image int) Info {
	info.Size = 0
	_ = r.folder.table.safely(func() error { // a size that is not known is 0
		if n, ok := r.knownBytes(image, r.levels()); ok {
			info.Size = n
		}
		return nil
	})
	return info
}

// imageOf describes an image of a record.
func (d *Dataset) imageOf(ctx context.Context, path string) (*Sample, error) {
	s, err := d.tryImageOf(ctx, path)
	if errors.Is(err, errTableLost) { // another look finds another table
		s, err = d.tryImageOf(ctx, path)
	}
	return s, err
}

func (d *Dataset) tryImageOf(ctx context.Context, path string) (*Sample, error) {
	f, inside, err := d.pcrFolderOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if f == nil {
		if _, err := d.store.Stat(ctx, path); err != nil {
			return nil, err
		}
		return nil, d.failed("read the header of", path, ErrNotSample)
	}
	f, at, info, err := d.look(ctx, path, f, inside)
	if err != nil {
		return nil, err
	}
	if at.folder {
		return nil, d.failed("read the header of", path, ErrNotSample)
	}
	r := at.record
	label := int(at.class.Label)
	s := &Sample{
		Path: strings.Clone(path), Info: info.ofImage(r, at.index), Format: PCR, Levels: r.levels(),
		Label: &label, Class: at.class.Name, Source: r.path, record: r, index: at.index,
	}
	s.Stem = strings.TrimSuffix(s.Path[strings.LastIndexByte(s.Path, '/')+1:], RecordSuffix)
	err = f.withTable(func() error {
		name := f.tree.original(int(r.First) + at.index)
		s.OriginalName = string(name[strings.LastIndexByte(string(name), '/')+1:])
		s.OriginalUnique = f.tree.isUnique(int(r.First) + at.index)
		s.Shape, err = r.shape(ctx, at.index)
		return err
	})
	if err == nil {
		err = d.checkShape(s)
	}
	if err != nil {
		return nil, d.failed("read the header of", path, s.InRecord(err))
	}
	return s, nil
}

// FindOriginal returns the path of the image of a record that is in a folder and
// has an original name, if no other image in the folder has: one whose
// OriginalUnique is set. Else the error wraps fs.ErrNotExist.
func (d *Dataset) FindOriginal(ctx context.Context, folder, name string) (string, error) {
	missing := func() error { return d.failed("look for the original name of", join(folder, name), fs.ErrNotExist) }
	f, inside, err := d.pcrFolderOf(ctx, folder)
	if err != nil {
		return "", err
	}
	if f == nil || strings.Contains(name, "/") {
		return "", missing()
	}
	if f, _, _, err = d.look(ctx, folder, f, inside); err != nil {
		return "", err
	}
	found := ""
	err = f.table.safely(func() error {
		first, below, _ := strings.Cut(inside, "/")
		n, ok := f.tree.class(first)
		if !ok {
			return nil
		}
		image, ok := f.tree.byOriginal(&f.tree.classes[n], join(below, name))
		if !ok {
			return nil
		}
		var buf nameBuffer
		path := f.tree.appendPath(buf[:0], image)
		found = join(folder, string(path[strings.LastIndexByte(string(path), '/')+1:])+RecordSuffix)
		return nil
	})
	if err != nil {
		return "", d.failed("look for the original name of", join(folder, name), err)
	}
	if found == "" {
		return "", missing()
	}
	return found, nil
}

// withTable calls what reads the folder's table, and once more if the table is
// lost meanwhile: then it is found anew.
func (f *pcrFolder) withTable(do func() error) error {
	err := f.table.safely(do)
	if errors.Is(err, errTableLost) {
		f.stale.Store(true)
		err = f.table.safely(do)
	}
	return err
}

// checkShape holds an image against the limits.
func (d *Dataset) checkShape(s *Sample) error {
	if s.Shape.Pixels() > d.limits.MaxPixels || s.Shape.Bytes() > d.limits.MaxBytes {
		return fmt.Errorf("%w: an image of %v", pcr.ErrTooLarge, s.Shape)
	}
	return nil
}

// level returns the number of scan groups that a fidelity takes.
func (r *record) level(fidelity int) int {
	if fidelity <= 0 || fidelity > r.levels() {
		return r.levels()
	}
	return fidelity
}

// eoiBytes is the length of the marker that ends a JPEG.
const eoiBytes = 2

// columnPool has room for the columns of a read.
var columnPool = sync.Pool{New: func() any { return new([]column) }}

// readJPEG reads an image at a fidelity.
func (d *Dataset) readJPEG(ctx context.Context, s *Sample, fidelity int, buf []byte) ([]byte, error) {
	r := s.record
	out := buf[:0]
	err := ctx.Err()
	if err == nil {
		err = r.folder.withTable(func() (err error) {
			columns := columnPool.Get().(*[]column)
			defer columnPool.Put(columns)
			if *columns, err = r.columns(ctx, r.level(fidelity), *columns); err != nil {
				return err
			}
			out, err = d.readImage(ctx, *columns, s.index, out[:0])
			return err
		})
	}
	if err != nil {
		return out[:0], d.failed("read", s.Path, s.InRecord(err))
	}
	return out, nil
}

// InRecord names the record of an image in an error about its bytes: the path of the
// image is one that no disk has. Errors that name a file already stay as they are,
// and so do those about images that are files themselves.
func (s *Sample) InRecord(err error) error {
	var named *fs.PathError
	if s.record == nil || err == nil || errors.As(err, &named) {
		return err
	}
	return &imageError{record: s.Source, image: s.index, err: err}
}

// part is where the bytes of an image in a group are in the file of its record.
type part struct{ at, n int64 }

// partPool has room for the parts of a read.
var partPool = sync.Pool{New: func() any { return new([]part) }}

// readImage reads the bytes of an image in the groups of columns, checks and
// ends them.
func (d *Dataset) readImage(ctx context.Context, columns []column, image int, buf []byte) ([]byte, error) {
	pooled := partPool.Get().(*[]part)
	defer partPool.Put(pooled)
	parts, total, err := partsOf(columns, image, (*pooled)[:0])
	*pooled = parts
	if err != nil {
		return buf, err
	}
	buf = slices.Grow(buf, int(total)+eoiBytes)[:total]
	if err := d.fetch(ctx, columns, image, parts, buf); err != nil {
		return buf[:0], err
	}
	rest, ends := buf, false
	for g := range columns {
		mine := rest[:parts[g].n]
		rest = rest[parts[g].n:]
		if sums := columns[g].sums; len(sums) > 0 && pcr.Checksum(mine) != sums.at(image) {
			return buf[:0], fmt.Errorf("%w: scan group %d of image %d has a wrong checksum", pcr.ErrDamaged, g+1, image)
		}
		if len(mine) > 0 {
			ends = len(mine) >= eoiBytes && mine[len(mine)-2] == 0xff && mine[len(mine)-1] == markerEOI
		}
	}
	d.bytesNeeded.Add(uint64(total))
	if ends && columns[0].r.mayEnd(len(columns)) {
		return buf, nil
	}
	return append(buf, 0xff, markerEOI), nil
}

// partsOf returns where the bytes of an image are, and how many. None is outside
// the file, so that memory can be taken for them.
func partsOf(columns []column, image int, parts []part) ([]part, int64, error) {
	var total int64
	for g := range columns {
		c := &columns[g]
		p := part{at: c.at(image), n: c.length(image)}
		if size := c.r.info.Size; p.n > size || p.at > size-p.n {
			return parts, 0, fmt.Errorf("%w: scan group %d of image %d ends at byte %d of a file of %d", pcr.ErrDamaged, g+1, image, p.at+p.n, size)
		}
		total += p.n
		parts = append(parts, p)
	}
	if total > math.MaxInt-eoiBytes {
		return parts, 0, fmt.Errorf("%w: %d bytes do not fit the address space", pcr.ErrTooLarge, total)
	}
	return parts, total, nil
}

// mayEnd reports whether it depends on the bytes of an image at k groups if an
// EOI marker is put behind them: at full fidelity some writers might have stored
// it. Records that tell what is in them have none, and what is not all of a
// record's groups gets one in any case, so that its length does not depend on
// what is known of the others.
func (r *record) mayEnd(k int) bool { return k == r.levels() && !r.Extension }

// knownBytes returns the length of an image at k groups if that is known.
func (r *record) knownBytes(image, k int) (int64, bool) {
	var total int64
	for g := 1; g <= k; g++ {
		c, ok := r.known(g)
		if !ok {
			return 0, false
		}
		total += c.length(image)
	}
	c := r.cellAt(image)
	switch {
	case !r.mayEnd(k):
		return total + eoiBytes, true
	case !c.has(cellTail):
		return 0, false
	case c.has(cellEOI):
		return total, true
	}
	return total + eoiBytes, true
}

// jpegBytes returns the length of what readJPEG gives.
func (d *Dataset) jpegBytes(ctx context.Context, s *Sample, fidelity int) (int64, error) {
	r, total := s.record, int64(0)
	err := r.folder.withTable(func() error {
		var err error
		total, err = r.endedBytes(ctx, s.index, r.level(fidelity))
		return err
	})
	if err != nil {
		return 0, d.failed("find the length of", s.Path, s.InRecord(err))
	}
	return total, nil
}

// endedBytes returns the length of an image at k groups, with EOI.
func (r *record) endedBytes(ctx context.Context, image, k int) (int64, error) {
	pooled := columnPool.Get().(*[]column)
	defer columnPool.Put(pooled)
	columns, err := r.columns(ctx, k, *pooled)
	*pooled = columns
	if err != nil {
		return 0, err
	}
	var total int64
	last := 0
	for g := range columns {
		n := columns[g].length(image)
		if n > 0 {
			last = g
		}
		total += n
	}
	if !r.mayEnd(k) {
		return total + eoiBytes, nil
	}
	c := r.cellAt(image)
	if !c.has(cellTail) {
		if c, err = r.findTail(ctx, &columns[last], image); err != nil {
			return 0, err
		}
	}
	if c.has(cellEOI) {
		return total, nil
	}
	return total + eoiBytes, nil
}

// findTail looks whether an image ends with EOI.
func (r *record) findTail(ctx context.Context, c *column, image int) (cell, error) {
	f, err := r.open(ctx)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	known, err := r.readTail(f, c, image)
	if changed := checkSame(f, r.info.ID); changed != nil {
		r.folder.stale.Store(true)
		return 0, changed
	}
	if err == nil {
		r.addCell(image, known)
	}
	return known, err
}

func (r *record) readTail(f File, c *column, image int) (cell, error) {
	known := cell(0).with(cellTail)
	if c.length(image) < eoiBytes {
		return known, nil
	}
	var end [eoiBytes]byte
	err := readExactly(countingReader{f, &r.folder.d.bytesIndex}, end[:], c.at(image)+c.length(image)-eoiBytes)
	if end == [eoiBytes]byte{0xff, markerEOI} {
		known = known.with(cellEOI)
	}
	return known, err
}
