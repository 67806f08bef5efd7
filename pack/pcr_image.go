package pack

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"prismfs/internal/imagefile"
	"prismfs/internal/jpeg"
	"prismfs/pcr"
	"prismfs/raster"
)

// recordImage is what became of a source: an image for a record, or a reason
// why there is none.
type recordImage struct {
	pcr.Image
	stamp     stamp
	format    imagefile.Format
	encoded   bool   // not a JPEG before
	lostAlpha bool   // the source has an alpha channel, JPEG has none
	reason    string // of the refusal, "" for an image
}

// imageMaker makes images for records out of files. It serves one goroutine.
type imageMaker struct {
	source  string
	plan    *pcrPlan
	opt     PCROptions
	file    []byte // of the source, reused
	decoder *jpeg.Decoder
	pixels  [2][]byte // of the comparison, reused
}

// newImageMaker returns a maker, which Close frees.
func newImageMaker(source string, plan *pcrPlan, opt PCROptions) (*imageMaker, error) {
	d, err := jpeg.NewDecoder()
	if err != nil {
		return nil, err
	}
	return &imageMaker{source: source, plan: plan, opt: opt, decoder: d}, nil
}

// Close frees the memory of the decoder.
func (m *imageMaker) Close() { m.decoder.Close() }

// make reads a source and makes its image; what goes wrong, a fault that the
// file brings out included, is the reason of a refusal.
func (m *imageMaker) make(s pcrSource) (r recordImage) {
	path := m.plan.path(s)
	defer func() {
		if p := recover(); p != nil {
			r = recordImage{reason: fmt.Sprintf("a fault in prismfs, please report it: %v at %s", p, firstFrame())}
		}
		if r.stamp == (stamp{}) {
			r.stamp = stampAt(filepath.Join(m.source, path))
		}
	}()
	if err := m.read(path, &r); err != nil {
		r.reason = reasonOf(err)
		return r
	}
	r.Label, r.Class, r.Name = s.label, m.plan.classes[s.label], s.name
	err := m.convert(&r)
	if err == nil {
		// What a record cannot hold must not end the record.
		_, _, err = pcr.AppendRecord(nil, []pcr.Image{r.Image}, pcr.RecordInfo{})
	}
	if err != nil {
		r.reason = reasonOf(err)
	}
	return r
}

// read reads the file and finds its format.
func (m *imageMaker) read(path string, r *recordImage) error {
	f, info, err := openRegular(m.source, path)
	if err != nil {
		return err
	}
	defer f.Close()
	r.stamp = stampOf(info)
	prefix, err := readPrefix(f)
	if err != nil {
		return err
	}
	c, format := judge(path, prefix)
	switch {
	case c == anL3:
		return errors.New("it is an L3 file: restore its image by 'prismfs unpack' first")
	case c != anImage && c.reason() != "":
		return errors.New(c.reason())
	case c != anImage:
		return errors.New("it is no image, and a record holds nothing else")
	}
	r.format = format
	if most := m.opt.MaxPixels*raster.MaxChannels*2 + 64<<20; info.Size() > most {
		return fmt.Errorf("the file has %d bytes, more than an image of %d pixels can need", info.Size(), m.opt.MaxPixels)
	}
	m.file, err = readWhole(f, info, m.file)
	return err
}

// convert makes the progressive JPEG.
func (m *imageMaker) convert(r *recordImage) error {
	if r.format == imagefile.JPEG {
		return m.transcode(r)
	}
	return m.encode(r)
}

// transcode turns a JPEG progressive, and sees that its pixels stay what they
// were.
func (m *imageMaker) transcode(r *recordImage) error {
	opt := jpeg.Options{MaxPixels: m.opt.MaxPixels}
	h, err := m.decoder.Header(m.file, opt)
	if err != nil {
		return err
	}
	if m.pixels[0], err = m.decode(m.pixels[0], m.file, h); err != nil {
		return err
	}
	if r.JPEG, err = jpeg.Transcode(m.file, opt); err != nil {
		return err
	}
	same, err := m.sameAsSource(r.JPEG, h)
	if err == nil && !same {
		err = errors.New("the progressive image has other pixels")
	}
	if err != nil {
		return fmt.Errorf("a fault in prismfs, please report it with the image: %w", err)
	}
	r.Width, r.Height, r.Components = h.Width, h.Height, h.Components
	return nil
}

// sameAsSource decodes a JPEG and compares it with the source, which
// m.pixels[0] holds.
func (m *imageMaker) sameAsSource(data []byte, source jpeg.Header) (bool, error) {
	h, err := m.decoder.Header(data, jpeg.Options{MaxPixels: m.opt.MaxPixels})
	if err != nil {
		return false, err
	}
	if h.Shape() != source.Shape() || h.Components != source.Components {
		return false, nil
	}
	if m.pixels[1], err = m.decode(m.pixels[1], data, h); err != nil {
		return false, err
	}
	return bytes.Equal(m.pixels[0], m.pixels[1]), nil
}

// decode decodes a JPEG into buf, which grows where it must.
func (m *imageMaker) decode(buf, data []byte, h jpeg.Header) ([]byte, error) {
	size := h.Shape().Bytes()
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := m.decoder.Decode(buf, data, h, jpeg.Options{MaxPixels: m.opt.MaxPixels})
	return buf, err
}

// encode makes a JPEG of an image in another format.
func (m *imageMaker) encode(r *recordImage) error {
	img, err := imagefile.Decode(m.file, imagefile.Limits{MaxPixels: m.opt.MaxPixels})
	if err != nil {
		return err
	}
	colours, lost, err := forJPEG(img.Image)
	if err != nil {
		return err
	}
	data, err := jpeg.EncodeProgressive(colours, jpeg.EncodeOptions{Quality: m.opt.Quality, Profile: img.ColourProfile})
	if err != nil {
		return err
	}
	h, err := m.decoder.Header(data, jpeg.Options{MaxPixels: m.opt.MaxPixels})
	if err == nil && h.Shape() != colours.Shape {
		err = fmt.Errorf("%v was encoded, %v comes out", colours.Shape, h.Shape())
	}
	if err == nil {
		m.pixels[1], err = m.decode(m.pixels[1], data, h)
	}
	if err != nil {
		return fmt.Errorf("a fault in prismfs, please report it with the image: %w", err)
	}
	r.JPEG, r.encoded, r.lostAlpha = data, true, lost
	r.Width, r.Height, r.Components = h.Width, h.Height, h.Components
	return nil
}

// forJPEG returns an image as JPEG can hold it: without alpha, as PIL's
// convert("RGB") leaves it out.
func forJPEG(img raster.Image) (colours raster.Image, lostAlpha bool, err error) {
	if img.DType != raster.Uint8 {
		return raster.Image{}, false, fmt.Errorf("its samples are %v, and JPEG holds 8 bits: convert it in a way of your choice", img.DType)
	}
	keep := img.Channels
	switch img.Color {
	case raster.Grey, raster.RGB:
		return img, false, nil
	case raster.GreyAlpha:
		keep, colours.Color = 1, raster.Grey
	case raster.RGBA:
		keep, colours.Color = 3, raster.RGB
	default:
		if img.Channels != 1 {
			return raster.Image{}, false, fmt.Errorf("it is an array of %d channels that mean nothing to JPEG", img.Channels)
		}
		colours.Color = raster.Grey
	}
	colours.Height, colours.Width, colours.Channels, colours.DType = img.Height, img.Width, keep, img.DType
	if keep == img.Channels {
		colours.Pix = img.Pix
		return colours, false, nil
	}
	colours.Pix = make([]byte, 0, colours.Bytes())
	for at := 0; at < len(img.Pix); at += img.Channels {
		colours.Pix = append(colours.Pix, img.Pix[at:at+keep]...)
	}
	return colours, true, nil
}
