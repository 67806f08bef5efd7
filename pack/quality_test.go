package pack

import (
	"fmt"
	"math"
	"testing"

	"prismfs/raster"
)

// plainSSIM is the definition, window by window.
func plainSSIM(a, b []float64, height, width int) float64 {
	sum, count := 0.0, 0
	for top := 0; top+ssimWindow <= height; top++ {
		for left := 0; left+ssimWindow <= width; left++ {
			var ma, mb, va, vb, cov float64
			each := func(visit func(w, x, y float64)) {
				for i := range ssimWindow {
					for j := range ssimWindow {
						at := (top+i)*width + left + j
						visit(ssimKernel[i]*ssimKernel[j], a[at], b[at])
					}
				}
			}
			each(func(w, x, y float64) { ma, mb = ma+w*x, mb+w*y })
			each(func(w, x, y float64) {
				va, vb, cov = va+w*(x-ma)*(x-ma), vb+w*(y-mb)*(y-mb), cov+w*(x-ma)*(y-mb)
			})
			sum += (2*ma*mb + ssimC1) * (2*cov + ssimC2) / ((ma*ma + mb*mb + ssimC1) * (va + vb + ssimC2))
			count++
		}
	}
	return sum / float64(count)
}

func ssim(a, b []float64, height, width int) float64 {
	return newSSIMReference(a, height, width).compare(b)
}

// planesOf are two planes that are alike, more so for a smaller error.
func planesOf(height, width int, err float64) (a, b []float64) {
	state := uint32(7)
	for i := range height * width {
		state = state*1664525 + 1013904223
		v := 100 + 60*math.Sin(float64(i%width)/3) + 30*math.Cos(float64(i/width)/5)
		a, b = append(a, v), append(b, v+err*(float64(state>>24)/255-0.5))
	}
	return a, b
}

func TestSSIMIsItsDefinition(t *testing.T) {
	for _, c := range []struct {
		height, width int
		err           float64
	}{{11, 11, 20}, {11, 40, 60}, {33, 12, 5}, {40, 50, 120}} {
		a, b := planesOf(c.height, c.width, c.err)
		got, want := ssim(a, b, c.height, c.width), plainSSIM(a, b, c.height, c.width)
		if math.Abs(got-want) > 1e-9 || want >= 1 || want < 0.1 {
			t.Errorf("%d×%d: %v, by the definition %v", c.height, c.width, got, want)
		}
		if same := ssim(a, a, c.height, c.width); math.Abs(same-1) > 1e-9 {
			t.Errorf("%d×%d: an image is %v like itself", c.height, c.width, same)
		}
	}
}

func TestSSIMOfTinyImages(t *testing.T) {
	a, b := planesOf(3, 5, 80)
	if got := ssim(a, b, 3, 5); got >= 1 || got < 0.1 {
		t.Errorf("similar images give %v", got)
	}
	if got := ssim([]float64{7}, []float64{7}, 1, 1); got != 1 {
		t.Errorf("a pixel is %v like itself", got)
	}
}

func TestPSNR(t *testing.T) {
	if got := psnr([]byte{1, 2, 3}, []byte{1, 2, 3}); !math.IsInf(got, 1) {
		t.Errorf("equal images give %v", got)
	}
	// A mean square of 1 is 20·log10(255).
	if got := psnr([]byte{10, 0, 255}, []byte{11, 1, 254}); math.Abs(got-48.1308) > 1e-4 {
		t.Errorf("a difference of 1 gives %v dB", got)
	}
	if got := psnr([]byte{0}, []byte{255}); math.Abs(got) > 1e-9 {
		t.Errorf("black and white give %v dB", got)
	}
}

func TestLuma(t *testing.T) {
	rgb := raster.Image{Shape: raster.Shape{Height: 1, Width: 2, Channels: 3, DType: raster.Uint8, Color: raster.RGB}, Pix: []byte{255, 0, 0, 10, 10, 10}}
	got := luma(rgb)
	if math.Abs(got[0]-76.245) > 1e-9 || math.Abs(got[1]-10) > 1e-9 {
		t.Errorf("luma %v", got)
	}
	grey := raster.Image{Shape: raster.Shape{Height: 1, Width: 2, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, Pix: []byte{3, 200}}
	if got := luma(grey); got[0] != 3 || got[1] != 200 {
		t.Errorf("luma of grey %v", got)
	}
}

// Labels of the plot do not overlap, however near the points are to each other, and
// every point belongs to one.
func TestQualityPlotLabels(t *testing.T) {
	c := &QualityCurve{}
	for i, share := range []float64{0.086, 0.216, 0.24, 0.263, 0.4, 0.578, 0.592, 0.623, 0.652, 1} {
		c.Points = append(c.Points, QualityPoint{K: i + 1, Share: share, SSIM: 0.9, PSNR: math.Inf(1)})
	}
	points, names := c.xys(func(p QualityPoint) float64 { return p.SSIM })
	if got, want := fmt.Sprint(names), "[1 2–4   5 6–8   9 10]"; got != want || len(points) != len(c.Points) {
		t.Errorf("labels %v, want %v", got, want)
	}
	end := 0.0
	for i, name := range names {
		if name == "" {
			continue
		}
		if points[i].X < end {
			t.Errorf("label %s lies on the one before", name)
		}
		end = points[i].X + float64(labelStyle().Width(name)/curveWidth)
	}
	if points, names := c.xys(func(p QualityPoint) float64 { return p.PSNR }); len(points)+len(names) != 0 {
		t.Errorf("points without a height: %v", points)
	}
}
