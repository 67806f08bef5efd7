package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"prismfs/internal/plural"
	"prismfs/pack"
)

// qualityFlags are the flags about what fidelities are worth.
type qualityFlags struct {
	wanted bool
	plot   string // file, "" for none
	images int
}

func (q *qualityFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&q.wanted, "quality-curve", false, "PCR: measure PSNR and SSIM of each fidelity")
	flags.StringVar(&q.plot, "plot", "", "PCR: draw the quality curve into this file, a PNG")
	flags.IntVar(&q.images, "quality-images", pack.DefaultQualityImages, "PCR: images to measure, evenly spread")
}

func (q *qualityFlags) check(cmd *cobra.Command) error {
	if q.images < 1 {
		return usageError("--quality-images %d: it takes one image at least", q.images)
	}
	q.wanted = q.wanted || q.plot != "" || cmd.Flags().Changed("quality-images")
	return nil
}

// measure adds the curve to a report and draws it. There is one plot, so that it
// takes one dataset alone.
func (q *qualityFlags) measure(cmd *cobra.Command, path string, report *pack.Report, alone bool) error {
	if q.plot != "" && !alone {
		return usageError("--plot draws one dataset, and there are several: name one of them, such as %s", pack.Printable(path))
	}
	bar := newProgress(cmd, "measuring")
	curve, err := pack.MeasureQuality(cmd.Context(), path, pack.QualityOptions{Images: q.images, Progress: bar.update})
	bar.finish()
	if err != nil {
		return err
	}
	report.PCR.Quality = curve
	if q.plot == "" {
		return nil
	}
	var png bytes.Buffer
	if err := curve.WritePlot(&png); err != nil {
		return err
	}
	if err := os.WriteFile(q.plot, png.Bytes(), 0o666); err != nil {
		return withStatus(statusBadOutput, fmt.Errorf("writing the plot: %w", err))
	}
	return nil
}

func printPCRReport(w io.Writer, r *pack.PCRReport) error {
	p := &printer{w: w}
	for _, b := range r.Bad {
		p.line("bad %s: %s", pack.Printable(b.Path), oneLine(b.Reason))
	}
	for _, d := range r.Damaged {
		p.line("damaged %s: %s", pack.Printable(d.Path), oneLine(d.Reason))
	}
	p.line("%s", pack.Printable(r.Path))
	p.line("  format          PCR, %s", indexText(r))
	p.line("  images          %d in %s, in %s", r.Images, plural.Of(len(r.Labels), "class"), plural.Of(r.Records, "record"))
	p.line("  bytes           %s", size(r.FileBytes))
	if r.WithoutCRC == 0 {
		p.line("  checksums       of all images")
	} else {
		p.line("  checksums       none of %s", plural.Of(r.WithoutCRC, "image"))
	}
	if r.RepeatedImages > 0 {
		p.line("  repeated        %s of the last record %s in the one before it, too; mounts show %s once (unless by --keep-duplicates)",
			plural.Of(r.RepeatedImages, "image"), plural.Or(r.RepeatedImages, "is", "are"), plural.Or(r.RepeatedImages, "it", "them"))
	}
	if len(r.Stale) > 0 {
		p.line("  stale           %s that the index does not name, and mounts leave out: %s", plural.Of(len(r.Stale), "record"), firstOf(r.Stale))
	}
	printTable(p, r)
	printLabels(p, r.Labels)
	printFidelities(p, r)
	if r.Unfinished {
		p.line("  UNFINISHED      %s", r.UnfinishedBecause)
	}
	return p.err
}

func indexText(r *pack.PCRReport) string {
	if r.Index == "" {
		return "without index: the records themselves tell"
	}
	return "index " + r.Index
}

// firstOf lists the first few of some names.
func firstOf(names []string) string {
	text := ""
	for i, name := range names[:min(len(names), mostCounts)] {
		if i > 0 {
			text += ", "
		}
		text += pack.Printable(name)
	}
	if len(names) > mostCounts {
		text += fmt.Sprintf(" and %d more", len(names)-mostCounts)
	}
	return text
}

func printTable(p *printer, r *pack.PCRReport) {
	if r.Table == "" {
		p.line("  table           none on disk: offsets are found when they are needed")
		return
	}
	p.line("  table           %s, %s, %.0f%% of the offsets known; 'prismfs index' finds all", pack.Printable(r.Table), size(r.TableBytes), 100*r.TableFull)
}

func printLabels(p *printer, labels []pack.PCRLabel) {
	name := "label"
	for i, l := range labels {
		if i == mostCounts {
			p.line("  %-15s ... and %d more", "", len(labels)-mostCounts)
			return
		}
		if l.Class == "" {
			p.line("  %-15s %d: %s, in folder %s", name, l.Label, plural.Of(l.Images, "image"), pack.Printable(l.Folder))
		} else {
			p.line("  %-15s %d: %s of class %s", name, l.Label, plural.Of(l.Images, "image"), pack.Printable(l.Class))
		}
		name = ""
	}
}

// printFidelities prints what each fidelity costs, and what it is worth if that
// was measured.
func printFidelities(p *printer, r *pack.PCRReport) {
	p.line("")
	if r.Quality == nil {
		p.line("  %3s %14s %7s", "k", "bytes an image", "share")
		for i, f := range r.Fidelities {
			if i == mostFidelities {
				p.line("  ... and %d more", len(r.Fidelities)-mostFidelities)
				return
			}
			p.line("  %3d %14.0f %7.3f", f.K, f.MeanBytes, f.Share)
		}
		return
	}
	for _, b := range r.Quality.Bad {
		p.line("bad %s: %s", pack.Printable(b.Path), oneLine(b.Reason))
	}
	p.line("  means of %s", plural.Of(r.Quality.Images, "image"))
	p.line("  %3s %14s %7s %8s %6s %10s", "k", "bytes an image", "share", "PSNR dB", "SSIM", "identical")
	for _, q := range r.Quality.Points {
		db := "∞"
		if !math.IsInf(q.PSNR, 1) {
			db = fmt.Sprintf("%.1f", q.PSNR)
		}
		p.line("  %3d %14.0f %7.3f %8s %6.3f %10d", q.K, q.MeanBytes, q.Share, db, q.SSIM, q.Identical)
	}
}

// mostFidelities is how many fidelities are listed for people: records of unusual
// JPEGs can have thousands.
const mostFidelities = 32
