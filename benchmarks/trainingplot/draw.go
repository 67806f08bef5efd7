package main

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	width        = 18 * vg.Centimeter
	upperHeight  = 11 * vg.Centimeter
	lowerHeight  = 7 * vg.Centimeter
	dpi          = 150
	dotRadius    = vg.Length(2.5) // printer's points, as the next
	meanRadius   = vg.Length(4)
	margin       = vg.Length(12)
	lineWidth    = vg.Length(1.5)
	bandOpacity  = 0x30 // of 0xff
	accuracyTick = 0.1
)

// colours are by kind; a larger factor is darker.
var colours = map[string][]color.RGBA{
	"none":    {{R: 0x44, G: 0x44, B: 0x44, A: 0xff}},
	"example": {{R: 0x5d, G: 0xad, B: 0xe2, A: 0xff}, {R: 0x1b, G: 0x4f, B: 0x9c, A: 0xff}},
	"batch":   {{R: 0xf0, G: 0xa0, B: 0x4b, A: 0xff}, {R: 0xb0, G: 0x3a, B: 0x10, A: 0xff}},
}

func (g group) colour() color.RGBA {
	shades := colours[g.kind]
	if len(shades) == 0 {
		return color.RGBA{A: 0xff}
	}
	return shades[min(g.factor/4, len(shades)-1)]
}

// writePlot draws the accuracy over the fresh samples, and below it how many of them
// each way needed, as a PNG.
func (f *figures) writePlot(w io.Writer) error {
	groups := f.groups()
	upper, err := f.curves(groups)
	if err != nil {
		return err
	}
	lower, err := f.needed(groups)
	if err != nil {
		return err
	}
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, upperHeight+lowerHeight), vgimg.UseDPI(dpi))}
	whole := draw.New(canvas)
	upper.Draw(draw.Crop(whole, margin, -margin, lowerHeight, -margin))
	lower.Draw(draw.Crop(whole, margin, -margin, margin, -upperHeight-margin))
	_, err = canvas.WriteTo(w)
	return err
}

// newPlot is a plot in the fonts of the others.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Add(plotter.NewGrid())
	return p
}

// curves draws the mean accuracy of each group, in a band from the least to the most.
func (f *figures) curves(groups []group) (*plot.Plot, error) {
	seeds := 0
	for _, g := range groups {
		seeds = max(seeds, len(g.runs))
	}
	p := newPlot(fmt.Sprintf("accuracy on the test images, mean and spread of %d seeds", seeds), "fresh samples (images decoded)", "")
	p.Legend.Top, p.Legend.Left, p.Legend.YPosition = false, false, draw.PosCenter
	p.Legend.Padding = dotRadius
	for _, g := range groups {
		var middle, above, below plotter.XYs
		for i := 0; len(g.at(i)) > 0 && i < maxTests; i++ {
			x, s := float64((i+1)*f.Settings.CheckEvery), summarize(g.at(i))
			middle = append(middle, plotter.XY{X: x, Y: s.mean})
			above = append(above, plotter.XY{X: x, Y: s.most})
			below = append(below, plotter.XY{X: x, Y: s.least})
		}
		if err := addBand(p, above, below, g.colour()); err != nil {
			return nil, err
		}
		line, err := plotter.NewLine(middle)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", g.name, err)
		}
		line.Color, line.Width = g.colour(), lineWidth
		p.Add(line)
		p.Legend.Add(g.name, line)
	}
	for _, target := range f.Settings.Targets {
		line := plotter.NewFunction(func(float64) float64 { return target })
		line.Dashes = []vg.Length{dotRadius, dotRadius}
		line.Color = color.Gray{Y: 0x80}
		p.Add(line)
	}
	p.X.Min, p.X.Max, p.Y.Min = 0, float64(f.Settings.Fresh), 0
	p.Y.Max = accuracyTick * math.Ceil(p.Y.Max/accuracyTick)
	p.Y.Tick.Marker = percentages(accuracyTick)
	return p, nil
}

// addBand fills what is between two lines of the same length.
func addBand(p *plot.Plot, above, below plotter.XYs, c color.RGBA) error {
	outline := append(plotter.XYs{}, above...)
	for i := len(below) - 1; i >= 0; i-- {
		outline = append(outline, below[i])
	}
	band, err := plotter.NewPolygon(outline)
	if err != nil {
		return fmt.Errorf("drawing the spread: %w", err)
	}
	band.Color = color.NRGBA{R: c.R, G: c.G, B: c.B, A: bandOpacity}
	band.LineStyle.Width = 0
	p.Add(band)
	return nil
}

// percentages marks the multiples of a step in percent.
func percentages(step float64) plot.TickerFunc {
	return func(least, most float64) []plot.Tick {
		var ticks []plot.Tick
		for n := int(math.Ceil(least/step - 1e-9)); float64(n)*step <= most+1e-9; n++ {
			ticks = append(ticks, plot.Tick{Value: float64(n) * step, Label: fmt.Sprintf("%.0f %%", 100*float64(n)*step)})
		}
		return ticks
	}
}

// needed draws a row for each group: how many fresh samples each run needed to reach
// the last target that every run of the baseline has reached, or else the first one.
func (f *figures) needed(groups []group) (*plot.Plot, error) {
	target, ok := f.target(groups)
	if !ok {
		return newPlot("no accuracy to reach was set", "", ""), nil
	}
	p := newPlot(fmt.Sprintf("fresh samples until the accuracy was %.0f %%: each seed, and their mean", 100*target), "", "")
	names := make([]string, len(groups))
	for i, g := range groups {
		row := len(groups) - 1 - i // the first one is at the top
		names[row] = g.name
		values := g.freshTo(target)
		if len(values) == 0 {
			names[row] += " (never)"
			continue
		}
		dots := make(plotter.XYs, len(values))
		for k, v := range values {
			dots[k] = plotter.XY{X: v, Y: float64(row)}
		}
		if err := addDots(p, dots, g.colour(), draw.RingGlyph{}, dotRadius); err != nil {
			return nil, err
		}
		mean := plotter.XYs{{X: summarize(values).mean, Y: float64(row)}}
		if err := addDots(p, mean, g.colour(), draw.CircleGlyph{}, meanRadius); err != nil {
			return nil, err
		}
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, float64(f.Settings.Fresh)
	p.Y.Min, p.Y.Max = -0.5, float64(len(groups))-0.5
	return p, nil
}

func addDots(p *plot.Plot, at plotter.XYs, c color.Color, shape draw.GlyphDrawer, radius vg.Length) error {
	dots, err := plotter.NewScatter(at)
	if err != nil {
		return fmt.Errorf("drawing what was needed: %w", err)
	}
	dots.Color, dots.Shape, dots.Radius = c, shape, radius
	p.Add(dots)
	return nil
}

// target chooses the accuracy that needed shows.
func (f *figures) target(groups []group) (target float64, ok bool) {
	for i, t := range f.Settings.Targets {
		if i == 0 || len(groups[0].freshTo(t)) == len(groups[0].runs) {
			target, ok = t, true
		}
	}
	return target, ok
}
