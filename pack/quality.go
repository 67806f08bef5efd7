package pack

import (
	"math"

	"prismfs/raster"
)

// SSIM is that of Wang, Bovik, Sheikh and Simoncelli, "Image Quality Assessment:
// From Error Visibility to Structural Similarity", 2004: a Gaussian window of 11
// by 11 pixels, σ = 1.5, K1 = 0.01, K2 = 0.03, on the luma of BT.601, averaged
// over all places where the window lies in the image.
const (
	ssimWindow = 11 // pixels
	ssimSigma  = 1.5
	ssimC1     = (0.01 * 255) * (0.01 * 255)
	ssimC2     = (0.03 * 255) * (0.03 * 255)
)

// ssimKernel is the Gaussian, one row of it; it sums to 1.
var ssimKernel = func() (k [ssimWindow]float64) {
	sum := 0.0
	for i := range k {
		d := float64(i - ssimWindow/2)
		k[i] = math.Exp(-d * d / (2 * ssimSigma * ssimSigma))
		sum += k[i]
	}
	for i := range k {
		k[i] /= sum
	}
	return k
}()

// psnr returns the peak signal-to-noise ratio, in dB, of two images of 8 bits
// and the same shape, over all samples; +Inf for equal ones.
func psnr(a, b []byte) float64 {
	var sum uint64
	for i := range a {
		d := int64(a[i]) - int64(b[i])
		sum += uint64(d * d)
	}
	if sum == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(255*255*float64(len(a))/float64(sum))
}

// luma returns the luma of a grey or RGB image of 8 bits.
func luma(img raster.Image) []float64 {
	y := make([]float64, img.Pixels())
	if img.Channels == 1 {
		for i, v := range img.Pix {
			y[i] = float64(v)
		}
		return y
	}
	for i := range y {
		p := img.Pix[i*img.Channels:]
		y[i] = 0.299*float64(p[0]) + 0.587*float64(p[1]) + 0.114*float64(p[2])
	}
	return y
}

// An ssimReference is a plane of luma that others are compared with, with the
// part of the work that is the same for all of them.
type ssimReference struct {
	luma                []float64
	height, width       int
	mean, meanOfSquares []float64 // by window; nil in an image smaller than one
}

func newSSIMReference(luma []float64, height, width int) *ssimReference {
	r := &ssimReference{luma: luma, height: height, width: width}
	if height >= ssimWindow && width >= ssimWindow {
		r.mean = r.windows(luma)
		r.meanOfSquares = r.windows(products(luma, luma))
	}
	return r
}

// compare returns the mean structural similarity of another plane. In an image
// that is smaller than the window, one window of its size, without weights, is
// all of it.
func (r *ssimReference) compare(luma []float64) float64 {
	if r.mean == nil {
		return ssimOfMoments(wholeMoments(r.luma, luma))
	}
	mean := r.windows(luma)
	meanOfSquares := r.windows(products(luma, luma))
	meanOfProducts := r.windows(products(r.luma, luma))
	sum := 0.0
	for i, m := range r.mean {
		sum += ssimOfMoments(m, mean[i], r.meanOfSquares[i], meanOfSquares[i], meanOfProducts[i])
	}
	return sum / float64(len(r.mean))
}

func products(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i, x := range a {
		out[i] = x * b[i]
	}
	return out
}

// windows returns the weighted means of a plane at all places where the window
// lies in it: the Gaussian is applied along rows, then along columns.
func (r *ssimReference) windows(plane []float64) []float64 {
	w, h := r.width-ssimWindow+1, r.height-ssimWindow+1
	rows := make([]float64, r.height*w)
	for y := range r.height {
		row, to := plane[y*r.width:(y+1)*r.width], rows[y*w:(y+1)*w]
		for i, k := range ssimKernel {
			addScaled(to, row[i:i+w], k)
		}
	}
	out := make([]float64, h*w)
	for i, k := range ssimKernel {
		addScaled(out, rows[i*w:(i+h)*w], k)
	}
	return out
}

// addScaled adds k times from, which is as long, to to.
func addScaled(to, from []float64, k float64) {
	from = from[:len(to)]
	for i := range to {
		to[i] += k * from[i]
	}
}

// wholeMoments returns the means of a, b, a², b² and ab.
func wholeMoments(a, b []float64) (ma, mb, maa, mbb, mab float64) {
	n := float64(len(a))
	for i, x := range a {
		y := b[i]
		ma, mb, maa, mbb, mab = ma+x/n, mb+y/n, maa+x*x/n, mbb+y*y/n, mab+x*y/n
	}
	return ma, mb, maa, mbb, mab
}

// ssimOfMoments is the measure in one window.
func ssimOfMoments(ma, mb, maa, mbb, mab float64) float64 {
	va, vb, cov := maa-ma*ma, mbb-mb*mb, mab-ma*mb
	return (2*ma*mb + ssimC1) * (2*cov + ssimC2) / ((ma*ma + mb*mb + ssimC1) * (va + vb + ssimC2))
}
