package pack

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"prismfs/pcr"
)

// Datasets returns what Verify and Inspect are to be called with, one after the
// other, for everything that is packed at path: path itself, unless folders
// of records lie below it, as those of train and val do; these then, in bytewise
// order, behind path itself if it has L3 files, too.
func Datasets(ctx context.Context, path string) ([]string, error) {
	resolved, info, err := statSource(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || holdsPCR(resolved) {
		return []string{path}, nil
	}
	folders, l3Files, err := packedParts(ctx, resolved)
	if err != nil {
		return nil, sourceError(err)
	}
	var list []string
	if l3Files || len(folders) == 0 {
		list = append(list, path)
	}
	for _, folder := range folders {
		list = append(list, filepath.Join(path, folder))
	}
	return list, nil
}

// packedParts returns the folders of records at and below a folder, without those
// inside of others, by their paths relative to it, "" for itself, and whether
// there are L3 files.
func packedParts(ctx context.Context, root string) (folders []string, l3Files bool, err error) {
	err = walk(ctx, root, func(d *directory) error {
		if slices.ContainsFunc(folders, func(f string) bool { return f == "" || strings.HasPrefix(d.path, f+"/") }) {
			return nil
		}
		for _, name := range d.files {
			if isRecordsFile(name) {
				folders = append(folders, d.path)
				return nil
			}
		}
		l3Files = l3Files || slices.ContainsFunc(d.files, func(name string) bool { return strings.HasSuffix(name, Suffix) })
		return nil
	})
	slices.Sort(folders)
	return folders, l3Files, err
}

// isRecordsFile tells whether a file of this name makes its folder a dataset of
// records.
func isRecordsFile(name string) bool {
	return pcr.IsRecordName(name) || name == pcr.IndexNamePB || name == pcr.IndexNameSQLite
}

// A NotPackedError is the error of a folder without anything that is packed, which
// mostly is the wrong folder. It wraps ErrSource.
type NotPackedError struct{ text string }

func (e *NotPackedError) Error() string { return e.text }

// Unwrap returns ErrSource.
func (e *NotPackedError) Unwrap() error { return ErrSource }

// noSampleError returns the NotPackedError of a folder.
func noSampleError(resolved, shown string) error {
	question := "was it packed?"
	if unfinished(resolved) {
		question = unfinishedRun
	}
	return &NotPackedError{fmt.Sprintf("%v: no L3 file and no PCR records in %s; %s", ErrSource, Printable(shown), question)}
}
