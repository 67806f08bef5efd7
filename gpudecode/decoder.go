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
)

// Codec says how a request is encoded.
type Codec uint8

// The codecs. The zero value is none.
const (
	L3 Codec = iota + 1 // both formats of package l3
)

// String returns the name of the codec.
func (c Codec) String() string {
	if c == L3 {
		return "l3"
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
}

// Options are the settings of a Decoder. The zero value is useful.
type Options struct {
	Workers int          // images decoded at a time; 0: GOMAXPROCS
	Limits  l3.Limits    // of one image; fields of zero: l3.DefaultLimits
	Logger  *slog.Logger // nil: slog.Default()
}

// batchImagesMax bounds what a worker takes at a time. On a CPU a batch saves
// no more than taking turns at the queue's lock, and what waits in one worker's
// batch no other worker can have: few are enough.
const batchImagesMax = 4

// ErrClosed is returned for requests that come after Close.
var ErrClosed = errors.New("decoder is closed")

// ErrCodec is wrapped by the errors of requests whose codec is not known.
var ErrCodec = errors.New("unknown codec")

// PanicError is the error of a request whose codec panicked. The log has the
// stack.
type PanicError struct{ Value any }

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("the decoder panicked: %v", e.Value) }

// Decoder is a pool of workers that decode. Its methods may be called by any
// number of goroutines.
type Decoder struct {
	limits   l3.Limits
	logger   *slog.Logger
	workers  int
	decode   func(*l3.Decoder, *Request) error
	counters counters
	running  sync.WaitGroup // workers

	mu     sync.Mutex
	wake   sync.Cond // a request came, or closed was set
	queue  queue
	closed bool
}

// New starts the workers of a CPU pool. Close ends them.
func New(opt Options) *Decoder {
	return start(opt, decodeOnCPU)
}

// start is New with a function that decodes one request. It is called by every
// worker with a decoder of its own.
func start(opt Options, decode func(*l3.Decoder, *Request) error) *Decoder {
	d := &Decoder{limits: opt.Limits, logger: opt.Logger, workers: opt.Workers, decode: decode}
	if d.logger == nil {
		d.logger = slog.Default()
	}
	if d.workers <= 0 {
		d.workers = runtime.GOMAXPROCS(0)
	}
	d.wake.L = &d.mu
	for range d.workers {
		w := &worker{decoder: d, l3: l3.NewDecoder(d.limits)}
		d.running.Go(w.loop)
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
	j := &job{request: r, queued: time.Now(), done: make(chan struct{})}
	if !d.enqueue(j) {
		return waitError(r, ErrClosed)
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

// Close lets what waits be decoded, ends the workers and returns when they
// have ended. Requests that come after it fail with ErrClosed.
func (d *Decoder) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wake.Broadcast()
	d.running.Wait()
}

// enqueue puts j behind all that waits, unless the decoder is closed.
func (d *Decoder) enqueue(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.queue.push(j)
	d.wake.Signal()
	return true
}

// drop withdraws j and reports whether it still waited.
func (d *Decoder) drop(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.state != waiting {
		return false
	}
	j.state = dropped
	d.queue.remove(j)
	d.counters.dropped.Add(1)
	return true
}

// take waits for requests and moves a worker's share of them to batch. It
// returns an empty batch when the decoder is closed and nothing waits.
func (d *Decoder) take(batch []*job) []*job {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.queue.len == 0 && !d.closed {
		d.wake.Wait()
	}
	// Shared out among all workers, so that none sits idle while another has
	// a full batch, and the last requests of a burst end together.
	n := min((d.queue.len+d.workers-1)/d.workers, batchImagesMax)
	for range n {
		batch = append(batch, d.queue.pop())
	}
	return batch
}

// begin reports whether j is to be decoded and sees to it that it can no
// longer be dropped.
func (d *Decoder) begin(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.state == dropped {
		return false
	}
	j.state = running
	return true
}
