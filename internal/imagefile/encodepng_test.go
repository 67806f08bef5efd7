package imagefile

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"testing"

	"pgregory.net/rapid"

	"prismfs/raster"
)

// drawImage draws an image that PNG can hold, with rows that repeat so that
// every filter is chosen at times.
func drawImage(t *rapid.T) raster.Image {
	color := rapid.SampledFrom([]raster.Color{raster.Grey, raster.GreyAlpha, raster.RGB, raster.RGBA}).Draw(t, "colour")
	s := raster.Shape{
		Height:   rapid.IntRange(1, 12).Draw(t, "height"),
		Width:    rapid.IntRange(1, 20).Draw(t, "width"),
		Channels: color.Channels(),
		DType:    rapid.SampledFrom([]raster.DType{raster.Uint8, raster.Uint16}).Draw(t, "type"),
		Color:    color,
	}
	pix := rapid.SliceOfN(rapid.Byte(), s.RowBytes(), int(s.Bytes())).Draw(t, "samples")
	for len(pix) < int(s.Bytes()) {
		pix = append(pix, pix[len(pix)-s.RowBytes()]+1)
	}
	return raster.Image{Shape: s, Pix: pix}
}

func TestEncodePNGRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		img := drawImage(t)
		var file bytes.Buffer
		if err := EncodePNG(&file, img); err != nil {
			t.Fatal(err)
		}
		d, err := Decode(file.Bytes(), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		if d.Shape != img.Shape || !bytes.Equal(d.Pix, img.Pix) {
			t.Errorf("%v came back as %v", img.Shape, d.Shape)
		}
	})
}

// An image that takes more than one IDAT chunk, and compresses.
func TestEncodePNGLarge(t *testing.T) {
	s := raster.Shape{Height: 300, Width: 400, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	img := raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}
	state := uint32(1)
	for i := range img.Pix {
		state = state*1664525 + 1013904223
		img.Pix[i] = byte(i/s.RowBytes()) + byte(state>>29)
	}
	var file bytes.Buffer
	if err := EncodePNG(&file, img); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(file.Bytes(), []byte("IDAT")); n < 2 {
		t.Errorf("%d IDAT chunks, want several", n)
	}
	if file.Len() > len(img.Pix)/2 {
		t.Errorf("%d bytes of %d: hardly compressed", file.Len(), len(img.Pix))
	}
	m, err := png.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	rgba := m.(*image.RGBA)
	for i := range int(s.Pixels()) {
		if !bytes.Equal(rgba.Pix[4*i:4*i+3], img.Pix[3*i:3*i+3]) {
			t.Fatalf("pixel %d is %v, want %v", i, rgba.Pix[4*i:4*i+3], img.Pix[3*i:3*i+3])
		}
	}
}

func TestEncodePNGRefuses(t *testing.T) {
	ok := raster.Shape{Height: 1, Width: 1, Channels: 1, DType: raster.Uint8, Color: raster.Grey}
	signed, other, wrong := ok, ok, ok
	signed.DType = raster.Int16
	other.Color, other.Channels = raster.Other, 2
	wrong.Width = 0
	for _, c := range []struct {
		img  raster.Image
		want error
	}{
		{raster.Image{Shape: signed, Pix: make([]byte, 2)}, ErrNoPNG},
		{raster.Image{Shape: other, Pix: make([]byte, 2)}, ErrNoPNG},
		{raster.Image{Shape: wrong}, raster.ErrShape},
	} {
		if err := EncodePNG(&bytes.Buffer{}, c.img); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.img.Shape, err, c.want)
		}
	}
	if err := EncodePNG(&bytes.Buffer{}, raster.Image{Shape: ok, Pix: make([]byte, 2)}); err == nil {
		t.Error("two samples were written as one")
	}
	full := errors.New("disk full")
	if err := EncodePNG(failing{full}, raster.Image{Shape: ok, Pix: make([]byte, 1)}); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
}

// failing is a writer that always fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
