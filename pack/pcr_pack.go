package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"prismfs/internal/imagefile"
	"prismfs/internal/plural"
	"prismfs/pcr"
)

// PCROptions say how PackPCR works. The zero value is good.
type PCROptions struct {
	ImagesPerRecord int     // at most; 0: DefaultImagesPerRecord
	Quality         int     // of images that are no JPEG, 1 to 100 as libjpeg and PIL have it; 0: DefaultQuality
	ShuffleSeed     *uint64 // nil: images are ordered by class and name
	Jobs            int     // images at a time; 0: as many as there are processors
	MaxPixels       int64   // height × width of one image; 0: imagefile.DefaultLimits
	// Progress, unless nil, is called after every file, never twice at once.
	Progress func(done, total int)

	recordBytes int64 // 0: maxRecordBytes; fewer for tests
}

// The defaults of PCROptions, and their limits.
const (
	DefaultImagesPerRecord = 1024
	MaxImagesPerRecord     = 1 << 20
	DefaultQuality         = 90
)

// maxRecordBytes ends a record before it has all its images. A record is held in
// memory while it is made, and its parts are indexed with 31 bits.
const maxRecordBytes = 512 << 20

// PCRTotals is what PackPCR did, beyond what every Summary says. Bytes of single
// images are in Summary.Converted; BytesOut there are of their JPEGs.
type PCRTotals struct {
	Records      int   `json:"records"`
	RecordsKept  int   `json:"records_kept"`           // of those, records of an earlier run
	RecordBytes  int64 `json:"record_bytes"`           // of all records
	Encoded      int   `json:"images_encoded"`         // of the images, those that were no JPEG
	Quality      int   `json:"quality"`                // of those
	AlphaLost    int   `json:"images_that_lost_alpha"` // of those, how many had an alpha channel, as far as this run encoded them
	RecordsStale int   `json:"records_removed"`        // records of an earlier run that were too many
}

// PackPCR converts the images of the class folders of src, an ImageFolder tree, to
// PCR records in dst, which is made where it is missing. A label is the place
// that ImageFolder gives the class among all folders of the first level. JPEGs
// become progressive without loss; images in other formats are encoded, grey or
// RGB. Of every image the pixels of full fidelity have been compared with the
// source's, or decoded at least where it was encoded, and every record has been
// read back.
//
// Files beside the class folders are copied; those in class folders that are no
// images are refused, since records hold nothing else. A class without images
// is a folder in dst, empty as it is in src.
//
// Records of an earlier run stay where they are whole and made from files of
// the same names, sizes and times with the same options. Others of the same
// source are replaced; those of another source make dst unusable. The index is
// taken away before the first record changes and written when all are there. No
// image is in two records at any time: a record of an earlier run goes before
// another one with any of its images comes.
//
// Errors and the summary are as Pack's. Without any image that goes into
// a record there is no index either.
func PackPCR(ctx context.Context, src, dst string, opt PCROptions) (*Summary, error) {
	start := time.Now()
	if opt.ImagesPerRecord > MaxImagesPerRecord || opt.Quality > 100 {
		return nil, fmt.Errorf("%d images a record, at quality %d: at most %d, and 100, are possible", opt.ImagesPerRecord, opt.Quality, MaxImagesPerRecord)
	}
	opt.fillIn()
	source, err := apart(src, dst)
	if err != nil {
		return nil, err
	}
	plan, err := planPCR(ctx, source)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	case len(plan.sources) == 0:
		return nil, fmt.Errorf("%w: no image lies in a folder of %s: records hold images of classes, which are folders", ErrSource, Printable(src))
	}
	if opt.ShuffleSeed != nil {
		plan.shuffle(*opt.ShuffleSeed)
	}
	t, err := openTarget(dst)
	if err != nil {
		return nil, err
	}
	p := &pcrPacker{source: source, target: t, plan: plan, opt: opt, id: datasetID(source), summary: newSummary()}
	p.summary.PCR = &PCRTotals{Quality: opt.Quality}
	touched, err := p.run(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		err = t.close()
	} else {
		_ = t.abandon(touched) // the first error says more
	}
	p.summary.PCR.RecordsStale += len(p.cleared)
	p.summary.Finished = err == nil
	p.summary.Notes = append(p.summary.Notes, p.notes()...)
	p.summary.finish(start)
	if errors.Is(err, ErrDestination) {
		return nil, err
	}
	return p.summary, err
}

func (o *PCROptions) fillIn() {
	if o.ImagesPerRecord <= 0 {
		o.ImagesPerRecord = DefaultImagesPerRecord
	}
	if o.Quality <= 0 {
		o.Quality = DefaultQuality
	}
	if o.MaxPixels <= 0 {
		o.MaxPixels = imagefile.DefaultLimits.MaxPixels
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.recordBytes <= 0 {
		o.recordBytes = maxRecordBytes
	}
}

// pcrPacker is a run of PackPCR.
type pcrPacker struct {
	source  string // absolute, without links
	target  *target
	plan    *pcrPlan
	opt     PCROptions
	id      uint64 // of the dataset
	summary *Summary

	entries   []pcr.IndexEntry
	populated []bool   // by label: a record has images of the class
	strangers []string // folders in the target that are no classes
	indexGone bool     // an index of an earlier run has been taken away

	holders *imageHolders   // nil until a record is written
	cleared map[string]bool // records of an earlier run that were taken away and not written anew
}

// run does everything between opening and closing the target. touched is false as
// long as nothing in the target has been changed.
func (p *pcrPacker) run(ctx context.Context) (touched bool, err error) {
	if err := p.inspectTarget(); err != nil {
		return false, err
	}
	return true, p.fill(ctx)
}

// fill brings the target to what the plan says.
func (p *pcrPacker) fill(ctx context.Context) error {
	p.cleared = map[string]bool{}
	p.populated = make([]bool, len(p.plan.classes))
	p.summary.Classes, p.summary.Parts = len(p.plan.classes), splitFolders(p.plan.classes)
	for _, r := range p.plan.refused {
		p.summary.record(r.Path, refusal(r.Reason))
	}
	for _, name := range p.plan.others {
		o, err := p.copyOther(name)
		if err != nil {
			return err
		}
		p.summary.record(name, o)
	}
	for next := 0; next < len(p.plan.sources); {
		var err error
		if next, err = p.record(ctx, next); err != nil {
			return err
		}
	}
	if err := p.removeStale(); err != nil {
		return err
	}
	if err := p.emptyClasses(); err != nil {
		return err
	}
	return p.writeIndex()
}

// record makes the next record, or keeps one that is there, of the sources from
// start on, and returns where the one after it starts.
func (p *pcrPacker) record(ctx context.Context, start int) (next int, err error) {
	name := recordName(len(p.entries))
	there, err := p.earlier(ctx, name, start)
	if err != nil {
		return 0, err
	}
	if there.keep {
		return p.keepRecord(there), nil
	}
	images, end, err := p.collect(ctx, start)
	if err != nil {
		return 0, err
	}
	if len(images) == 0 {
		return end, nil // all that was left has been refused
	}
	return end, p.writeRecord(name, start, end, images)
}

// recordFormat is the name of a record by its number, as the published programs
// have it.
const recordFormat = "PCR_%d.pcr"

func recordName(number int) string { return fmt.Sprintf(recordFormat, number) }

// made is a source of the plan with what became of it.
type made struct {
	at int // in the plan
	recordImage
}

// collect makes images of the sources from start on until a record is full, and
// returns them with the sources between them that were refused, and where the
// next record starts: behind the last image, so that the images of a record
// tell which part of the plan it covers. Without any image the sources are
// counted as refused.
func (p *pcrPacker) collect(ctx context.Context, start int) (images []made, end int, err error) {
	size, count, full := int64(0), 0, false
	take := func(at int, r recordImage) bool {
		if r.reason == "" {
			if full = count > 0 && size+int64(len(r.JPEG)) > p.opt.recordBytes; full {
				return false
			}
			count++
			size += int64(len(r.JPEG))
		}
		images = append(images, made{at, r})
		p.progress(at + 1)
		return true
	}
	// No more images are made than go into the record, unless some are refused.
	for at := start; !full && count < p.opt.ImagesPerRecord && at < len(p.plan.sources); {
		upTo := min(at+p.opt.ImagesPerRecord-count, len(p.plan.sources))
		if err := inOrder(ctx, p.opt.Jobs, at, upTo, p.newMaker, take); err != nil {
			return nil, 0, err
		}
		at = upTo
	}
	if count == 0 {
		p.refuseAll(images)
		return nil, len(p.plan.sources), nil
	}
	for images[len(images)-1].reason != "" {
		images = images[:len(images)-1]
	}
	return images, images[len(images)-1].at + 1, nil
}

// newMaker returns the function that a job makes images with, and what frees
// its memory.
func (p *pcrPacker) newMaker() (func(at int) recordImage, func(), error) {
	m, err := newImageMaker(p.source, p.plan, p.opt)
	if err != nil {
		return nil, nil, err
	}
	return func(at int) recordImage { return m.make(p.plan.sources[at]) }, m.Close, nil
}

// refuseAll counts sources that were refused.
func (p *pcrPacker) refuseAll(images []made) {
	for _, m := range images {
		if m.reason != "" {
			p.summary.record(p.plan.path(p.plan.sources[m.at]), refusal(m.reason))
		}
	}
}

// copyOther copies a file that lies beside the class folders.
func (p *pcrPacker) copyOther(name string) (outcome, error) {
	f, info, err := openRegular(p.source, name)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	defer f.Close()
	return passThrough(p.target, f, info, name, "", false)
}

// progress tells how many of the planned sources are done.
func (p *pcrPacker) progress(done int) {
	if p.opt.Progress != nil {
		p.opt.Progress(p.plan.files()-len(p.plan.sources)+done, p.plan.files())
	}
}

// emptyClasses makes a folder of every class without images in records, and
// removes those of an earlier run that have some now.
func (p *pcrPacker) emptyClasses() error {
	for label, class := range p.plan.classes {
		if !p.populated[label] {
			if err := p.target.mkdir(class, 0o777); err != nil {
				return err
			}
			continue
		}
		if err := p.target.removeEmptyFolder(class); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the empty folder of a class that has images now: %w", err)
		}
	}
	return nil
}

// notes says what the user may want to reconsider.
func (p *pcrPacker) notes() []string {
	var notes []string
	if t := p.summary.PCR; t.Encoded > 0 {
		note := fmt.Sprintf("%s %s no JPEG and %[2]s encoded at quality %[3]d, not without loss", plural.Of(t.Encoded, "image"), plural.Or(t.Encoded, "was", "were"), t.Quality)
		if t.AlphaLost > 0 {
			note += fmt.Sprintf("; %d of them had an alpha channel, which JPEG has no room for", t.AlphaLost)
		}
		notes = append(notes, note)
	}
	if parts := p.summary.Parts; len(parts) > 0 {
		notes = append(notes, fmt.Sprintf("%s: %s by itself, into folders beside each other", partsText(parts), plural.Or(len(parts), "pack it", "pack each of them")))
	}
	if len(p.strangers) > 0 {
		notes = append(notes, fmt.Sprintf("the destination has folders that are no classes of the source, and ImageFolder would count them: %s", list(p.strangers)))
	}
	if slices.Contains(p.plan.classes, controlFolder) {
		notes = append(notes, hiddenControlFolder)
	}
	return notes
}

// partsText says that classes are called as parts of a dataset are.
func partsText(parts []string) string {
	return fmt.Sprintf("%s %s, which %s of a dataset", plural.Or(len(parts), "the class is", "the classes are"), list(parts),
		plural.Or(len(parts), "is the name of a part", "are names of parts"))
}

// splitFolders returns the class names if all are usual names of the parts of
// a dataset.
func splitFolders(classes []string) []string {
	for _, c := range classes {
		if !slices.Contains([]string{"train", "val", "valid", "validation", "test"}, c) {
			return nil
		}
	}
	return classes
}
