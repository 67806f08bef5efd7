package gpudecode

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"prismfs/l3"
)

// decodeOnCPU decodes on the processor that calls it.
func decodeOnCPU(dec *l3.Decoder, r *Request) error {
	switch r.Codec {
	case L3:
		_, err := dec.Decode(r.Pix, r.Encoded)
		return err
	}
	return fmt.Errorf("%w: %v", ErrCodec, r.Codec)
}

// worker decodes batches until its Decoder is closed.
type worker struct {
	decoder *Decoder
	l3      *l3.Decoder // for its scratch memory
}

func (w *worker) loop() {
	batch := make([]*job, 0, batchImagesMax)
	for {
		batch = w.decoder.take(batch[:0])
		if len(batch) == 0 {
			return
		}
		w.run(batch)
		clear(batch) // keep no buffers of the callers alive
	}
}

// run decodes a batch, each request on its own.
func (w *worker) run(batch []*job) {
	counted := false
	for _, j := range batch {
		if !w.decoder.begin(j) {
			continue
		}
		if !counted { // a batch of dropped requests is none
			w.decoder.counters.batches.Add(1)
			counted = true
		}
		w.decode(j)
	}
}

// decode decodes one request and tells its caller. All is counted before that,
// so that a caller finds its own request in Stats.
func (w *worker) decode(j *job) {
	c := &w.decoder.counters
	begun := time.Now()
	err := w.decodeSafely(j.request)
	c.waitNS.Add(uint64(begun.Sub(j.queued)))
	c.decodeNS.Add(uint64(time.Since(begun)))
	c.batchImages.Add(1)
	if err != nil {
		c.errors.Add(1)
		j.err = fmt.Errorf("decode %s: %w", j.request.Name, err)
	} else {
		c.decoded.Add(1)
	}
	close(j.done)
}

// decodeSafely turns a panic of the codec into an error. Its scratch memory is
// not used again: nobody knows what state it was left in.
func (w *worker) decodeSafely(r *Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
			w.decoder.counters.panics.Add(1)
			w.decoder.logger.Error("a decoder panicked; the image is refused, all else goes on",
				slog.String("image", r.Name), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			w.l3 = l3.NewDecoder(w.decoder.limits)
		}
	}()
	return w.decoder.decode(w.l3, r)
}
