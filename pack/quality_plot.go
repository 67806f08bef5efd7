package pack

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"prismfs/internal/plural"
)

const (
	curveWidth  = 14 * vg.Centimeter
	curveHeight = 8 * vg.Centimeter // of each of the two
	curveDPI    = 150
	pointRadius = vg.Length(3) // printer's points
)

var curveColour = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}

// WritePlot draws PSNR and SSIM over the share of bytes as a PNG: a point for
// each fidelity, one below the other.
func (c *QualityCurve) WritePlot(w io.Writer) error {
	if len(c.Points) == 0 {
		return errors.New("no image was measured that could be drawn")
	}
	title := fmt.Sprintf("mean of %s, by fidelity", plural.Of(c.Images, "image"))
	upper, err := c.plot(title, "PSNR, dB", psnrTick, func(p QualityPoint) float64 { return p.PSNR })
	if err != nil {
		return err
	}
	lower, err := c.plot("", "SSIM", ssimTick, func(p QualityPoint) float64 { return p.SSIM })
	if err != nil {
		return err
	}
	lower.X.Label.Text = "share of the bytes of full fidelity"
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(curveWidth, 2*curveHeight), vgimg.UseDPI(curveDPI))}
	rows := [][]*plot.Plot{{upper}, {lower}}
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadRight: 2 * pointRadius, PadY: 4 * pointRadius, PadTop: pointRadius}
	for i, areas := range plot.Align(rows, tiles, draw.New(canvas)) {
		rows[i][0].Draw(areas[0])
	}
	_, err = canvas.WriteTo(w)
	return err
}

// The steps between the marks on the axes.
const (
	psnrTick = 5 // dB
	ssimTick = 0.1
)

// plot draws one measure. What is infinite has no point.
func (c *QualityCurve) plot(title, name string, tick float64, measure func(QualityPoint) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, name
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font.Variant = "Sans"
	}
	p.Y.Tick.Marker = everyTick(tick)
	p.Add(plotter.NewGrid())
	points, names := c.xys(measure)
	if len(points) > 0 {
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", name, err)
		}
		line.Color, marks.Color = curveColour, curveColour
		marks.Shape, marks.Radius = draw.CircleGlyph{}, pointRadius
		labels, err := plotter.NewLabels(plotter.XYLabels{XYs: points, Labels: names})
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", name, err)
		}
		for i := range labels.TextStyle {
			labels.TextStyle[i] = labelStyle()
		}
		labels.Offset = vg.Point{X: pointRadius, Y: -4 * pointRadius}
		p.Add(line, marks, labels)
		p.Y.Min, p.Y.Max = tick*math.Floor(p.Y.Min/tick), tick*math.Ceil(p.Y.Max/tick)
	}
	p.X.Min, p.X.Max = 0, 1
	if p.Y.Max <= p.Y.Min || math.IsInf(p.Y.Max-p.Y.Min, 0) {
		p.Y.Min, p.Y.Max = 0, tick
	}
	return p, nil
}

// xys returns the points with their labels. Points that are too close for a label
// each share that of the first, as in 6–9.
func (c *QualityCurve) xys(measure func(QualityPoint) float64) (points plotter.XYs, names []string) {
	var first, last int // of the fidelities that share the latest label
	at := -1            // the point that has it
	for _, point := range c.Points {
		y := measure(point)
		if math.IsInf(y, 0) {
			continue
		}
		points = append(points, plotter.XY{X: point.Share, Y: y})
		names = append(names, strconv.Itoa(point.K))
		i := len(points) - 1
		if at < 0 || points[i].X-points[at].X > labelShare(names[at]) {
			at, first = i, point.K
		} else {
			names[i] = ""
		}
		last = point.K
		if last > first {
			names[at] = fmt.Sprintf("%d–%d", first, last)
		}
	}
	return points, names
}

// labelShare is the width of a label and of what keeps it from the next one, as a
// share of the horizontal axis.
func labelShare(label string) float64 {
	return float64((labelStyle().Width(label) + pointRadius) / (curveWidth - axisWidth))
}

// axisWidth is what is left of the points, and right of them: the most that it is,
// since labels that are wider than need be do no harm.
const axisWidth = 3 * vg.Centimeter

// labelStyle is how points are labelled.
func labelStyle() text.Style {
	style := text.Style{Font: font.From(plotter.DefaultFont, plotter.DefaultFontSize), Handler: plot.DefaultTextHandler}
	style.Font.Variant = "Sans"
	return style
}

// everyTick marks the multiples of a step.
func everyTick(step float64) plot.TickerFunc {
	return func(least, most float64) []plot.Tick {
		var ticks []plot.Tick
		for n := math.Ceil(least/step - 1e-9); n*step <= most+1e-9*step; n++ {
			ticks = append(ticks, plot.Tick{Value: n * step, Label: strconv.FormatFloat(n*step, 'g', 4, 64)})
		}
		return ticks
	}
}
