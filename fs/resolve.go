package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strings"
	"syscall"

	"prismfs/dataset"
	"prismfs/tensor"
)

// place is a folder of the mount: a folder of the source, seen in a view.
type place struct {
	source string // path in the source, "" for its root
	view   View
	// fixed says that a name on the way here carried view terms; they stand at
	// one level of a path.
	fixed bool
}

// targetKind says what a name leads to.
type targetKind uint8

const (
	folder   targetKind = iota + 1
	sample              // decoded, or stored bytes under a name of the view
	passThru            // a file of the source as it is
)

// target is what a name in a place leads to.
type target struct {
	kind   targetKind
	at     place        // of a folder
	view   View         // of a sample
	source string       // path of a file in the source
	info   dataset.Info // of what is in the source
	sample content      // of a sample
}

// errWhy is ENOENT with the reason, for the log.
type errWhy struct{ reason string }

func (e *errWhy) Error() string { return e.reason }
func (e *errWhy) Unwrap() error { return iofs.ErrNotExist }

// resolver finds what names stand for. It knows names and headers, not nodes.
type resolver struct {
	ds   *dataset.Dataset
	auto *fidelities // of auto views at this moment
}

// resolve finds what name leads to in p: the exact name in the source first,
// then a sample under its name in the view, then a name with view terms.
func (r resolver) resolve(ctx context.Context, p place, name string) (target, error) {
	taken := r.takenIn(ctx, p.source)
	info, err := r.stat(ctx, path.Join(p.source, name))
	if err == nil {
		t, err := r.exact(ctx, p, name, info)
		if !errors.Is(err, iofs.ErrNotExist) {
			return t, err
		}
	} else if errors.Is(err, iofs.ErrNotExist) {
		taken = except(name, taken)
	} else {
		return target{}, err
	}
	t, err := r.sampleNamed(ctx, p.source, name, p.view, taken)
	if !errors.Is(err, iofs.ErrNotExist) || !strings.Contains(name, "+") {
		return t, err
	}
	return r.withTerms(ctx, p, name)
}

// stat describes what the source has at a path. A name that is too long for
// the source is one that it does not have: with our suffixes and terms, names
// in the mount may be longer than names of the source can be.
func (r resolver) stat(ctx context.Context, source string) (dataset.Info, error) {
	info, err := r.ds.Stat(ctx, source)
	if errors.Is(err, syscall.ENAMETOOLONG) {
		err = iofs.ErrNotExist
	}
	return info, err
}

// exact returns what the name itself is in the source. The packed form of a
// sample is not visible under its own name, unless the view shows stored bytes.
func (r resolver) exact(ctx context.Context, p place, name string, info dataset.Info) (target, error) {
	source := path.Join(p.source, name)
	switch info.Kind {
	case dataset.Dir:
		return target{kind: folder, info: info, at: place{source: source, view: p.view, fixed: p.fixed}}, nil
	case dataset.Regular:
		if !dataset.IsSample(name) {
			return target{kind: passThru, source: source, info: info}, nil
		}
		if p.view.Form.Container == tensor.L3 {
			return r.sampleAt(ctx, source, p.view)
		}
		return target{}, iofs.ErrNotExist // it appears under its name in the view
	}
	return target{}, &errWhy{"a device, socket or pipe is not part of a dataset"}
}

// sampleAt returns the sample at a path of the source, if the view can hold it.
func (r resolver) sampleAt(ctx context.Context, source string, v View) (target, error) {
	s, err := r.ds.Sample(ctx, source)
	if errors.Is(err, dataset.ErrNotSample) || errors.Is(err, dataset.ErrSpecial) {
		return target{}, iofs.ErrNotExist
	}
	if err != nil {
		return target{}, err
	}
	return r.targetOf(ctx, s, v)
}

// targetOf returns a sample as the view has it.
func (r resolver) targetOf(ctx context.Context, s *dataset.Sample, v View) (target, error) {
	v = r.auto.now(v)
	c, err := contentOf(ctx, r.ds, s, v)
	if err != nil {
		return target{}, err
	}
	return target{kind: sample, source: s.Path, info: s.Info, sample: c, view: v}, nil
}

// sampleNamed finds the sample that has the given name in view v; taken is as
// shownName has it.
func (r resolver) sampleNamed(ctx context.Context, dir, name string, v View, taken func(string) (bool, error)) (target, error) {
	candidates := sampleFiles(name, v)
	if v.Form.Container == tensor.Orig {
		if file, err := r.ds.FindOriginal(ctx, dir, name); err == nil {
			candidates = []string{path.Base(file)}
		} else if !errors.Is(err, iofs.ErrNotExist) {
			return target{}, err
		}
	}
	for _, candidate := range candidates {
		t, err := r.sampleAt(ctx, path.Join(dir, candidate), v)
		if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
			continue
		}
		if err != nil {
			return target{}, err
		}
		shown, err := r.shownName(ctx, dir, candidate, v, taken)
		if err != nil {
			return target{}, err
		}
		if shown == name {
			return t, nil
		}
	}
	return target{}, iofs.ErrNotExist
}

// sampleFiles lists the file names in the source that could be shown as name.
func sampleFiles(name string, v View) []string {
	var files []string
	for _, suffix := range []string{dataset.SampleSuffix, dataset.RecordSuffix} {
		if !storedHold(formatOf(suffix), v.Form) {
			continue
		}
		if v.Form.Container == tensor.Orig {
			stem := strings.TrimSuffix(name, path.Ext(name))
			files = append(files, stem+suffix, name+suffix)
			continue
		}
		stem, ok := strings.CutSuffix(name, v.Form.Suffix())
		if !ok || stem == "" {
			return nil
		}
		files = append(files, stem+suffix)
		if strings.HasSuffix(stem, suffix) && stem != suffix {
			files = append(files, stem) // x.l3.npy: see shownName
		}
	}
	return files
}

// shownName returns the name under which the file of a sample appears in a
// view: its suffix replaced, or kept and extended where the folder has a file
// with that name, so that neither hides the other. taken says whether it has.
func (r resolver) shownName(ctx context.Context, dir, file string, v View, taken func(string) (bool, error)) (string, error) {
	name := dataset.TrimSampleSuffix(file) + v.Form.Suffix()
	longer := file + v.Form.Suffix()
	switch v.Form.Container {
	case tensor.L3:
		return file, nil
	case tensor.Orig:
		s, err := r.ds.Sample(ctx, path.Join(dir, file))
		if err != nil {
			return "", err
		}
		name, longer = originalName(s), file+contentSuffix(s)
	}
	hidden, err := taken(name)
	if err != nil || !hidden {
		return name, err
	}
	return longer, nil
}

// takenIn asks the source whether a folder has a name that is shown.
func (r resolver) takenIn(ctx context.Context, dir string) func(string) (bool, error) {
	return func(name string) (bool, error) {
		info, err := r.stat(ctx, path.Join(dir, name))
		if errors.Is(err, iofs.ErrNotExist) {
			return false, nil
		}
		return err == nil && info.Kind != dataset.Special, err
	}
}

// except is taken for who has just been told that the folder has no such name.
func except(absent string, taken func(string) (bool, error)) func(string) (bool, error) {
	return func(name string) (bool, error) {
		if name == absent {
			return false, nil
		}
		return taken(name)
	}
}

// originalName returns the name that a sample had before it was packed. A file
// that was renamed since, or that never told, has the suffix of its content.
func originalName(s *dataset.Sample) string {
	n := s.OriginalName
	if s.OriginalUnique || n == s.Stem || strings.TrimSuffix(n, path.Ext(n)) == s.Stem {
		return n
	}
	return s.Stem + contentSuffix(s)
}

// contentSuffix is the suffix of what a file under an original name holds.
func contentSuffix(s *dataset.Sample) string {
	if s.Format == dataset.PCR {
		return ".jpg"
	}
	return ".png"
}

// withTerms reads name as a folder or sample with view terms behind it.
func (r resolver) withTerms(ctx context.Context, p place, name string) (target, error) {
	if t, err := r.folderWithTerms(ctx, p, name); !errors.Is(err, iofs.ErrNotExist) {
		return t, err
	} else if why := (*errWhy)(nil); errors.As(err, &why) {
		return target{}, err
	}
	// A sample: its terms stand before the suffix.
	ext := path.Ext(name)
	readings, bad := splits(strings.TrimSuffix(name, ext))
	var wrong error // with the terms of a sample that is there
	for _, s := range readings {
		if s.base == "" {
			continue
		}
		v, err := s.terms.apply(p.view, p.source)
		if wrong == nil && r.isStem(ctx, p, s.base) {
			if wrong = err; wrong == nil && v.Form.Container != tensor.Orig && ext != v.Form.Suffix() {
				wrong = fmt.Errorf("files of the view %v end in %s", v, v.Form.Suffix())
			}
		}
		if err != nil {
			continue
		}
		t, err := r.sampleNamed(ctx, p.source, s.base+ext, v, r.takenIn(ctx, p.source))
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err == nil && p.fixed {
			return target{}, &errWhy{"view terms stand at one level of a path; a folder above has some already"}
		}
		if err == nil && s.terms.reading.any() {
			return target{}, &errWhy{"echo, stream and what belongs to them are terms of folders, not of a file"}
		}
		return t, err
	}
	if err := cmp.Or(bad, wrong); err != nil {
		return target{}, &errWhy{err.Error()}
	}
	return target{}, r.unknownTerm(ctx, p, name)
}

// isStem reports whether a folder has a sample that is called base, apart from its
// suffix.
func (r resolver) isStem(ctx context.Context, p place, base string) bool {
	for _, suffix := range []string{dataset.SampleSuffix, dataset.RecordSuffix} {
		if info, err := r.stat(ctx, path.Join(p.source, base+suffix)); err == nil && info.Kind == dataset.Regular {
			return true
		}
	}
	return false
}

// maxUnknownTerms bounds the words behind a name that are looked at for one that
// is no term.
const maxUnknownTerms = 16

// unknownTerm says which word is no term, where what stands before it exists, so
// that the name was most likely meant to have terms.
func (r resolver) unknownTerm(ctx context.Context, p place, name string) error {
	err := r.unknownWord(name, p.source == "", func(base string) bool {
		_, err := r.stat(ctx, path.Join(p.source, base))
		return err == nil
	})
	if err == nil { // terms of a sample stand before the suffix
		err = r.unknownWord(strings.TrimSuffix(name, path.Ext(name)), false, func(base string) bool { return r.isStem(ctx, p, base) })
	}
	if err == nil {
		err = iofs.ErrNotExist
	}
	return err
}

// unknownWord is unknownTerm for names that exist as exists says; in a root they may
// be terms alone.
func (r resolver) unknownWord(name string, root bool, exists func(base string) bool) error {
	base, unknown := name, ""
	for range maxUnknownTerms {
		cut := strings.LastIndexByte(base, '+')
		if cut < 0 || cut == 0 && !root {
			break
		}
		var word string
		base, word = base[:cut], base[cut+1:]
		var tm terms
		if err := tm.add(word); errors.Is(err, errNoTerm) {
			unknown = word
		}
		if !exists(base) {
			continue
		}
		if unknown == "" {
			break
		}
		return &errWhy{fmt.Sprintf("%q is no view term%s", unknown, rangeOf(unknown))}
	}
	return nil
}

func (r resolver) folderWithTerms(ctx context.Context, p place, name string) (target, error) {
	readings, bad := splits(name)
	for _, s := range readings {
		// Without a name the terms speak of the folder that they stand in, which
		// is the root: elsewhere the folder itself can be written with them.
		if s.base == "" && p.source != "" {
			continue
		}
		source := path.Join(p.source, s.base)
		info, err := r.stat(ctx, source)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return target{}, err
		}
		if info.Kind != dataset.Dir {
			continue
		}
		if p.fixed {
			return target{}, &errWhy{"view terms stand at one level of a path; a folder above has some already"}
		}
		v, err := s.terms.apply(p.view, source)
		if err != nil {
			return target{}, &errWhy{err.Error()}
		}
		return target{kind: folder, info: info, at: place{source: source, view: v, fixed: true}}, nil
	}
	if bad != nil {
		return target{}, &errWhy{bad.Error()}
	}
	return target{}, iofs.ErrNotExist
}
