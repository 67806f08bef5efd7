package imagefile

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// SniffBytes is the length of the prefix that Sniff looks at.
const SniffBytes = 256

// signature is a format whose files begin with fixed bytes.
type signature struct {
	format Format
	offset int
	magic  string
}

// signatures are those that identify a format by themselves. Shorter and
// weaker ones (BMP, Netpbm, HEIF's family) have functions.
var signatures = []signature{
	{PNG, 0, "\x89PNG\r\n\x1a\n"},
	{JPEG, 0, "\xff\xd8\xff"},
	{NPY, 0, "\x93NUMPY"},
	{TIFF, 0, "II*\x00"},
	{TIFF, 0, "MM\x00*"},
	{TIFF, 0, "II+\x00"}, // BigTIFF
	{TIFF, 0, "MM\x00+"},
	{GIF, 0, "GIF87a"},
	{GIF, 0, "GIF89a"},
	{JPEG2000, 0, "\x00\x00\x00\x0cjP  \r\n\x87\n"},
	{JPEG2000, 0, "\xff\x4f\xff\x51"},
	{JPEGXL, 0, "\x00\x00\x00\x0cJXL \r\n\x87\n"},
	{JPEGXL, 0, "\xff\x0a"},
	{PSD, 0, "8BPS"},
	{PDF, 0, "%PDF-"},
	{OpenEXR, 0, "\x76\x2f\x31\x01"},
	{Radiance, 0, "#?RADIANCE"},
	{Radiance, 0, "#?RGBE"},
	{ICO, 0, "\x00\x00\x01\x00"},
	{ICO, 0, "\x00\x00\x02\x00"},
	{DDS, 0, "DDS \x7c\x00\x00\x00"},
	{QOI, 0, "qoif"},
	{MNG, 0, "\x8aMNG\r\n\x1a\n"},
	{MNG, 0, "\x8bJNG\r\n\x1a\n"},
	{FITS, 0, "SIMPLE  ="},
	{DICOM, 128, "DICM"},
	{XCF, 0, "gimp xcf "},
}

// Sniff tells the format of a file from its first bytes, of which it needs
// SniffBytes at most. It returns false for what is no image file.
func Sniff(prefix []byte) (Format, bool) {
	for _, s := range signatures {
		if len(prefix) >= s.offset && bytes.HasPrefix(prefix[s.offset:], []byte(s.magic)) {
			if s.format == ICO && !plausibleICO(prefix) {
				continue
			}
			return s.format, true
		}
	}
	for _, sniff := range []func([]byte) (Format, bool){sniffBMP, sniffNetpbm, sniffRIFF, sniffISO} {
		if f, ok := sniff(prefix); ok {
			return f, true
		}
	}
	return "", false
}

// plausibleICO looks at the first directory entry, since the four bytes of
// the signature are too common: its reserved byte is 0, and there are few
// pictures.
func plausibleICO(p []byte) bool {
	return len(p) >= 22 && p[4] != 0 && p[5] == 0 && p[9] == 0
}

// bmpHeaders are the sizes of the information headers that exist.
var bmpHeaders = []uint32{12, 16, 40, 52, 56, 64, 108, 124}

func sniffBMP(p []byte) (Format, bool) {
	if len(p) < 18 || string(p[:2]) != "BM" {
		return "", false
	}
	return BMP, slices.Contains(bmpHeaders, binary.LittleEndian.Uint32(p[14:]))
}

// sniffNetpbm wants a white space and then a number, a comment or, for P7, a
// word in capitals after the two letters, so that prose is not taken for it.
func sniffNetpbm(p []byte) (Format, bool) {
	if len(p) < 4 || p[0] != 'P' || !isSpace(p[2]) {
		return "", false
	}
	rest := bytes.TrimLeft(p[3:], " \t\n\v\f\r")
	if len(rest) == 0 {
		return "", false
	}
	digit := rest[0] >= '0' && rest[0] <= '9' || rest[0] == '#'
	switch c := p[1]; {
	case c >= '1' && c <= '6':
		return Netpbm, digit
	case c == '7':
		return Netpbm, p[2] == '\n' && (rest[0] == '#' || rest[0] >= 'A' && rest[0] <= 'Z')
	case c == 'f' || c == 'F':
		return PFM, digit
	}
	return "", false
}

// isSpace is true for the white space of Netpbm headers.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func sniffRIFF(p []byte) (Format, bool) {
	return WebP, len(p) >= 12 && string(p[:4]) == "RIFF" && string(p[8:12]) == "WEBP"
}

// sniffISO looks at the brands of an ISO base media file; other brands than
// those of pictures are video or sound.
func sniffISO(p []byte) (Format, bool) {
	if len(p) < 12 || string(p[4:8]) != "ftyp" {
		return "", false
	}
	switch string(p[8:12]) {
	case "avif", "avis":
		return AVIF, true
	case "heic", "heix", "hevc", "hevx", "heim", "heis", "mif1", "msf1":
		return HEIF, true
	case "jp2 ", "jpx ":
		return JPEG2000, true
	}
	return "", false
}
