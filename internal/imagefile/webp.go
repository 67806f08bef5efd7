package imagefile

/*
#cgo pkg-config: libwebp
#include <webp/decode.h>

// Decodes into out, which has room for height rows of stride bytes. The
// configuration lies here, so that no Go pointer is stored in Go memory that C
// sees.
static VP8StatusCode decode_webp(const uint8_t *data, size_t len, int alpha,
                                 uint8_t *out, int stride, size_t size) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    return VP8_STATUS_INVALID_PARAM;
  config.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out;
  config.output.u.RGBA.stride = stride;
  config.output.u.RGBA.size = size;
  return WebPDecode(data, len, &config);
}

static VP8StatusCode webp_features(const uint8_t *data, size_t len,
                                   WebPBitstreamFeatures *f) {
  return WebPGetFeatures(data, len, f);
}
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"prismfs/raster"
)

// decodeWebP reads a still picture, lossless or lossy, with libwebp and its
// defaults, as PIL does: RGBA if the file has alpha, else RGB. Animations are
// refused.
func decodeWebP(data []byte, lim Limits) (*Decoded, error) {
	src, n := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(data))), C.size_t(len(data))
	var f C.WebPBitstreamFeatures
	if status := C.webp_features(src, n, &f); status != C.VP8_STATUS_OK {
		return nil, webpRefusal(status)
	}
	width, height := int(f.width), int(f.height)
	if err := checkSize(WebP, width, height, lim); err != nil {
		return nil, err
	}
	if f.has_animation != 0 {
		return nil, refuse(WebP, ErrUnsupported, "animations are not read")
	}
	shape := raster.Shape{Height: height, Width: width, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	if f.has_alpha != 0 {
		shape.Channels, shape.Color = 4, raster.RGBA
	}
	img, err := newImage(WebP, shape, lim)
	if err != nil {
		return nil, err
	}
	out := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(img.Pix)))
	status := C.decode_webp(src, n, f.has_alpha, out, C.int(shape.RowBytes()), C.size_t(len(img.Pix)))
	if status != C.VP8_STATUS_OK {
		return nil, webpRefusal(status)
	}
	return &Decoded{Image: img, Decoder: webpVersion(), ColourProfile: webpProfile(data)}, nil
}

// webpVersion names the library that is loaded: "libwebp 1.2.4".
func webpVersion() string {
	v := C.WebPGetDecoderVersion()
	return fmt.Sprintf("libwebp %d.%d.%d", v>>16, v>>8&255, v&255)
}

func webpRefusal(status C.VP8StatusCode) error {
	switch status {
	case C.VP8_STATUS_NOT_ENOUGH_DATA, C.VP8_STATUS_SUSPENDED:
		return refuse(WebP, ErrTruncated, "image data ends early")
	case C.VP8_STATUS_OUT_OF_MEMORY:
		return refuse(WebP, ErrTooLarge, "out of memory")
	case C.VP8_STATUS_UNSUPPORTED_FEATURE:
		return refuse(WebP, ErrUnsupported, "a feature that libwebp does not support")
	}
	return refuse(WebP, ErrDamaged, "libwebp finds the data damaged (status %d)", status)
}

// webpProfile returns the content of the ICCP chunk.
func webpProfile(data []byte) []byte {
	for rest := data[12:]; len(rest) >= 8; {
		kind, n := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		rest = rest[8:]
		if n > int64(len(rest)) {
			return nil
		}
		if kind == "ICCP" {
			return append([]byte(nil), rest[:n]...)
		}
		rest = rest[min(n+n&1, int64(len(rest))):]
	}
	return nil
}
