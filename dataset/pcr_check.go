package dataset

import (
	"context"
	"fmt"
	"slices"

	"prismfs/internal/plural"
	"prismfs/pcr"
)

// maxCheckedFolders bounds the folders of a source that Check looks into.
const maxCheckedFolders = 64

// Check compares the PCR folder at path, or those right below it, with their
// indexes, by names and sizes of files alone, and returns what does not fit, a
// line each, for people to read. It opens no record, so it is quick, and what is
// wrong inside of records it cannot tell. Of other folders there is to say only that
// pack has not finished them.
func (d *Dataset) Check(ctx context.Context, path string) ([]string, error) {
	found, lines, err := d.checkFolder(ctx, path)
	if found || err != nil {
		return lines, err
	}
	var folders []string
	err = d.store.ReadDir(ctx, path, func(e DirEntry) bool {
		if e.Kind == Dir {
			folders = append(folders, join(path, e.Name))
		}
		return len(folders) < maxCheckedFolders
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(folders)
	for _, folder := range folders {
		_, more, err := d.checkFolder(ctx, folder)
		if err != nil {
			return lines, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// checkFolder is Check for one folder; found says whether it is a PCR folder.
func (d *Dataset) checkFolder(ctx context.Context, path string) (found bool, lines []string, err error) {
	index, indexInfo, err := d.findIndex(ctx, path)
	if err != nil {
		return false, nil, err
	}
	if index == "" {
		if found, err = d.hasRecords(ctx, path); err != nil {
			return false, nil, err
		}
	}
	marked, err := d.isMarked(ctx, path)
	if err != nil {
		return false, nil, err
	}
	say := func(format string, args ...any) {
		lines = append(lines, d.full(path)+": "+fmt.Sprintf(format, args...))
	}
	if marked {
		say("unfinished: pack is writing to it, or was ended before it was done (%s lies there); what is there is shown", PackMarker)
	}
	if index == "" && !found {
		return false, lines, nil
	}
	files, err := d.listFolder(ctx, path)
	if err != nil {
		return true, nil, err
	}
	if index == "" {
		say("%s without an index: pack was ended before it was done, or the index is lost", plural.Of(len(files.records), "record"))
		return true, lines, nil
	}
	f := &pcrFolder{d: d, path: path, index: index, print: folderPrint(index, indexInfo, files, d.keepDuplicates)}
	if f.openTable(d.tablePath(path), files) == nil { // of files of these names and sizes
		f.recall(say)
		return true, lines, nil
	}
	entries, err := f.readIndex(ctx)
	if err != nil {
		if ctx.Err() != nil || !isDamage(err) {
			return true, lines, d.failed("read the index of", path, err)
		}
		say("%s cannot be read: %v", index, err)
		return true, lines, nil
	}
	compareIndex(entries, files, index, say)
	return true, lines, nil
}

// recall says what did not fit when the table of the folder was made.
func (f *pcrFolder) recall(say func(string, ...any)) {
	n := &f.notes
	count := counting(say)
	count(n.Missing, "that "+f.index+" names is missing", "that "+f.index+" names are missing")
	count(n.Stale, "is not named by "+f.index+" and not shown", "are not named by "+f.index+" and not shown")
	if len(n.Bad) > 0 {
		say("%s of %s cannot be right, %s: %s", plural.Or(len(n.Bad), "1 record or entry", fmt.Sprintf("%d records or entries", len(n.Bad))), f.index, n.Bad[0].Name, n.Bad[0].Reason)
	}
}

// counting returns what says something of records, if there are any.
func counting(say func(string, ...any)) func(names []string, one, many string) {
	return func(names []string, one, many string) {
		switch n := len(names); n {
		case 0:
		case 1:
			say("1 record %s: %q", one, names[0])
		default:
			say("%d records %s, among them %q", n, many, names[0])
		}
	}
}

// compareIndex says what does not fit between an index and the files.
func compareIndex(x *pcr.Index, files *folderFiles, index string, say func(string, ...any)) {
	var missing, sizes []string
	named := map[string]bool{}
	for _, e := range x.Entries {
		named[e.Name] = true
		info, ok := files.infos[e.Name]
		known := indexed{entries: append([]pcr.IndexEntry{e}, x.Variants[e.Name]...)}
		switch {
		case !ok:
			missing = append(missing, e.Name)
		case known.best(info.Size).Size() != info.Size:
			sizes = append(sizes, e.Name)
		}
	}
	for _, b := range x.Bad {
		named[b.Name] = true
	}
	var unnamed []string
	for _, name := range files.records {
		if !named[name] {
			unnamed = append(unnamed, name)
		}
	}
	count := counting(say)
	count(missing, "that "+index+" names is missing", "that "+index+" names are missing")
	count(sizes, "has another size than "+index+" says", "have other sizes than "+index+" says")
	count(unnamed, "is not named by "+index+" and not shown", "are not named by "+index+" and not shown")
	if n := len(x.Bad); n > 0 {
		say("%s of %s cannot be right: %v", plural.Of(n, "entry"), index, x.Bad[0].Err)
	}
	if x.Differing > 0 {
		say("%s of %s %s others", plural.Of(x.Differing, "entry"), index, plural.Or(x.Differing, "contradicts", "contradict"))
	}
}
