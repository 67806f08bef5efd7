package imagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"slices"
	"strings"

	"golang.org/x/image/tiff"

	"prismfs/raster"
)

// The tags of TIFF that decide whether x/image/tiff reads a file exactly.
const (
	tiffWidth        = 256
	tiffHeight       = 257
	tiffBits         = 258
	tiffCompression  = 259
	tiffPhotometric  = 262
	tiffFillOrder    = 266
	tiffStripOffsets = 273
	tiffOrientation  = 274
	tiffSamples      = 277
	tiffPlanar       = 284
	tiffPredictor    = 317
	tiffColourMap    = 320
	tiffTileOffsets  = 324
	tiffExtraSamples = 338
	tiffSampleFormat = 339
	tiffProfile      = 34675
)

// The compressions that are spoken of below.
const (
	tiffNoCompression = 1
	tiffLZW           = 5
	tiffPackBits      = 32773
)

// tiffCompressions are those that are read; the others by name, for the
// message.
var tiffCompressions = map[uint32]bool{tiffNoCompression: true, tiffLZW: true, 8: true, tiffPackBits: true, 32946: true}

var tiffOtherCompressions = map[uint32]string{
	2: "CCITT", 3: "CCITT fax 3", 4: "CCITT fax 4", 6: "old JPEG", 7: "JPEG", 34712: "JPEG 2000",
	34887: "LERC", 34925: "LZMA", 50000: "Zstandard", 50001: "WebP", 50002: "JPEG XL",
}

// tiffKind is one of the kinds of pixels that are read.
type tiffKind struct {
	photometric, samples, bits uint32
	color                      raster.Color
}

// White-is-zero samples are inverted, as PIL inverts them, which it does not
// do for 16 bits.
var tiffKinds = []tiffKind{
	{0, 1, 1, raster.Grey}, {0, 1, 8, raster.Grey},
	{1, 1, 1, raster.Grey}, {1, 1, 8, raster.Grey}, {1, 1, 16, raster.Grey},
	{2, 3, 8, raster.RGB}, {2, 3, 16, raster.RGB},
	{2, 4, 8, raster.RGBA}, {2, 4, 16, raster.RGBA},
	{3, 1, 8, raster.RGB},
}

// maxTIFFRatio is above the largest ratio that the compressions reach (LZW: a
// string of almost 4096 bytes for 12 bits): fewer bytes cannot hold the image.
const maxTIFFRatio = 4096

// decodeTIFF reads the plain kinds of TIFF: one picture, upright, of unsigned
// samples, interleaved, without compression or with LZW, deflate or PackBits.
// x/image/tiff does the work; it overlooks some tags, so what is not plain is
// found here first and refused by name.
func decodeTIFF(data []byte, lim Limits) (*Decoded, error) {
	dir, err := readTIFFDirectory(data)
	if err != nil {
		return nil, err
	}
	kind, err := dir.plainKind(lim)
	if err != nil {
		return nil, err
	}
	img, err := decodeTIFFImage(data)
	if err != nil {
		return nil, tiffRefusal(err)
	}
	if size := img.Bounds().Size(); uint32(size.X) != dir.value(tiffWidth, 0) || uint32(size.Y) != dir.value(tiffHeight, 0) {
		return nil, refuse(TIFF, ErrDamaged, "decoded to another size than the header's")
	}
	out, err := narrowTIFF(img, kind, lim)
	if err != nil {
		return nil, err
	}
	return &Decoded{Image: out, Decoder: "golang.org/x/image/tiff", ColourProfile: dir.bytes(tiffProfile)}, nil
}

// decodeTIFFImage turns a panic of the library into an error: it is not
// hardened as the decoders of the standard library are.
func decodeTIFFImage(data []byte) (img image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	return tiff.Decode(bytes.NewReader(data))
}

func tiffRefusal(err error) error {
	var unsupported tiff.UnsupportedError
	if errors.As(err, &unsupported) {
		return refuse(TIFF, ErrUnsupported, "%s is not supported", string(unsupported))
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "tiff: "), "invalid format: ")
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || text == "not enough pixel data" {
		return refuse(TIFF, ErrTruncated, "image data ends early")
	}
	return refuse(TIFF, ErrDamaged, "%s", text)
}

func narrowTIFF(img image.Image, kind tiffKind, lim Limits) (raster.Image, error) {
	p, ok := img.(*image.Paletted)
	if !ok {
		return pick(TIFF, img, kind.color, lim)
	}
	entries := make([][4]byte, len(p.Palette))
	for i, c := range p.Palette {
		if entries[i], ok = straightRGBA(c); !ok {
			return raster.Image{}, refuse(TIFF, ErrUnsupported, "palette entry %d is no RGB colour", i)
		}
	}
	return lookUp(TIFF, p.Pix, p.Rect.Dx(), p.Rect.Dy(), entries, raster.RGB, lim)
}

// tiffDirectory is the first directory of a file.
type tiffDirectory struct {
	data    []byte
	order   binary.ByteOrder
	entries map[uint32][]byte // 12 bytes each
}

// readTIFFDirectory reads the only directory that a file has.
func readTIFFDirectory(data []byte) (*tiffDirectory, error) {
	short := refuse(TIFF, ErrTruncated, "the file ends in its header")
	d := &tiffDirectory{data: data, order: binary.LittleEndian, entries: map[uint32][]byte{}}
	if data[0] == 'M' {
		d.order = binary.BigEndian
	}
	if d.order.Uint16(data[2:]) != 42 {
		return nil, refuse(TIFF, ErrUnsupported, "BigTIFF is not read")
	}
	if len(data) < 8 {
		return nil, short
	}
	at := int64(d.order.Uint32(data[4:]))
	if at+2 > int64(len(data)) {
		return nil, short
	}
	n := int64(d.order.Uint16(data[at:]))
	end := at + 2 + 12*n
	if end+4 > int64(len(data)) {
		return nil, short
	}
	for e := data[at+2 : end]; len(e) > 0; e = e[12:] {
		tag := uint32(d.order.Uint16(e))
		if _, again := d.entries[tag]; again {
			return nil, refuse(TIFF, ErrDamaged, "tag %d stands twice", tag)
		}
		d.entries[tag] = e[:12]
	}
	if d.order.Uint32(data[end:]) != 0 {
		return nil, refuse(TIFF, ErrUnsupported, "files of several pages are not read")
	}
	return d, nil
}

// tiffTypeSizes are the bytes of a value of the types BYTE, ASCII, SHORT,
// LONG and UNDEFINED.
var tiffTypeSizes = map[uint16]int64{1: 1, 2: 1, 3: 2, 4: 4, 7: 1}

// bytes returns the values of a tag as they stand in the file, nil if it is
// absent or broken.
func (d *tiffDirectory) bytes(tag uint32) []byte {
	e, ok := d.entries[tag]
	if !ok {
		return nil
	}
	n := int64(d.order.Uint32(e[4:])) * tiffTypeSizes[d.order.Uint16(e[2:])]
	if n <= 4 {
		return e[8 : 8+n]
	}
	at := int64(d.order.Uint32(e[8:]))
	if at+n > int64(len(d.data)) {
		return nil
	}
	return d.data[at : at+n : at+n]
}

// values returns the numbers of a tag.
func (d *tiffDirectory) values(tag uint32) []uint32 {
	raw := d.bytes(tag)
	if len(raw) == 0 {
		return nil
	}
	var out []uint32
	switch d.order.Uint16(d.entries[tag][2:]) {
	case 1:
		for _, b := range raw {
			out = append(out, uint32(b))
		}
	case 3:
		for ; len(raw) >= 2; raw = raw[2:] {
			out = append(out, uint32(d.order.Uint16(raw)))
		}
	case 4:
		for ; len(raw) >= 4; raw = raw[4:] {
			out = append(out, d.order.Uint32(raw))
		}
	}
	return out
}

// value returns the first number of a tag, or what stands for an absent one.
func (d *tiffDirectory) value(tag, absent uint32) uint32 {
	if v := d.values(tag); len(v) > 0 {
		return v[0]
	}
	return absent
}

// plainKind checks everything that could make the pixels other than what
// x/image/tiff returns.
func (d *tiffDirectory) plainKind(lim Limits) (tiffKind, error) {
	var none tiffKind
	width, height := d.value(tiffWidth, 0), d.value(tiffHeight, 0)
	if err := checkSize(TIFF, int(width), int(height), lim); err != nil {
		return none, err
	}
	if err := d.checkStorage(); err != nil {
		return none, err
	}
	kind, err := d.kind()
	if err != nil {
		return none, err
	}
	raw := int64(width) * int64(height) * int64(kind.samples) * int64(kind.bits) / 8
	if int64(len(d.data)) < raw/maxTIFFRatio {
		return none, refuse(TIFF, ErrTruncated, "image data ends early")
	}
	return kind, nil
}

// checkStorage refuses ways of storing samples that are not read.
func (d *tiffDirectory) checkStorage() error {
	compression := d.value(tiffCompression, tiffNoCompression)
	predictor := d.value(tiffPredictor, 1)
	switch {
	case !tiffCompressions[compression]:
		name := tiffOtherCompressions[compression]
		if name == "" {
			name = fmt.Sprint(compression)
		}
		return refuse(TIFF, ErrUnsupported, "compression %s is not read", name)
	case predictor > 2:
		return refuse(TIFF, ErrUnsupported, "predictor %d is not read", predictor)
	case predictor == 2 && (compression == tiffNoCompression || compression == tiffPackBits):
		// It has a meaning with LZW and deflate only.
		return refuse(TIFF, ErrUnsupported, "predictor 2 with compression %d is not read", compression)
	case d.value(tiffPlanar, 1) != 1 && d.value(tiffSamples, 1) != 1:
		return refuse(TIFF, ErrUnsupported, "separate planes are not read")
	case d.value(tiffFillOrder, 1) != 1:
		return refuse(TIFF, ErrUnsupported, "reversed bits are not read")
	case d.value(tiffOrientation, 1) != 1:
		return refuse(TIFF, ErrUnsupported, "orientation %d is not read (PIL would turn the image)", d.value(tiffOrientation, 1))
	case compression == tiffLZW && !d.clearCodesFirst():
		return refuse(TIFF, ErrUnsupported, "LZW in the order of bits of old libraries is not read")
	}
	return nil
}

// clearCodesFirst says whether every strip or tile of LZW begins with the
// clear code, high bits first, as it must. In the old order of bits it would
// decode to something else without an error.
func (d *tiffDirectory) clearCodesFirst() bool {
	for _, tag := range []uint32{tiffStripOffsets, tiffTileOffsets} {
		for _, at := range d.values(tag) {
			if int64(at)+2 > int64(len(d.data)) || d.data[at] != 0x80 || d.data[at+1]&0x80 != 0 {
				return false
			}
		}
	}
	return true
}

// kind finds out what the pixels are.
func (d *tiffDirectory) kind() (tiffKind, error) {
	bits := d.values(tiffBits)
	if len(bits) == 0 {
		bits = []uint32{1}
	}
	for _, f := range d.values(tiffSampleFormat) {
		if f != 1 {
			return tiffKind{}, refuse(TIFF, ErrUnsupported, "samples that are signed or floating-point are not read")
		}
	}
	photometric, samples := d.value(tiffPhotometric, 99), d.value(tiffSamples, 1)
	at := slices.IndexFunc(tiffKinds, func(k tiffKind) bool {
		return k.photometric == photometric && k.samples == samples && k.bits == bits[0]
	})
	if at < 0 {
		return tiffKind{}, refuse(TIFF, ErrUnsupported, "pixels of %d samples of %d bits with photometric interpretation %d are not read",
			samples, bits[0], photometric)
	}
	if len(bits) != int(samples) || slices.Max(bits) != slices.Min(bits) {
		return tiffKind{}, refuse(TIFF, ErrUnsupported, "samples of %v bits are not read", bits)
	}
	extra := d.values(tiffExtraSamples)
	if samples == 4 && !slices.Equal(extra, []uint32{2}) {
		return tiffKind{}, refuse(TIFF, ErrUnsupported, "a fourth sample that is not plain alpha (extra samples %v) is not read", extra)
	}
	if samples != 4 && len(extra) > 0 {
		return tiffKind{}, refuse(TIFF, ErrUnsupported, "extra samples %v are not read", extra)
	}
	if photometric == 3 && len(d.values(tiffColourMap)) != 3*256 {
		return tiffKind{}, refuse(TIFF, ErrDamaged, "a palette of %d numbers", len(d.values(tiffColourMap)))
	}
	return tiffKinds[at], nil
}
