package dataset

import (
	"context"

	"golang.org/x/sys/unix"
)

// readDir lists a folder as the dataset shows it: folders of the source, PCR
// folders, where classes take the place of records and index, and folders in
// their trees. Files of pack's own are in none of them.
func (d *Dataset) readDir(ctx context.Context, path string, yieldAny func(DirEntry) bool) error {
	yield := func(e DirEntry) bool { return e.Kind == Regular && IsPacks(e.Name) || yieldAny(e) }
	f, inside, err := d.pcrFolderOf(ctx, path)
	if err != nil {
		return err
	}
	if f != nil {
		return d.listInside(ctx, path, f, inside, yield)
	}
	if checkPath(path) == nil {
		if f, err = d.folderAt(ctx, path); err != nil {
			return err
		}
	}
	if f == nil {
		return d.store.ReadDir(ctx, path, yield)
	}
	return d.listPCR(ctx, f, yield)
}

// listPCR lists a PCR folder. What is real comes first, and where it has the name
// of a class it is what is seen.
func (d *Dataset) listPCR(ctx context.Context, f *pcrFolder, yield func(DirEntry) bool) error {
	real := map[string]bool{}
	more := true
	err := d.store.ReadDir(ctx, f.path, func(e DirEntry) bool {
		if isHidden(e) {
			return true
		}
		if _, ok := f.tree.class(e.Name); ok {
			real[e.Name] = true
		}
		more = yield(e)
		return more
	})
	for i := range f.tree.classes {
		if err != nil || !more {
			break
		}
		if name := f.tree.folder(&f.tree.classes[i]); !real[name] {
			more = yield(DirEntry{Name: name, Kind: Dir})
		}
	}
	return err
}

// listedAtOnce is how many names of a tree are taken from its table at a time.
const listedAtOnce = 256

// listInside lists a folder in the tree of a PCR folder.
func (d *Dataset) listInside(ctx context.Context, path string, f *pcrFolder, inside string, yield func(DirEntry) bool) error {
	f, at, _, err := d.look(ctx, path, f, inside)
	if err != nil {
		return err
	}
	if !at.folder {
		return d.failed("list", path, unix.ENOTDIR)
	}
	if err := ctx.Err(); err != nil {
		return d.failed("list", path, err)
	}
	return f.eachEntry(inside, yield, func() error {
		if err := ctx.Err(); err != nil {
			return d.failed("list", path, err)
		}
		return nil
	})
}

// eachEntry calls yield outside of what guards the table, since it may take
// long and do anything.
func (f *pcrFolder) eachEntry(inside string, yield func(DirEntry) bool, goOn func() error) error {
	batch := make([]DirEntry, 0, listedAtOnce)
	next := f.tree.cursor(inside)
	for {
		batch = batch[:0]
		err := f.table.safely(func() error {
			for len(batch) < listedAtOnce {
				e, ok := next()
				if !ok {
					return nil
				}
				batch = append(batch, e)
			}
			return nil
		})
		if err == nil {
			err = goOn()
		}
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, e := range batch {
			if !yield(e) {
				return nil
			}
		}
	}
}
