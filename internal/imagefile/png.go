package imagefile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"image"
	"image/png"
	"io"
	"runtime"
	"strings"

	"prismfs/raster"
)

// The colour types of PNG.
const (
	pngGrey      = 0
	pngRGB       = 2
	pngPalette   = 3
	pngGreyAlpha = 4
	pngRGBA      = 6
)

// pngHead is what must be known of a file beside the pixels that image/png
// returns.
type pngHead struct {
	width, height    int
	depth, colorType byte
	interlaced       bool
	paletteLen       int // entries of PLTE
	hasTransparency  bool
	dataLen          int64 // bytes of all IDAT chunks
	profile          []byte
}

// maxInflation is the largest ratio that deflate reaches (258 bytes for two
// bits), with a little room: fewer bytes cannot hold the image.
const maxInflation = 1040

// maxProfile bounds the size of an ICC profile that is kept, in bytes.
const maxProfile = 16 << 20

// pngSamples is the number of stored samples a pixel for each colour type.
var pngSamples = map[byte]int{pngGrey: 1, pngRGB: 3, pngPalette: 1, pngGreyAlpha: 2, pngRGBA: 4}

// decodePNG decodes the picture in the IDAT chunks, which of an animated PNG
// is the one that readers without animation show. image/png does the work and
// checks checksums and the order of chunks; what it widens (grey with alpha,
// opaque RGB) is made narrow again here, and indices that it would read as
// black are refused.
func decodePNG(data []byte, lim Limits) (*Decoded, error) {
	head, err := readPNGHead(data, lim)
	if err != nil {
		return nil, err
	}
	if head.dataLen < head.rawBytes()/maxInflation {
		return nil, refuse(PNG, ErrTruncated, "image data ends early")
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, pngRefusal(data, head, err)
	}
	out, err := narrowPNG(img, head, lim)
	if err != nil {
		return nil, err
	}
	return &Decoded{Image: out, Decoder: "image/png " + runtime.Version(), ColourProfile: head.profile}, nil
}

// rowBytes is the size of a row of filtered data, without interlacing.
func (h pngHead) rowBytes() int64 {
	return 1 + (int64(h.width)*int64(pngSamples[h.colorType])*int64(h.depth)+7)/8
}

// rawBytes is at most the size of the inflated image data.
func (h pngHead) rawBytes() int64 { return int64(h.height) * (h.rowBytes() - 1) }

// readPNGHead checks the size and collects what pngHead holds. Faults that
// image/png finds as well are left to it.
func readPNGHead(data []byte, lim Limits) (pngHead, error) {
	var h pngHead
	const ihdrEnd = 8 + 8 + 13 + 4
	if len(data) < ihdrEnd {
		return h, refuse(PNG, ErrTruncated, "the file ends in its header")
	}
	if string(data[8:16]) != "\x00\x00\x00\x0dIHDR" {
		return h, refuse(PNG, ErrDamaged, "the header does not come first")
	}
	ihdr := data[16:]
	width, height := binary.BigEndian.Uint32(ihdr), binary.BigEndian.Uint32(ihdr[4:])
	if err := checkSize(PNG, int(width), int(height), lim); err != nil {
		return h, err
	}
	h.width, h.height = int(width), int(height)
	h.depth, h.colorType, h.interlaced = ihdr[8], ihdr[9], ihdr[12] != 0
	if _, ok := pngSamples[h.colorType]; !ok {
		return h, refuse(PNG, ErrDamaged, "colour type %d does not exist", h.colorType)
	}
	eachPNGChunk(data, func(kind string, body []byte) {
		switch kind {
		case "PLTE":
			h.paletteLen = len(body) / 3
		case "tRNS":
			h.hasTransparency = true
		case "IDAT":
			h.dataLen += int64(len(body))
		case "iCCP":
			h.profile = pngProfile(body)
		}
	})
	return h, nil
}

// eachPNGChunk calls f for each chunk up to IEND. The last chunk of a
// truncated file is given as far as it goes.
func eachPNGChunk(data []byte, f func(kind string, body []byte)) {
	for rest := data[8:]; len(rest) >= 8; {
		n := int64(binary.BigEndian.Uint32(rest))
		kind := string(rest[4:8])
		rest = rest[8:]
		body := rest[:min(n, int64(len(rest)))]
		f(kind, body)
		if kind == "IEND" || int64(len(rest)) < n+4 {
			return
		}
		rest = rest[n+4:]
	}
}

// pngProfile returns the profile of an iCCP chunk, nil if it is broken.
func pngProfile(body []byte) []byte {
	_, packed, ok := bytes.Cut(body, []byte{0})
	if !ok || len(packed) < 1 || packed[0] != 0 {
		return nil
	}
	z, err := zlib.NewReader(bytes.NewReader(packed[1:]))
	if err != nil {
		return nil
	}
	profile, err := io.ReadAll(io.LimitReader(z, maxProfile+1))
	if err != nil || len(profile) > maxProfile {
		return nil
	}
	return profile
}

// pngRefusal puts an error of image/png in words.
func pngRefusal(data []byte, h pngHead, err error) error {
	var unsupported png.UnsupportedError
	if errors.As(err, &unsupported) {
		return refuse(PNG, ErrUnsupported, "%s is not supported", string(unsupported))
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "png: "), "invalid format: ")
	if !errors.Is(err, io.ErrUnexpectedEOF) && text != "not enough pixel data" {
		if strings.HasPrefix(text, "flate: ") || strings.HasPrefix(text, "zlib: ") {
			text = "image data is damaged (" + text + ")"
		}
		return refuse(PNG, ErrDamaged, "%s", text)
	}
	line := pngLines(data, h)
	switch {
	case line >= int64(h.height):
		return refuse(PNG, ErrTruncated, "the file ends before its end mark")
	case h.interlaced:
		return refuse(PNG, ErrTruncated, "image data ends early")
	}
	return refuse(PNG, ErrTruncated, "image data ends early (line %d of %d)", line+1, h.height)
}

// pngLines returns how many whole lines can be had of a file that is not
// interlaced.
func pngLines(data []byte, h pngHead) int64 {
	var packed []io.Reader
	eachPNGChunk(data, func(kind string, body []byte) {
		if kind == "IDAT" {
			packed = append(packed, bytes.NewReader(body))
		}
	})
	z, err := zlib.NewReader(io.MultiReader(packed...))
	if err != nil {
		return 0
	}
	// An error is what is expected here; what came before it counts.
	n, _ := io.Copy(io.Discard, io.LimitReader(z, h.rowBytes()*int64(h.height)))
	return n / h.rowBytes()
}

// narrowPNG takes the samples that a file has out of the image that image/png
// has made of it.
func narrowPNG(img image.Image, h pngHead, lim Limits) (raster.Image, error) {
	if p, ok := img.(*image.Paletted); ok {
		return expandPalette(p, h, lim)
	}
	color := map[byte]raster.Color{
		pngGrey: raster.Grey, pngRGB: raster.RGB, pngGreyAlpha: raster.GreyAlpha, pngRGBA: raster.RGBA,
	}[h.colorType]
	if h.hasTransparency {
		switch color {
		case raster.Grey:
			color = raster.GreyAlpha
		case raster.RGB:
			color = raster.RGBA
		}
	}
	return pick(PNG, img, color, lim)
}

// expandPalette makes RGB of a palette, and RGBA if the file gives alpha for
// it.
func expandPalette(p *image.Paletted, h pngHead, lim Limits) (raster.Image, error) {
	entries := make([][4]byte, min(h.paletteLen, len(p.Palette)))
	for i := range entries {
		c, ok := straightRGBA(p.Palette[i])
		if !ok {
			return raster.Image{}, refuse(PNG, ErrUnsupported, "palette entry %d is no RGB colour", i)
		}
		entries[i] = c
	}
	color := raster.RGB
	if h.hasTransparency {
		color = raster.RGBA
	}
	return lookUp(PNG, p.Pix, h.width, h.height, entries, color, lim)
}
