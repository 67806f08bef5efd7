package dataset

import (
	"context"
	"fmt"
	"sync"

	"prismfs/pcr"
)

// Reading the images of a record one after another costs one range for each
// group and image, and as many seeks. A reader who does so is given more at a
// time: what comes next of each group, which at the beginning of a record is one
// prefix of it.

const (
	// runBegins is how many images must have been read in order before anything
	// is read ahead. With fewer, readers in random order would be taken for such
	// now and then, in small datasets, and bytes be read that nobody wants.
	runBegins = 12
	// runGrowth: what is read ahead are that many times the images that came in
	// order before, as long as they are of one record. One who stops early has
	// cost little.
	runGrowth = 2
	// runSlack is how far from the next image one may be that still continues a
	// run: several threads of a reader overtake each other.
	runSlack = 2

	// maxStreams is how many readers are told apart: workers of a loader.
	maxStreams = 16

	// maxWindowBytes is read ahead at a time, and maxRunBytes kept at most.
	maxWindowBytes = 32 << 20
	maxRunBytes    = 128 << 20

	// windowGap is passed over rather than begun anew after, in windows: tags and
	// lengths lie between groups.
	windowGap = 64
)

// runs notices who reads in order.
type runs struct {
	mu      sync.Mutex
	clock   uint64
	streams [maxStreams]stream
	windows []*window
	bytes   int64 // of all windows
}

// stream is somebody who reads a folder.
type stream struct {
	folder *pcrFolder
	last   int // the largest image so far
	length int // images read in order
	used   uint64
}

// window is a number of images of a record that were read, or are being read,
// at once.
type window struct {
	r           *record
	first, end  int // images
	bytes       int64
	used        uint64
	outstanding int // images that nobody has fetched yet

	loaded chan struct{} // closed when the following are right
	err    error
	groups []windowGroup
}

// windowGroup is a piece of a record's group in memory.
type windowGroup struct {
	at   int64 // in the file
	data []byte
}

// next notes that an image is read, and returns a window that has it, if there
// is one, or is to be one: then the caller must load it.
func (s *runs) next(columns []column, image int) (w *window, load bool) {
	r := columns[0].r
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	length := s.follow(r.folder, int(r.First)+image)
	for i, w := range s.windows {
		if w.r != r || image < w.first || image >= w.end || len(columns) > len(w.groups) {
			continue
		}
		w.used = s.clock
		if w.outstanding--; w.outstanding <= 0 {
			s.remove(i)
		}
		return w, false
	}
	if length < runBegins {
		return nil, false
	}
	// Many readers share what is kept, so that no window goes before it is read.
	most := min(maxWindowBytes, maxRunBytes/int64(len(s.windows)+1))
	end, bytes := windowEnd(columns, image, length, most)
	if end-image < 2 {
		return nil, false
	}
	w = &window{
		r: r, first: image, end: end, bytes: bytes, used: s.clock, outstanding: end - image - 1,
		loaded: make(chan struct{}), groups: make([]windowGroup, len(columns)),
	}
	s.add(w)
	return w, true
}

// follow returns how many images its reader has read in order, with this one.
func (s *runs) follow(f *pcrFolder, image int) int {
	oldest := &s.streams[0]
	for i := range s.streams {
		t := &s.streams[i]
		if t.folder == f && image != t.last && image >= t.last-(runSlack-1) && image <= t.last+runSlack {
			t.last = max(t.last, image)
			t.length++
			t.used = s.clock
			return t.length
		}
		if t.used < oldest.used {
			oldest = t
		}
	}
	*oldest = stream{folder: f, last: image, length: 1, used: s.clock}
	return 1
}

// windowEnd returns up to which image a reader is given them, and their bytes.
func windowEnd(columns []column, image, length int, most int64) (end int, bytes int64) {
	r := columns[0].r
	if image == 0 && length >= r.Images {
		length = r.Images // the records before were read to their ends
	}
	for end = image; end < r.Images && end-image < runGrowth*length; end++ {
		var n int64
		for g := range columns {
			n += columns[g].length(end)
		}
		if bytes+n > most {
			break
		}
		bytes += n
	}
	return end, bytes
}

// add keeps a window, in the place of those that were used least recently.
func (s *runs) add(w *window) {
	for s.bytes+w.bytes > maxRunBytes && len(s.windows) > 0 {
		oldest := 0
		for i := range s.windows {
			if s.windows[i].used < s.windows[oldest].used {
				oldest = i
			}
		}
		s.remove(oldest)
	}
	s.windows = append(s.windows, w)
	s.bytes += w.bytes
}

func (s *runs) remove(i int) {
	last := len(s.windows) - 1
	s.bytes -= s.windows[i].bytes
	s.windows[i] = s.windows[last]
	s.windows[last] = nil
	s.windows = s.windows[:last]
}

// drop takes a window away that could not be loaded.
func (s *runs) drop(w *window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.windows {
		if s.windows[i] == w {
			s.remove(i)
			return
		}
	}
}

// load reads a window. Others may be waiting for it, so it goes on when the
// caller has gone.
func (w *window) load(ctx context.Context, d *Dataset, columns []column) {
	w.err = w.read(context.WithoutCancel(ctx), d, columns)
	close(w.loaded)
	if w.err != nil {
		d.runs.drop(w)
	}
}

func (w *window) read(ctx context.Context, d *Dataset, columns []column) error {
	f, err := w.r.open(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	parts := make([]part, len(columns))
	for g := range columns {
		c := &columns[g]
		at := c.at(w.first)
		end := c.at(w.end-1) + c.length(w.end-1)
		if size := w.r.info.Size; at > end || end > size {
			return fmt.Errorf("%w: scan group %d ends at byte %d of a file of %d", pcr.ErrDamaged, g+1, end, size)
		}
		parts[g] = part{at: at, n: end - at}
	}
	gap := max(d.maxGap, windowGap)
	for g := 0; g < len(parts); {
		last := g
		for last+1 < len(parts) && parts[last+1].at-(parts[last].at+parts[last].n) <= gap {
			last++
		}
		from, end := parts[g].at, parts[last].at+parts[last].n
		data := make([]byte, end-from)
		if err := readFull(ctx, offsetReader{countingReader{f, &d.bytesRead}, from}, data); err != nil {
			return err
		}
		for ; g <= last; g++ {
			w.groups[g] = windowGroup{at: parts[g].at, data: data[parts[g].at-from:][:parts[g].n]}
		}
	}
	return checkSame(f, w.r.info.ID)
}

// copyTo fills buf with the parts of an image, once the window is loaded.
func (w *window) copyTo(ctx context.Context, buf []byte, parts []part) error {
	select {
	case <-w.loaded:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.err != nil {
		return w.err
	}
	for i, p := range parts {
		g := &w.groups[i]
		buf = buf[copy(buf, g.data[p.at-g.at:][:p.n]):]
	}
	return nil
}
