package bench

import (
	"bytes"
	"image/png"
	"testing"
)

func TestPlot(t *testing.T) {
	r := &Report{Images: 3, Codecs: []Result{
		{Codec: pngFormat, OneCore: 83, OverPNG: &OverPNG{GeometricMean: 1}},
		{Codec: webpFormat, OneCore: 80, OverPNG: &OverPNG{GeometricMean: 0.72}},
		{Codec: "jpeg-xl", OneCore: 82, OverPNG: &OverPNG{GeometricMean: 0.78}},
		{Codec: "dense", OneCore: 81, OverPNG: &OverPNG{GeometricMean: 0.69}},
		{Codec: "fast", OneCore: 2400, OverPNG: &OverPNG{GeometricMean: 0.83}},
		{Codec: "labels", OneCore: 500, OverSamples: 0.1}, // of no image that there is a PNG of
	}}
	points := r.points()
	if len(points) != 5 || points[0].result.Codec != webpFormat || points[4].result.Codec != "fast" {
		t.Fatalf("points %+v", points)
	}
	p := newPlot("", "", "")
	setRange(p, points)
	place(p, points)
	// The first three are as large and as fast as each other; PNG is as fast.
	if points[0].lift != 0 || points[1].lift < labelSize/2 || points[2].lift < points[1].lift+labelSize/2 || points[3].lift != 0 {
		t.Errorf("labels are lifted: %+v", points)
	}
	drawn := func() []byte {
		var b bytes.Buffer
		if err := r.WritePlot(&b); err != nil {
			t.Fatal(err)
		}
		c, err := png.DecodeConfig(bytes.NewReader(b.Bytes()))
		if err != nil || c.Width < 500 || c.Height < 300 {
			t.Fatalf("%v, %v", c, err)
		}
		return b.Bytes()
	}
	first := drawn()
	if r.Codecs[4].OneCore = 1000; bytes.Equal(first, drawn()) {
		t.Error("another speed gives the same plot")
	}
	if r.sizeAxis() != "size, PNG = 1 (geometric mean)" {
		t.Errorf("the axis is called %s", r.sizeAxis())
	}
}

func TestPlotWithoutPNG(t *testing.T) {
	r := &Report{Codecs: []Result{{Codec: "fast", OneCore: 2400, OverSamples: 0.5}}}
	var b bytes.Buffer
	if err := r.WritePlot(&b); err != nil || r.sizeAxis() != "size, samples = 1" {
		t.Errorf("%v; the axis is called %s", err, r.sizeAxis())
	}
	if err := (&Report{}).WritePlot(&b); err == nil {
		t.Error("nothing was drawn without an error")
	}
}
