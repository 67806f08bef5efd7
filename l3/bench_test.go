package l3

import (
	"encoding/binary"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// loadPNG reads the samples of a PNG of the test data as they are stored.
func loadPNG(tb testing.TB, path string) raster.Image {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	b := img.Bounds()
	r := raster.Image{Shape: shapeOf(b.Dy(), b.Dx(), 1, raster.Uint8)}
	switch img := img.(type) {
	case *image.Gray:
		r.Pix = img.Pix
	case *image.Gray16:
		r.DType = raster.Uint16
		for at := 0; at < len(img.Pix); at += 2 {
			r.Pix = binary.LittleEndian.AppendUint16(r.Pix, binary.BigEndian.Uint16(img.Pix[at:]))
		}
	case *image.RGBA: // what image/png makes of opaque RGB
		r.Channels, r.Color = 3, raster.RGB
		for at := 0; at < len(img.Pix); at += 4 {
			r.Pix = append(r.Pix, img.Pix[at:at+3]...)
		}
	default:
		tb.Fatalf("%s: a %T", path, img)
	}
	return r
}

// loadFolder reads all PNGs of a folder of the test data.
func loadFolder(tb testing.TB, folder string) map[string]raster.Image {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(testfiles.Shared(tb, folder), "*.png"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no PNGs in %s: %v", folder, err)
	}
	images := make(map[string]raster.Image)
	for _, path := range paths {
		images[filepath.Base(path)] = loadPNG(tb, path)
	}
	return images
}

// TestCompression keeps the sizes of the figures in docs/format-l3.md, which
// -v lists.
func TestCompression(t *testing.T) {
	for _, test := range []struct {
		folder string
		limit  float64 // of the bytes of all files by those of all samples
	}{
		{"data/kodak", 0.462},
		{"data/deep16", 0.250},
	} {
		t.Run(filepath.Base(test.folder), func(t *testing.T) {
			var raw, coded int64
			for name, img := range loadFolder(t, test.folder) {
				file, err := Encode(img, EncodeOptions{Workers: 2})
				if err != nil {
					t.Fatal(err)
				}
				t.Log(name, len(file))
				raw += img.Bytes()
				coded += int64(len(file))
			}
			if ratio := float64(coded) / float64(raw); ratio > test.limit {
				t.Errorf("%.4f of the samples' size, the limit is %.4f", ratio, test.limit)
			}
		})
	}
}

// benchmarkFolders are the sets of pictures that figures are given for.
var benchmarkFolders = []string{"data/kodak", "data/hires", "data/deep16"}

func BenchmarkEncode(b *testing.B) {
	for _, folder := range benchmarkFolders {
		b.Run(filepath.Base(folder), func(b *testing.B) {
			images := loadFolder(b, folder)
			var raw, coded int64
			for _, img := range images {
				raw += img.Bytes()
			}
			b.SetBytes(raw)
			for b.Loop() {
				coded = 0
				for _, img := range images {
					file, err := Encode(img, EncodeOptions{})
					if err != nil {
						b.Fatal(err)
					}
					coded += int64(len(file))
				}
			}
			b.ReportMetric(float64(coded)/float64(raw), "coded/raw")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, mode := range []struct {
		name   string
		mode   Mode
		folder string
	}{
		{"fast/kodak", ModeFast, "data/kodak"},
		{"fast/hires", ModeFast, "data/hires"},
		{"fast/deep16", ModeFast, "data/deep16"},
		{"published/kodak", ModePublished, "data/kodak"},
		{"raw/kodak", ModeRaw, "data/kodak"},
	} {
		b.Run(mode.name, func(b *testing.B) {
			type encoded struct{ file, pix []byte }
			var files []encoded
			var raw int64
			for name, img := range loadFolder(b, mode.folder) {
				file, err := Encode(img, EncodeOptions{Mode: mode.mode, Workers: 2})
				if err != nil {
					b.Fatalf("%s: %v", name, err)
				}
				files = append(files, encoded{file, img.Pix})
				raw += img.Bytes()
			}
			d := NewDecoder(DefaultLimits)
			b.SetBytes(raw)
			b.ReportAllocs()
			for b.Loop() {
				for _, f := range files {
					if _, err := d.Decode(f.pix, f.file); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
