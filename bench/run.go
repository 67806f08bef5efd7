package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"prismfs/l3"
)

// DefaultRounds and DefaultImages are what Options that leave them 0 stand for.
const (
	DefaultRounds = 5
	DefaultImages = 200
)

// Options say how Run works. The zero value is good.
type Options struct {
	Rounds int // how often everything is decoded; 0: DefaultRounds
	Images int // the most images to measure, spread evenly over the folder; 0: DefaultImages
	Jobs   int // what "all cores" are; 0: the number of processors
	Effort int // l3.EncodeOptions.Effort
	// Progress, unless nil, is called after every step.
	Progress func(done, total int)
}

// ErrNoImages says that a folder holds nothing to measure.
var ErrNoImages = errors.New("no image to measure")

// A stored is an image as one codec has encoded it.
type stored struct {
	image   *sourceImage
	bytes   int64         // of the file
	encode  time.Duration // on one core
	data    []byte        // the file, of codecs that run in this process
	path    string        // the file, of others
	fastest time.Duration // of the rounds so far, on one core
}

// A codec is one way of storing images.
type codec interface {
	name() string
	// takes tells whether the codec can hold an image.
	takes(*sourceImage) bool
	// encode stores an image, on one core, after which its samples have come
	// out of the file unchanged. errInexact says that they would not.
	encode(ctx context.Context, image *sourceImage) (*stored, error)
	// decode decodes an image once, on one core, and returns what it took.
	decode(ctx context.Context, s *stored) (time.Duration, error)
	// decodeAll decodes images once, on all cores, and returns what it took.
	decodeAll(ctx context.Context, all []*stored) (time.Duration, error)
}

var errInexact = errors.New("the samples do not come out unchanged")

// Run measures every codec on the images of a folder, and the folders in it. An
// error that wraps ErrNoImages says that there is none to measure; what is wrong
// with one image, or with a program other than this one, is in the report.
func Run(ctx context.Context, dir string, opt Options) (*Report, error) {
	opt = opt.withDefaults()
	images, found, err := collect(ctx, dir, opt.Images)
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w in %s%s%s", ErrNoImages, dir, firstReason(found.skipped), l3Instead(found.l3Files))
	}
	scratch, err := os.MkdirTemp("", "prismfs-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for encoded images: %w", err)
	}
	defer os.RemoveAll(scratch)
	for i, image := range images {
		image.scratch = filepath.Join(scratch, fmt.Sprint(i))
	}
	report := newReport(dir, opt, images, found)
	codecs, closeAll := report.available(ctx, opt)
	defer closeAll()
	b := &benchmark{opt: opt, images: images, codecs: codecs, report: report}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	return report, nil
}

func (o Options) withDefaults() Options {
	if o.Rounds <= 0 {
		o.Rounds = DefaultRounds
	}
	if o.Images <= 0 {
		o.Images = DefaultImages
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.Effort <= 0 {
		o.Effort = l3.DefaultEffort
	}
	return o
}

// available starts what can be measured, PNG first, and notes in the report what
// cannot. The function that it returns ends it all.
func (r *Report) available(ctx context.Context, opt Options) ([]codec, func()) {
	var codecs []codec
	end := func() {}
	if pillow, err := startPillow(ctx, opt.Jobs); err != nil {
		r.absent("PNG, WebP", err)
	} else {
		end = pillow.close
		r.Programs = append(r.Programs, pillow.version)
		for _, c := range []pillowCodec{{pillow, pngFormat}, {pillow, webpFormat}} {
			if err := pillow.has(c.format); err != nil {
				r.absent(c.format, err)
				continue
			}
			codecs = append(codecs, c)
		}
	}
	if jxl, err := findJPEGXL(ctx, opt.Jobs); err != nil {
		r.absent("JPEG XL", err)
	} else {
		codecs = append(codecs, jxl)
		r.Programs = append(r.Programs, jxl.version)
	}
	for _, c := range l3Codecs(opt) {
		codecs = append(codecs, c)
	}
	return codecs, end
}

// A benchmark is one run of Run.
type benchmark struct {
	opt    Options
	images []*sourceImage
	codecs []codec
	report *Report

	stored map[codec][]*stored
	all    map[codec]time.Duration // the fastest round on all cores
	done   int
	total  int
}

func (b *benchmark) run(ctx context.Context) error {
	// Go's scheduler may move a goroutine to another core in the middle of a
	// measurement.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.stored = map[codec][]*stored{}
	b.all = map[codec]time.Duration{}
	b.total = len(b.codecs) * (len(b.images) + b.opt.Rounds*(len(b.images)+1))
	if err := b.encode(ctx); err != nil {
		return err
	}
	for round := range b.opt.Rounds {
		if err := b.round(ctx, round); err != nil {
			return err
		}
	}
	b.report.finish(b)
	return nil
}

// encode stores every image by every codec.
func (b *benchmark) encode(ctx context.Context) error {
	for _, image := range b.images {
		for _, c := range b.codecs {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.step()
			if !c.takes(image) {
				continue
			}
			s, err := c.encode(ctx, image)
			if err != nil {
				b.fail(c, image, err)
				continue
			}
			b.stored[c] = append(b.stored[c], s)
		}
	}
	return ctx.Err()
}

// round decodes everything once, each round beginning with another codec, so
// that none always follows the same other.
func (b *benchmark) round(ctx context.Context, round int) error {
	for i := range b.codecs {
		c := b.codecs[(i+round)%len(b.codecs)]
		if err := b.oneCore(ctx, c); err != nil {
			return err
		}
	}
	for i := range b.codecs {
		c := b.codecs[(i+round)%len(b.codecs)]
		if err := ctx.Err(); err != nil {
			return err
		}
		b.step()
		if len(b.stored[c]) == 0 {
			continue
		}
		took, err := c.decodeAll(ctx, b.stored[c])
		if err != nil {
			b.fail(c, nil, err)
			continue
		}
		if before, ok := b.all[c]; !ok || took < before {
			b.all[c] = took
		}
	}
	return ctx.Err()
}

func (b *benchmark) oneCore(ctx context.Context, c codec) error {
	kept := b.stored[c][:0]
	for _, s := range b.stored[c] {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.step()
		took, err := c.decode(ctx, s)
		if err != nil {
			b.fail(c, s.image, err)
			continue
		}
		if s.fastest == 0 || took < s.fastest {
			s.fastest = took
		}
		kept = append(kept, s)
	}
	b.stored[c] = kept
	return nil
}

// fail notes that a codec could not be measured on an image, or on all of them
// at once where image is nil. An interrupt is none of that.
func (b *benchmark) fail(c codec, image *sourceImage, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	subject := "all cores"
	if image != nil {
		subject = image.path
	}
	b.report.failed(Problem{Subject: subject, Codec: c.name(), Reason: err.Error()})
}

func (b *benchmark) step() {
	b.done++
	if b.opt.Progress != nil {
		b.opt.Progress(min(b.done, b.total), b.total)
	}
}
