package dataset

import (
	"context"
	"io/fs"
	"strings"
)

// PackMarker is the name of the file that lies in a folder as long as pack writes
// to it, or has not finished.
const PackMarker = ".prismfs-pack"

// PackTempPrefix begins the names of files that pack has not finished.
const PackTempPrefix = ".prismfs-tmp-"

// IsPacks tells by its name whether a file is one of pack's own, which is no part of
// a dataset: pack refuses files of such names in what it packs.
func IsPacks(name string) bool {
	return name == PackMarker || strings.HasPrefix(name, PackTempPrefix)
}

// refusePacks says that there is no such file where a path leads to one of pack's own.
func (d *Dataset) refusePacks(ctx context.Context, op, path string) error {
	if !IsPacks(path[strings.LastIndexByte(path, '/')+1:]) {
		return nil
	}
	if info, err := d.store.Stat(ctx, path); err != nil || info.Kind != Regular {
		return nil // as it is said of any other
	}
	return d.failed(op, path, fs.ErrNotExist)
}

// omissions is what the listing of a folder leaves out, though it is part of the source.
type omissions struct{ specials, brokenLinks uint64 }

// ReadDir calls yield for the folders and files of a folder until it returns
// false. Special files and broken links are left out and counted, and the log is
// told, once a folder. Files of pack's own are left out as well. No file is opened.
func (d *Dataset) ReadDir(ctx context.Context, path string, yield func(DirEntry) bool) error {
	var left omissions
	var example string
	whole := true
	err := d.readDir(ctx, path, func(e DirEntry) bool {
		switch e.Kind {
		case Dir, Regular:
			whole = yield(e)
			return whole
		case Broken:
			left.brokenLinks++
		default:
			left.specials++
		}
		if example == "" {
			example = e.Name
		}
		return true
	})
	d.leftOut(path, left, example, whole && err == nil)
	return err
}

// leftOut books what a listing of a folder has left out. One that has not seen all of
// the folder only adds to what is known.
func (d *Dataset) leftOut(path string, left omissions, example string, whole bool) {
	before, known := d.reported.Peek(path)
	if !known && left == (omissions{}) {
		return
	}
	if !whole {
		left.specials = max(left.specials, before.specials)
		left.brokenLinks = max(left.brokenLinks, before.brokenLinks)
	}
	d.reported.Add(strings.Clone(path), left)
	if !known {
		d.log.Warn("special files or broken links are left out of a folder",
			"folder", d.full(path), "special", left.specials, "broken_links", left.brokenLinks, "for_example", example)
	}
}
