package l3

import "prismfs/raster"

// Limits bound what a reader accepts, so that a few bytes from outside cannot
// claim any amount of memory. A field that is zero takes its value from
// DefaultLimits.
type Limits struct {
	MaxPixels int64 // height × width of one image
	MaxBytes  int64 // decoded samples of one image, in bytes
}

// DefaultLimits admit images of 2^28 pixels (16,384 × 16,384) and 2 GiB.
var DefaultLimits = Limits{MaxPixels: 1 << 28, MaxBytes: 2 << 30}

// Limits on metadata, in bytes. They are part of the format: a longer section
// is refused by readers as well as by Encode.
const (
	MaxClassBytes         = 1024
	MaxOriginalNameBytes  = 255 // NAME_MAX
	MaxSourceDecoderBytes = 256
	MaxColourProfileBytes = 16 << 20 // what the 255 chunks of a JPEG can hold
)

// maxSectionBytes bounds all sections of a head together: every section at its
// own limit, and as much again for sections of later writers.
const maxSectionBytes = 2 * MaxColourProfileBytes

func (l Limits) withDefaults() Limits {
	if l.MaxPixels == 0 {
		l.MaxPixels = DefaultLimits.MaxPixels
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultLimits.MaxBytes
	}
	return l
}

// check returns an error unless s is a possible shape within the limits.
func (l Limits) check(s raster.Shape) error {
	l = l.withDefaults()
	if err := s.Check(); err != nil {
		return corrupt("%v", err)
	}
	if s.Pixels() > l.MaxPixels {
		return tooLarge("%d×%d pixels, the limit is %d", s.Height, s.Width, l.MaxPixels)
	}
	if s.Bytes() > l.MaxBytes {
		return tooLarge("%v is %d bytes, the limit is %d", s, s.Bytes(), l.MaxBytes)
	}
	return nil
}
