package imagefile

import (
	"errors"

	"prismfs/internal/jpeg"
)

// jpegKinds translates the sentinels.
var jpegKinds = map[error]error{
	jpeg.ErrDamaged:     ErrDamaged,
	jpeg.ErrTruncated:   ErrTruncated,
	jpeg.ErrUnsupported: ErrUnsupported,
	jpeg.ErrTooLarge:    ErrTooLarge,
}

// decodeJPEG decodes the first picture of a file, so that of an MPO file, too.
// What libjpeg warns of is a refusal.
func decodeJPEG(data []byte, lim Limits) (*Decoded, error) {
	d, err := jpeg.Decode(data, jpeg.Options{MaxPixels: lim.maxPixels()})
	var bad *jpeg.Error
	if errors.As(err, &bad) {
		return nil, refuse(JPEG, jpegKinds[bad.Kind], "%s", bad.Text)
	}
	if err != nil {
		return nil, refuse(JPEG, ErrTooLarge, "%v", err)
	}
	return &Decoded{Image: d.Image, Decoder: jpeg.Version(), ColourProfile: d.Profile}, nil
}
