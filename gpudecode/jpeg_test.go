package gpudecode

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"prismfs/internal/jpeg"
	"prismfs/internal/testfiles"
	"prismfs/l3"
	"prismfs/raster"
)

// jpegFile is a JPEG with what PIL makes of it.
type jpegFile struct {
	name  string
	data  []byte
	shape raster.Shape
	hash  string // SHA-256 of the samples, "" where there are none
}

// jpegFiles returns the test files of package jpeg: of each that has a header
// its shape, and what PIL makes of it.
func jpegFiles(tb testing.TB) []jpegFile {
	tb.Helper()
	dir := filepath.Join(testfiles.Root(), "internal", "jpeg", "testdata")
	table, err := os.ReadFile(filepath.Join(dir, "expected.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	d, err := jpeg.NewDecoder()
	if err != nil {
		tb.Fatal(err)
	}
	defer d.Close()
	var files []jpegFile
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		row := strings.Split(lines.Text(), "\t")
		f := jpegFile{name: row[0]}
		if f.data, err = os.ReadFile(filepath.Join(dir, f.name)); err != nil {
			tb.Fatal(err)
		}
		h, err := d.Header(f.data, jpeg.Options{})
		if err != nil {
			continue
		}
		f.shape = h.Shape()
		if len(row) > 3 {
			f.hash = row[3]
		}
		files = append(files, f)
	}
	if len(files) < 20 {
		tb.Fatalf("%d test files have a header", len(files))
	}
	return files
}

func (f jpegFile) request() *Request {
	return &Request{Codec: JPEG, Name: f.name, Encoded: f.data, Pix: make([]byte, f.shape.Bytes()), Shape: f.shape}
}

// TestJPEG decodes good and bad files at once, among L3 files.
func TestJPEG(t *testing.T) {
	files := jpegFiles(t)
	beside := encode(t, photograph(raster.Shape{Height: 33, Width: 64, Channels: 3, DType: raster.Uint8, Color: raster.RGB}), l3.ModeFast)
	d := New(Options{Workers: 3, Logger: quiet})
	defer d.Close()
	var good, bad uint64
	var wg sync.WaitGroup
	for _, f := range files {
		if f.hash == "" {
			bad += 3
		} else {
			good += 3
		}
		for range 3 {
			wg.Go(func() {
				r := f.request()
				err := d.Decode(t.Context(), r)
				switch sum := sha256.Sum256(r.Pix); {
				case f.hash == "":
					var why *jpeg.Error
					if !errors.As(err, &why) || !strings.Contains(err.Error(), f.name) {
						t.Errorf("%s, which is damaged: %v", f.name, err)
					}
				case err != nil:
					t.Errorf("%s: %v", f.name, err)
				case hex.EncodeToString(sum[:]) != f.hash:
					t.Errorf("%s: other samples than PIL's", f.name)
				}
			})
		}
		wg.Go(func() {
			r := &Request{Codec: L3, Name: "l3", Encoded: beside.file, Pix: make([]byte, len(beside.image.Pix))}
			if err := d.Decode(t.Context(), r); err != nil || !bytes.Equal(r.Pix, beside.image.Pix) {
				t.Errorf("an L3 file among JPEGs: %v, or wrong samples", err)
			}
		})
	}
	wg.Wait()
	if good == 0 || bad == 0 {
		t.Fatal("the files are of one kind only")
	}
	if s := d.Stats(); s.Decoded != good+uint64(len(files)) || s.Errors != bad || s.Tolerated != 0 {
		t.Errorf("counters: %+v, want %d errors", s, bad)
	}
}

// TestJPEGOfAnotherShape: the shape that a request says must be that of the file.
func TestJPEGOfAnotherShape(t *testing.T) {
	d := New(Options{Workers: 1, Logger: quiet})
	defer d.Close()
	for _, f := range jpegFiles(t) {
		if f.hash == "" {
			continue
		}
		turned, deep, short := f.request(), f.request(), f.request()
		turned.Shape.Height, turned.Shape.Width = f.shape.Width, f.shape.Height+1
		deep.Shape.DType = raster.Uint16
		short.Pix = short.Pix[1:]
		for _, r := range []*Request{turned, deep, short, {Codec: JPEG, Name: f.name, Encoded: f.data}} {
			if err := d.Decode(t.Context(), r); !errors.Is(err, ErrShape) {
				t.Errorf("%s, %v for an image of %v: %v", f.name, r.Shape, f.shape, err)
			}
		}
		if err := d.Decode(t.Context(), f.request()); err != nil {
			t.Errorf("%s, after refusals: %v", f.name, err)
		}
	}
}

func TestJPEGWarnings(t *testing.T) {
	files := jpegFiles(t)
	for _, tolerate := range []bool{false, true} {
		d := New(Options{Workers: 1, Logger: quiet, TolerateWarnings: tolerate})
		warned := 0
		for _, f := range files {
			if f.name != "cut-eoi.jpg" && f.name != "extra.jpg" {
				continue
			}
			warned++
			if err := d.Decode(t.Context(), f.request()); (err == nil) != tolerate {
				t.Errorf("%s, warnings tolerated: %v: %v", f.name, tolerate, err)
			}
		}
		d.Close()
		want := uint64(0)
		if tolerate {
			want = uint64(warned)
		}
		if s := d.Stats(); warned != 2 || s.Tolerated != want {
			t.Errorf("of %d files with warnings %d were tolerated, want %d", warned, s.Tolerated, want)
		}
	}
}

func TestJPEGLimits(t *testing.T) {
	f := jpegFiles(t)[0]
	d := New(Options{Workers: 1, Logger: quiet, Limits: l3.Limits{MaxPixels: f.shape.Pixels() - 1}})
	defer d.Close()
	if err := d.Decode(t.Context(), f.request()); !errors.Is(err, jpeg.ErrTooLarge) {
		t.Errorf("a JPEG over the limit: %v", err)
	}
}

// BenchmarkJPEG gives bytes of samples a second.
func BenchmarkJPEG(b *testing.B) {
	for _, f := range jpegFiles(b) {
		if f.name != "rgb-420.jpg" && f.name != "rgb-420-progressive.jpg" {
			continue
		}
		b.Run(f.name, func(b *testing.B) {
			d := New(Options{Logger: quiet})
			defer d.Close()
			b.SetBytes(f.shape.Bytes())
			b.ReportAllocs()
			for r := f.request(); b.Loop(); {
				if err := d.Decode(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
