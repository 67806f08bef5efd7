package fs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"prismfs/dataset"
	"prismfs/gpudecode"
)

// background is the context of work for a reader. An interrupt does not end
// it: the kernel interrupts a request for any signal, and work that can finish
// serves whoever comes next.
var background = context.Background()

// scratch holds encoded bytes, and samples that must be rearranged, between
// requests.
var scratch sync.Pool

func takeScratch() *[]byte {
	if b, ok := scratch.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// giveScratch keeps scratch memory for the next fill. Where memory is short, large
// ones are left to the collector instead: the pool would keep several, for two of its rounds.
func (m *mount) giveScratch(b *[]byte) {
	if m.keepScratch == 0 || int64(cap(*b)) <= m.keepScratch {
		scratch.Put(b)
	}
}

// asked says for whom a file is made.
type asked struct {
	by    uint64     // as readerOf has it
	ahead bool       // nobody waits for it yet: a place to decode that is free will do
	took  *fillTimes // set, if not nil
	// request is the kernel's, see requestsInFlight; nil for none.
	request <-chan struct{}
}

// fill writes the whole virtual file of a sample into dst: it reads the bytes
// that the fidelity costs, decodes them and gives them their form.
func (m *mount) fill(c content, dst []byte, a asked) error {
	m.layer.flight.of(a.request).waitsFor(forSource, c.size)
	if !c.form.Decoded() {
		return m.fillStored(c, dst, a)
	}
	layout, err := c.form.Layout(c.sample.Shape)
	if err != nil {
		return err
	}
	encoded := takeScratch()
	defer m.giveScratch(encoded)
	*encoded, err = m.readEncoded(c, *encoded, a)
	if err != nil {
		return err
	}
	n := c.sample.Shape.Bytes()
	if off, ok := layout.InPlace(); ok {
		pix := dst[off : off+n]
		if err := m.decode(c.sample, *encoded, pix, a); err != nil {
			return err
		}
		return layout.Render(dst, pix)
	}
	pix := takeScratch()
	defer m.giveScratch(pix)
	if int64(cap(*pix)) < n {
		*pix = make([]byte, n)
	}
	*pix = (*pix)[:n]
	if err := m.decode(c.sample, *encoded, *pix, a); err != nil {
		return err
	}
	return layout.Render(dst, *pix)
}

// fillStored writes the stored bytes of a sample, where possible right into dst.
func (m *mount) fillStored(c content, dst []byte, a asked) error {
	encoded, err := m.readEncoded(c, dst[:0], a)
	if err != nil {
		return err
	}
	if len(encoded) != len(dst) {
		return fmt.Errorf("%s: %d bytes were read, %d announced: %w", c.sample.Path, len(encoded), len(dst), dataset.ErrChanged)
	}
	if len(dst) > 0 && &encoded[0] != &dst[0] {
		copy(dst, encoded)
	}
	return nil
}

// readEncoded reads the stored bytes of a content.
func (m *mount) readEncoded(c content, into []byte, a asked) ([]byte, error) {
	begun := time.Now()
	encoded, err := m.ds.ReadEncoded(background, c.sample, c.fidelity, into)
	took := time.Since(begun)
	m.storeNS.Add(uint64(took))
	if a.took != nil {
		a.took.store += took
	}
	return encoded, err
}

func (m *mount) decode(s *dataset.Sample, encoded, pix []byte, a asked) error {
	m.layer.flight.of(a.request).waitsFor(forDecoder, int64(len(pix)))
	if a.took != nil {
		begun := time.Now()
		defer func() { a.took.decode += time.Since(begun) }()
	}
	codec := gpudecode.L3
	if s.Format == dataset.PCR {
		codec = gpudecode.JPEG
	}
	r := gpudecode.Request{
		Codec: codec, Encoded: encoded, Pix: pix, Shape: s.Shape, Name: s.Path, Ahead: a.ahead, Reader: a.by,
	}
	err := m.decoder.Decode(background, &r)
	if errors.Is(err, gpudecode.ErrBusy) {
		// There was a place when the bytes were asked for. Now that they are here,
		// waiting for one costs less than reading them once more.
		r.Ahead = false
		err = m.decoder.Decode(background, &r)
	}
	if err != nil {
		return s.InRecord(fmt.Errorf("%d bytes: %w", len(encoded), err))
	}
	return nil
}
