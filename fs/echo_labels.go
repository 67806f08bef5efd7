package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"prismfs/dataset"
)

// errNoEchoes says that a folder cannot be read through an echo view, since an
// image would be served for a label that is not its own.
var errNoEchoes = errors.New("an echo view cannot serve this folder")

// errEchoGone says that an echo could not be served: the kernel looks the name up
// anew and gets another one.
var errEchoGone = fmt.Errorf("the image of an echo is gone: %w", dataset.ErrChanged)

// An echo is right where a folder is a class, or where samples carry their label.
// Images of PCR datasets do. L3 files have the name of the first folder of what
// was packed, which is that of a class or of anything else; so there the tree
// must look like class folders.

const (
	// labelCheckEvery is how long it takes at most until a file that makes echoes
	// wrong is noticed.
	labelCheckEvery = time.Minute
	// maxLabelChecks bounds the folders that are remembered.
	maxLabelChecks = 1 << 16
	// maxSideNames bounds the names of a folder that are compared.
	maxSideNames = 1 << 20
)

// labelChecks remembers which folders can be read through echo views.
type labelChecks struct {
	ds  *dataset.Dataset
	log *slog.Logger

	now func() time.Time

	mu   sync.Mutex
	done map[labelCheck]labelVerdict
}

type labelCheck struct{ view, folder string } // paths in the source

type labelVerdict struct {
	at     time.Time
	folder dataset.Identity // as it was then
	err    error
}

// verdict returns what was found last, and whether that is still good. Where it
// is not, one who asks is told so, and the others go by it until he knows.
func (l *labelChecks) verdict(c labelCheck) (v labelVerdict, good bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, known := l.done[c]
	now := l.now()
	if known && now.Sub(v.at) >= labelCheckEvery {
		old := v
		v.at = now
		l.done[c] = v
		return old, false
	}
	return v, known
}

// allow returns nil where echoes of a sample have its label, in a view of a
// folder; else an error that wraps errNoEchoes and was logged.
func (l *labelChecks) allow(view string, s *dataset.Sample) error {
	if s.Format == dataset.PCR && s.Label != nil {
		return nil
	}
	return l.allowFolder(labelCheck{view, folderOf(s.Path)})
}

// allowListing returns nil where a folder may be listed in a view that has
// echoes: so that a loader which lists it first is told at once, and not by the
// open of some image much later. A folder of class folders may, whatever else is
// in it: loaders look at the class folders alone. Where labels come with the
// images, the first image speaks for all.
func (l *labelChecks) allowListing(p place) error {
	check := labelCheck{p.view.Echo.Folder, p.source}
	var first string
	classes := false
	err := l.ds.Scan(background, p.source, func(e dataset.DirEntry) bool {
		switch {
		case e.Kind == dataset.Dir:
			classes = true
		case first == "" && dataset.IsSample(e.Name) && storedHold(formatOf(e.Name), p.view.Form):
			first = e.Name
		}
		return first == "" || check.folder == check.view && !classes
	})
	if err != nil || first == "" || check.folder == check.view && classes {
		return err
	}
	if formatOf(first) == dataset.PCR {
		s, err := l.ds.Sample(background, path.Join(p.source, first))
		if err != nil || s.Label != nil {
			return nil // a damaged image is told of by its own open
		}
	}
	return l.allowFolder(check)
}

// allowFolder is allow for images that have no label with them.
func (l *labelChecks) allowFolder(check labelCheck) error {
	v, ok := l.verdict(check)
	if ok {
		return v.err
	}
	now := l.now()
	info, err := l.ds.Stat(background, check.folder)
	if err != nil {
		return err
	}
	if !v.at.IsZero() && info.ID == v.folder { // nothing was added since
		err = v.err
	} else {
		err = l.look(check)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil || len(l.done) >= maxLabelChecks {
		l.done = make(map[labelCheck]labelVerdict)
	}
	l.done[check] = labelVerdict{now, info.ID, err}
	if errors.Is(err, errNoEchoes) && v.err == nil {
		l.log.Warn("an echo view cannot serve a folder", "folder", check.folder, "view_of", check.view, "why", err)
	}
	return err
}

// look reads the folder, and the names of those above it up to the view.
func (l *labelChecks) look(c labelCheck) error {
	if c.folder == c.view {
		return fmt.Errorf("%w: the terms stand at the folder of the images, so that all of them would be one class; "+
			"write them at the folder above, as in classes+echo2/%s; for images without class folders, repeat batches in the training loop",
			errNoEchoes, path.Base("/"+c.folder))
	}
	if err := l.pairs(c); err != nil {
		return err
	}
	return l.sideFiles(c.folder)
}

// Folders that hold images and what is known of them, under names that are
// customary.
var (
	imageFolders = words("image images img imgs jpegimages leftimg8bit rgb photos input inputs")
	mapFolders   = words("mask masks label labels annotation annotations gt gtfine gtcoarse groundtruth ground_truth " +
		"segmentation segmentations segmentationclass segmentationobject seg depth depths target targets")
)

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// pairs refuses folders of images beside folders of what is known of each.
func (l *labelChecks) pairs(c labelCheck) error {
	for dir := c.folder; dir != ""; dir = folderOf(dir) {
		name := strings.ToLower(path.Base(dir))
		others := imageFolders
		if imageFolders[name] {
			others = mapFolders
		} else if !mapFolders[name] {
			others = nil
		}
		beside := ""
		if others != nil {
			err := l.ds.Scan(background, folderOf(dir), func(e dataset.DirEntry) bool {
				if e.Kind == dataset.Dir && others[strings.ToLower(e.Name)] {
					beside = e.Name
				}
				return beside == ""
			})
			if err != nil {
				return err
			}
		}
		if beside != "" {
			return fmt.Errorf("%w: %s lies beside %s, which tells of each image by its name, and in an echo view a name does not say which image it is",
				errNoEchoes, dir, beside)
		}
		if dir == c.view {
			return nil
		}
	}
	return nil
}

// sideSuffixes end the names of images that tell of another one.
var sideSuffixes = strings.Fields("_mask _masks _gt _seg _segmentation _label _labels _labelids _matte _depth")

// sideFiles refuses a folder in which a file tells of an image by its name.
func (l *labelChecks) sideFiles(folder string) error {
	samples, others, count := make(map[string]bool), make(map[string]string), 0
	err := l.ds.Scan(background, folder, func(e dataset.DirEntry) bool {
		count++
		switch {
		case e.Kind != dataset.Regular:
		case dataset.IsSample(e.Name):
			samples[dataset.TrimSampleSuffix(e.Name)] = true
		default:
			others[strings.TrimSuffix(e.Name, path.Ext(e.Name))] = e.Name
		}
		return count < maxSideNames
	})
	if err != nil {
		return err
	}
	for stem, name := range others {
		if samples[stem] {
			return sideFile(folder, name, stem)
		}
	}
	for stem := range samples {
		for _, suffix := range sideSuffixes {
			if base := len(stem) - len(suffix); base > 0 && strings.EqualFold(stem[base:], suffix) && samples[stem[:base]] {
				return sideFile(folder, stem, stem[:base])
			}
		}
	}
	return nil
}

func sideFile(folder, name, stem string) error {
	return fmt.Errorf("%w: %s tells of the image %s by its name, and in an echo view a name does not say which image it is",
		errNoEchoes, path.Join(folder, name), stem)
}
