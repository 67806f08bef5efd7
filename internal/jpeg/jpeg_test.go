package jpeg

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"prismfs/internal/testfiles"
)

// kinds are the names of the sentinels in expected.tsv.
var kinds = map[string]error{
	"damaged": ErrDamaged, "truncated": ErrTruncated, "unsupported": ErrUnsupported,
}

// expected returns the lines of testdata/expected.tsv, which testdata/make.py
// writes with PIL's answers.
func expected(tb testing.TB) [][]string {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "expected.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var out [][]string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		out = append(out, strings.Split(lines.Text(), "\t"))
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		tb.Fatalf("%d lines, %v", len(out), err)
	}
	return out
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestFiles(t *testing.T) {
	for _, row := range expected(t) {
		t.Run(row[0], func(t *testing.T) {
			d, err := Decode(read(t, row[0]), Options{})
			if kind := kinds[row[1]]; kind != nil {
				if !errors.Is(err, kind) || !strings.Contains(err.Error(), row[2]) {
					t.Errorf("%v, want %v with %q", err, kind, row[2])
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strconv.Itoa(d.Header.Components); got != row[1] {
				t.Errorf("%s components, want %s", got, row[1])
			}
			if got := strconv.FormatBool(d.Header.Progressive); got != row[2] {
				t.Errorf("progressive: %s, want %s", got, row[2])
			}
			if got := hash(d.Pix); got != row[3] {
				t.Errorf("pixels of %v hash to %s, want %s", d.Shape, got, row[3])
			}
		})
	}
}

func TestHeader(t *testing.T) {
	d, err := NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for file, want := range map[string]Header{
		"grey.jpg":                {Width: 67, Height: 45, Components: 1, Space: Grey},
		"rgb-420.jpg":             {Width: 67, Height: 45, Components: 3, Space: YCbCr},
		"rgb-420-progressive.jpg": {Width: 67, Height: 45, Components: 3, Space: YCbCr, Progressive: true},
		"rgb-coded.jpg":           {Width: 67, Height: 45, Components: 3, Space: RGB},
		"cmyk.jpg":                {Width: 67, Height: 45, Components: 4, Space: CMYK},
		"ycck.jpg":                {Width: 67, Height: 45, Components: 4, Space: YCCK},
		"cut.jpg":                 {Width: 67, Height: 45, Components: 3, Space: YCbCr},
	} {
		got, err := d.Header(read(t, file), Options{})
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", file, got, err, want)
		}
	}
	for _, data := range [][]byte{nil, {}, []byte("no JPEG")} {
		if h, err := d.Header(data, Options{}); err == nil {
			t.Errorf("%q has the header %+v", data, h)
		}
	}
}

// One decoder serves good and bad images in any order.
func TestDecoderIsReusable(t *testing.T) {
	d, err := NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rows := expected(t)
	for round := range 3 {
		for i := range rows {
			row := rows[(i*7+round)%len(rows)]
			data := read(t, row[0])
			h, err := d.Header(data, Options{})
			var pix []byte
			if err == nil {
				pix = make([]byte, h.Shape().Bytes())
				_, err = d.Decode(pix, data, h, Options{})
			}
			if bad := kinds[row[1]]; !errors.Is(err, bad) {
				t.Errorf("%s: %v, want %v", row[0], err, bad)
			} else if bad == nil && hash(pix) != row[3] {
				t.Errorf("%s: other pixels when the decoder is reused", row[0])
			}
		}
	}
}

// withoutTables leaves out the segments that define tables of a kind.
func withoutTables(data []byte, code byte) []byte {
	out := bytes.Clone(data[:2])
	for at := 2; ; {
		end := at + 2 + int(data[at+2])<<8 + int(data[at+3])
		if data[at+1] == 0xda {
			return append(out, data[at:]...)
		}
		if data[at+1] != code {
			out = append(out, data[at:end]...)
		}
		at = end
	}
}

// What was decoded before has no influence: an image that lacks tables does not
// get those of another one.
func TestDecoderForgetsTables(t *testing.T) {
	d, err := NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	whole := read(t, "rgb-420.jpg")
	h, err := d.Header(whole, Options{})
	if err != nil {
		t.Fatal(err)
	}
	pix := make([]byte, h.Shape().Bytes())
	for _, before := range []string{"rgb-420.jpg", "rgb-422-progressive.jpg"} {
		other := read(t, before)
		if _, err := d.Decode(pix, other, h, Options{}); err != nil {
			t.Fatal(err)
		}
		const dqt, dht = 0xdb, 0xc4
		if _, err := d.Decode(pix, withoutTables(whole, dqt), h, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without quantization tables, after %s: %v", before, err)
		}
		if _, err := d.Decode(pix, other, h, Options{}); err != nil {
			t.Fatal(err)
		}
		// libjpeg then takes the tables of the standard, which this file has.
		if _, err := d.Decode(pix, withoutTables(whole, dht), h, Options{}); err != nil {
			t.Errorf("without Huffman tables, after %s: %v", before, err)
		} else if want, err := Decode(whole, Options{}); err != nil || !bytes.Equal(pix, want.Pix) {
			t.Errorf("without Huffman tables, after %s: other pixels", before)
		}
	}
}

func TestConcurrentDecode(t *testing.T) {
	rows := expected(t)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range rows {
				row := rows[(i+worker*5)%len(rows)]
				data, err := os.ReadFile(filepath.Join("testdata", row[0]))
				if err != nil {
					t.Error(err)
					return
				}
				d, err := Decode(data, Options{})
				if bad := kinds[row[1]]; !errors.Is(err, bad) {
					t.Errorf("%s: %v, want %v", row[0], err, bad)
				} else if bad == nil && hash(d.Pix) != row[3] {
					t.Errorf("%s: other pixels among other goroutines", row[0])
				}
			}
		})
	}
	wg.Wait()
}

func TestToleratedWarnings(t *testing.T) {
	for file, want := range map[string]string{
		"cut.jpg":     "Premature end of JPEG file",
		"cut-eoi.jpg": "premature end of data segment",
		"extra.jpg":   "extraneous bytes",
		"no-eoi.jpg":  "Premature end of JPEG file",
	} {
		d, err := Decode(read(t, file), Options{TolerateWarnings: true})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if d.Warnings.Count < 1 || !strings.Contains(d.Warnings.First, want) {
			t.Errorf("%s: %+v, want %q", file, d.Warnings, want)
		}
	}
	// Where only the end is odd the pixels are those of the whole file.
	whole, err := Decode(read(t, "rgb-420.jpg"), Options{TolerateWarnings: true})
	if err != nil || whole.Warnings != (Warnings{}) {
		t.Fatalf("a good file: %+v, %v", whole.Warnings, err)
	}
	for _, file := range []string{"extra.jpg", "no-eoi.jpg"} {
		if d, err := Decode(read(t, file), Options{TolerateWarnings: true}); err != nil || !bytes.Equal(d.Pix, whole.Pix) {
			t.Errorf("%s: other pixels, or %v", file, err)
		}
	}
}

func TestProfile(t *testing.T) {
	d, err := Decode(read(t, "profile.jpg"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("no real profile", 5000); string(d.Profile) != want {
		t.Errorf("a profile of %d bytes, want %d", len(d.Profile), len(want))
	}
	// Without its second half the profile is lost, not the picture.
	data := read(t, "profile.jpg")
	second := bytes.LastIndex(data, []byte("ICC_PROFILE\x00")) + len("ICC_PROFILE\x00")
	data[second] = 1
	d, err = Decode(data, Options{})
	if err != nil || d.Profile != nil {
		t.Errorf("of a broken profile %d bytes, %v", len(d.Profile), err)
	}
}

func TestLimits(t *testing.T) {
	data := read(t, "rgb-420-progressive.jpg")
	if _, err := Decode(data, Options{MaxPixels: 67 * 45}); err != nil {
		t.Errorf("at the limit on pixels: %v", err)
	}
	if _, err := Decode(data, Options{MaxPixels: 67*45 - 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the limit on pixels: %v", err)
	}
	// Coefficients of 2048×2048 pixels take 8 MiB.
	large := repeatedScans(t, 2048, 2048, 1)
	if _, err := Decode(large, Options{TolerateWarnings: true, MaxMemory: 4 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the limit on memory: %v", err)
	}
	if _, err := Decode(large, Options{TolerateWarnings: true, MaxMemory: 16 << 20}); err != nil {
		t.Errorf("below the limit on memory: %v", err)
	}
	if _, err := Decode(data, Options{}); err != nil {
		t.Errorf("after the limits: %v", err)
	}
}

// repeatedScans returns a progressive picture of width × height pixels whose
// last scan stands n times, without data.
func repeatedScans(tb testing.TB, width, height uint16, n int) []byte {
	tb.Helper()
	data := read(tb, "grey-progressive.jpg")
	last := bytes.LastIndex(data, []byte("\xff\xda"))
	scan := data[last : last+10]
	// The scan has no data, which libjpeg makes zeros of, with a warning.
	out := bytes.Clone(data[:last])
	sof := bytes.Index(out, []byte("\xff\xc2"))
	out[sof+5], out[sof+6] = byte(height>>8), byte(height)
	out[sof+7], out[sof+8] = byte(width>>8), byte(width)
	for range n {
		out = append(out, scan...)
	}
	return append(out, 0xff, 0xd9)
}

func TestScanLimit(t *testing.T) {
	tolerant := Options{TolerateWarnings: true}
	few := repeatedScans(t, 2048, 2048, minScanLimit/2)
	if _, err := Decode(few, tolerant); err != nil {
		t.Errorf("%d scans: %v", minScanLimit/2, err)
	}
	many := repeatedScans(t, 2048, 2048, 2*minScanLimit)
	if _, err := Decode(many, tolerant); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "more than 100 scans") {
		t.Errorf("%d scans: %v", 2*minScanLimit, err)
	}
	small := repeatedScans(t, 67, 45, 2*minScanLimit)
	if _, err := Decode(small, tolerant); err != nil {
		t.Errorf("%d scans of a small picture: %v", 2*minScanLimit, err)
	}
	if got := maxScans(DefaultMaxPixels); got != minScanLimit {
		t.Errorf("a picture of the largest size may have %d scans, want %d", got, minScanLimit)
	}
}

// 568 scans are legal in a picture of 64×48 pixels.
func TestManyScans(t *testing.T) {
	data, err := os.ReadFile(testfiles.Shared(t, "cases/files/c49_prog_568_scans.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(data, Options{}); err != nil {
		t.Error(err)
	}
}

func TestDecodeChecksItsBuffer(t *testing.T) {
	d, err := NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data := read(t, "rgb-420.jpg")
	h, err := d.Header(data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 1, h.Shape().Bytes() - 1, h.Shape().Bytes() + 1} {
		if _, err := d.Decode(make([]byte, n), data, h, Options{}); err == nil {
			t.Errorf("a buffer of %d bytes was taken for %v", n, h.Shape())
		}
	}
	// A header of another file: the size in the data counts.
	one := read(t, "one.jpg")
	if _, err := d.Decode(make([]byte, h.Shape().Bytes()), one, h, Options{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("the header of another file: %v", err)
	}
}

func TestVersion(t *testing.T) {
	if v := Version(); !strings.HasPrefix(v, "libjpeg-turbo ") || strings.Count(v, ".") < 2 {
		t.Errorf("version %q", v)
	}
}

func FuzzDecode(f *testing.F) {
	for _, row := range expected(f) {
		f.Add(read(f, row[0]), true)
		f.Add(read(f, row[0]), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, tolerate bool) {
		d, err := Decode(data, Options{MaxPixels: 1 << 16, TolerateWarnings: tolerate})
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) || bad.Kind == nil || bad.Text == "" {
				t.Errorf("%v is no complete Error", err)
			}
			return
		}
		if int64(len(d.Pix)) != d.Bytes() || d.Check() != nil || d.Pixels() > 1<<16 {
			t.Errorf("%d bytes for %v", len(d.Pix), d.Shape)
		}
		if !tolerate && d.Warnings.Count != 0 {
			t.Errorf("%d warnings where none is tolerated", d.Warnings.Count)
		}
	})
}

func BenchmarkManyScans(b *testing.B) {
	data, err := os.ReadFile(testfiles.Shared(b, "cases/files/c49_prog_568_scans.jpg"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Decode(data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
