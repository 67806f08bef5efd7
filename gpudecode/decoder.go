package gpudecode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"prismfs/l3"
	"prismfs/raster"
)

// Codec says how a request is encoded.
type Codec uint8

// The codecs. The zero value is none.
const (
	L3   Codec = iota + 1 // both formats of package l3
	JPEG                  // what package internal/jpeg reads
)

// String returns the name of the codec.
func (c Codec) String() string {
	switch c {
	case L3:
		return "l3"
	case JPEG:
		return "jpeg"
	}
	return fmt.Sprintf("Codec(%d)", uint8(c))
}

// Request is one image to be decoded. Its buffers belong to the Decoder from
// the call of Decode until that returns.
type Request struct {
	Codec   Codec
	Encoded []byte // the whole file
	Pix     []byte // receives the samples: H×W×C, little-endian, exactly as long as they are
	Name    string // of the image, for errors and the log

	// Shape is that of the image. A JPEG of another one is an error; an L3 file
	// is held against the length of Pix alone.
	Shape raster.Shape

	// Ahead says that nobody waits for the image yet. Such a request is decoded
	// where a place is free, and keeps none from others. Else it fails with
	// ErrBusy.
	Ahead bool

	// Reader says who asks. Where many images are decoded at a time, readers
	// take turns.
	Reader uint64
}

// Options are the settings of a Decoder. The zero value is useful.
type Options struct {
	Workers int          // goroutines that decode at a time; 0: GOMAXPROCS
	Limits  l3.Limits    // of one image; fields of zero: l3.DefaultLimits
	Logger  *slog.Logger // nil: slog.Default()

	// TolerateWarnings gives the samples of JPEGs of which libjpeg warns that
	// they are corrupt, as PIL does. Else they are errors.
	TolerateWarnings bool

	// Backend says where Open lets images be decoded, and Device on which one:
	// its index, its UUID, or the UUID of a part of it (MIG); empty: the one that
	// is freest.
	Backend Backend
	Device  string
}

// ErrClosed is returned for requests that come after Close.
var ErrClosed = errors.New("decoder is closed")

// ErrBusy is wrapped by the errors of requests that would have had to wait and
// are not worth it.
var ErrBusy = errors.New("no place is free to decode ahead")

// ErrCodec is wrapped by the errors of requests whose codec is not known.
var ErrCodec = errors.New("unknown codec")

// PanicError is the error of a request whose codec panicked. The log has the
// stack.
type PanicError struct{ Value any }

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("the decoder panicked: %v", e.Value) }

// Decoder decodes in a fixed number of places. Its methods may be called by any
// number of goroutines.
type Decoder struct {
	limits   l3.Limits
	tolerate bool // warnings of libjpeg
	logger   *slog.Logger
	backend  string
	decode   func(*place, *Request) error
	counters counters
	running  sync.WaitGroup // workers
	device   *scheduler     // nil: the CPU decodes all
	noDevice string         // why there is none

	mu     sync.Mutex
	wake   sync.Cond // a worker is to look: for a request and a place, or the end
	left   sync.Cond // a place was given back
	queue  queue
	all    int      // places
	free   int      // of them, nobody's, or used ahead
	ahead  int      // images that are decoded ahead, beside those in places
	idle   []*place // with scratch memory, as many as were ever in use
	inside int      // requests that a device may decode
	ending bool     // Close has been called
	closed bool     // nothing is taken any more
}

// New makes a Decoder on the CPU. Close ends it.
func New(opt Options) *Decoder {
	return start(opt, decodeOnCPU)
}

// start is New with a function that decodes one request.
func start(opt Options, decode func(*place, *Request) error) *Decoder {
	d := &Decoder{limits: opt.Limits, tolerate: opt.TolerateWarnings, logger: opt.Logger, all: opt.Workers, decode: decode}
	if d.logger == nil {
		d.logger = slog.Default()
	}
	if d.all <= 0 {
		d.all = runtime.GOMAXPROCS(0)
	}
	d.free = d.all
	d.wake.L, d.left.L = &d.mu, &d.mu
	d.backend = l3.NewDecoder(d.limits).Backend()
	for range d.all {
		d.running.Go(d.work)
	}
	return d
}

// Decode decodes r and returns when r.Pix holds all its samples, or with an
// error, after which r.Pix holds anything.
//
// When ctx ends while r waits, it is dropped and the error is that of ctx.
// Once r is being decoded it is finished, because its buffers are in use, and
// the outcome is that of the decoding.
func (d *Decoder) Decode(ctx context.Context, r *Request) error {
	if err := ctx.Err(); err != nil {
		return waitError(r, err)
	}
	if d.device == nil {
		return d.decodeHere(ctx, r)
	}
	if !d.enter() {
		return waitError(r, ErrClosed)
	}
	defer d.leave()
	decoded, refused, err := d.device.decode(ctx, r)
	switch {
	case err != nil:
		return waitError(r, err)
	case decoded:
		d.counters.onDevice()
		return nil
	}
	if err = d.decodeHere(ctx, r); err == nil && refused {
		d.disagreed(r)
	}
	return err
}

// decodeHere decodes r on the CPU.
func (d *Decoder) decodeHere(ctx context.Context, r *Request) error {
	p, j, err := d.admit(r)
	switch {
	case err != nil:
		return waitError(r, err)
	case p != nil:
		err = p.run(r, time.Time{})
		d.giveBack(p, r.Ahead)
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	if d.drop(j) {
		return waitError(r, ctx.Err())
	}
	<-j.done
	return j.err
}

// waitError is the error of a request that was not decoded.
func waitError(r *Request, err error) error {
	return fmt.Errorf("%s was not decoded: %w", r.Name, err)
}

// Close lets what waits be decoded, ends the workers and returns when nothing
// is decoded any more. Requests that come after it fail with ErrClosed.
func (d *Decoder) Close() {
	if d.device != nil {
		d.endDevice()
	}
	d.mu.Lock()
	d.closed = true
	d.letEnd()
	d.mu.Unlock()
	d.running.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.free < d.all || d.ahead > 0 {
		d.left.Wait()
	}
}

// admit returns a place for r, in which its caller is to decode it, or a job in
// the queue.
func (d *Decoder) admit(r *Request) (*place, *job, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, ErrClosed
	}
	switch {
	case r.Ahead && !d.spare():
		return nil, nil, ErrBusy
	case r.Ahead:
		d.ahead++
		return d.scratch(), nil, nil
	case d.free > 0 && d.queue.len == 0:
		return d.take(), nil, nil
	}
	j := &job{request: r, queued: time.Now(), done: make(chan struct{})}
	d.queue.push(j)
	if d.free > 0 {
		d.wake.Signal()
	}
	return nil, j, nil
}

// Spare reports whether an image would be decoded ahead just now.
func (d *Decoder) Spare() bool {
	if d.device != nil && d.device.spare() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spare()
}

// spare reports whether a place is free for what nobody waits for. The lock is
// held.
func (d *Decoder) spare() bool { return d.ahead < d.free && d.queue.len == 0 }

// take takes a free place; there must be one. The lock is held.
func (d *Decoder) take() *place {
	d.free--
	return d.scratch()
}

// scratch returns a place with its memory. The lock is held.
func (d *Decoder) scratch() *place {
	last := len(d.idle) - 1
	if last < 0 {
		return &place{decoder: d, l3: l3.NewDecoder(d.limits)}
	}
	p := d.idle[last]
	d.idle = d.idle[:last]
	return p
}

// giveBack frees a place, or ends what was decoded ahead.
func (d *Decoder) giveBack(p *place, ahead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, p)
	if ahead {
		d.ahead--
		d.letEnd()
		return
	}
	d.freed()
}

// freed counts a place that is free again and wakes who waits for it. The lock
// is held.
func (d *Decoder) freed() {
	d.free++
	if d.queue.len > 0 {
		d.wake.Signal()
	}
	d.letEnd()
}

// letEnd wakes all who wait for the end, if the decoder is closed. The lock is
// held.
func (d *Decoder) letEnd() {
	if d.closed {
		d.wake.Broadcast()
		d.left.Broadcast()
	}
}

// drop withdraws j and reports whether it still waited.
func (d *Decoder) drop(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.queue.remove(j) {
		return false
	}
	d.letEnd()
	d.counters.dropped.Add(1)
	return true
}

// next waits for a request and a place to decode it. It returns nil when the
// decoder is closed and nothing waits.
func (d *Decoder) next() (*place, *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.queue.len == 0 || d.free == 0 {
		if d.closed && d.queue.len == 0 {
			return nil, nil
		}
		d.wake.Wait()
	}
	j := d.queue.pop()
	d.letEnd()
	return d.take(), j
}
