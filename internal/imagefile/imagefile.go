// Package imagefile reads the pixels of image files exactly as they are
// stored, for packing them without loss, and writes PNG for unpacking.
//
// What a file is follows from its content, never from its name. Decode keeps
// channels and depth: grey stays one channel, alpha stays (and so do colours
// under alpha 0), 16 bits stay 16 bits. What has no number of its own for a
// sample is expanded as PIL does it: palettes become RGB or RGBA, samples of
// fewer than 8 bits are spread over 0 to 255, lossy files become what
// libjpeg-turbo and libwebp give, CMYK becomes RGB by PIL's formula. Gamma,
// colour profiles and EXIF orientation are not applied. Of files with several
// pictures that are one picture to PIL's readers (MPO, animated PNG) the first
// is taken; everything else that would lose something is refused.
//
// A refusal is a *RefusedError that names the format and the reason in one
// line and wraps one of the sentinels below. Sizes are checked before anything
// is allocated for pixels, and no input makes the package panic.
//
// The package knows nothing of datasets, of the L3 format or of file names.
package imagefile

import (
	"errors"
	"fmt"

	"prismfs/raster"
)

// Format names a kind of image file.
type Format string

// The formats that Decode reads.
const (
	PNG    Format = "png"
	JPEG   Format = "jpeg"
	Netpbm Format = "netpbm" // P1 to P7
	BMP    Format = "bmp"
	NPY    Format = "npy"
	TIFF   Format = "tiff"
	WebP   Format = "webp"
)

// The formats that Sniff knows and Decode refuses.
const (
	GIF      Format = "gif"
	JPEG2000 Format = "jpeg2000"
	JPEGXL   Format = "jpegxl"
	HEIF     Format = "heif"
	AVIF     Format = "avif"
	PSD      Format = "psd"
	PDF      Format = "pdf"
	OpenEXR  Format = "openexr"
	Radiance Format = "radiance"
	PFM      Format = "pfm"
	ICO      Format = "ico"
	DDS      Format = "dds"
	QOI      Format = "qoi"
	MNG      Format = "mng"
	FITS     Format = "fits"
	DICOM    Format = "dicom"
	XCF      Format = "xcf"
)

// titles are the names of formats as people write them.
var titles = map[Format]string{
	PNG: "PNG", JPEG: "JPEG", Netpbm: "Netpbm", BMP: "BMP", NPY: "NPY", TIFF: "TIFF", WebP: "WebP",
	GIF: "GIF", JPEG2000: "JPEG 2000", JPEGXL: "JPEG XL", HEIF: "HEIF", AVIF: "AVIF", PSD: "Photoshop",
	PDF: "PDF", OpenEXR: "OpenEXR", Radiance: "Radiance HDR", PFM: "PFM", ICO: "ICO", DDS: "DDS",
	QOI: "QOI", MNG: "MNG", FITS: "FITS", DICOM: "DICOM", XCF: "XCF",
}

// Title returns the format's name as people write it, such as "JPEG 2000".
func (f Format) Title() string {
	if t, ok := titles[f]; ok {
		return t
	}
	return string(f)
}

// Limits bound what Decode is willing to hold.
type Limits struct {
	// MaxPixels is the largest height × width; 0 stands for that of
	// DefaultLimits.
	MaxPixels int64
}

// DefaultLimits has the number of pixels above which PIL takes a file for a
// decompression bomb.
var DefaultLimits = Limits{MaxPixels: 178_956_970}

func (l Limits) maxPixels() int64 {
	if l.MaxPixels <= 0 {
		return DefaultLimits.MaxPixels
	}
	return l.MaxPixels
}

// Decoded is the content of an image file.
type Decoded struct {
	raster.Image
	Format Format
	// SignificantBits is the number of bits that samples use: smaller than
	// that of the type only for Netpbm files with a maxval between 256 and
	// 32767, whose samples are kept as they are.
	SignificantBits int
	// Decoder names the library, and its version, that the pixels come from,
	// such as "libjpeg-turbo 2.1.5".
	Decoder string
	// ColourProfile is the embedded ICC profile, which is not applied; nil
	// where there is none or a broken one.
	ColourProfile []byte
}

// What a RefusedError wraps.
var (
	ErrUnknownFormat = errors.New("not a known image format")
	ErrUnsupported   = errors.New("cannot be kept exactly")
	ErrTruncated     = errors.New("ends early")
	ErrDamaged       = errors.New("is damaged")
	ErrTooLarge      = errors.New("is over a limit")
)

// RefusedError says why the pixels of a file cannot be had. Its text is one
// line that starts with the format.
type RefusedError struct {
	Format Format // "" where it is not known
	Reason string
	kind   error
}

// Error returns the format and the reason: "PNG: image data ends early".
func (e *RefusedError) Error() string {
	if e.Format == "" {
		return e.Reason
	}
	return e.Format.Title() + ": " + e.Reason
}

// Unwrap returns the sentinel that says what kind of refusal it is.
func (e *RefusedError) Unwrap() error { return e.kind }

// refuse makes a RefusedError.
func refuse(f Format, kind error, format string, args ...any) *RefusedError {
	return &RefusedError{Format: f, Reason: fmt.Sprintf(format, args...), kind: kind}
}

// decoders holds the function for each format that is read.
var decoders = map[Format]func([]byte, Limits) (*Decoded, error){
	PNG:    decodePNG,
	JPEG:   decodeJPEG,
	Netpbm: decodeNetpbm,
	BMP:    decodeBMP,
	NPY:    decodeNPY,
	TIFF:   decodeTIFF,
	WebP:   decodeWebP,
}

// Decode returns the pixels of an image file, whose whole content is data, as
// H×W×C samples. Its errors are *RefusedError.
func Decode(data []byte, lim Limits) (*Decoded, error) {
	if len(data) == 0 {
		return nil, refuse("", ErrUnknownFormat, "the file is empty")
	}
	f, ok := Sniff(data[:min(len(data), SniffBytes)])
	if !ok {
		return nil, refuse("", ErrUnknownFormat, "%v (it begins with % x)", ErrUnknownFormat, data[:min(len(data), 8)])
	}
	decode, ok := decoders[f]
	if !ok {
		return nil, refuse(f, ErrUnsupported, "this format is not read")
	}
	d, err := decode(data, lim)
	if err != nil {
		return nil, err
	}
	d.Format = f
	if d.SignificantBits == 0 {
		d.SignificantBits = 8 * d.DType.Size()
	}
	return d, nil
}

// newImage checks a shape against the limit and allocates its samples.
func newImage(f Format, s raster.Shape, lim Limits) (raster.Image, error) {
	if err := checkSize(f, s.Width, s.Height, lim); err != nil {
		return raster.Image{}, err
	}
	if err := s.Check(); err != nil {
		return raster.Image{}, refuse(f, ErrUnsupported, "%v", err)
	}
	return raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}, nil
}

// checkSize refuses images without pixels and those with too many.
func checkSize(f Format, width, height int, lim Limits) error {
	if width < 1 || height < 1 {
		return refuse(f, ErrDamaged, "%d×%d has no pixels", width, height)
	}
	if width > raster.MaxEdge || height > raster.MaxEdge || int64(width)*int64(height) > lim.maxPixels() {
		return refuse(f, ErrTooLarge, "%d×%d pixels are over the limit of %d pixels", width, height, lim.maxPixels())
	}
	return nil
}
