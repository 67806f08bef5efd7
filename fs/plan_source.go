package fs

import (
	"path"
	"sync"
	"syscall"
	"time"

	"prismfs/order"
	"prismfs/tensor"
)

// planFolders is how many folders the lookup of a plan's paths remembers.
const planFolders = 4096

// planSource makes the files of a plan. It remembers folders, for as long as the
// kernel would.
type planSource struct {
	m      *mount
	reader uint64 // what decoding takes it for

	mu      sync.Mutex
	folders map[string]place
	since   time.Time
}

// make decodes the image of a path into the cache. A file that is not decoded, or
// of which an echo would be served, is left alone.
func (s *planSource) make(name string) (int64, bool, error) {
	t, err := s.resolve(name)
	switch {
	case err != nil:
		return 0, false, err
	case !planned(t):
		return 0, false, order.ErrNothingToMake
	case !s.m.nextFresh(t.view, t.sample):
		return 0, false, nil
	}
	c := t.sample
	made, err := s.m.cache.Prefetch(c.key(), c.size, func(dst []byte) error {
		return s.m.fill(c, dst, asked{ahead: true, by: s.reader})
	})
	return c.size, made, err
}

// planned reports whether what a path leads to is made ahead: a file of an image
// that the cache serves.
func planned(t target) bool {
	return t.kind == sample && t.sample.form.Container != tensor.L3 && t.view.Stream == (order.StreamView{})
}

// resolve finds what a path below the mount point leads to, as a lookup does.
func (s *planSource) resolve(name string) (target, error) {
	dir, file := path.Split(name)
	at, err := s.folder(path.Clean(dir))
	if err != nil {
		return target{}, err
	}
	t, err := s.m.names.resolve(background, at, file)
	if err == nil && t.kind == sample && t.view.Echo.Factor != 0 {
		err = s.m.echo.labels.allow(t.view.Echo.Folder, t.sample.sample)
	}
	return t, err
}

// folder finds a folder by its path below the mount point.
func (s *planSource) folder(name string) (place, error) {
	if name == "." {
		return place{view: s.m.opt.View}, nil
	}
	if at, ok := s.remembered(name); ok {
		return at, nil
	}
	above, base := path.Split(name)
	at, err := s.folder(path.Clean(above))
	if err != nil {
		return place{}, err
	}
	t, err := s.m.names.resolve(background, at, base)
	switch {
	case err != nil:
		return place{}, err
	case t.kind != folder:
		return place{}, syscall.ENOTDIR
	case t.at.view.Stream != (order.StreamView{}):
		return place{}, errInStream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[name] = t.at
	return t.at, nil
}

// remembered returns a folder that was looked up a short while ago.
func (s *planSource) remembered(name string) (place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.folders) >= planFolders || time.Since(s.since) > DefaultTimeout {
		s.folders, s.since = make(map[string]place), time.Now()
	}
	at, ok := s.folders[name]
	return at, ok
}
