package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prismfs/internal/imagefile"
	"prismfs/internal/plural"
	"prismfs/l3"
	"prismfs/pack"
)

func newPackCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "pack --to l3|pcr SRC DST",
		Short: "Convert a folder of images to L3 or to PCR",
		Long: `Convert an ImageFolder-like tree SRC to L3 files, or to PCR records, in DST. SRC is
never written to. A run that was ended goes on where it stopped when the same
command is given again.

Images are known by their content: PNG, JPEG, Netpbm, BMP, .npy, TIFF and WebP. Every
output is decoded again and compared with its source before it takes its name. Files
that are no images are copied (of a class folder, for PCR, refused); images that
cannot be kept are refused by name, and not copied. Hidden files and folders are treated
as any other, as ImageFolder does.

--to l3: without loss. Pixels are kept as they are stored (alpha, 16 bits and grey stay;
EXIF orientation and colour profiles are not applied). JPEG images become larger, since
every decoded pixel is kept. The mode is the coding of the outputs:
  auto       the smallest for each image; leaves a file as it is where L3 would be
             larger by more than a quarter (and 4 KiB) than what is stored without
             loss already, and says so
  dense      small, for photographs and any other image
  fast       decoded several times faster than dense, larger by a fifth
  labels     for label maps: one channel of 8 bits
  published  readable by the reference program: RGB of 8 bits in whole patches of
             64x64, without names, labels and checksums

--to pcr: records of progressive JPEGs, of which a reader takes as many bytes as the
fidelity that it wants costs. JPEGs become progressive without loss; other images are
encoded at --quality, which loses something, alpha among it. The folders of SRC are the
classes, labelled as ImageFolder labels them. Records and index are as published, with names
and checksums in fields that other readers skip. Until pack is done there is a file
.prismfs-pack in DST, and until then some images are missing.`,
		Example: "  prismfs pack --to l3 photos photos.l3\n  prismfs pack --to pcr --shuffle-seed 1 imagenet/train imagenet.pcr/train",
		Args:    usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			bar := newProgress(cmd, "packing")
			summary, err := f.pack(cmd, args[0], args[1], bar.update)
			bar.finish()
			logLeft(summary)
			return report(cmd, summary, err, "packed", f.asJSON, f.allowRefused)
		},
	}
	f.define(cmd)
	return cmd
}

// packFlags are the flags of pack, and the options they stand for.
type packFlags struct {
	to, mode             string
	jobs                 int
	maxPixels            int64
	seed                 uint64
	allowRefused, asJSON bool
	l3                   pack.Options
	pcr                  pack.PCROptions
}

// formatFlags are the flags that mean something for one format alone.
var formatFlags = map[string][]string{
	"l3":  {"mode", "effort", "keep-suffix"},
	"pcr": {"images-per-record", "quality", "shuffle-seed"},
}

func (f *packFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "format to write: l3 or pcr")
	flags.StringVar(&f.mode, "mode", "auto", "l3: coding: auto, dense, fast, labels or published")
	flags.IntVar(&f.l3.Effort, "effort", l3.DefaultEffort, fmt.Sprintf("l3: 1 to %d: time to spend on smaller outputs; decoding takes the same", l3.MaxEffort))
	flags.BoolVar(&f.l3.KeepSuffix, "keep-suffix", false, "l3: name outputs img.jpg.l3 instead of img.l3")
	flags.IntVar(&f.pcr.ImagesPerRecord, "images-per-record", pack.DefaultImagesPerRecord, "pcr: images of a record; fewer where it would become too large")
	flags.IntVar(&f.pcr.Quality, "quality", pack.DefaultQuality, "pcr: 1 to 100, for images that are no JPEG")
	flags.Uint64Var(&f.seed, "shuffle-seed", 0, "pcr: shuffle the images, in the same way for the same number (default: by class and name)")
	flags.IntVarP(&f.jobs, "jobs", "j", 0, "images, or parts of large ones, to convert at a time (default: the number of processors)")
	flags.BoolVar(&f.allowRefused, "allow-refused", false, "exit with status 0 although files were refused")
	flags.Int64Var(&f.maxPixels, "max-pixels", imagefile.DefaultLimits.MaxPixels, "refuse images with more pixels")
	flags.BoolVar(&f.asJSON, "json", false, "print the summary as JSON")
}

// pack converts the tree.
func (f *packFlags) pack(cmd *cobra.Command, src, dst string, progress func(done, total int)) (*pack.Summary, error) {
	if f.to == "pcr" {
		f.pcr.Progress = progress
		return pack.PackPCR(cmd.Context(), src, dst, f.pcr)
	}
	f.l3.Progress = progress
	return pack.Pack(cmd.Context(), src, dst, f.l3)
}

// packModes are the values of --mode.
var packModes = map[string]l3.Mode{
	"auto": l3.ModeAuto, "dense": l3.ModeDense, "fast": l3.ModeFast, "labels": l3.ModeLabels, "published": l3.ModePublished,
}

// check checks the flags and fills in the options they stand for.
func (f *packFlags) check(cmd *cobra.Command) error {
	switch f.to {
	case "l3", "pcr":
	case "":
		return usageError("pack needs --to: the format to write, l3 or pcr")
	default:
		return usageError("--to %q is no format that can be written; --to l3 and --to pcr are", f.to)
	}
	for format, names := range formatFlags {
		for _, name := range names {
			if format != f.to && cmd.Flags().Changed(name) {
				return usageError("--%s means something with --to %s only", name, format)
			}
		}
	}
	var known bool
	if f.l3.Mode, known = packModes[f.mode]; !known {
		return usageError("--mode %q is none of auto, dense, fast, labels, published", f.mode)
	}
	for _, limit := range []struct {
		flag        string
		value, most int64
		why         string
	}{
		{"effort", int64(f.l3.Effort), l3.MaxEffort, ""},
		{"images-per-record", int64(f.pcr.ImagesPerRecord), pack.MaxImagesPerRecord, ""},
		{"quality", int64(f.pcr.Quality), 100, ""},
		{"max-pixels", f.maxPixels, pack.MaxPixelsLimit, ", which is the most that readers of L3 take"},
	} {
		if limit.value < 1 || limit.value > limit.most {
			return usageError("--%s %d is not between 1 and %d%s", limit.flag, limit.value, limit.most, limit.why)
		}
	}
	if f.jobs < 0 {
		return usageError("--jobs %d: it takes one job at least", f.jobs)
	}
	f.l3.Jobs, f.pcr.Jobs = f.jobs, f.jobs
	f.l3.MaxPixels, f.pcr.MaxPixels = f.maxPixels, f.maxPixels
	if cmd.Flags().Changed("shuffle-seed") {
		f.pcr.ShuffleSeed = &f.seed
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
	case s.SourceUnfinished, len(s.Refused) > 0 && !allowRefused:
		return exitWith(statusSomeBad)
	}
	return nil
}

// packageError gives an error of package pack its exit status.
func packageError(err error) error {
	var known *statusError
	switch {
	case errors.As(err, &known):
		return err
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

// printList prints one thing by itself, and several as a list.
func printList[T any](w io.Writer, list []T) error {
	if len(list) == 1 {
		return printJSON(w, list[0])
	}
	return printJSON(w, list)
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
		already = fmt.Sprintf("; %d %s there already", s.AlreadyThere, plural.Or(s.AlreadyThere, "was", "were"))
	}
	if s.Replaced > 0 {
		already += fmt.Sprintf("; %d replaced an older or damaged output", s.Replaced)
	}
	p.line("%s = %d %s + %d passed through + %d refused%s",
		plural.Of(s.FilesIn, "file"), s.Converted.Files, verb, s.Passed.Files, len(s.Refused), already)
	if len(s.Left) > 0 {
		p.line("%d of those passed through %s left as %s", len(s.Left), plural.Or(len(s.Left), "is an image that was", "are images that were"), plural.Or(len(s.Left), "it is", "they are"))
	}
	var formats []string
	for format := range s.Formats {
		formats = append(formats, format)
	}
	sort.Strings(formats)
	for _, format := range formats {
		t := s.Formats[format]
		p.line("  %-6s %8d %s, %s -> %s (%.2f times)", format, t.Files, plural.Or(t.Files, "file", "files"), size(t.BytesIn), size(t.BytesOut), t.Ratio())
	}
	if s.Converted.Files == 0 {
		p.line("no image was %s, in %.1f s, %s", verb, s.Seconds, foldersText(s))
	} else {
		p.line("%s -> %s (%.2f times) in %.1f s, %s", size(s.Converted.BytesIn), size(s.Converted.BytesOut),
			s.Converted.Ratio(), s.Seconds, foldersText(s))
	}
	if t := s.PCR; t != nil {
		p.line("%s, %s with %s metadata%s", plural.Of(t.Records, "record"), size(t.RecordBytes), plural.Or(t.Records, "its", "their"), recordsBefore(t))
	}
	for _, note := range s.Notes {
		p.line("note: %s.", note)
	}
	return p.err
}

// foldersText says how many folders of the first level there are: those of the
// classes, or of the parts of a dataset.
func foldersText(s *pack.Summary) string {
	if len(s.Parts) > 0 {
		return fmt.Sprintf("%s (%s)", plural.Of(len(s.Parts), "part"), strings.Join(s.Parts, ", "))
	}
	return plural.Of(s.Classes, "class folder")
}

// recordsBefore says what became of the records of an earlier run.
func recordsBefore(t *pack.PCRTotals) string {
	text := ""
	if t.RecordsKept > 0 {
		text += fmt.Sprintf("; %d %s there already", t.RecordsKept, plural.Or(t.RecordsKept, "was", "were"))
	}
	if t.RecordsStale > 0 {
		text += fmt.Sprintf("; %d that %s too many %[2]s removed", t.RecordsStale, plural.Or(t.RecordsStale, "was", "were"))
	}
	return text
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
