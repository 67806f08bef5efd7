package imagefile

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// expectation is a line of testdata/expected.tsv, which testdata/make.py
// writes: what NumPy and PIL hold the file to be.
type expectation struct {
	file    string
	shape   string // of raster.Shape.String, "" for a refusal
	samples string // SHA-256
	bits    int    // significant ones
	refusal string // part of its text
}

func expectations(tb testing.TB) []expectation {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "expected.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var out []expectation
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		col := strings.Split(lines.Text(), "\t")
		e := expectation{file: col[0]}
		if col[1] == "refused" {
			e.refusal = col[2]
		} else {
			e.shape, e.samples = col[1], col[2]
			if e.bits, err = strconv.Atoi(col[3]); err != nil {
				tb.Fatal(err)
			}
		}
		out = append(out, e)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		tb.Fatalf("%d lines, %v", len(out), err)
	}
	return out
}

func (e expectation) read(tb testing.TB) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(e.file)))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestFiles(t *testing.T) {
	for _, e := range expectations(t) {
		t.Run(e.file, func(t *testing.T) {
			data := e.read(t)
			before := append([]byte(nil), data...)
			d, err := Decode(data, DefaultLimits)
			if string(before) != string(data) {
				t.Error("the input was changed")
			}
			if e.refusal != "" {
				checkRefusal(t, err, e.refusal)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d.Shape.String() != e.shape {
				t.Errorf("shape %v, want %v", d.Shape, e.shape)
			}
			if got := hash(d.Pix); got != e.samples {
				t.Errorf("samples hash to %s, want %s", got, e.samples)
			}
			if d.SignificantBits != e.bits {
				t.Errorf("%d significant bits, want %d", d.SignificantBits, e.bits)
			}
			if folder := Format(filepath.Dir(e.file)); d.Format != folder || d.Decoder == "" {
				t.Errorf("format %q by decoder %q, want format %q", d.Format, d.Decoder, folder)
			}
		})
	}
}

// checkRefusal wants a RefusedError of one line that holds part and wraps a
// sentinel.
func checkRefusal(t *testing.T, err error, part string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("%v, want a refusal with %q", err, part)
	}
	text := err.Error()
	if !strings.Contains(text, part) || strings.ContainsAny(text, "\n\r") {
		t.Errorf("%q, want one line with %q", text, part)
	}
	for _, kind := range []error{ErrUnknownFormat, ErrUnsupported, ErrTruncated, ErrDamaged, ErrTooLarge} {
		if errors.Is(err, kind) {
			return
		}
	}
	t.Errorf("%v wraps no sentinel", err)
}
