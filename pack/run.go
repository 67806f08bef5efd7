package pack

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A task is one file to convert.
type task struct {
	dir, name string // folder relative to the source, and name in it
	class     string // the folder of the first level, "" for files beside those
	label     *int64 // its rank; nil where class is ""
}

func (t task) path() string { return t.output(t.name) }

// output returns the path, relative to the destination, of a name in the
// task's folder.
func (t task) output(name string) string {
	if t.dir == "" {
		return name
	}
	return t.dir + "/" + name
}

// A converter does tasks one at a time; each job has its own. An error ends
// the run; what concerns one file only is a refusal.
type converter interface {
	convert(ctx context.Context, t task) (outcome, error)
}

// A run takes every file of a source through converters to a target.
type run struct {
	source       string // absolute, without links
	walk         walkFunc
	target       *target
	jobs         int
	slots        *slots
	refusals     func(*directory) map[string]string // reasons known from names, by name
	newConverter func() converter
	progress     func(done, total int)

	labels map[string]*int64

	mu      sync.Mutex
	summary *Summary
	total   atomic.Int64
}

// do runs until every file has its outcome or the run fails. The summary adds
// up in any case.
func (r *run) do(ctx context.Context) (*Summary, error) {
	start := time.Now()
	r.summary = newSummary()
	tasks := make(chan task, 4*r.jobs)
	group, groupCtx := errgroup.WithContext(ctx)
	if r.progress != nil {
		group.Go(func() error { return r.count(groupCtx) })
	}
	group.Go(func() error {
		defer close(tasks)
		return r.walk(groupCtx, func(d *directory) error { return r.enqueue(groupCtx, d, tasks) })
	})
	for range r.jobs {
		group.Go(func() error { return r.work(groupCtx, tasks) })
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	r.summary.Finished = err == nil
	r.summary.finish(start)
	return r.summary, err
}

// count finds the number of files, for the progress.
func (r *run) count(ctx context.Context) error {
	n := 0
	err := r.walk(ctx, func(d *directory) error {
		n += len(d.files) + len(d.refused)
		return nil
	})
	if err == nil {
		r.total.Store(int64(n))
	}
	return err
}

// enqueue makes the folder d in the target and hands out its files.
func (r *run) enqueue(ctx context.Context, d *directory, tasks chan<- task) error {
	if d.path == "" {
		if err := r.startClasses(d); err != nil {
			return err
		}
	} else if err := r.target.mkdir(d.path, d.mode); err != nil {
		return err
	}
	for _, f := range d.refused {
		r.finish(f.Path, refusal(f.Reason))
	}
	class, _, _ := strings.Cut(d.path, "/")
	reasons := r.refusals(d)
	for _, name := range d.files {
		if reason, ok := reasons[name]; ok {
			r.finish(d.join(name), refusal(reason))
			continue
		}
		select {
		case tasks <- task{dir: d.path, name: name, class: class, label: r.labels[class]}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// startClasses ranks the folders of the first level. Those that cannot be
// entered are made too, empty, and their refusal says so: a missing one would
// shift the labels that a loader derives from the folders without a word, an
// empty one makes it stop.
func (r *run) startClasses(root *directory) error {
	r.labels = map[string]*int64{}
	for class, rank := range ranks(root.folders) {
		r.labels[class] = &rank
	}
	r.summary.Classes, r.summary.Parts = len(r.labels), splitFolders(slices.Sorted(maps.Keys(r.labels)))
	for i, f := range root.refused {
		if r.labels[f.Path] == nil {
			continue
		}
		root.refused[i].Reason += " (the class stays as an empty folder, at which ImageFolder stops: without it the labels of other classes could shift)"
		if err := r.target.mkdir(f.Path, 0o777); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) work(ctx context.Context, tasks <-chan task) error {
	c := r.newConverter()
	for t := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.slots.enter(ctx); err != nil {
			return err
		}
		o, err := guard(ctx, c, t)
		r.slots.leave()
		if err != nil {
			return err
		}
		r.finish(t.path(), o)
	}
	return nil
}

// guard makes a panic a refusal: a fault that one file brings out costs that
// file only.
func guard(ctx context.Context, c converter, t task) (o outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = refusal(fmt.Sprintf("a fault in prismfs, please report it: %v at %s", p, firstFrame())), nil
		}
	}()
	return c.convert(ctx, t)
}

// firstFrame returns the place of a panic that is being recovered, as
// file:line.
func firstFrame() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+3 < len(lines) {
			place, _, _ := strings.Cut(strings.TrimSpace(lines[i+3]), " ")
			return filepath.Base(place)
		}
	}
	return "an unknown place"
}

// finish counts what became of a file.
func (r *run) finish(path string, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.record(path, o)
	if r.progress != nil {
		r.progress(r.summary.FilesIn, int(r.total.Load()))
	}
}
