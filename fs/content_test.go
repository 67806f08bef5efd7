package fs

import (
	"errors"
	"testing"

	"prismfs/dataset"
	"prismfs/raster"
	"prismfs/tensor"
)

func TestLevelOf(t *testing.T) {
	s := &dataset.Sample{Levels: 10}
	for k, want := range map[int]int{0: 10, 1: 1, 9: 9, 10: 10, 11: 10, maxFidelity: 10} {
		if got := levelOf(s, k); got != want {
			t.Errorf("fidelity %d of 10 is %d, want %d", k, got, want)
		}
	}
}

// TestMadeForm: what the file of a sample is made as, in every form of a view.
func TestMadeForm(t *testing.T) {
	const none = "none"
	grey := raster.Shape{Height: 3, Width: 5, Channels: 1, DType: raster.Uint8, Color: raster.Grey}
	for _, c := range []struct {
		view    string
		l3, pcr string // the form, or none
		deep    string // of an L3 file of 16 bits
	}{
		{view: "npy", l3: "npy", pcr: "npy", deep: "npy"},
		{view: "npy+rgb", l3: "npy+rgb", pcr: "npy+rgb", deep: "npy+rgb"},
		{view: "raw+chw", l3: "raw+chw", pcr: "raw+chw", deep: "raw+chw"},
		{view: "png", l3: "png", pcr: "png", deep: "png"},
		{view: "ppm", l3: "ppm", pcr: "ppm", deep: none},
		{view: "ppm+16", l3: "ppm+16", pcr: "ppm+16", deep: "ppm+16"},
		{view: "l3", l3: "l3", pcr: none, deep: "l3"},
		{view: "jpg", l3: none, pcr: "jpg", deep: none},
		{view: "orig", l3: "png", pcr: "jpg", deep: "png"},
		{view: "orig+rgb", l3: "png+rgb", pcr: none, deep: "png+rgb"},
	} {
		form := mustParseView(t, c.view).Form
		for _, s := range []struct {
			format dataset.Format
			shape  raster.Shape
			want   string
		}{{dataset.L3, rgb8, c.l3}, {dataset.PCR, rgb8, c.pcr}, {dataset.PCR, grey, c.pcr}, {dataset.L3, grey16, c.deep}} {
			got, err := madeForm(&dataset.Sample{Format: s.format, Shape: s.shape}, form)
			if s.want == none {
				if !errors.Is(err, tensor.ErrCannotHold) {
					t.Errorf("%v of %v as %s: %v, %v; want none", s.shape, s.format, c.view, got, err)
				}
				continue
			}
			if err != nil || got.String() != s.want {
				t.Errorf("%v of %v as %s: %v, %v; want %s", s.shape, s.format, c.view, got, err, s.want)
			}
			if holdsAll(s.format, form) && !storedHold(s.format, form) {
				t.Errorf("%v of %v as %s: held and not held", s.shape, s.format, c.view)
			}
		}
		// What listings go by must be what lookups find.
		if shown := holdsAll(dataset.PCR, form) && storedHold(dataset.PCR, form); shown != (c.pcr != none) {
			t.Errorf("images of records are listed as %s: %v", c.view, shown)
		}
	}
}

// TestKey: what has the same bytes is kept once, and nothing else is.
func TestKey(t *testing.T) {
	s := &dataset.Sample{Path: "0/PCR_0-00001.pcr", Format: dataset.PCR, Shape: rgb8, Levels: 10}
	key := func(view string) bufferKey {
		v := mustParseView(t, view)
		form, err := madeForm(s, v.Form)
		if err != nil {
			t.Fatal(err)
		}
		return content{sample: s, form: form, fidelity: levelOf(s, v.Fidelity)}.key()
	}
	for _, same := range [][]string{{"npy", "10", "99+npy", "auto"}, {"jpg+2", "orig+2"}, {"png", "png+10"}} {
		for _, v := range same[1:] {
			if key(v) != key(same[0]) {
				t.Errorf("%s and %s are kept twice", v, same[0])
			}
		}
	}
	seen := map[bufferKey]string{}
	for _, v := range []string{"npy", "1", "9", "jpg", "jpg+1", "png", "png+rgb", "raw", "raw+1"} {
		if other, ok := seen[key(v)]; ok {
			t.Errorf("%s and %s share a buffer", v, other)
		}
		seen[key(v)] = v
	}
}
