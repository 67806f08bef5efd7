package pack

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"

	"prismfs/dataset"
	"prismfs/internal/jpeg"
	"prismfs/raster"
)

// QualityOptions say how MeasureQuality works. The zero value is good.
type QualityOptions struct {
	Images   int // to look at, evenly spread over the dataset; 0: DefaultQualityImages
	Jobs     int // images at a time; 0: as many as there are processors
	Progress func(done, total int)
}

// DefaultQualityImages is how many images MeasureQuality looks at.
const DefaultQualityImages = 100

// maxQualityLevels bounds the fidelities that are measured: records of unusual
// JPEGs can have thousands.
const maxQualityLevels = 64

// A QualityCurve says how much of images is there at each fidelity.
type QualityCurve struct {
	Images int            `json:"images"` // that were looked at
	Points []QualityPoint `json:"points"` // k = 1 first
	Bad    []Refusal      `json:"bad"`    // images that could not be decoded
}

// A QualityPoint is the mean over the images of a QualityCurve at a fidelity,
// against full fidelity.
type QualityPoint struct {
	K         int
	MeanBytes float64 // of the JPEG
	Share     float64 // of the bytes at full fidelity
	PSNR      float64 // dB, over the images that differ from full fidelity; +Inf where none does
	SSIM      float64 // over all images
	Identical int     // images that are as at full fidelity
}

// MarshalJSON writes an infinite PSNR as null, since JSON has none.
func (p QualityPoint) MarshalJSON() ([]byte, error) {
	out := struct {
		K         int      `json:"k"`
		MeanBytes float64  `json:"mean_bytes"`
		Share     float64  `json:"share"`
		PSNR      *float64 `json:"psnr_db"`
		SSIM      float64  `json:"ssim"`
		Identical int      `json:"identical"`
	}{p.K, p.MeanBytes, p.Share, &p.PSNR, p.SSIM, p.Identical}
	if math.IsInf(p.PSNR, 1) {
		out.PSNR = nil
	}
	return json.Marshal(out)
}

// MeasureQuality decodes some images of a folder of records at every fidelity
// and compares them with full fidelity.
func MeasureQuality(ctx context.Context, path string, opt QualityOptions) (*QualityCurve, error) {
	resolved, info, err := statSource(path)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() || !holdsPCR(resolved):
		return nil, fmt.Errorf("%w: %s is no folder of records, which alone have fidelities", ErrSource, Printable(path))
	}
	if opt.Images <= 0 {
		opt.Images = DefaultQualityImages
	}
	if opt.Jobs <= 0 {
		opt.Jobs = runtime.GOMAXPROCS(0)
	}
	folder, err := openPCRImages(ctx, resolved, "")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	paths, err := folder.spread(ctx, opt.Images)
	if err != nil {
		return nil, sourceError(err)
	}
	curve := newCurve(min(folder.summary.Levels, maxQualityLevels))
	newJob := func() (func(int) imageQuality, func(), error) {
		m, err := newQualityMeter(ctx, folder)
		if err != nil {
			return nil, nil, err
		}
		return func(at int) imageQuality { return m.measure(paths[at]) }, m.decoder.Close, nil
	}
	err = inOrder(ctx, opt.Jobs, 0, len(paths), newJob, func(at int, q imageQuality) bool {
		curve.add(paths[at], q)
		if opt.Progress != nil {
			opt.Progress(at+1, len(paths))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return curve.finish(), nil
}

// spread returns the paths of some images, evenly spread over all.
func (f *pcrFolder) spread(ctx context.Context, some int) ([]string, error) {
	count := f.summary.Images
	some = min(some, count)
	paths := make([]string, 0, some)
	seen := 0
	err := f.samples(ctx, func(path string) error {
		// The i-th of them is in the middle of the i-th part.
		if len(paths) < some && seen >= (2*len(paths)+1)*count/(2*some) {
			paths = append(paths, path)
		}
		seen++
		if len(paths) == some {
			return errEndWalk
		}
		return nil
	})
	return paths, err
}

// imageQuality is what was measured of an image, by fidelity.
type imageQuality struct {
	bytes      []int64 // by k-1, as the other two
	psnr, ssim []float64
	err        error
}

// qualityMeter measures images. It serves one goroutine.
type qualityMeter struct {
	ctx     context.Context // of the run
	folder  *pcrFolder
	decoder *jpeg.Decoder
	data    []byte
	pixels  [2][]byte // of full fidelity, and of another
}

func newQualityMeter(ctx context.Context, folder *pcrFolder) (*qualityMeter, error) {
	d, err := jpeg.NewDecoder()
	return &qualityMeter{ctx: ctx, folder: folder, decoder: d}, err
}

// measure decodes an image at every fidelity.
func (m *qualityMeter) measure(path string) (q imageQuality) {
	s, err := m.folder.ds.Sample(m.ctx, path)
	if err != nil {
		return imageQuality{err: err}
	}
	full, err := m.decode(s, 0, 0)
	if err != nil {
		return imageQuality{err: err}
	}
	reference := newSSIMReference(luma(full), full.Height, full.Width)
	for k := 1; k <= min(s.Levels, maxQualityLevels); k++ {
		img, err := m.decode(s, k, 1)
		if err != nil {
			return imageQuality{err: err}
		}
		q.bytes = append(q.bytes, int64(len(m.data)))
		q.psnr = append(q.psnr, psnr(full.Pix, img.Pix))
		if math.IsInf(q.psnr[k-1], 1) {
			q.ssim = append(q.ssim, 1)
			continue
		}
		q.ssim = append(q.ssim, reference.compare(luma(img)))
	}
	return q
}

// decode decodes a sample at a fidelity into one of the two buffers.
func (m *qualityMeter) decode(s *dataset.Sample, k, buffer int) (raster.Image, error) {
	var err error
	if m.data, err = m.folder.ds.ReadEncoded(m.ctx, s, k, m.data); err != nil {
		return raster.Image{}, err
	}
	h, err := m.decoder.Header(m.data, jpeg.Options{})
	if err != nil {
		return raster.Image{}, err
	}
	if h.Shape() != s.Shape {
		return raster.Image{}, fmt.Errorf("it should be %v, and is %v", s.Shape, h.Shape())
	}
	size := s.Shape.Bytes()
	if int64(cap(m.pixels[buffer])) < size {
		m.pixels[buffer] = make([]byte, size)
	}
	img := raster.Image{Shape: s.Shape, Pix: m.pixels[buffer][:size]}
	_, err = m.decoder.Decode(img.Pix, m.data, h, jpeg.Options{})
	return img, err
}

// curveSums adds up what the points of a curve are means of.
type curveSums struct {
	curve  *QualityCurve
	sums   []curveSum // by k-1
	images int
}

type curveSum struct {
	bytes      int64
	psnr, ssim float64
	differing  int
}

func newCurve(levels int) *curveSums {
	return &curveSums{curve: &QualityCurve{Points: []QualityPoint{}, Bad: []Refusal{}}, sums: make([]curveSum, levels)}
}

// add adds an image. One with fewer scans than others is complete from its last
// one on.
func (c *curveSums) add(path string, q imageQuality) {
	if q.err != nil {
		c.curve.Bad = append(c.curve.Bad, Refusal{path, reasonOf(q.err)})
		return
	}
	c.images++
	for i := range c.sums {
		from := min(i, len(q.bytes)-1)
		c.sums[i].bytes += q.bytes[from]
		c.sums[i].ssim += q.ssim[from]
		if !math.IsInf(q.psnr[from], 1) {
			c.sums[i].psnr += q.psnr[from]
			c.sums[i].differing++
		}
	}
}

func (c *curveSums) finish() *QualityCurve {
	c.curve.Images = c.images
	if c.images == 0 {
		return c.curve
	}
	full := c.sums[len(c.sums)-1].bytes
	for i, s := range c.sums {
		p := QualityPoint{
			K: i + 1, MeanBytes: float64(s.bytes) / float64(c.images), Share: ratio(s.bytes, full),
			PSNR: math.Inf(1), SSIM: s.ssim / float64(c.images), Identical: c.images - s.differing,
		}
		if s.differing > 0 {
			p.PSNR = s.psnr / float64(s.differing)
		}
		c.curve.Points = append(c.curve.Points, p)
	}
	return c.curve
}
