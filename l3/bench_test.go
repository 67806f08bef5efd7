package l3

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// benchmarks are the codings of sets of pictures that figures are given for.
var benchmarks = []struct {
	name   string
	mode   Mode
	folder string
}{
	{"fast/kodak", ModeFast, "data/kodak"},
	{"fast/hires", ModeFast, "data/hires"},
	{"fast/deep16", ModeFast, "data/deep16"},
	{"dense/kodak", ModeDense, "data/kodak"},
	{"dense/hires", ModeDense, "data/hires"},
	{"dense/deep16", ModeDense, "data/deep16"},
	{"published/kodak", ModePublished, "data/kodak"},
	{"raw/kodak", ModeRaw, "data/kodak"},
}

func BenchmarkEncode(b *testing.B) {
	for _, test := range benchmarks {
		b.Run(test.name, func(b *testing.B) {
			images := loadFolder(b, test.folder)
			var raw, coded int64
			for _, img := range images {
				raw += img.Bytes()
			}
			b.SetBytes(raw)
			before := cpuTime(b)
			for b.Loop() {
				coded = 0
				for _, img := range images {
					file, err := Encode(img, EncodeOptions{Mode: test.mode})
					if err != nil {
						b.Fatal(err)
					}
					coded += int64(len(file))
				}
			}
			seconds := (cpuTime(b) - before).Seconds()
			b.ReportMetric(float64(raw)*float64(b.N)/1e6/seconds, "MB/cpu-s")
			b.ReportMetric(float64(coded)/float64(raw), "coded/raw")
		})
	}
}

// cpuTime is what this process has used until now, which says more than the
// clock where other programs run.
func cpuTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDecode decodes folders of pictures, which together are larger than
// the processor's caches, with every backend.
func BenchmarkDecode(b *testing.B) {
	for _, test := range benchmarks {
		b.Run(test.name, func(b *testing.B) {
			benchmarkDecode(b, slices.Collect(maps.Values(loadFolder(b, test.folder))), test.mode)
		})
	}
}

// BenchmarkDecodeOne decodes one picture again and again: a photograph, and
// what looks like one with 1 to 4 channels.
func BenchmarkDecodeOne(b *testing.B) {
	b.Run("photograph", func(b *testing.B) {
		folder := loadFolder(b, "data/kodak")
		benchmarkDecode(b, []raster.Image{folder[slices.Min(slices.Collect(maps.Keys(folder)))]}, ModeFast)
	})
	for channels := 1; channels <= 4; channels++ {
		b.Run(fmt.Sprint(channels), func(b *testing.B) {
			benchmarkDecode(b, []raster.Image{draw(pictures[3], shapeOf(512, 768, channels, raster.Uint8))}, ModeFast)
		})
	}
}

// benchmarkDecode decodes images with every backend, one after the other.
func benchmarkDecode(b *testing.B, images []raster.Image, mode Mode) {
	files := make([][]byte, len(images))
	var raw int64
	for i, img := range images {
		var err error
		if files[i], err = Encode(img, EncodeOptions{Mode: mode, Workers: 2}); err != nil {
			b.Fatal(err)
		}
		raw += img.Bytes()
	}
	for _, d := range eachBackend(DefaultLimits) {
		b.Run(d.Backend(), func(b *testing.B) {
			b.SetBytes(raw)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				for i, file := range files {
					if _, err := d.Decode(images[i].Pix, file); err != nil {
						b.Fatal(err)
					}
				}
			}
			seconds := (cpuTime(b) - before).Seconds()
			b.ReportMetric(float64(raw)*float64(b.N)/1e6/seconds, "MB/cpu-s")
			b.ReportMetric(seconds*1e3/float64(b.N*len(images)), "cpu-ms/image")
		})
	}
}
