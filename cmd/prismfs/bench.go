package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"prismfs/bench"
	"prismfs/internal/plural"
	"prismfs/l3"
	"prismfs/pack"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure sizes and speeds",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("bench needs to be told what to measure: codec")
		},
	}
	cmd.AddCommand(newBenchCodecCommand())
	return cmd
}

func newBenchCodecCommand() *cobra.Command {
	var asJSON bool
	var plotFile string
	opt := bench.Options{Rounds: bench.DefaultRounds, Images: bench.DefaultImages, Effort: l3.DefaultEffort}
	cmd := &cobra.Command{
		Use:   "codec DIR",
		Short: "Compare the codings of L3 with PNG, WebP and JPEG XL on the images of a folder",
		Long: `Compare the codings of L3 with PNG (Pillow, level 6), lossless WebP (Pillow) and
JPEG XL (cjxl and djxl, effort 1) on the images of folder DIR and the folders in
it: sizes, and how fast they are encoded, and decoded on one core and on all. What
is not installed is named, and the rest is measured without it.

Everything is measured in turns, several rounds of it, and of each image the
fastest round counts. Pillow is that of the Python that PYTHON names, and of no
other; without PYTHON, that of the first python3 in PATH that has it.`,
		Example: "  prismfs bench codec photos --plot codec.png",
		Args:    usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := benchFlags(opt); err != nil {
				return err
			}
			if cmd.Flags().Changed("plot") {
				// A long run should not end in a picture that has no place.
				if err := checkPlot(plotFile); err != nil {
					return err
				}
			}
			bar := newProgress(cmd, "measuring")
			opt.Progress = bar.update
			r, err := bench.Run(cmd.Context(), args[0], opt)
			bar.finish()
			if err != nil {
				return benchError(err)
			}
			var plotErr error
			if plotFile != "" {
				plotErr = withStatus(statusBadOutput, writePlot(r, plotFile))
			}
			// What was measured is printed whether it could be drawn or not.
			printTo := printBench
			if asJSON {
				printTo = func(w io.Writer, r *bench.Report) error { return printJSON(w, r) }
			}
			if err := printTo(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			return plotErr
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&opt.Rounds, "rounds", opt.Rounds, "how often everything is decoded")
	flags.IntVar(&opt.Images, "images", opt.Images, "the most images to measure; of more, some are taken evenly")
	flags.IntVar(&opt.Effort, "effort", opt.Effort, fmt.Sprintf("effort of dense and labels, 1 to %d", l3.MaxEffort))
	flags.IntVarP(&opt.Jobs, "jobs", "j", 0, "what all cores are (default: the number of processors)")
	flags.StringVar(&plotFile, "plot", "", "draw size against speed into this file, a PNG")
	flags.BoolVar(&asJSON, "json", false, "print JSON, with the figures of every image")
	return cmd
}

func benchFlags(opt bench.Options) error {
	switch {
	case opt.Rounds < 1:
		return usageError("--rounds %d: it takes one at least", opt.Rounds)
	case opt.Images < 1:
		return usageError("--images %d: it takes one at least", opt.Images)
	case opt.Jobs < 0:
		return usageError("--jobs %d: it takes one job at least", opt.Jobs)
	case opt.Effort < 1 || opt.Effort > l3.MaxEffort:
		return usageError("--effort %d is not between 1 and %d", opt.Effort, l3.MaxEffort)
	}
	return nil
}

// benchError gives an error of package bench its exit status.
func benchError(err error) error {
	var pe *os.PathError
	switch {
	case errors.Is(err, bench.ErrNoImages):
		return withStatus(statusBadInput, err)
	case errors.As(err, &pe):
		return withStatus(statusBadInput, fmt.Errorf("%w: %w", pack.ErrSource, err))
	}
	return err
}

// checkPlot tells whether a plot can be written to path, without changing a file
// that is there.
func checkPlot(path string) error {
	if !strings.EqualFold(filepath.Ext(path), ".png") {
		return usageError("--plot %q: the plot is a PNG, and its name has to end in .png", path)
	}
	flags := os.O_WRONLY | os.O_CREATE
	_, err := os.Lstat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return withStatus(statusBadOutput, fmt.Errorf("--plot: the plot cannot be written: %w", err))
	}
	f.Close()
	if !isNew {
		return nil
	}
	return withStatus(statusBadOutput, os.Remove(path))
}

func writePlot(r *bench.Report, path string) error {
	var b bytes.Buffer
	if err := r.WritePlot(&b); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--plot: the plot cannot be written: %w", err)
	}
	return nil
}

// printBench prints the report as a table: sizes, then speeds, each beside its
// ratio to PNG.
func printBench(w io.Writer, r *bench.Report) error {
	p := &printer{w: w}
	p.line("%s, %s of samples, %s, %s%s", plural.Of(r.Images, "image"), size(r.SampleBytes), plural.Of(r.Rounds, "round"), plural.Of(r.Processors, "core"), inParentheses(r.Processor))
	if !r.Quiet() {
		p.line("The machine was NOT quiet (load %.1f): ratios are rough, and flatter fast codecs.", r.Load)
	}
	p.line("L3 decoded by %s, effort %d; %s", r.L3Decoder, r.Effort, strings.Join(r.Programs, ", "))
	p.line("")
	p.line("%-18s %6s   %-19s   %-10s   %-18s   %-18s", "", "", "size over PNG", "encoding", "decoding, one core", "decoding, all cores")
	p.line("%-18s %6s   %-8s   %-8s   %10s   %10s %7s   %10s %7s", "codec", "images", "mean", "in all", "MB/s", "MB/s", "× PNG", "MB/s", "× PNG")
	for _, c := range r.Codecs {
		mean, total, one, all := "-", "-", "-", "-"
		if o := c.OverPNG; o != nil {
			mean, total = fmt.Sprintf("%.3f", o.GeometricMean), fmt.Sprintf("%.3f", o.Total)
			one, all = times(o.OneCore), times(o.AllCores)
		}
		p.line("%-18s %6d   %-8s   %-8s   %10.1f   %10.1f %7s   %10s %7s", bench.Title(c.Codec), c.Images, mean, total,
			c.Encode, c.OneCore, one, megabytes(c.AllCores), all)
	}
	p.line("")
	p.line("MB are 10^6 bytes of samples; the mean is the geometric one of all images.")
	for _, a := range r.Absent {
		p.line("absent: %s: %s", a.Subject, oneLine(a.Reason))
	}
	if note := r.NotMeasured(); note != "" {
		p.line("%s", note)
	}
	printProblems(p, "not read", r.Skipped, 0)
	printProblems(p, "failed", r.Failed, r.FailedMore)
	return p.err
}

// printProblems lists the first few of many.
func printProblems(p *printer, what string, problems []bench.Problem, more int) {
	for i, problem := range problems {
		if i == mostCounts {
			p.line("%s: %d more", what, len(problems)-mostCounts+more)
			return
		}
		subject := pack.Printable(problem.Subject)
		if problem.Codec != "" {
			subject += ", " + problem.Codec
		}
		p.line("%s: %s: %s", what, subject, oneLine(problem.Reason))
	}
}

func inParentheses(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// times prints a ratio, and megabytes a speed, that are 0 where they are not
// known.
func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ratio)
}

func megabytes(speed float64) string {
	if speed == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", speed)
}
