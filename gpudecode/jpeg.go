package gpudecode

import (
	"errors"
	"fmt"

	"prismfs/internal/jpeg"
	"prismfs/raster"
)

// ErrShape is wrapped by the errors of JPEGs that are not of the shape that the
// request says.
var ErrShape = errors.New("the JPEG has another shape")

// JPEGLibrary names the library that JPEGs are decoded with, and its version.
func JPEGLibrary() string { return jpeg.Version() }

// decodeJPEG decodes a JPEG to the samples that PIL gives: grey stays one
// channel, everything else becomes RGB. The decompressors are those of package
// jpeg, which has as many as are ever in use.
func decodeJPEG(p *place, r *Request) error {
	d, err := jpeg.Borrow()
	if err != nil {
		return err
	}
	// After a panic nobody knows what state it is in.
	back := d.Close
	defer func() { back() }()
	err = decodeJPEGWith(d, p.decoder, r)
	back = func() { jpeg.Return(d) }
	return err
}

func decodeJPEGWith(d *jpeg.Decoder, of *Decoder, r *Request) error {
	opt := jpeg.Options{MaxPixels: of.limits.MaxPixels, TolerateWarnings: of.tolerate}
	h, err := d.Header(r.Encoded, opt)
	if err != nil {
		return fmt.Errorf("JPEG: %w", err)
	}
	// Sides may be exchanged in as many bytes.
	if got := h.Shape(); got != r.Shape {
		return fmt.Errorf("%w: %v, not %v", ErrShape, got, r.Shape)
	}
	if err := checkPix(r.Pix, r.Shape); err != nil {
		return err
	}
	warnings, err := d.Decode(r.Pix, r.Encoded, h, opt)
	if err != nil {
		return fmt.Errorf("JPEG: %w", err)
	}
	if warnings.Count > 0 {
		of.counters.tolerated.Add(1)
		of.logger.Debug("a JPEG with warnings is served", "image", r.Name, "warnings", warnings.Count, "first", warnings.First)
	}
	return nil
}

func checkPix(pix []byte, s raster.Shape) error {
	if int64(len(pix)) != s.Bytes() {
		return fmt.Errorf("%w: %d bytes for an image of %v", ErrShape, len(pix), s)
	}
	return nil
}
