package pack

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"prismfs/dataset"
	"prismfs/internal/jpeg"
)

// unpackPCR is Unpack for a folder of records, or one with such folders in these
// places below it.
func unpackPCR(ctx context.Context, source string, places []string, dst string, opt UnpackOptions) (*Summary, error) {
	folder, err := openPCRTree(ctx, source, places, dataset.NoTables)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if why := folder.nothing(); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrSource, why)
	}
	// Images of records have no two names alike in the tree.
	rule := func(d *directory) map[string]string { return unpackCollisions(source, d) }
	summary, err := convertTree(ctx, source, folder.walk, dst, opt.Jobs, opt.Progress, rule, func(t *target, _ *slots) converter {
		return &pcrUnpacker{folder: folder, target: t, force: opt.Force, others: newUnpacker(source, t, opt)}
	})
	if summary != nil {
		folder.note(summary, err == nil)
	}
	return summary, err
}

// nothing says why no part has a record that can be used, "" if one has.
func (f *pcrFolder) nothing() string {
	why := ""
	for _, part := range f.parts {
		if !part.isEmpty() {
			return ""
		}
		if why == "" {
			why = part.whyEmpty()
		}
	}
	return why
}

// note adds to a summary what is to be said of the parts; all is set if every
// file has been counted.
func (f *pcrFolder) note(s *Summary, all bool) {
	for _, part := range f.parts {
		s.sourceUnfinished(filepath.Join(f.root, part.path), part.unfinished)
		if len(f.parts) > 1 || !all {
			continue // of several parts it is not known whose images were seen
		}
		if text := part.hidden(s.FilesIn - s.Passed.Files - len(part.bad())); text != "" {
			s.Notes = append(s.Notes, text)
		}
	}
}

// pcrUnpacker restores images of records, one at a time.
type pcrUnpacker struct {
	folder *pcrFolder
	target *target
	force  bool
	others *unpacker // for what is no image of a record
	data   []byte    // of the image, reused
}

func (u *pcrUnpacker) convert(ctx context.Context, t task) (outcome, error) {
	if !isRecordSample(t.name) {
		return u.others.convert(ctx, t)
	}
	sample, err := u.folder.ds.Sample(ctx, t.path())
	if err == nil {
		u.data, err = u.folder.ds.ReadEncoded(ctx, sample, 0, u.data)
	}
	if err == nil {
		err = checkSample(sample, u.data)
	}
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	info, err := u.folder.recordInfo(sample)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	return u.write(t.dir, t.output(unpackedJPEGName(sample)), info)
}

// checkSample decodes an image of full fidelity and compares its shape with
// what is known of it.
func checkSample(s *dataset.Sample, data []byte) error {
	img, err := jpeg.Decode(data, jpeg.Options{MaxPixels: MaxPixelsLimit})
	if err == nil && img.Shape != s.Shape {
		err = fmt.Errorf("it should be %v, and is %v", s.Shape, img.Shape)
	}
	return s.InRecord(err)
}

// unpackedJPEGName is the original name where that is a JPEG's and no other image of
// the folder has it, else the one that the image has in the tree.
func unpackedJPEGName(s *dataset.Sample) string {
	switch strings.ToLower(path.Ext(s.OriginalName)) {
	case ".jpg", ".jpeg", ".jpe", ".jfif":
		if s.OriginalUnique {
			return s.OriginalName
		}
	}
	return s.Stem + ".jpg"
}

// write makes the file, with the times and permissions of the record.
func (u *pcrUnpacker) write(dir, out string, info fs.FileInfo) (outcome, error) {
	done := outcome{fate: converted, format: "pcr", in: int64(len(u.data) - len(eoi)), out: int64(len(u.data))}
	there, refused, err := u.target.inTheWay(out, u.force, func(there fs.FileInfo) bool { return u.holds(out, there) })
	switch {
	case err != nil:
		return outcome{}, err
	case refused != "":
		return refusal(refused), nil
	case there.same:
		done.already = true
		return done, u.target.root.Chtimes(out, time.Time{}, info.ModTime())
	}
	return writeOutput(u.target, dir, out, u.data, info, there.info != nil, done)
}

// holds tells whether a file is the very image.
func (u *pcrUnpacker) holds(out string, there fs.FileInfo) bool {
	if !there.Mode().IsRegular() || there.Size() != int64(len(u.data)) {
		return false
	}
	data, err := u.target.root.ReadFile(out)
	return err == nil && bytes.Equal(data, u.data)
}
