package gpudecode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"prismfs/l3"
	"prismfs/raster"
)

// photograph returns an image that compresses somewhat as photographs do.
func photograph(s raster.Shape) raster.Image {
	pix := make([]byte, s.Bytes())
	size := s.DType.Size()
	for i := range int(s.Bytes()) / size {
		x, y, c := i/s.Channels%s.Width, i/s.Channels/s.Width, i%s.Channels
		v := 127 + 90*math.Sin(float64(x)/37+float64(c))*math.Cos(float64(y)/23) + float64((i*2654435761)>>13&7)
		pix[i*size] = byte(v)
		if size == 2 {
			pix[i*size+1] = byte(v) / 3
		}
	}
	return raster.Image{Shape: s, Pix: pix}
}

// encoded is an image and its file.
type encoded struct {
	image raster.Image
	file  []byte
}

func encode(tb testing.TB, img raster.Image, mode l3.Mode) encoded {
	tb.Helper()
	file, err := l3.Encode(img, l3.EncodeOptions{Mode: mode})
	if err != nil {
		tb.Fatal(err)
	}
	return encoded{img, file}
}

// TestL3 decodes images of all kinds, one after another with the same scratch
// memory, damaged ones among them.
func TestL3(t *testing.T) {
	var images []encoded
	for channels := 1; channels <= raster.MaxChannels; channels++ {
		for _, dtype := range []raster.DType{raster.Uint8, raster.Uint16, raster.Int16} {
			sizes := [][2]int{{1, 1}, {70, 131}, {33, 64}}
			if channels == 3 && dtype == raster.Uint8 {
				sizes = append(sizes, [2]int{700, 512}) // for which free places help
			}
			for _, size := range sizes {
				s := raster.Shape{Height: size[0], Width: size[1], Channels: channels, DType: dtype, Color: raster.Color(channels)}
				for _, mode := range []l3.Mode{l3.ModeFast, l3.ModeRaw} {
					images = append(images, encode(t, photograph(s), mode))
				}
			}
		}
	}
	d := New(Options{Workers: 3, Logger: quiet})
	defer d.Close()
	var wg sync.WaitGroup
	for i, e := range images {
		wg.Go(func() {
			r := &Request{Codec: L3, Name: fmt.Sprint("image ", i), Encoded: e.file, Pix: make([]byte, len(e.image.Pix))}
			if err := d.Decode(t.Context(), r); err != nil {
				t.Errorf("%v: %v", e.image.Shape, err)
			} else if !bytes.Equal(r.Pix, e.image.Pix) {
				t.Errorf("%v: wrong samples", e.image.Shape)
			}
		})
		wg.Go(func() {
			damaged := bytes.Clone(e.file)
			damaged[len(damaged)-1] ^= 0x40
			r := &Request{Codec: L3, Name: fmt.Sprint("damaged ", i), Encoded: damaged, Pix: make([]byte, len(e.image.Pix))}
			if err := d.Decode(t.Context(), r); !errors.Is(err, l3.ErrCorrupt) {
				t.Errorf("%v, its last byte changed: %v", e.image.Shape, err)
			}
		})
	}
	wg.Wait()
	n := uint64(len(images))
	if s := d.Stats(); s.Decoded != n || s.Errors != n || s.Panics != 0 {
		t.Errorf("counters: %+v", s)
	}
}

func TestLimits(t *testing.T) {
	e := encode(t, photograph(raster.Shape{Height: 20, Width: 20, Channels: 3, DType: raster.Uint8, Color: raster.RGB}), l3.ModeFast)
	d := New(Options{Workers: 1, Limits: l3.Limits{MaxPixels: 399}, Logger: quiet})
	defer d.Close()
	err := d.Decode(t.Context(), &Request{Codec: L3, Name: "x", Encoded: e.file, Pix: make([]byte, len(e.image.Pix))})
	if !errors.Is(err, l3.ErrTooLarge) {
		t.Errorf("an image over the limit: %v", err)
	}
}

// BenchmarkL3 gives bytes of samples a second, from as many callers as a data
// loader has.
func BenchmarkL3(b *testing.B) {
	e := encode(b, photograph(raster.Shape{Height: 512, Width: 768, Channels: 3, DType: raster.Uint8, Color: raster.RGB}), l3.ModeFast)
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			d := New(Options{Logger: quiet})
			defer d.Close()
			b.SetBytes(e.image.Bytes())
			b.ReportAllocs()
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				r := &Request{Codec: L3, Name: "x", Encoded: e.file, Pix: make([]byte, len(e.image.Pix))}
				for pb.Next() {
					if err := d.Decode(b.Context(), r); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkOverhead is what the queue costs a request beside its decoding.
func BenchmarkOverhead(b *testing.B) {
	d := start(Options{Logger: quiet}, func(*place, *Request) error { return nil })
	defer d.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := &Request{Codec: L3, Name: "x"}
		for pb.Next() {
			if err := d.Decode(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
	})
}
