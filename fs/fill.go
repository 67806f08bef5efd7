package fs

import (
	"context"
	"fmt"
	"sync"

	"prismfs/dataset"
	"prismfs/gpudecode"
	"prismfs/tensor"
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

// fill writes the whole virtual file of a sample into dst: it reads the bytes
// that the sample costs, decodes them and gives them their form. If it is ahead
// of its reader it fails rather than wait for a place to decode.
func (m *mount) fill(s *dataset.Sample, form tensor.Form, dst []byte, ahead bool) error {
	layout, err := form.Layout(s.L3.Shape)
	if err != nil {
		return err
	}
	encoded := takeScratch()
	defer scratch.Put(encoded)
	*encoded, err = m.ds.ReadEncoded(background, s, *encoded)
	if err != nil {
		return err
	}
	n := s.L3.Shape.Bytes()
	if off, ok := layout.InPlace(); ok {
		pix := dst[off : off+n]
		if err := m.decode(s, *encoded, pix, ahead); err != nil {
			return err
		}
		return layout.Render(dst, pix)
	}
	pix := takeScratch()
	defer scratch.Put(pix)
	if int64(cap(*pix)) < n {
		*pix = make([]byte, n)
	}
	*pix = (*pix)[:n]
	if err := m.decode(s, *encoded, *pix, ahead); err != nil {
		return err
	}
	return layout.Render(dst, *pix)
}

func (m *mount) decode(s *dataset.Sample, encoded, pix []byte, ahead bool) error {
	err := m.decoder.Decode(background, &gpudecode.Request{
		Codec: gpudecode.L3, Encoded: encoded, Pix: pix, Name: s.Path, Ahead: ahead,
	})
	if err != nil {
		return fmt.Errorf("%d bytes: %w", len(encoded), err)
	}
	return nil
}
