package bench

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"prismfs/l3"
	"prismfs/raster"
)

// l3Codecs returns the codings of L3.
func l3Codecs(opt Options) []*l3Codec {
	all := func(raster.Shape) bool { return true }
	codings := []*l3Codec{
		{title: "published", mode: l3.ModePublished, holds: wholePatches},
		{title: "fast", mode: l3.ModeFast, holds: all},
		{title: "dense", mode: l3.ModeDense, holds: all},
		{title: "labels", mode: l3.ModeLabels, holds: oneByteChannel},
	}
	for _, c := range codings {
		c.effort, c.jobs, c.decoder = opt.Effort, opt.Jobs, l3.NewDecoder(l3.Limits{})
	}
	return codings
}

// wholePatches tells whether the published format can hold an image.
func wholePatches(s raster.Shape) bool {
	const edge = 64
	return s.DType == raster.Uint8 && s.Channels == 3 && s.Width%edge == 0 && s.Height%edge == 0
}

func oneByteChannel(s raster.Shape) bool { return s.DType == raster.Uint8 && s.Channels == 1 }

// l3Codec is a coding of L3.
type l3Codec struct {
	title   string
	mode    l3.Mode
	holds   func(raster.Shape) bool
	effort  int
	jobs    int
	decoder *l3.Decoder
	pixels  []byte // what decode writes to
	workers []*allWorker
	queue   []*stored // of decodeAll
}

func (c *l3Codec) name() string                  { return c.title }
func (c *l3Codec) takes(image *sourceImage) bool { return c.holds(image.Shape) }

func (c *l3Codec) encode(_ context.Context, image *sourceImage) (*stored, error) {
	start := time.Now()
	file, err := l3.Encode(image.Image, l3.EncodeOptions{
		Mode: c.mode, Effort: c.effort, SignificantBits: image.SignificantBits,
	})
	took := time.Since(start)
	if err != nil {
		return nil, err
	}
	s := &stored{image: image, bytes: int64(len(file)), encode: took, data: file}
	if _, err := c.decode(context.Background(), s); err != nil {
		return nil, err
	}
	if !bytes.Equal(c.pixels, image.Pix) {
		return nil, errInexact
	}
	return s, nil
}

func (c *l3Codec) decode(_ context.Context, s *stored) (time.Duration, error) {
	c.pixels = sized(c.pixels, s.image.Bytes())
	start := time.Now()
	_, err := c.decoder.Decode(c.pixels, s.data)
	return time.Since(start), err
}

// sized returns b with a length of n, a new one where it is too small.
func sized(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	return b[:n]
}

// decodeAll decodes image by image on as many goroutines as there are jobs; one
// that finds no image left helps with the patches of those that are not done.
func (c *l3Codec) decodeAll(ctx context.Context, all []*stored) (time.Duration, error) {
	c.prepareWorkers(all)
	var next atomic.Int64
	var wg sync.WaitGroup
	spare := &spareJobs{}
	start := time.Now()
	for _, w := range c.workers {
		wg.Go(func() {
			w.work(ctx, c.queue, &next, spare)
			spare.Done()
		})
	}
	wg.Wait()
	took := time.Since(start)
	for _, w := range c.workers {
		if w.err != nil {
			return 0, w.err
		}
	}
	return took, ctx.Err()
}

// prepareWorkers has memory ready, and touched, before the clock starts, and
// orders the images: the largest first, so that none is begun last.
func (c *l3Codec) prepareWorkers(all []*stored) {
	c.queue = append(c.queue[:0], all...)
	sort.SliceStable(c.queue, func(i, j int) bool { return c.queue[i].image.Bytes() > c.queue[j].image.Bytes() })
	for len(c.workers) < c.jobs {
		w := &allWorker{decoder: l3.NewDecoder(l3.Limits{}), pixels: make([]byte, c.queue[0].image.Bytes())}
		for i := range w.pixels {
			w.pixels[i] = 1
		}
		c.workers = append(c.workers, w)
	}
}

// An allWorker decodes images of which others decode others.
type allWorker struct {
	decoder *l3.Decoder
	pixels  []byte
	err     error
}

func (w *allWorker) work(ctx context.Context, queue []*stored, next *atomic.Int64, spare *spareJobs) {
	for i := int(next.Add(1)) - 1; i < len(queue) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
		s := queue[i]
		if _, err := w.decoder.DecodeWith(spare, w.pixels[:s.image.Bytes()], s.data); err != nil {
			w.err = fmt.Errorf("%s: %w", s.image.path, err)
			return
		}
	}
}

// spareJobs is a crew of the jobs that have no image of their own.
type spareJobs struct{ free atomic.Int64 }

func (s *spareJobs) Join() bool {
	for {
		free := s.free.Load()
		if free == 0 {
			return false
		}
		if s.free.CompareAndSwap(free, free-1) {
			return true
		}
	}
}

func (s *spareJobs) Leave() bool { return false }
func (s *spareJobs) Done()       { s.free.Add(1) }
