package tensor

import (
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"testing"

	"prismfs/raster"
)

// BenchmarkRender gives bytes of the file a second for a photograph of 768×512.
func BenchmarkRender(b *testing.B) {
	for _, form := range []Form{
		{Container: NPY}, {Container: NPY, CHW: true}, {Container: NPY, RGB: true}, {Container: NPY, CHW: true, RGB: true},
		{Container: PNG}, {Container: PPM}, {Container: PPM, Wide: true}, {Container: PNG, RGB: true},
	} {
		for _, dtype := range []raster.DType{raster.Uint8, raster.Uint16} {
			for channels := 1; channels <= 4; channels++ {
				s := raster.Shape{Height: 512, Width: 768, Channels: channels, DType: dtype, Color: raster.Color(channels)}
				l, err := form.Layout(s)
				if err != nil {
					continue
				}
				b.Run(fmt.Sprintf("%v/%v/%d", form, dtype, channels), func(b *testing.B) {
					pix, dst := noise(s.Bytes()), make([]byte, l.Size())
					b.SetBytes(l.Size())
					b.ReportAllocs()
					for b.Loop() {
						if err := l.Render(dst, pix); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkChecksums sets what PNG needs beside the library's.
func BenchmarkChecksums(b *testing.B) {
	p := noise(65535)
	for _, c := range []struct {
		name string
		sum  func([]byte) uint32
	}{
		{"adler32", func(p []byte) uint32 { return adler32Update(1, p) }},
		{"hash-adler32", adler32.Checksum},
		{"hash-crc32", crc32.ChecksumIEEE},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				c.sum(p)
			}
		})
	}
}
