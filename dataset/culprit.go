package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// imageError is an error about the bytes of an image of a record.
type imageError struct {
	record string // path in the source
	image  int    // place in the record
	err    error
}

func (e *imageError) Error() string { return fmt.Sprintf("in %s: %v", e.record, e.err) }
func (e *imageError) Unwrap() error { return e.err }

// NoImage is the place in its record of what is no image of a record.
const NoImage = -1

// Culprit is what an error is about: a file of the source, or an image of a record.
type Culprit struct {
	Path  string // in the source
	Image int    // place in the record that Path names, else NoImage
}

// CulpritOf returns what an error of this package is about. It is not ok where the
// error does not tell.
func (d *Dataset) CulpritOf(err error) (c Culprit, ok bool) {
	if image := (*imageError)(nil); errors.As(err, &image) {
		return Culprit{image.record, image.image}, true
	}
	// The innermost one names what was really asked for: the record of an image.
	for named := (*fs.PathError)(nil); errors.As(err, &named); err = named.Err {
		if path, below := d.within(named.Path); below {
			c, ok = Culprit{path, NoImage}, true
		}
	}
	return c, ok
}

// within is the reverse of full.
func (d *Dataset) within(full string) (path string, ok bool) {
	root := strings.TrimSuffix(d.store.String(), "/")
	path, ok = strings.CutPrefix(full, root)
	switch {
	case !ok:
		return "", false
	case path == "" || path[0] == '/':
		return strings.TrimPrefix(path, "/"), true
	}
	return "", false
}

// Culprit returns what an error about the sample is about.
func (s *Sample) Culprit() Culprit {
	if s.record == nil {
		return Culprit{s.Source, NoImage}
	}
	return Culprit{s.Source, s.index}
}

// Full returns a path of the source as this machine knows it, for messages.
func (d *Dataset) Full(path string) string { return d.full(path) }
