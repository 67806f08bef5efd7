package imagefile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// allocated returns the bytes that f takes from Go's heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A file that is refused for its size costs no memory.
func TestBombCostsNothing(t *testing.T) {
	data, err := os.ReadFile(testfiles.Shared(t, "cases/files/c51_bomb_20000x20000.png"))
	if err != nil {
		t.Fatal(err)
	}
	n := allocated(func() { _, err = Decode(data, DefaultLimits) })
	if !errors.Is(err, ErrTooLarge) {
		t.Fatalf("%v, want ErrTooLarge", err)
	}
	if n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// A header that promises more than its file can hold costs no memory either.
func TestHollowFilesCostLittle(t *testing.T) {
	for _, file := range []string{"png/hollow.png", "npy/huge.npy", "npy/cut.npy"} {
		data := expectation{file: file}.read(t)
		var err error
		n := allocated(func() { _, err = Decode(data, Limits{MaxPixels: 1 << 40}) })
		if err == nil || n > 1<<20 {
			t.Errorf("%s: %v, %d bytes were allocated", file, err, n)
		}
	}
}

// Every format obeys the limit on pixels, which is inclusive.
func TestPixelLimit(t *testing.T) {
	for _, e := range expectations(t) {
		if e.refusal != "" {
			continue
		}
		data := e.read(t)
		d, err := Decode(data, DefaultLimits)
		if err != nil {
			t.Errorf("%s: %v", e.file, err)
			continue
		}
		if _, err := Decode(data, Limits{MaxPixels: d.Pixels()}); err != nil {
			t.Errorf("%s at its limit: %v", e.file, err)
		}
		if d.Pixels() == 1 {
			continue // no limit is below it
		}
		if _, err := Decode(data, Limits{MaxPixels: d.Pixels() - 1}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s above its limit: %v", e.file, err)
		}
	}
}

// No prefix of a file is taken for the file, nor makes anything panic. The
// exceptions may lose their end without losing pixels.
func TestPrefixes(t *testing.T) {
	harmless := func(e expectation, cut int) bool {
		switch filepath.Dir(e.file) {
		case "netpbm": // the white space after the last number, or a number's last digits
			return strings.HasPrefix(filepath.Base(e.file), "p1") || strings.HasPrefix(filepath.Base(e.file), "p2") ||
				strings.HasPrefix(filepath.Base(e.file), "p3")
		case "bmp": // bytes after the picture, the mark of its end
			return cut <= 4
		case "tiff": // colour maps and the like may lie behind the strip
			return true
		case "webp": // what follows the picture
			return cut <= 8 || strings.Contains(e.file, "profile")
		}
		return false
	}
	for _, e := range expectations(t) {
		if e.refusal != "" {
			continue
		}
		data := e.read(t)
		for n := range data {
			if len(data)-n > 40 && n%9 != 0 {
				continue // the ends are where it is delicate
			}
			d, err := Decode(data[:n], DefaultLimits)
			if err == nil && !harmless(e, len(data)-n) {
				t.Errorf("%s: %d of %d bytes were read as %v", e.file, n, len(data), d.Shape)
				break
			}
			if err == nil && hash(d.Pix) != e.samples && !strings.HasPrefix(e.file, "netpbm/") {
				t.Errorf("%s: %d of %d bytes gave other pixels", e.file, n, len(data))
				break
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	for file, want := range map[string]string{
		"png/ancillary.png":  strings.Repeat("no real profile", 10),
		"webp/profile.webp":  "no real profile",
		"png/type2-8bit.png": "",
	} {
		d, err := Decode(expectation{file: file}.read(t), DefaultLimits)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if string(d.ColourProfile) != want {
			t.Errorf("%s: profile %q, want %q", file, d.ColourProfile, want)
		}
	}
}
