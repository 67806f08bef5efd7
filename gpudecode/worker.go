package gpudecode

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"prismfs/l3"
)

// helpedBytes is the size of samples from which free places help with an image.
// Waking one takes as long as decoding some 50 KB.
const helpedBytes = 1 << 20

// place is the right to decode, with the scratch memory for it. It is the crew
// of an image that it decodes: free places, as long as no request waits.
type place struct {
	decoder *Decoder
	l3      *l3.Decoder
}

// decodeOnCPU decodes on the processor that calls it, and on others.
func decodeOnCPU(p *place, r *Request) error {
	switch r.Codec {
	case L3:
		var crew l3.Crew
		if len(r.Pix) >= helpedBytes && p.decoder.all > 1 && !r.Ahead {
			crew = p
		}
		begun := time.Now()
		info, err := p.l3.DecodeWith(crew, r.Pix, r.Encoded)
		if dev := p.decoder.device; dev != nil && err == nil {
			dev.decodedHere(info.Coding, r, time.Since(begun))
		}
		return err
	case JPEG:
		return decodeJPEG(p, r)
	}
	return fmt.Errorf("%w: %v", ErrCodec, r.Codec)
}

// work decodes what waits until the decoder is closed.
func (d *Decoder) work() {
	for {
		p, j := d.next()
		if p == nil {
			return
		}
		j.err = p.run(j.request, j.queued)
		close(j.done)
		d.giveBack(p, false)
	}
}

// run decodes one request, which has waited since queued, if that is not zero.
// All is counted before it returns, so that a caller finds its own request in
// Stats.
func (p *place) run(r *Request, queued time.Time) error {
	c := &p.decoder.counters
	begun := time.Now()
	err := p.decodeSafely(r)
	if !queued.IsZero() {
		c.waitNS.Add(uint64(begun.Sub(queued)))
	}
	c.decodeNS.Add(uint64(time.Since(begun)))
	c.images.Add(1)
	if err != nil {
		c.errors.Add(1)
		return fmt.Errorf("decode %s: %w", r.Name, err)
	}
	c.decoded.Add(1)
	return nil
}

// decodeSafely turns a panic of the codec into an error. Its scratch memory is
// not used again: nobody knows what state it was left in.
func (p *place) decodeSafely(r *Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
			p.decoder.counters.panics.Add(1)
			p.decoder.logger.Error("a decoder panicked; the image is refused, all else goes on",
				slog.String("image", r.Name), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			p.l3 = l3.NewDecoder(p.decoder.limits)
		}
	}()
	return p.decoder.decode(p, r)
}

// Join lends a free place to the image, unless a request waits.
func (p *place) Join() bool {
	d := p.decoder
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.spare() {
		return false
	}
	d.free--
	d.counters.helpers.Add(1)
	return true
}

// Leave takes a lent place back when a request waits that no other one is free
// for.
func (p *place) Leave() bool {
	d := p.decoder
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.len <= d.free {
		return false
	}
	d.freed()
	return true
}

// Done takes a lent place back.
func (p *place) Done() {
	d := p.decoder
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freed()
}
