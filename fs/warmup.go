package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// cachedAttribute tells of a file whether it is in the cache just now: 1 or 0. It
// is not listed, since it is not of the file.
const cachedAttribute = attributePrefix + "cached"

const (
	// maxFailures bounds the files that are named of those that failed.
	maxFailures = 100
	// warmUpAhead is how many paths wait for a job: they are found faster than
	// they are opened.
	warmUpAhead = 1024
)

// ErrOrdered says that opening every file of a view is not what it is for.
var ErrOrdered = errors.New("each open of an echo view or stream counts as reading; warm up the folder without those terms, which has the same images")

// WarmUpOptions say how files are opened.
type WarmUpOptions struct {
	Jobs     int                   // at a time
	Progress func(done, total int) // of files; a total of 0 is not known yet
}

// Warmth is what came of opening files of a mount.
type Warmth struct {
	Mountpoint string `json:"mountpoint"`
	Files      int64  `json:"files"`   // opened
	Samples    int64  `json:"samples"` // of them, those that are made from images
	Bytes      int64  `json:"bytes"`   // of the samples
	// Decoded and Evictions are the mount's, for whomever, while files were
	// opened.
	Decoded   uint64       `json:"decoded"`
	Evictions uint64       `json:"cache_evictions"`
	Held      int64        `json:"held"` // samples that the cache has at the end; -1 is not known, after an interrupt
	Budget    int64        `json:"cache_budget_bytes"`
	Policy    string       `json:"cache_policy"`
	Failed    int64        `json:"failed"`
	Failures  []FailedFile `json:"failures"` // the first ones
	Seconds   float64      `json:"seconds"`
	Ended     bool         `json:"interrupted"` // before all were opened
}

// FailedFile is a file that could not be opened, or a folder that could not be
// read.
type FailedFile struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// WarmUp opens every file below the given paths, which lie in mounts, so that
// they are decoded, and tells what the cache has of them then; one Warmth for
// each mount, in the order of the paths. It is for other processes than those
// that serve the mounts. Where ctx ends, it returns what was done, and the error
// of ctx.
func WarmUp(ctx context.Context, paths []string, opt WarmUpOptions) ([]*Warmth, error) {
	type result struct {
		all []*Warmth
		err error
	}
	done := make(chan result, 1)
	go func() {
		all, err := warmUpAll(ctx, paths, opt)
		done <- result{all, err}
	}()
	select {
	case r := <-done:
		return r.all, r.err
	case <-ctx.Done():
	}
	select { // a mount that hangs must not keep whoever has been told to end
	case r := <-done:
		return r.all, r.err
	case <-time.After(answerWait):
		return nil, ctx.Err()
	}
}

func warmUpAll(ctx context.Context, paths []string, opt WarmUpOptions) ([]*Warmth, error) {
	var mountpoints []string
	below := make(map[string][]string)
	for _, path := range paths {
		mountpoint, rest, err := splitMountPath(path)
		if err != nil {
			return nil, err
		}
		if err := checkAnswers(ctx, mountpoint); err != nil {
			return nil, err
		}
		ordered, err := setsOrder(mountpoint, rest)
		if err != nil {
			return nil, &SourceError{err}
		}
		if ordered {
			return nil, fmt.Errorf("%s: %w", path, ErrOrdered)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, &SourceError{err}
		}
		if below[mountpoint] == nil {
			mountpoints = append(mountpoints, mountpoint)
		}
		below[mountpoint] = append(below[mountpoint], path)
	}
	var all []*Warmth
	for _, mountpoint := range mountpoints {
		w, err := warmUp(ctx, mountpoint, below[mountpoint], opt)
		if w != nil {
			all = append(all, w)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// setsOrder reports whether a path below a mount point has terms that speak of
// the order of reading. A folder of the source may be called like that: then its
// parent lists it, as it lists no view.
func setsOrder(mountpoint, path string) (bool, error) {
	at := mountpoint
	for name := range strings.SplitSeq(path, "/") {
		readings, _ := splits(name)
		if slices.ContainsFunc(readings, func(s split) bool { return s.terms.reading.any() }) {
			real, err := isListed(at, name)
			if !real || err != nil {
				return err == nil, err
			}
		}
		at = filepath.Join(at, name)
	}
	return false, nil
}

// isListed reports whether a folder's listing has a name.
func isListed(folder, name string) (bool, error) {
	f, err := os.Open(folder)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		if slices.Contains(names, name) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// warming is a WarmUp of one mount while it runs.
type warming struct {
	done, total            atomic.Int64 // files
	opened, samples, bytes atomic.Int64

	mu       sync.Mutex
	failed   int64
	failures []FailedFile
}

func warmUp(ctx context.Context, mountpoint string, paths []string, opt WarmUpOptions) (*Warmth, error) {
	before, err := statsOf(mountpoint)
	if err != nil {
		return nil, err
	}
	policy, err := policyOf(mountpoint)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	w := new(warming)
	counted, stop := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() { w.count(counted, paths) })
	w.each(ctx, paths, opt.Jobs, func(path string) error {
		err := w.open(path)
		if opt.Progress != nil {
			opt.Progress(int(w.done.Load()), int(w.total.Load()))
		}
		return err
	})
	stop()
	counting.Wait()
	out := &Warmth{
		Mountpoint: mountpoint, Samples: w.samples.Load(), Bytes: w.bytes.Load(), Policy: policy,
		Files: w.opened.Load(), Failed: w.failed, Failures: w.failures, Ended: ctx.Err() != nil,
	}
	after, err := statsOf(mountpoint)
	if err != nil {
		return out, err
	}
	out.Decoded, out.Evictions = after.Decoded-before.Decoded, after.CacheEvictions-before.CacheEvictions
	out.Budget = after.CacheBudget
	switch {
	case out.Evictions == 0:
		out.Held = out.Samples
	case out.Ended:
		out.Held = -1
	default:
		out.Held = countHeld(ctx, paths, opt.Jobs)
	}
	out.Seconds = time.Since(begun).Seconds()
	return out, ctx.Err()
}

// count finds out how many files there are, for the progress.
func (w *warming) count(ctx context.Context, paths []string) {
	n := int64(0)
	for _, path := range paths {
		err := filepath.WalkDir(path, func(_ string, d iofs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				n++
			}
			return ctx.Err()
		})
		if err != nil {
			return
		}
	}
	w.total.Store(n)
}

// each calls use with every regular file below the paths, by several goroutines.
// What cannot be listed, and what use returns an error for, has failed.
func (w *warming) each(ctx context.Context, paths []string, jobs int, use func(path string) error) {
	files := make(chan string, warmUpAhead)
	var working sync.WaitGroup
	for range max(jobs, 1) {
		working.Go(func() {
			for path := range files {
				if ctx.Err() != nil {
					continue
				}
				if err := use(path); err != nil {
					w.fail(path, err)
				}
			}
		})
	}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(path string, d iofs.DirEntry, err error) error {
			switch {
			case err != nil:
				w.fail(path, err)
			case d.Type().IsRegular():
				select {
				case files <- path:
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		})
		if err != nil {
			break
		}
	}
	close(files)
	working.Wait()
}

func (w *warming) fail(path string, err error) {
	var known *iofs.PathError
	if errors.As(err, &known) {
		err = known.Err // the path is named beside it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed++
	if len(w.failures) < maxFailures {
		w.failures = append(w.failures, FailedFile{Path: path, Reason: err.Error()})
	}
}

// open has a file decoded and counts it.
func (w *warming) open(path string) error {
	defer w.done.Add(1)
	var fd int
	var err error
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	w.opened.Add(1)
	if _, err := unix.Fgetxattr(fd, cachedAttribute, make([]byte, 1)); err != nil {
		return nil // a file that is shown as it is
	}
	w.samples.Add(1)
	w.bytes.Add(st.Size)
	return nil
}

// countHeld asks of every file below the paths whether the cache has it.
func countHeld(ctx context.Context, paths []string, jobs int) int64 {
	var held atomic.Int64
	new(warming).each(ctx, paths, jobs, func(path string) error {
		var answer [1]byte
		if n, err := unix.Getxattr(path, cachedAttribute, answer[:]); err == nil && n == 1 && answer[0] == '1' {
			held.Add(1)
		}
		return nil
	})
	return held.Load()
}

// statsOf reads the counters of a mount, from another process than its own.
func statsOf(mountpoint string) (Stats, error) {
	var s Stats
	err := readControlFile(mountpoint, "stats", &s)
	return s, err
}

// policyOf returns the policy of a mount's cache.
func policyOf(mountpoint string) (string, error) {
	var config struct {
		Policy string `json:"cache_policy"`
	}
	err := readControlFile(mountpoint, "config", &config)
	return config.Policy, err
}

// readControlFile reads one of the files of JSON that a mount has of itself.
func readControlFile(mountpoint, name string, into any) error {
	file := filepath.Join(mountpoint, controlName, name)
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("asking the mount: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}
