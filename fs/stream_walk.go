package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"prismfs/dataset"
)

const (
	// maxStreamFolders bounds the folders of a tree: links can make one endless.
	maxStreamFolders = 1 << 20
	// youngFolder is how old the last change of a folder must be for the next one
	// to show in its time: clocks of file systems tick in up to 10 ms, of some in
	// seconds.
	youngFolder = 2 * time.Second
)

// streamWalk collects the samples of a folder's tree.
type streamWalk struct {
	ctx    context.Context
	ds     *dataset.Dataset
	c      *catalogue
	above  []dataset.Identity // folders on the way here
	access access             // of the folders
}

func (w *streamWalk) root(folder string) error {
	w.access = fullAccess()
	info, err := w.ds.Stat(w.ctx, folder)
	if err != nil {
		return err
	}
	return w.folder(catalogueFolder{path: folder, class: -1, id: info.ID}, info)
}

// folder collects what is in a folder. In order by bytes of the paths, a folder
// stands where its name with a slash behind it does.
func (w *streamWalk) folder(f catalogueFolder, info dataset.Info) error {
	if len(w.c.folders) >= maxStreamFolders {
		return fmt.Errorf("more than %d folders in a stream", maxStreamFolders)
	}
	number := len(w.c.folders)
	w.c.folders = append(w.c.folders, f)
	age := time.Since(time.Unix(0, info.ID.MTimeNS))
	w.c.young = w.c.young || age >= 0 && age < youngFolder
	w.access.add(folderAccess(info))
	w.above = append(w.above, info.ID)
	defer func() { w.above = w.above[:len(w.above)-1] }()

	entries, err := w.entries(f.path)
	if err != nil {
		return err
	}
	var classes map[string]int
	if number == 0 {
		classes = classIndices(entries)
	}
	for _, e := range entries {
		if e.Kind == dataset.Regular {
			if err := w.c.addSample(number, e.Name); err != nil {
				return err
			}
			continue
		}
		below := catalogueFolder{path: path.Join(f.path, e.Name), class: f.class}
		if number == 0 {
			below.class = classes[e.Name]
		}
		if err := w.enter(below); err != nil {
			return err
		}
	}
	return nil
}

// classIndices numbers folders as torchvision's ImageFolder does: all of them, hidden
// ones and those without images, too, sorted by name, without a slash.
func classIndices(entries []dataset.DirEntry) map[string]int {
	var names []string
	for _, e := range entries {
		if e.Kind == dataset.Dir {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	indices := make(map[string]int, len(names))
	for i, name := range names {
		indices[name] = i
	}
	return indices
}

// entries returns the folders and samples in a folder, in their order.
func (w *streamWalk) entries(at string) ([]dataset.DirEntry, error) {
	var entries []dataset.DirEntry
	err := w.ds.Scan(w.ctx, at, func(e dataset.DirEntry) bool {
		switch {
		case e.Kind == dataset.Dir, e.Kind == dataset.Regular && dataset.IsSample(e.Name):
			entries = append(entries, e)
		case e.Kind == dataset.Regular && sourceImages[strings.ToLower(path.Ext(e.Name))]:
			w.c.unpacked++
		}
		return true
	})
	slices.SortFunc(entries, func(a, b dataset.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return entries, err
}

func sortName(e dataset.DirEntry) string {
	if e.Kind == dataset.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// enter goes into a folder, unless that is above as well, by way of a link, or
// closed to us, or gone.
func (w *streamWalk) enter(f catalogueFolder) error {
	info, err := w.ds.Stat(w.ctx, f.path)
	f.id = info.ID
	if err == nil && slices.ContainsFunc(w.above, func(id dataset.Identity) bool { return id.Dev == info.ID.Dev && id.Ino == info.ID.Ino }) {
		return nil
	}
	before := len(w.c.folders)
	if err == nil {
		err = w.folder(f, info)
	}
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, iofs.ErrPermission) || errors.Is(err, syscall.ELOOP) || errors.Is(err, dataset.ErrOutside) {
		w.c.leftOut++
		w.c.whyLeftOut = err
		if len(w.c.folders) > before {
			w.c.young = true // it may be there the next time
		}
		return nil
	}
	return err
}
