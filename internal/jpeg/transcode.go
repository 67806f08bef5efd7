package jpeg

/*
#include <stdlib.h>

#include "recode.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"prismfs/raster"
)

// Transcode turns a JPEG into a progressive one with the same coefficients, and
// so the same pixels: what jpegtran -progressive makes of it. Huffman coding
// replaces arithmetic coding, and restart markers go. Markers that carry
// meaning for the pixels stay (JFIF, Adobe, ICC profiles), and so does EXIF
// that turns the image; everything else before the first scan is left out.
//
// A progressive JPEG whose scans do not give all bits is returned as it is: its
// pixels depend on which are missing. With arithmetic coding it is refused.
//
// Warnings of libjpeg are errors, whatever opt says. Errors are *Error.
func Transcode(src []byte, opt Options) ([]byte, error) {
	h, err := readHeader(src, opt)
	if err != nil {
		return nil, err
	}
	copt := opt.forC(maxScans(int64(h.Width) * int64(h.Height)))
	keepEXIF := C.int(0)
	if exifOrientation(src) > 1 {
		keepEXIF = 1
	}
	var w C.pj_written
	status := C.pj_transcode(cBytes(src), C.size_t(len(src)), &copt, keepEXIF, &w)
	if w.incomplete != 0 && status == C.PJ_OK {
		if h.Arithmetic {
			return nil, &Error{Text: "arithmetic coding of an image whose scans are not all there", Kind: ErrUnsupported}
		}
		return bytes.Clone(src), nil
	}
	return written(status, &w)
}

// readHeader reads and checks the header with an idle decoder.
func readHeader(src []byte, opt Options) (Header, error) {
	d, err := Borrow()
	if err != nil {
		return Header{}, &Error{Text: err.Error(), Kind: ErrTooLarge}
	}
	defer Return(d)
	return d.Header(src, opt)
}

// written takes over what C has written.
func written(status C.pj_status, w *C.pj_written) ([]byte, error) {
	if status != C.PJ_OK {
		return nil, errorOf(status, C.GoString(&w.message[0]))
	}
	defer C.free(unsafe.Pointer(w.data))
	return bytes.Clone(unsafe.Slice((*byte)(w.data), int(w.len))), nil
}

// EncodeOptions say how an image is encoded.
type EncodeOptions struct {
	Quality int    // 1 to 100, as libjpeg and PIL have it
	Profile []byte // ICC profile to embed; nil: none
}

// maxEncodedEdge is libjpeg's JPEG_MAX_DIMENSION, in pixels.
const maxEncodedEdge = 65500

// maxProfileBytes is what 255 markers hold.
const maxProfileBytes = 255 * 65519

// EncodeProgressive encodes an image of 8 bits, grey or RGB (H×W×1 or H×W×3),
// as a progressive JPEG with libjpeg's defaults, as PIL has them: colour is
// stored as YCbCr with 4:2:0 subsampling. Errors are *Error.
func EncodeProgressive(img raster.Image, opt EncodeOptions) ([]byte, error) {
	if err := checkEncodable(img, opt); err != nil {
		return nil, err
	}
	var w C.pj_written
	copt := Options{}.forC(0)
	var profile *C.uint8_t
	if len(opt.Profile) > 0 {
		profile = cBytes(opt.Profile)
	}
	status := C.pj_encode(cBytes(img.Pix), C.uint32_t(img.Width), C.uint32_t(img.Height), C.int(img.Channels),
		C.int(opt.Quality), profile, C.uint(len(opt.Profile)), &copt, &w)
	return written(status, &w)
}

func checkEncodable(img raster.Image, opt EncodeOptions) error {
	refuse := func(kind error, format string, args ...any) error {
		return &Error{Text: fmt.Sprintf(format, args...), Kind: kind}
	}
	switch {
	case img.Check() != nil:
		return refuse(ErrUnsupported, "%v", img.Check())
	case img.DType != raster.Uint8 || img.Color != raster.Grey && img.Color != raster.RGB:
		return refuse(ErrUnsupported, "%v cannot be encoded", img.Shape)
	case img.Width > maxEncodedEdge || img.Height > maxEncodedEdge:
		return refuse(ErrTooLarge, "%d×%d: a JPEG has at most %d pixels on a side", img.Width, img.Height, maxEncodedEdge)
	case int64(len(img.Pix)) != img.Bytes():
		return refuse(ErrUnsupported, "%d bytes for an image of %v", len(img.Pix), img.Shape)
	case opt.Quality < 1 || opt.Quality > 100:
		return refuse(ErrUnsupported, "quality %d is not 1 to 100", opt.Quality)
	case len(opt.Profile) > maxProfileBytes:
		return refuse(ErrTooLarge, "a colour profile of %d bytes", len(opt.Profile))
	}
	return nil
}
