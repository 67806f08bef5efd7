package imagefile

import (
	"errors"
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	dicom := strings.Repeat("\x00", 128) + "DICM"
	ftyp := func(brand string) string { return "\x00\x00\x00\x18ftyp" + brand + "\x00\x00\x00\x00" }
	bmp := func(size byte) string { return "BM" + strings.Repeat("\x00", 12) + string([]byte{size, 0, 0, 0}) }
	for _, c := range []struct {
		prefix string
		want   Format
	}{
		{"\x89PNG\r\n\x1a\n", PNG},
		{"\xff\xd8\xff\xe0", JPEG},
		{"\x93NUMPY\x01\x00", NPY},
		{"II*\x00", TIFF}, {"MM\x00*", TIFF}, {"II+\x00", TIFF}, {"MM\x00+", TIFF},
		{"RIFF\x00\x00\x00\x00WEBP", WebP},
		{bmp(12), BMP}, {bmp(40), BMP}, {bmp(124), BMP},
		{"P1\n1", Netpbm}, {"P6 # comment\n1", Netpbm}, {"P5\t\n 12", Netpbm}, {"P7\nWIDTH 1", Netpbm},
		{"Pf\n1 1", PFM}, {"PF 1", PFM},
		{"GIF89a", GIF}, {"GIF87a", GIF},
		{"\x00\x00\x00\x0cjP  \r\n\x87\n", JPEG2000}, {"\xff\x4f\xff\x51", JPEG2000}, {ftyp("jp2 "), JPEG2000},
		{"\xff\x0a", JPEGXL}, {"\x00\x00\x00\x0cJXL \r\n\x87\n", JPEGXL},
		{ftyp("heic"), HEIF}, {ftyp("mif1"), HEIF}, {ftyp("avif"), AVIF},
		{"8BPS", PSD}, {"%PDF-1.7", PDF}, {"\x76\x2f\x31\x01", OpenEXR}, {"#?RADIANCE\n", Radiance},
		{"\x00\x00\x01\x00\x01\x00\x10\x10\x00\x00\x01\x00\x20\x00\x68\x04\x00\x00\x16\x00\x00\x00", ICO},
		{"DDS \x7c\x00\x00\x00", DDS}, {"qoif", QOI}, {"\x8aMNG\r\n\x1a\n", MNG}, {"SIMPLE  =", FITS},
		{dicom, DICOM}, {"gimp xcf v011", XCF},

		{"", ""}, {"P", ""}, {"P6", ""}, {"P6 is a format", ""}, {"P1\n", ""}, {"P8\n1", ""}, {"P7 WIDTH", ""},
		{"BMW and others, a list", ""}, {bmp(13), ""}, {ftyp("isom"), ""}, {"RIFF\x00\x00\x00\x00WAVE", ""},
		{"\x00\x00\x01\x00\x00\x00\x00\x00", ""}, {"PK\x03\x04", ""}, {"\x89PNG\r\r\n", ""}, {"\xff\xd8", ""},
	} {
		got, ok := Sniff([]byte(c.prefix))
		if got != c.want && (ok || c.want != "") || ok != (c.want != "") {
			t.Errorf("%q: %q, %v, want %q", c.prefix, got, ok, c.want)
		}
	}
}

// Every format that is known is read or refused by its name.
func TestRefusedFormats(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"GIF89a...", "GIF: this format is not read"},
		{"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "HEIF: this format is not read"},
		{"8BPS....", "Photoshop: this format is not read"},
	} {
		_, err := Decode([]byte(c.data), DefaultLimits)
		checkRefusal(t, err, c.want)
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v is not ErrUnsupported", err)
		}
	}
	_, err := Decode([]byte("plain text"), DefaultLimits)
	checkRefusal(t, err, "not a known image format")
	if !errors.Is(err, ErrUnknownFormat) {
		t.Errorf("%v is not ErrUnknownFormat", err)
	}
	for _, s := range signatures {
		if s.format.Title() == string(s.format) {
			t.Errorf("%q has no name for people", s.format)
		}
	}
}
