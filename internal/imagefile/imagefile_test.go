package imagefile

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// asRGB converts to 8-bit RGB as PIL's convert("RGB") does for images of 8
// bits: grey is repeated, alpha dropped. 16 bits become their high byte.
func asRGB(img raster.Image) []byte {
	size := img.DType.Size()
	rgb := make([]byte, 0, img.Pixels()*3)
	for i := range int(img.Pixels()) {
		for c := range 3 {
			if img.Channels < 3 {
				c = 0
			}
			rgb = append(rgb, img.Pix[(i*img.Channels+c)*size+size-1])
		}
	}
	return rgb
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// odd is what the cases want where PIL's pixels are not the right answer.
var odd = map[string]struct {
	shape    string
	samples  string // SHA-256 of the samples
	refusals []string
	kind     error
}{
	// Values of the file by NumPy: np.frombuffer of the inflated rows, ">u2",
	// written as "<u2".
	"c15":  {shape: "45×67×1 uint16 grey", samples: c15Samples},
	"c15b": {shape: "45×67×1 uint16 grey", samples: c15Samples},
	"c60":  {shape: "45×67×1 uint16 grey", samples: c60Samples},

	"c22":  {refusals: []string{"PNG: ", "ends early (line "}, kind: ErrTruncated},
	"c23":  {refusals: []string{"JPEG: ", "ends early (line "}, kind: ErrTruncated},
	"c51":  {refusals: []string{"PNG: 20000×20000", "178956970"}, kind: ErrTooLarge},
	"c51b": {refusals: []string{"PNG: 20000×20000", "178956970"}, kind: ErrTooLarge},
	"c53":  {refusals: []string{"empty"}, kind: ErrUnknownFormat},
}

const (
	c15Samples = "9a9feff2df458dc99bc0cddf39638e3f91a64c630e9164fab6a7eccfedf9cefb"
	c60Samples = c15Samples
)

// shapes are those that the cases imply, for the modes in which PIL opens
// them.
var shapes = map[string]string{
	"RGB": "3 uint8 RGB", "CMYK": "3 uint8 RGB", "L": "1 uint8 grey", "1": "1 uint8 grey",
	"P": "4 uint8 RGBA", "LA": "2 uint8 grey+alpha", "RGBA": "4 uint8 RGBA", "I": "1 uint16 grey",
}

func TestCases(t *testing.T) {
	dir := testfiles.Shared(t, "cases")
	f, err := os.Open(filepath.Join(dir, "cases.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := csv.NewReader(f)
	table.Comma = '\t'
	rows, err := table.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, row := range rows[1:] {
		id, group, file, mode, size, want := row[0], row[1], row[2], row[4], row[5], row[6]
		if group != "1" || file == "-" {
			continue
		}
		seen++
		t.Run(id, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, "files", file))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Decode(data, DefaultLimits)
			o, isOdd := odd[id]
			if isOdd && o.refusals != nil {
				var refused *RefusedError
				if !errors.As(err, &refused) || !errors.Is(err, o.kind) {
					t.Fatalf("%v, want a RefusedError that is %v", err, o.kind)
				}
				for _, part := range o.refusals {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q lacks %q", err, part)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w, h, _ := strings.Cut(size, "x")
			if shape := h + "×" + w + "×" + shapes[mode]; d.Shape.String() != shape {
				t.Errorf("shape %v, want %v", d.Shape, shape)
			}
			if isOdd {
				if got := hash(d.Pix); got != o.samples {
					t.Errorf("samples hash to %s, want %s", got, o.samples)
				}
				return
			}
			if got := hash(asRGB(d.Image)); got != want {
				t.Errorf("RGB hashes to %s, want %s", got, want)
			}
		})
	}
	if seen < 40 {
		t.Errorf("only %d cases of group 1", seen)
	}
}
