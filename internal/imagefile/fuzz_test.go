package imagefile

import (
	"errors"
	"strings"
	"testing"
)

// fuzzLimits keep a fuzzer from spending its time on large pictures.
var fuzzLimits = Limits{MaxPixels: 1 << 16}

// checkDecode holds Decode to its promises whatever the bytes are.
func checkDecode(t *testing.T, data []byte) {
	d, err := Decode(data, fuzzLimits)
	if err != nil {
		checkRefusal(t, err, "")
		return
	}
	if err := d.Check(); err != nil {
		t.Errorf("decoded to an impossible shape: %v", err)
	}
	if int64(len(d.Pix)) != d.Bytes() || d.Pixels() > fuzzLimits.MaxPixels {
		t.Errorf("%d bytes of samples for %v", len(d.Pix), d.Shape)
	}
	if d.SignificantBits < 1 || d.SignificantBits > 8*d.DType.Size() {
		t.Errorf("%d significant bits of %v", d.SignificantBits, d.DType)
	}
}

// addFiles seeds a fuzzer with the files of a folder of testdata.
func addFiles(f *testing.F, folder string) {
	for _, e := range expectations(f) {
		if strings.HasPrefix(e.file, folder) {
			f.Add(e.read(f))
		}
	}
}

func FuzzDecode(f *testing.F) {
	addFiles(f, "")
	f.Add([]byte("\xff\xd8\xff\xdb\x00\x43\x00"))
	f.Fuzz(checkDecode)
}

func FuzzNetpbm(f *testing.F) {
	addFiles(f, "netpbm/")
	f.Fuzz(func(t *testing.T, data []byte) {
		if format, ok := Sniff(data); ok && format == Netpbm {
			checkDecode(t, data)
		}
	})
}

// FuzzNPY fuzzes the text of the header and the samples on their own, so that
// the length between them is always right.
func FuzzNPY(f *testing.F) {
	for _, e := range expectations(f) {
		if !strings.HasPrefix(e.file, "npy/") {
			continue
		}
		if text, samples, err := splitNPY(e.read(f)); err == nil {
			f.Add(text, samples)
		}
	}
	f.Fuzz(func(t *testing.T, text string, samples []byte) {
		if len(text) > 0xffff {
			return
		}
		data := append([]byte("\x93NUMPY\x01\x00"), byte(len(text)), byte(len(text)>>8))
		data = append(append(data, text...), samples...)
		checkDecode(t, data)
		if len(text) > maxNPYHeader {
			if _, err := Decode(data, fuzzLimits); !errors.Is(err, ErrTooLarge) {
				t.Errorf("a header of %d bytes: %v", len(text), err)
			}
		}
	})
}
