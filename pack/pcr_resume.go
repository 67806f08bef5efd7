package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"prismfs/internal/imagefile"
	"prismfs/pcr"
)

// inspectTarget refuses a destination that holds records of anything but this
// source, or folders that would hide classes.
func (p *pcrPacker) inspectTarget() error {
	entries, err := p.target.readDir(".")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDestination, err)
	}
	var records []string
	index := false
	for _, e := range entries {
		name := e.Name()
		switch {
		case recordsName(name) && !e.Type().IsRegular():
			return fmt.Errorf("%w: %s in it has a name of the dataset's files and is no file: choose another folder", ErrDestination, Printable(name))
		case name == pcr.IndexNameSQLite:
			return fmt.Errorf("%w: %s holds %s, which this program does not write: choose another folder", ErrDestination, Printable(p.target.path), name)
		case name == pcr.IndexNamePB:
			index = true
		case pcr.IsRecordName(name):
			if number, ok := pcr.RecordNumber(name); !ok || fmt.Sprintf(recordFormat, number) != name {
				return fmt.Errorf("%w: %s holds a record %s, which this program did not write: choose another folder", ErrDestination, Printable(p.target.path), Printable(name))
			}
			records = append(records, name)
		case slices.Contains(p.plan.classes, name):
			if err := p.emptyFolder(name); err != nil {
				return err
			}
		case e.IsDir():
			p.strangers = append(p.strangers, name)
		}
	}
	p.indexGone = !index
	if len(records) == 0 && index && !p.target.unclean {
		return fmt.Errorf("%w: %s holds an index without records: choose another folder", ErrDestination, Printable(p.target.path))
	}
	return p.whoseRecords(records)
}

// emptyFolder returns an error unless what has the name of a class is an empty
// folder, as this package makes it for a class without images.
func (p *pcrPacker) emptyFolder(name string) error {
	inside, err := p.target.readDir(name)
	if err != nil || len(inside) > 0 {
		return fmt.Errorf("%w: %s in it has the name of a class and is no empty folder; a mount would show it in place of the class: remove it, or choose another destination",
			ErrDestination, Printable(name))
	}
	return nil
}

// whoseRecords returns an error for records of another source. The first one
// that can be read tells it for all.
func (p *pcrPacker) whoseRecords(records []string) error {
	for _, name := range records {
		r, err := p.target.openRecord(name, name)
		if err != nil {
			continue
		}
		r.Close()
		if !p.isOurs(r) {
			return p.foreign(name)
		}
		return nil
	}
	if len(records) > 0 && !p.target.unclean {
		return fmt.Errorf("%w: %s and all records beside it are damaged: remove them, or choose another folder", ErrDestination, records[0])
	}
	return nil
}

func (p *pcrPacker) isOurs(r *openRecord) bool {
	return r.meta.Extension != nil && r.meta.Extension.DatasetID == p.id
}

func (p *pcrPacker) foreign(name string) error {
	return fmt.Errorf("%w: the record %s in it was not made from %s: choose another folder, or remove the records and the index", ErrDestination, name, Printable(p.source))
}

// earlierRecord is what an earlier run left in the place of a record.
type earlierRecord struct {
	keep    bool
	entry   pcr.IndexEntry
	sources []made // of a record to keep, in the order of the plan
	sizes   []int  // bytes of each in the record
	end     int    // where the sources of the next record start
}

// earlier looks whether a record is there that can stay: whole, and made from
// the sources from start on as they are now.
func (p *pcrPacker) earlier(ctx context.Context, name string, start int) (earlierRecord, error) {
	r, err := p.target.openRecord(name, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), contentError(err):
		return earlierRecord{}, nil // a damaged one is replaced
	case err != nil:
		return earlierRecord{}, fmt.Errorf("reading an earlier record: %w", err)
	}
	defer r.Close()
	if !p.isOurs(r) {
		return earlierRecord{}, p.foreign(name)
	}
	there := earlierRecord{entry: r.entry}
	there.sources, there.sizes, there.end = p.match(r, start)
	if there.sources == nil || r.meta.Extension.Check(&r.entry) != nil {
		return earlierRecord{}, nil
	}
	stamps := make([]stamp, 0, len(there.sources))
	for _, m := range there.sources {
		stamps = append(stamps, m.stamp)
	}
	if r.meta.Extension.SourceHash != p.plan.sourceHash(p.plan.sources[start:there.end], stamps, p.opt) {
		return earlierRecord{}, nil
	}
	if r.checksums() != nil {
		return earlierRecord{}, nil
	}
	there.keep, err = p.complete(ctx, there, len(r.meta.Labels))
	return there, err
}

// contentError tells whether an error is about what a record holds.
func contentError(err error) bool {
	for _, kind := range []error{pcr.ErrDamaged, pcr.ErrTooLarge, pcr.ErrUnsupported, pcr.ErrExtension} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// match finds the images of a record among the sources from start on. Those that
// lie between them had been refused when the record was made. It returns nothing
// if the record has images that do not come next in the plan.
func (p *pcrPacker) match(r *openRecord, start int) (sources []made, sizes []int, end int) {
	x := r.meta.Extension
	if len(x.Names) != len(r.meta.Labels) || len(x.Names) == 0 || r.meta.Version != pcr.VersionProtobuf {
		return nil, nil, 0
	}
	if !slices.Equal(x.Classes, p.plan.classList()) {
		return nil, nil, 0
	}
	at := start
	for i, name := range x.Names {
		want := pcrSource{r.meta.Labels[i], name}
		for at < len(p.plan.sources) && p.plan.sources[at] != want {
			sources = append(sources, made{at, p.seen(at)})
			sizes = append(sizes, 0)
			at++
		}
		if at == len(p.plan.sources) {
			return nil, nil, 0
		}
		size := 0
		for _, group := range r.spans {
			size += int(group[i].Len)
		}
		m := p.seen(at)
		m.reason = ""
		sources = append(sources, made{at, m})
		sizes = append(sizes, size)
		at++
	}
	return sources, sizes, at
}

// seen describes a source that is not read again; it counts as refused until
// it is found in a record.
func (p *pcrPacker) seen(at int) recordImage {
	return recordImage{
		stamp:  stampAt(filepath.Join(p.source, p.plan.path(p.plan.sources[at]))),
		reason: "an earlier run refused it",
	}
}

// complete tries again what an earlier run refused. If any of it can be packed now,
// the record is to be made anew, as it is if there was room in it for the sources
// that follow.
func (p *pcrPacker) complete(ctx context.Context, there earlierRecord, images int) (bool, error) {
	work, free, err := p.newMaker()
	if err != nil {
		return false, err
	}
	defer free()
	for i := range there.sources {
		m := &there.sources[i]
		if m.reason == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if m.recordImage = work(m.at); m.reason == "" {
			return false, nil
		}
	}
	if images >= p.opt.ImagesPerRecord {
		return true, nil
	}
	size := int64(0)
	for _, n := range there.sizes {
		size += int64(n + len(eoi))
	}
	for at := there.end; at < len(p.plan.sources); at++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if next := work(at); next.reason == "" {
			return size+int64(len(next.JPEG)) > p.opt.recordBytes, nil
		}
	}
	return true, nil
}

// keepRecord counts a record of an earlier run that stays.
func (p *pcrPacker) keepRecord(there earlierRecord) (next int) {
	p.count(there.entry, true)
	for i, m := range there.sources {
		if m.reason == "" {
			m.format = p.formatOf(m.at)
			m.encoded = m.format != imagefile.JPEG
		}
		p.countImage(m, there.sizes[i], true, false)
	}
	p.progress(there.end)
	return there.end
}

// formatOf returns the format of a source that is not read again.
func (p *pcrPacker) formatOf(at int) imagefile.Format {
	path := p.plan.path(p.plan.sources[at])
	f, _, err := openRegular(p.source, path)
	if err != nil {
		return ""
	}
	defer f.Close()
	prefix, err := readPrefix(f)
	if err != nil {
		return ""
	}
	_, format := judge(path, prefix)
	return format
}

// removeStale removes records of an earlier run behind the last one.
func (p *pcrPacker) removeStale() error {
	entries, err := p.target.readDir(".")
	if err != nil {
		return fmt.Errorf("looking for records of an earlier run: %w", err)
	}
	for _, e := range entries {
		number, ok := pcr.RecordNumber(e.Name())
		if !pcr.IsRecordName(e.Name()) || !ok || number < uint64(len(p.entries)) {
			continue
		}
		if err := p.removeRecord(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// removeRecord removes a record that is too many, unless it is another source's:
// the index does not name that, and readers leave it out.
func (p *pcrPacker) removeRecord(name string) error {
	r, err := p.target.openRecord(name, name)
	switch {
	case contentError(err):
	case err != nil:
		return fmt.Errorf("reading an earlier record: %w", err)
	default:
		r.Close()
		if !p.isOurs(r) {
			p.summary.Notes = append(p.summary.Notes, fmt.Sprintf("%s in the destination was not made from this source; the index does not name it, and readers leave it out", name))
			return nil
		}
	}
	if err := p.dropIndex(); err != nil {
		return err
	}
	if err := p.target.root.Remove(name); err != nil {
		return fmt.Errorf("removing a record that is too many: %w", err)
	}
	p.summary.PCR.RecordsStale++
	return nil
}
