package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"prismfs/dataset"
	"prismfs/pcr"
)

// holdsPCR tells whether a folder is a dataset of records.
func holdsPCR(dir string) bool {
	for _, index := range []string{pcr.IndexNamePB, pcr.IndexNameSQLite} {
		if info, err := os.Stat(filepath.Join(dir, index)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	for {
		const some = 1024 // names at a time
		names, err := f.Readdirnames(some)
		for _, name := range names {
			if pcr.IsRecordName(name) {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

// recordFolders returns the folders below a folder that hold records, as the
// parts of a dataset do.
func recordFolders(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() && holdsPCR(filepath.Join(dir, e.Name())) {
			found = append(found, e.Name())
		}
	}
	return found
}

// pcrFolder is a folder of records, open for reading as the tree that a mount
// shows of it.
type pcrFolder struct {
	root    string
	store   dataset.Store
	ds      *dataset.Dataset
	summary *dataset.PCRSummary
}

// openPCRFolder opens a folder of records. Tables of offsets are kept in
// tableDir, see dataset.Options.
func openPCRFolder(ctx context.Context, resolved, tableDir string) (*pcrFolder, error) {
	store, err := dataset.OpenLocal(resolved)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	ds := dataset.Open(store, dataset.Options{TableDir: tableDir})
	summary, err := ds.PCRFolder(ctx, "")
	if err != nil {
		store.Close()
		return nil, sourceError(err)
	}
	f := &pcrFolder{root: resolved, store: store, ds: ds, summary: summary}
	if summary.Records == 0 && len(summary.Missing) == 0 {
		store.Close()
		return nil, fmt.Errorf("%w: %s", ErrSource, f.whyEmpty())
	}
	return f, nil
}

// whyEmpty says why a folder has no record that can be used.
func (f *pcrFolder) whyEmpty() string {
	if bad := f.bad(); len(bad) > 0 {
		return fmt.Sprintf("no record can be read, among others for this reason: %s: %s", Printable(bad[0].Path), bad[0].Reason)
	}
	return "there is an index, and it names no record"
}

// hidden is a line about images that other folders hide, of which so many were
// seen; "" if none is.
func (f *pcrFolder) hidden(seen int) string {
	if seen >= f.summary.Images {
		return ""
	}
	return fmt.Sprintf("%d images cannot be seen, since a real folder or file beside the records has the name of their class folder", f.summary.Images-seen)
}

// withoutChecksums is how many of the images have none.
func (f *pcrFolder) withoutChecksums() int {
	return f.summary.Images + f.summary.RepeatedImages + f.summary.RefusedImages - f.summary.Checksums
}

// Close frees what the folder holds.
func (f *pcrFolder) Close() { f.store.Close() }

// bad lists the records, and entries of the index, whose images are not shown.
func (f *pcrFolder) bad() []Refusal {
	bad := []Refusal{}
	for _, e := range f.summary.Bad {
		bad = append(bad, Refusal{e.Name, e.Reason})
	}
	for _, name := range f.summary.Missing {
		bad = append(bad, Refusal{name, "the index names it, and there is no such file"})
	}
	if n := f.summary.RefusedImages; n > 0 {
		bad = append(bad, Refusal{f.indexName(), fmt.Sprintf("%d images have negative labels, which belong to no class", n)})
	}
	sort.Slice(bad, func(i, j int) bool { return bad[i].Path < bad[j].Path })
	return bad
}

func (f *pcrFolder) indexName() string {
	if f.summary.Index == "" {
		return "."
	}
	return f.summary.Index
}

// isRecordSample tells whether a name in the tree is that of an image of
// a record.
func isRecordSample(name string) bool {
	return strings.HasSuffix(name, dataset.RecordSuffix) && dataset.IsSample(name)
}

// walk visits the folders of the tree as a mount shows it.
func (f *pcrFolder) walk(ctx context.Context, visit func(*directory) error) error {
	return f.directory(ctx, "", visit)
}

func (f *pcrFolder) directory(ctx context.Context, path string, visit func(*directory) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := &directory{path: path}
	if path == "" {
		d.refused = f.bad()
	}
	info, err := f.ds.Stat(ctx, path)
	if err == nil {
		d.mode = info.Mode
		err = f.ds.ReadDir(ctx, path, func(e dataset.DirEntry) bool {
			switch {
			case reserved(e.Name):
			case e.Kind == dataset.Dir:
				d.folders = append(d.folders, strings.Clone(e.Name))
			default:
				d.files = append(d.files, strings.Clone(e.Name))
			}
			return true
		})
	}
	if err != nil {
		if path == "" || ctx.Err() != nil {
			return err
		}
		d.refused = []Refusal{{path, reasonOf(err)}}
	}
	sort.Strings(d.files)
	sort.Strings(d.folders)
	if err := visit(d); err != nil {
		return err
	}
	for _, name := range d.folders {
		if err := f.directory(ctx, d.join(name), visit); err != nil {
			return err
		}
	}
	return nil
}

// errEndWalk ends a walk early.
var errEndWalk = errors.New("the walk has found what it looked for")

// samples calls visit with the path of every image of a record.
func (f *pcrFolder) samples(ctx context.Context, visit func(path string) error) error {
	err := f.walk(ctx, func(d *directory) error {
		for _, name := range d.files {
			if !isRecordSample(name) {
				continue
			}
			if err := visit(d.join(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEndWalk) {
		return nil
	}
	return err
}

// recordInfo describes the file that holds a sample.
func (f *pcrFolder) recordInfo(s *dataset.Sample) (fs.FileInfo, error) {
	return os.Stat(filepath.Join(f.root, s.Source))
}
