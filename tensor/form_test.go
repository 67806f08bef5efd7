package tensor

import (
	"errors"
	"testing"

	"prismfs/raster"
)

func TestFormCheck(t *testing.T) {
	// Every combination of terms that makes sense; all others are refused.
	possible := map[string]bool{}
	for _, name := range []string{
		"npy", "npy+chw", "npy+rgb", "npy+chw+rgb", "png", "png+rgb", "ppm", "ppm+rgb", "ppm+16",
		"raw", "raw+chw", "raw+rgb", "raw+chw+rgb", "l3", "jpg", "orig", "orig+rgb",
	} {
		possible[name] = true
	}
	for bits := range 8 * int(containers+1) {
		f := Form{Container: Container(bits >> 3), CHW: bits&1 != 0, RGB: bits&2 != 0, Wide: bits&4 != 0}
		err := f.Check()
		if possible[f.String()] != (err == nil) {
			t.Errorf("%v: %v", f, err)
		}
		if err != nil && !errors.Is(err, ErrForm) {
			t.Errorf("%v: %v does not wrap ErrForm", f, err)
		}
		if err != nil {
			if _, err := f.Layout(raster.Shape{Height: 1, Width: 1, Channels: 1, DType: raster.Uint8}); !errors.Is(err, ErrForm) {
				t.Errorf("layout of %v: %v", f, err)
			}
		}
		delete(possible, f.String())
	}
	if len(possible) != 0 {
		t.Errorf("forms that were not met: %v", possible)
	}
}

func TestFormNames(t *testing.T) {
	for _, c := range []struct {
		term, suffix string
		want         Container
		decoded      bool
	}{
		{"npy", ".npy", NPY, true},
		{"png", ".png", PNG, true},
		{"ppm", ".ppm", PPM, true},
		{"raw", ".raw", Raw, true},
		{"l3", ".l3", L3, false},
		{"jpg", ".jpg", JPG, false},
		{"orig", "", Orig, true},
	} {
		got, ok := ParseContainer(c.term)
		if !ok || got != c.want || got.String() != c.term {
			t.Errorf("ParseContainer(%q) = %v, %v", c.term, got, ok)
		}
		f := Form{Container: got}
		if f.Suffix() != c.suffix || f.Decoded() != c.decoded {
			t.Errorf("%v: suffix %q, decoded %v", f, f.Suffix(), f.Decoded())
		}
	}
	for _, term := range []string{"", "NPY", "chw", "jpeg", "npy "} {
		if c, ok := ParseContainer(term); ok {
			t.Errorf("ParseContainer(%q) = %v", term, c)
		}
	}
	if got := Container(99).String(); got != "Container(99)" {
		t.Errorf("Container(99) is called %q", got)
	}
	if (Form{}) != (Form{Container: NPY}) {
		t.Error("the zero form is not npy")
	}
}

// TestHoldsAll: what HoldsAll says without a shape is true of every shape.
func TestHoldsAll(t *testing.T) {
	for _, f := range forms() {
		refused := 0
		for _, s := range kinds() {
			if _, err := f.Layout(s); err != nil {
				if !errors.Is(err, ErrCannotHold) {
					t.Errorf("%v of %v: %v", f, s, err)
				}
				refused++
			}
		}
		if f.HoldsAll() != (refused == 0) {
			t.Errorf("%v: HoldsAll is %v, and %d kinds of images are refused", f, f.HoldsAll(), refused)
		}
	}
	for _, c := range []Container{L3, JPG} {
		f := Form{Container: c}
		if !f.HoldsAll() {
			t.Errorf("%v asks for shapes", f)
		}
		if _, err := f.Layout(kinds()[0]); !errors.Is(err, ErrForm) {
			t.Errorf("%v has a layout (%v)", f, err)
		}
	}
}

// TestCannotHold is the table of the package's documentation.
func TestCannotHold(t *testing.T) {
	for _, f := range forms() {
		for _, s := range kinds() {
			free := f.Container == NPY || f.Container == Raw
			unnamed := s.Color == raster.Other && s.Channels%2 == 0
			want := true
			switch {
			case free && !f.RGB:
			case s.DType == raster.Int16:
				want = false
			case unnamed && (f.RGB || f.Container == PPM):
				want = false
			case s.DType == raster.Uint16 && f == Form{Container: PPM}:
				want = false
			}
			if _, err := f.Layout(s); (err == nil) != want {
				t.Errorf("%v as %v: %v", s, f, err)
			}
		}
	}
}
