package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/pack"
)

func newPackCommand() *cobra.Command {
	var to, mode string
	effort := l3.DefaultEffort
	var allowRefused, asJSON bool
	var opt pack.Options
	cmd := &cobra.Command{
		Use:   "pack --to l3 SRC DST",
		Short: "Convert a folder of images to L3",
		Long: `Convert an ImageFolder-like tree SRC to L3 files in DST, without loss.

Images are known by their content: PNG, JPEG, Netpbm, BMP, .npy, TIFF and WebP.
Pixels are kept as they are stored (alpha, 16 bits and grey stay; EXIF orientation
and colour profiles are not applied). Every output is decoded again and compared
with its source before it takes its name. Files that are no images are copied;
images that cannot be kept exactly are refused by name, and not copied. Hidden
files and folders are treated as any other, as ImageFolder does. JPEG images become
larger, since every decoded pixel is kept.

The mode is the coding of the outputs:
  auto       the smallest for each image; leaves a file as it is where L3 would be
             larger by more than a quarter (and 4 KiB) than what is stored without
             loss already, and says so
  dense      small, for photographs and any other image
  fast       decoded several times faster than dense, larger by a fifth
  labels     for label maps: one channel of 8 bits
  published  readable by the reference program: RGB of 8 bits in whole patches of
             64x64, without names, labels and checksums

SRC is never written to. A run that was ended goes on where it stopped when the
same command is given again.`,
		Example: "  prismfs pack --to l3 photos photos.l3",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := packFlags(to, mode, effort, &opt); err != nil {
				return err
			}
			bar := newProgress(cmd, "packing")
			opt.Progress = bar.update
			summary, err := pack.Pack(cmd.Context(), args[0], args[1], opt)
			bar.finish()
			logLeft(summary)
			return report(cmd, summary, err, "packed", asJSON, allowRefused)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&to, "to", "", "format to write: l3")
	flags.StringVar(&mode, "mode", "auto", "coding: auto, dense, fast, labels or published")
	flags.IntVar(&effort, "effort", effort, fmt.Sprintf("1 to %d: time to spend on smaller outputs; decoding takes the same", l3.MaxEffort))
	flags.IntVarP(&opt.Jobs, "jobs", "j", 0, "images, or parts of large ones, to convert at a time (default: the number of processors)")
	flags.BoolVar(&opt.KeepSuffix, "keep-suffix", false, "name outputs img.jpg.l3 instead of img.l3")
	flags.BoolVar(&allowRefused, "allow-refused", false, "exit with status 0 although files were refused")
	flags.Int64Var(&opt.MaxPixels, "max-pixels", imagefile.DefaultLimits.MaxPixels, "refuse images with more pixels")
	flags.BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return cmd
}

// packModes are the values of --mode.
var packModes = map[string]l3.Mode{
	"auto": l3.ModeAuto, "dense": l3.ModeDense, "fast": l3.ModeFast, "labels": l3.ModeLabels, "published": l3.ModePublished,
}

// packFlags checks the flags of pack and fills in the options they stand for.
func packFlags(to, mode string, effort int, opt *pack.Options) error {
	switch to {
	case "l3":
	case "":
		return usageError("pack needs --to: the format to write, l3")
	case "pcr":
		return usageError("--to pcr is not available in this version; --to l3 is")
	default:
		return usageError("--to %q is no format that can be written; --to l3 is", to)
	}
	var known bool
	if opt.Mode, known = packModes[mode]; !known {
		return usageError("--mode %q is none of auto, dense, fast, labels, published", mode)
	}
	if opt.Effort = effort; effort < 1 || effort > l3.MaxEffort {
		return usageError("--effort %d is not between 1 and %d", effort, l3.MaxEffort)
	}
	if opt.Jobs < 0 {
		return usageError("--jobs %d: it takes one job at least", opt.Jobs)
	}
	if opt.MaxPixels < 1 || opt.MaxPixels > pack.MaxPixelsLimit {
		return usageError("--max-pixels %d is not between 1 and %d, which is the most that readers of L3 take", opt.MaxPixels, pack.MaxPixelsLimit)
	}
	return nil
}

// logLeft names the images that were left as they are.
func logLeft(s *pack.Summary) {
	if s == nil {
		return
	}
	for _, left := range s.Left {
		slog.Debug("left as it is", "image", left.Path, "bytes", left.Bytes, "packed_bytes", left.PackedBytes)
	}
}

// report prints the summary of pack or unpack and returns what the command
// ends with.
func report(cmd *cobra.Command, s *pack.Summary, err error, verb string, asJSON, allowRefused bool) error {
	if s != nil {
		var printErr error
		if asJSON {
			printErr = printJSON(cmd.OutOrStdout(), s)
		} else {
			printErr = printSummary(cmd.OutOrStdout(), s, verb)
		}
		if err == nil {
			err = printErr
		}
	}
	switch {
	case err != nil:
		return packageError(err)
	case len(s.Refused) > 0 && !allowRefused:
		return exitWith(statusSomeBad)
	}
	return nil
}

// packageError gives an error of package pack its exit status.
func packageError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return withStatus(statusInterrupted, errors.New("interrupted; what is finished is whole, and the same command goes on from there"))
	case errors.Is(err, pack.ErrSource):
		return withStatus(statusBadInput, err)
	case errors.Is(err, pack.ErrDestination):
		return withStatus(statusBadOutput, err)
	}
	return withStatus(statusFailed, err)
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// printSummary prints what became of the files, so that the reader can see
// that the numbers add up.
func printSummary(w io.Writer, s *pack.Summary, verb string) error {
	p := &printer{w: w}
	for _, r := range s.Refused {
		p.line("refused %s: %s", pack.Printable(r.Path), oneLine(r.Reason))
	}
	already := ""
	if s.AlreadyThere > 0 {
		already = fmt.Sprintf("; %d of the first two were there already", s.AlreadyThere)
	}
	if s.Replaced > 0 {
		already += fmt.Sprintf("; %d replaced an older output", s.Replaced)
	}
	p.line("%d files = %d %s + %d passed through + %d refused%s",
		s.FilesIn, s.Converted.Files, verb, s.Passed.Files, len(s.Refused), already)
	if len(s.Left) > 0 {
		p.line("%d of those passed through are images that were left as they are", len(s.Left))
	}
	var formats []string
	for format := range s.Formats {
		formats = append(formats, format)
	}
	sort.Strings(formats)
	for _, format := range formats {
		t := s.Formats[format]
		p.line("  %-6s %8d files, %s -> %s (%.2f times)", format, t.Files, size(t.BytesIn), size(t.BytesOut), t.Ratio())
	}
	if s.Converted.Files == 0 {
		p.line("no image was %s, in %.1f s, %d class folders", verb, s.Seconds, s.Classes)
	} else {
		p.line("%s -> %s (%.2f times) in %.1f s, %d class folders", size(s.Converted.BytesIn), size(s.Converted.BytesOut),
			s.Converted.Ratio(), s.Seconds, s.Classes)
	}
	for _, note := range s.Notes {
		p.line("note: %s.", note)
	}
	return p.err
}

// printer keeps the first error of several prints.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// size prints a number of bytes in binary units.
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/(1<<10), 0
	for value >= 1024 && unit < 4 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, []string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}

// refreshEvery is how often a progress bar is drawn.
const refreshEvery = 200 * time.Millisecond
