// Package jpeg decodes JPEG files with libjpeg-turbo's jpeglib interface, to
// the pixels that PIL gives for the same bytes: the slow integer DCT, smooth
// upsampling, smoothing across blocks while scans are missing. It makes
// progressive JPEGs, too: of others without loss, and of pixels.
//
// A warning of libjpeg says that the data is corrupt, so it is an error here
// unless Options.TolerateWarnings is set. Decoding stops at the first EOI;
// what follows is not looked at. Data that ends before EOI is ErrTruncated.
// Sizes, scans and memory are bounded, and no bytes make the package panic.
//
// The package knows nothing of orientation and does not apply colour
// profiles.
package jpeg

/*
#cgo pkg-config: libjpeg
#include <stdio.h> // jpeglib.h needs it
#include <stdlib.h>

#include <jpeglib.h>

#include "shim.h"

#define PJ_TEXT(x) #x
#define PJ_TEXT_OF(x) PJ_TEXT(x)
static const char *pj_version(void) { return PJ_TEXT_OF(LIBJPEG_TURBO_VERSION); }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"prismfs/raster"
)

// What an *Error wraps.
var (
	ErrDamaged     = errors.New("damaged JPEG")
	ErrTruncated   = errors.New("truncated JPEG")
	ErrUnsupported = errors.New("unsupported kind of JPEG")
	ErrTooLarge    = errors.New("JPEG over a limit")
)

// Error is why an image could not be decoded.
type Error struct {
	Text string // one line: libjpeg's words, or those of a limit
	Kind error  // one of the sentinels
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Kind }

// ColourSpace says what the stored components are.
type ColourSpace uint8

// The colour spaces, numbered as by jpeglib's J_COLOR_SPACE.
const (
	Unknown ColourSpace = C.JCS_UNKNOWN
	Grey    ColourSpace = C.JCS_GRAYSCALE
	RGB     ColourSpace = C.JCS_RGB
	YCbCr   ColourSpace = C.JCS_YCbCr
	CMYK    ColourSpace = C.JCS_CMYK
	YCCK    ColourSpace = C.JCS_YCCK
)

// Header is what stands before the first scan.
type Header struct {
	Width, Height int // pixels
	Components    int // 1, 3 or 4
	Space         ColourSpace
	Progressive   bool
	Arithmetic    bool
}

// Shape returns the shape of the decoded image: one component is grey,
// everything else becomes RGB.
func (h Header) Shape() raster.Shape {
	s := raster.Shape{Height: h.Height, Width: h.Width, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	if h.Components == 1 {
		s.Channels, s.Color = 1, raster.Grey
	}
	return s
}

// Options bound the work of decoding. The zero value has the defaults.
type Options struct {
	MaxPixels int64 // of width × height; 0: DefaultMaxPixels
	MaxMemory int64 // bytes of libjpeg's own buffers; 0: DefaultMaxMemory
	// TolerateWarnings decodes corrupt data as far as libjpeg makes
	// something of it; the warnings are counted.
	TolerateWarnings bool
}

// The defaults of Options.
const (
	// DefaultMaxPixels is the number above which PIL takes a file for a
	// decompression bomb.
	DefaultMaxPixels = 178_956_970
	// DefaultMaxMemory holds the coefficients of a progressive image of
	// DefaultMaxPixels with four components, which take 8 bytes a pixel.
	DefaultMaxMemory = 2 << 30
)

// The limit on scans. A scan without content is a few bytes long and costs
// about a nanosecond a pixel, so that scans are bounded by the work they make:
// at most maxScanPixels pixels over all scans, yet always minScanLimit scans.
const (
	minScanLimit  = 100
	maxScanPixels = 1 << 27
	// smallImage counts for images that are smaller: a scan has a price of
	// its own.
	smallImage = 4096
)

// maxScans returns the number of scans that an image may have.
func maxScans(pixels int64) int64 {
	return max(minScanLimit, maxScanPixels/max(pixels, smallImage))
}

// Version names the library, as compiled against: "libjpeg-turbo 2.1.5".
// Pixels of incomplete progressive images differ between versions.
func Version() string { return "libjpeg-turbo " + C.GoString(C.pj_version()) }

// Decoder holds a decompressor that is used again and again. It serves one
// goroutine at a time and is freed by Close.
type Decoder struct {
	c *C.pj_decompressor
}

// NewDecoder returns a Decoder.
func NewDecoder() (*Decoder, error) {
	c := C.pj_new()
	if c == nil {
		return nil, errors.New("no memory for a JPEG decompressor")
	}
	return &Decoder{c: c}, nil
}

// Close frees the decompressor.
func (d *Decoder) Close() {
	if d.c != nil {
		C.pj_free(d.c)
		d.c = nil
	}
}

// Header reads what stands before the first scan and checks it: the number of
// pixels is in the limit and the components are such as Decode takes. Errors
// are *Error.
func (d *Decoder) Header(data []byte, opt Options) (Header, error) {
	return d.header(data, opt, nil)
}

// HeaderAndProfile also returns the embedded ICC profile, nil where there is
// none or an incomplete one.
func (d *Decoder) HeaderAndProfile(data []byte, opt Options) (Header, []byte, error) {
	var icc profile
	defer icc.free()
	h, err := d.header(data, opt, &icc)
	if err != nil {
		return Header{}, nil, err
	}
	return h, icc.bytes(), nil
}

// profile is an ICC profile in C's memory.
type profile struct {
	data *C.uint8_t
	size C.uint
}

func (p *profile) bytes() []byte {
	if p.data == nil {
		return nil
	}
	return C.GoBytes(unsafe.Pointer(p.data), C.int(p.size))
}

func (p *profile) free() { C.free(unsafe.Pointer(p.data)) }

func (d *Decoder) header(data []byte, opt Options, icc *profile) (Header, error) {
	if len(data) == 0 {
		return Header{}, &Error{Text: "no data", Kind: ErrTruncated}
	}
	var h C.pj_header
	copt := opt.forC(minScanLimit)
	var status C.pj_status
	if icc == nil {
		status = C.pj_read_header(d.c, cBytes(data), C.size_t(len(data)), &copt, &h, nil, nil)
	} else {
		status = C.pj_read_header(d.c, cBytes(data), C.size_t(len(data)), &copt, &h, &icc.data, &icc.size)
	}
	if status != C.PJ_OK {
		return Header{}, d.failure(status)
	}
	header := Header{
		Width:       int(h.width),
		Height:      int(h.height),
		Components:  int(h.components),
		Space:       ColourSpace(h.color_space),
		Progressive: h.progressive != 0,
		Arithmetic:  h.arithmetic != 0,
	}
	return header, header.check(opt)
}

func (h Header) check(opt Options) error {
	limit := opt.MaxPixels
	if limit <= 0 {
		limit = DefaultMaxPixels
	}
	if int64(h.Width)*int64(h.Height) > limit {
		return &Error{
			Text: fmt.Sprintf("%d×%d pixels are over the limit of %d pixels", h.Width, h.Height, limit),
			Kind: ErrTooLarge,
		}
	}
	if h.Components != 1 && h.Components != 3 && h.Components != 4 {
		return &Error{Text: fmt.Sprintf("images of %d components are not read", h.Components), Kind: ErrUnsupported}
	}
	return nil
}

// forC fills in the defaults.
func (o Options) forC(scans int64) C.pj_options {
	memory := o.MaxMemory
	if memory <= 0 {
		memory = DefaultMaxMemory
	}
	c := C.pj_options{max_memory: C.int64_t(memory), max_scans: C.int64_t(scans)}
	if o.TolerateWarnings {
		c.tolerate_warnings = 1
	}
	return c
}

// Warnings is what libjpeg complained of in an image that was decoded all the
// same.
type Warnings struct {
	Count int
	First string // text of the first one
}

// Decode decodes an image, whose header is h, into dst, which must have
// h.Shape().Bytes() bytes: H×W×1 grey or H×W×3 RGB samples. Errors are
// *Error; after one the content of dst is undefined.
func (d *Decoder) Decode(dst, data []byte, h Header, opt Options) (Warnings, error) {
	if err := h.check(opt); err != nil {
		return Warnings{}, err
	}
	if int64(len(dst)) != h.Shape().Bytes() || len(dst) == 0 || len(data) == 0 {
		return Warnings{}, fmt.Errorf("jpeg: a buffer of %d bytes for an image of %v", len(dst), h.Shape())
	}
	copt := opt.forC(maxScans(int64(h.Width) * int64(h.Height)))
	status := C.pj_decode(d.c, cBytes(data), C.size_t(len(data)), &copt, cBytes(dst), C.size_t(len(dst)))
	if status != C.PJ_OK {
		err := d.failure(status)
		if rows := int(C.pj_rows(d.c)); rows > 0 && err.Kind == ErrTruncated {
			err.Text = fmt.Sprintf("%s (line %d of %d)", err.Text, min(rows+1, h.Height), h.Height)
		}
		return Warnings{}, err
	}
	w := Warnings{Count: int(C.pj_warnings(d.c))}
	if w.Count > 0 {
		w.First = C.GoString(C.pj_message(d.c))
	}
	return w, nil
}

// failure makes an error of the last call's status and message.
func (d *Decoder) failure(status C.pj_status) *Error {
	return errorOf(status, C.GoString(C.pj_message(d.c)))
}

// errorOf makes an error of a status other than PJ_OK and libjpeg's message.
func errorOf(status C.pj_status, text string) *Error {
	switch status {
	case C.PJ_TRUNCATED:
		return &Error{Text: "image data ends early", Kind: ErrTruncated}
	case C.PJ_UNSUPPORTED:
		return &Error{Text: text, Kind: ErrUnsupported}
	case C.PJ_LIMIT:
		return &Error{Text: text, Kind: ErrTooLarge}
	case C.PJ_MEMORY:
		return &Error{Text: "out of memory", Kind: ErrTooLarge}
	}
	return &Error{Text: text, Kind: ErrDamaged}
}

// cBytes lends memory to C for the length of a call; b is not empty.
func cBytes(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
