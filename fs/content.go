package fs

import (
	"context"
	"fmt"
	"strings"

	"prismfs/dataset"
	"prismfs/tensor"
)

// content is what the file of a sample holds. Files whose contents are equal
// have the same bytes, whatever the paths by which they are read.
type content struct {
	sample   *dataset.Sample
	form     tensor.Form // as it is made: never Orig
	fidelity int         // 1 to sample.Levels
	size     int64       // bytes of the file
}

// contentOf returns what the file of a sample holds in a view. Where that is
// stored bytes, its size may have to be asked from the source. The error wraps
// tensor.ErrCannotHold where the view has no such file.
func contentOf(ctx context.Context, ds *dataset.Dataset, s *dataset.Sample, v View) (content, error) {
	form, err := madeForm(s, v.Form)
	if err != nil {
		return content{}, err
	}
	c := content{sample: s, form: form, fidelity: levelOf(s, v.Fidelity)}
	if !form.Decoded() {
		c.size, err = ds.EncodedBytes(ctx, s, c.fidelity)
		return c, err
	}
	layout, err := form.Layout(s.Shape)
	if err != nil {
		return content{}, err
	}
	c.size = layout.Size()
	return c, nil
}

// levelOf returns the scan groups that fidelity k of a view takes: all of them
// where k is 0, or more than there are.
func levelOf(s *dataset.Sample, k int) int {
	if k == 0 {
		return s.Levels
	}
	return min(k, s.Levels)
}

// madeForm returns the form in which the file of a sample is made, or an error
// that wraps tensor.ErrCannotHold. A file under its original name is the stored
// JPEG, or of an L3 file a PNG.
func madeForm(s *dataset.Sample, f tensor.Form) (tensor.Form, error) {
	if !storedHold(s.Format, f) {
		return f, fmt.Errorf("%v of %s: %w", f, s.Path, tensor.ErrCannotHold)
	}
	switch {
	case f.Container == tensor.Orig && s.Format == dataset.PCR:
		return tensor.Form{Container: tensor.JPG}, nil
	case f.Container == tensor.Orig:
		f.Container = tensor.PNG
	}
	if !f.Decoded() {
		return f, nil
	}
	_, err := f.Layout(s.Shape)
	return f, err
}

// storedHold reports whether samples of a format have the stored bytes that the
// form is of; any has, where the form is decoded.
func storedHold(format dataset.Format, f tensor.Form) bool {
	switch f.Container {
	case tensor.L3:
		return format == dataset.L3
	case tensor.JPG:
		return format == dataset.PCR
	case tensor.Orig:
		return format == dataset.L3 || !f.RGB // the stored JPEG, which rgb cannot change
	}
	return true
}

// formatOf returns the format of a sample by the name of its file.
func formatOf(name string) dataset.Format {
	if strings.HasSuffix(name, dataset.RecordSuffix) {
		return dataset.PCR
	}
	return dataset.L3
}

// holdsAll reports whether a view shows every sample of a format, whatever its
// shape. JPEGs are grey or RGB of 8 bits, which all forms hold.
func holdsAll(format dataset.Format, f tensor.Form) bool {
	return format == dataset.PCR || f.HoldsAll()
}

// key returns what the file is kept under in the cache.
func (c content) key() bufferKey {
	return bufferKey{path: c.sample.Path, id: c.sample.Info.ID, form: c.form, fidelity: c.fidelity}
}
