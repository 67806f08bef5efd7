package bench

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prismfs/internal/plural"
)

const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
	plotDPI    = 150
	pointSize  = vg.Length(4) // printer's points, as labelSize
	labelSize  = vg.Length(10)
)

var (
	l3Colour    = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	otherColour = color.RGBA{R: 0x44, G: 0x55, B: 0x66, A: 0xff}
)

// WritePlot draws size against speed of decoding on one core as a PNG: a point
// for each codec, right for large files, up for fast ones. Sizes are relative to
// PNG, or to the samples where there is none to compare with.
func (r *Report) WritePlot(w io.Writer) error {
	points := r.points()
	if len(points) == 0 {
		return errors.New("nothing was measured that could be drawn")
	}
	p := newPlot(fmt.Sprintf("%s, decoded on one core, MB of samples a second", plural.Of(r.Images, "image")), r.sizeAxis(), "MB/s")
	setRange(p, points)
	place(p, points)
	for _, point := range points {
		if err := point.draw(p); err != nil {
			return fmt.Errorf("drawing %s: %w", point.result.Codec, err)
		}
	}
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI))}
	p.Draw(draw.New(canvas))
	_, err := canvas.WriteTo(w)
	return err
}

// newPlot returns an empty plot. The label of the vertical axis must be short:
// for a long one the plot makes room above itself.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = pointSize
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = plot.TickerFunc(logTicks)
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font.Variant = "Sans"
	}
	p.Add(plotter.NewGrid())
	return p
}

// logTicks are those of plot.LogTicks, which go on to whole powers of ten, within
// the range; for the others the plot would make room.
func logTicks(least, most float64) []plot.Tick {
	return slices.DeleteFunc(plot.LogTicks{Prec: -1}.Ticks(least, most), func(t plot.Tick) bool {
		return t.Value < least || t.Value > most
	})
}

func (r *Report) sizeAxis() string {
	if r.comparesPNG() {
		return "size, PNG = 1 (geometric mean)"
	}
	return "size, samples = 1"
}

func (r *Report) comparesPNG() bool {
	for _, c := range r.Codecs {
		if c.OverPNG != nil {
			return true
		}
	}
	return false
}

// A plotPoint is a codec in the plot.
type plotPoint struct {
	result Result
	size   float64
	lift   vg.Length // of its label, to keep it off another
}

// points returns the codecs that have both a size and a speed, the slowest
// first.
func (r *Report) points() []plotPoint {
	var points []plotPoint
	for _, c := range r.Codecs {
		point := plotPoint{result: c, size: c.OverSamples}
		if r.comparesPNG() {
			if c.OverPNG == nil {
				continue
			}
			point.size = c.OverPNG.GeometricMean
		}
		if c.OneCore > 0 {
			points = append(points, point)
		}
	}
	sort.SliceStable(points, func(i, j int) bool { return points[i].result.OneCore < points[j].result.OneCore })
	return points
}

// setRange makes room for the labels, which stand right of their points.
func setRange(p *plot.Plot, points []plotPoint) {
	least, most := points[0].size, points[0].size
	for _, point := range points {
		least, most = min(least, point.size), max(most, point.size)
	}
	span := max(most-least, 0.2)
	p.X.Min, p.X.Max = least-0.05*span, most+0.7*span
	p.Y.Min, p.Y.Max = points[0].result.OneCore/2, points[len(points)-1].result.OneCore*2
}

// place lifts labels that would stand on that of a slower codec.
func place(p *plot.Plot, points []plotPoint) {
	const plotShare, labelShare = 0.8, 0.4 // of the height and the width that the points and a label take
	perDecade := plotShare * plotHeight / vg.Length(math.Log10(p.Y.Max/p.Y.Min))
	height := func(point plotPoint) vg.Length {
		return perDecade*vg.Length(math.Log10(point.result.OneCore)) + point.lift
	}
	for i := range points {
		for j := range i {
			near := math.Abs(points[i].size-points[j].size) < labelShare*(p.X.Max-p.X.Min)
			if gap := labelSize + height(points[j]) - height(points[i]); near && gap > 0 {
				points[i].lift += gap
			}
		}
	}
}

func (c plotPoint) draw(p *plot.Plot) error {
	at := plotter.XYs{{X: c.size, Y: c.result.OneCore}}
	glyph, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	glyph.GlyphStyle = draw.GlyphStyle{Color: otherColour, Radius: pointSize, Shape: draw.CircleGlyph{}}
	if IsL3(c.result.Codec) {
		glyph.GlyphStyle.Color = l3Colour
	}
	words := fmt.Sprintf("%s: %.2f, %.0f MB/s", Title(c.result.Codec), c.size, c.result.OneCore)
	label, err := plotter.NewLabels(plotter.XYLabels{XYs: at, Labels: []string{words}})
	if err != nil {
		return err
	}
	label.Offset = vg.Point{X: 2 * pointSize, Y: c.lift - labelSize/3}
	label.TextStyle[0].Color = glyph.GlyphStyle.Color
	label.TextStyle[0].Font.Variant = "Sans"
	label.TextStyle[0].Font.Size = labelSize
	p.Add(glyph, onlyDrawn{label})
	return nil
}

// onlyDrawn is a label for which the axes make no room: setRange has made it.
type onlyDrawn struct{ label *plotter.Labels }

func (o onlyDrawn) Plot(c draw.Canvas, p *plot.Plot) { o.label.Plot(c, p) }
