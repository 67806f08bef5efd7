package imagefile

import (
	"bytes"
	"io"
	"os"
	"testing"

	"prismfs/internal/testfiles"
)

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ name, file string }{
		{"jpeg", "data/photos/class0/n01514668_cock.JPEG"},
		{"png", "data/kodak/kodim01.png"},
		{"png16", "data/deep16/depth_0.png"},
	} {
		b.Run(c.name, func(b *testing.B) {
			data, err := os.ReadFile(testfiles.Shared(b, c.file))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				d, err := Decode(data, DefaultLimits)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(d.Bytes())
			}
		})
	}
}

func BenchmarkEncodePNG(b *testing.B) {
	data, err := os.ReadFile(testfiles.Shared(b, "data/kodak/kodim01.png"))
	if err != nil {
		b.Fatal(err)
	}
	d, err := Decode(data, DefaultLimits)
	if err != nil {
		b.Fatal(err)
	}
	var file bytes.Buffer
	if err := EncodePNG(&file, d.Image); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(d.Bytes())
	for b.Loop() {
		if err := EncodePNG(io.Discard, d.Image); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(file.Len())/float64(len(data)), "size/source")
}
