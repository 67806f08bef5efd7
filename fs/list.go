package fs

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"prismfs/dataset"
	"prismfs/tensor"
)

const (
	// listChunk is how many entries of a folder are named at a time.
	listChunk = 256
	// listWorkers is how many headers are read at once where names depend on
	// them. It hides the latency of a store; a local one is done with two.
	listWorkers = 16
)

// list yields the entries of a folder in the order of the source, with the
// names under which they appear in the view. It reads the folder twice: first
// for the names that samples could collide with, which are few, rather than
// asking the source for each.
func (r resolver) list(ctx context.Context, p place, yield func(e dataset.DirEntry, name string) bool) error {
	taken, err := r.collisions(ctx, p)
	if err != nil {
		return err
	}
	// A form that does not hold every sample, and original names, need headers.
	// They will be read anyway as soon as the files are opened.
	workers := 1
	if !p.view.Form.HoldsAll() || p.view.Form.Container == tensor.Orig {
		workers = listWorkers
	}
	chunk := make([]dataset.DirEntry, 0, listChunk)
	names := make([]string, listChunk)
	more := true
	flush := func() {
		r.nameAll(ctx, p, chunk, names, taken, workers)
		for i, e := range chunk {
			if names[i] != "" && more {
				more = yield(e, names[i])
			}
		}
		chunk = chunk[:0]
	}
	err = r.ds.ReadDir(ctx, p.source, func(e dataset.DirEntry) bool {
		if chunk = append(chunk, e); len(chunk) == listChunk {
			flush()
		}
		return more
	})
	flush()
	return err
}

// collisions collects the names in a folder that a sample's name in the view
// could be the same as: those of other files and folders, with its suffix.
func (r resolver) collisions(ctx context.Context, p place) (map[string]bool, error) {
	taken := make(map[string]bool)
	suffix := p.view.Form.Suffix() // none with original names: any could be
	err := r.ds.Scan(ctx, p.source, func(e dataset.DirEntry) bool {
		if strings.HasSuffix(e.Name, suffix) && !(dataset.IsSample(e.Name) && e.Kind == dataset.Regular) {
			taken[e.Name] = true
		}
		return true
	})
	return taken, err
}

// nameAll names the entries, with several workers where headers must be read.
func (r resolver) nameAll(ctx context.Context, p place, entries []dataset.DirEntry, names []string, taken map[string]bool, workers int) {
	var wg sync.WaitGroup
	for w := range min(workers, len(entries)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := w; i < len(entries); i += workers {
				names[i] = r.listed(ctx, p, entries[i], taken)
			}
		}()
	}
	wg.Wait()
}

// listed returns the name under which an entry appears, "" when it does not.
func (r resolver) listed(ctx context.Context, p place, e dataset.DirEntry, taken map[string]bool) string {
	switch {
	case e.Kind == dataset.Special || e.Kind == dataset.Broken:
		return ""
	case e.Kind == dataset.Dir || !dataset.IsSample(e.Name):
		return e.Name
	}
	format := formatOf(e.Name)
	if !storedHold(format, p.view.Form) {
		return ""
	}
	// A damaged file is listed under the name that it would have, so that its
	// owner sees it fail.
	damaged := dataset.TrimSampleSuffix(e.Name) + p.view.Form.Suffix()
	if !holdsAll(format, p.view.Form) {
		_, err := r.sampleAt(ctx, path.Join(p.source, e.Name), p.view)
		if errors.Is(err, tensor.ErrCannotHold) {
			return ""
		}
		if err != nil {
			return damaged
		}
	}
	name, err := r.shownName(ctx, p.source, e.Name, p.view, func(n string) (bool, error) { return taken[n], nil })
	if err != nil {
		return damaged
	}
	return name
}
