package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"prismfs/dataset"
	"prismfs/internal/plural"
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
		const some = 1024 // entries at a time
		entries, err := f.ReadDir(some)
		for _, e := range entries {
			if !e.IsDir() && pcr.IsRecordName(e.Name()) {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

// pcrFolder is a folder of records, or one with such folders below it, open for
// reading as the tree that a mount shows of it.
type pcrFolder struct {
	root  string
	store dataset.Store
	ds    *dataset.Dataset
	*pcrPart
	parts []*pcrPart
}

// pcrPart is what is known of a folder of records by its index and the metadata of
// its records.
type pcrPart struct {
	path       string // in the tree, "" for all of it
	summary    *dataset.PCRSummary
	unfinished string // why the dataset is not finished, "" if it is
}

// openPCRFolder opens a folder of records. Tables of offsets are kept in
// tableDir, see dataset.Options.
func openPCRFolder(ctx context.Context, resolved, tableDir string) (*pcrFolder, error) {
	f, err := openPCRTree(ctx, resolved, []string{""}, tableDir)
	if err != nil {
		return nil, err
	}
	f.pcrPart = f.parts[0]
	return f, nil
}

// openPCRImages is openPCRFolder for who needs an image: a folder without a record
// that can be read is an error.
func openPCRImages(ctx context.Context, resolved, tableDir string) (*pcrFolder, error) {
	f, err := openPCRFolder(ctx, resolved, tableDir)
	if err == nil && f.isEmpty() {
		f.Close()
		return nil, f.noImages()
	}
	return f, err
}

// openPCRTree opens a folder that has folders of records in these places. The
// embedded part is for openPCRFolder to fill in.
func openPCRTree(ctx context.Context, resolved string, places []string, tableDir string) (*pcrFolder, error) {
	store, err := dataset.OpenLocal(resolved)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	f := &pcrFolder{root: resolved, store: store, ds: dataset.Open(store, dataset.Options{TableDir: tableDir})}
	for _, place := range places {
		summary, err := f.ds.PCRFolder(ctx, place)
		if err != nil {
			f.Close()
			return nil, sourceError(err)
		}
		f.parts = append(f.parts, &pcrPart{path: place, summary: summary, unfinished: recordsUnfinished(summary, filepath.Join(resolved, place))})
	}
	return f, nil
}

func (p *pcrPart) isEmpty() bool { return p.summary.Records == 0 && len(p.summary.Missing) == 0 }

// hasBadRecord tells whether a record is among what is bad: an index alone may have
// come there without any.
func (p *pcrPart) hasBadRecord() bool {
	return slices.ContainsFunc(p.bad(), func(r Refusal) bool { return pcr.IsRecordName(path.Base(r.Path)) })
}

// noImages is the error of a folder that is empty.
func (p *pcrPart) noImages() error { return fmt.Errorf("%w: %s", ErrSource, p.whyEmpty()) }

// whyEmpty says why a folder has no record that can be used.
func (p *pcrPart) whyEmpty() string {
	if bad := p.bad(); len(bad) > 0 {
		return fmt.Sprintf("no record can be read, among others for this reason: %s: %s", Printable(bad[0].Path), bad[0].Reason)
	}
	return "there is an index, and it names no record"
}

// hidden is a line about images that other folders hide, of which so many were
// seen; "" if none is.
func (p *pcrPart) hidden(seen int) string {
	if seen >= p.summary.Images {
		return ""
	}
	return fmt.Sprintf("%s cannot be seen, since a real folder or file beside the records has the name of %s class folder",
		plural.Of(p.summary.Images-seen, "image"), plural.Or(p.summary.Images-seen, "its", "their"))
}

// withoutChecksums is how many of the images have none.
func (p *pcrPart) withoutChecksums() int {
	return p.summary.Images + p.summary.RepeatedImages + p.summary.RefusedImages - p.summary.Checksums
}

// Close frees what the folder holds.
func (f *pcrFolder) Close() { f.store.Close() }

// bad lists the records, and entries of the index, whose images are not shown.
func (p *pcrPart) bad() []Refusal {
	bad := []Refusal{}
	for _, name := range p.summary.Unlisted {
		bad = append(bad, Refusal{name, "the index does not have it, and it is a record of the same dataset: the index is an older one, or damaged; give the command again that packed it"})
	}
	for _, e := range p.summary.Bad {
		bad = append(bad, Refusal{e.Name, e.Reason})
	}
	for _, name := range p.summary.Missing {
		bad = append(bad, Refusal{name, "the index names it, and there is no such file"})
	}
	if n := p.summary.RefusedImages; n > 0 {
		bad = append(bad, Refusal{p.indexName(), fmt.Sprintf("%s, which belong to no class", plural.Or(n, "1 image has a negative label", fmt.Sprintf("%d images have negative labels", n)))})
	}
	for i := range bad {
		bad[i].Path = path.Join(p.path, bad[i].Path)
	}
	sort.Slice(bad, func(i, j int) bool { return bad[i].Path < bad[j].Path })
	return bad
}

// damaged lists the records whose images are shown, and with which something is
// wrong all the same.
func (p *pcrPart) damaged() []Refusal {
	list := []Refusal{}
	for _, e := range p.summary.Damaged {
		list = append(list, Refusal{e.Name, e.Reason})
	}
	for _, name := range p.summary.Mistaken {
		list = append(list, Refusal{name, "what the index says of it cannot be right: it is read all the same; give the command again that packed it"})
	}
	return list
}

func (p *pcrPart) indexName() string {
	if p.summary.Index == "" {
		return "."
	}
	return p.summary.Index
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

func (f *pcrFolder) directory(ctx context.Context, at string, visit func(*directory) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := &directory{path: at}
	for _, part := range f.parts {
		if part.path == at {
			d.refused = part.bad()
		}
	}
	info, err := f.ds.Stat(ctx, at)
	if err == nil {
		d.mode = info.Mode
		err = f.ds.ReadDir(ctx, at, func(e dataset.DirEntry) bool {
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
		if at == "" || ctx.Err() != nil {
			return err
		}
		d.refused = []Refusal{{at, reasonOf(err)}}
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
