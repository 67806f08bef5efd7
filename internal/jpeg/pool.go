package jpeg

import (
	"runtime"

	"prismfs/raster"
)

// idle keeps the decompressors of Decode between images. A channel, since a
// sync.Pool would lose C's memory when the collector empties it.
var idle = make(chan *Decoder, runtime.NumCPU())

// Borrow returns an idle decoder of the package's, or a new one.
func Borrow() (*Decoder, error) {
	select {
	case d := <-idle:
		return d, nil
	default:
		return NewDecoder()
	}
}

// Return gives back a decoder that Borrow returned.
func Return(d *Decoder) {
	select {
	case idle <- d:
	default:
		d.Close()
	}
}

// Decoded is an image with what its file says of it.
type Decoded struct {
	raster.Image
	Header   Header
	Profile  []byte // ICC profile or nil
	Warnings Warnings
}

// Decode decodes a whole file into memory of its own. Errors are *Error.
func Decode(data []byte, opt Options) (*Decoded, error) {
	d, err := Borrow()
	if err != nil {
		return nil, err
	}
	defer Return(d)
	h, profile, err := d.HeaderAndProfile(data, opt)
	if err != nil {
		return nil, err
	}
	img := raster.Image{Shape: h.Shape(), Pix: make([]byte, h.Shape().Bytes())}
	w, err := d.Decode(img.Pix, data, h, opt)
	if err != nil {
		return nil, err
	}
	return &Decoded{Image: img, Header: h, Profile: profile, Warnings: w}, nil
}
