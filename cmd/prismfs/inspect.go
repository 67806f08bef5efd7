package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"prismfs/internal/plural"
	"prismfs/pack"
)

// mostCounts is how many kinds of something are listed for people.
const mostCounts = 12

func newInspectCommand() *cobra.Command {
	var asJSON bool
	var quality qualityFlags
	cmd := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Say what an L3 file, or a folder of such files or of records, is",
		Long: `Say what an L3 file is (format, shape, sizes, metadata, whether it is whole) or an
image that pack left as it is, what
the L3 files of a folder are together, or what a folder of PCR records holds (labels,
fidelities and what they cost). Of the files in a folder only the heads are read;
'prismfs verify' decodes them. If folders of records lie below PATH, as train and val,
each of them is inspected. Of several --json prints a list. The exit status is 1 where a file
is damaged, and where pack has not finished its work. What is found out about records
is kept for mounts, in prismfs/tables in the user's cache folder.

--quality-curve decodes some images of a folder of records at every fidelity and prints
how near they come to full fidelity: PSNR over all samples, SSIM on luma (Gaussian
window of 11 pixels), the means over the images. --plot draws them.`,
		Example: "  prismfs inspect photos.l3\n  prismfs inspect --plot curve.png imagenet.pcr/train",
		Args:    usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := quality.check(cmd); err != nil {
				return err
			}
			var all []*pack.Report
			bad := false
			err := eachDataset(cmd.Context(), args, func(path string, alone bool) error {
				report, err := pack.Inspect(cmd.Context(), path)
				if err != nil {
					return err
				}
				if quality.wanted {
					if err := quality.measure(cmd, path, report, alone); err != nil {
						return err
					}
				}
				all = append(all, report)
				bad = bad || someBad(report)
				if asJSON {
					return nil
				}
				return printReport(cmd.OutOrStdout(), report)
			})
			if asJSON && len(all) > 0 {
				if printErr := printList(cmd.OutOrStdout(), all); err == nil {
					err = printErr
				}
			}
			if err == nil && bad {
				return exitWith(statusSomeBad)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	quality.define(cmd)
	return cmd
}

func printReport(w io.Writer, report *pack.Report) error {
	switch {
	case report.File != nil:
		return printFileReport(w, report.File)
	case report.PCR != nil:
		return printPCRReport(w, report.PCR)
	}
	return printTreeReport(w, report.Tree)
}

// someBad tells whether a report names anything that is bad, or not finished.
func someBad(r *pack.Report) bool {
	switch {
	case r.File != nil:
		return r.File.Damage != ""
	case r.Tree != nil:
		return len(r.Tree.Bad) > 0 || r.Tree.Unfinished
	}
	return r.PCR.Unfinished || len(r.PCR.Bad)+len(r.PCR.Damaged) > 0 || r.PCR.Quality != nil && len(r.PCR.Quality.Bad) > 0
}

func printFileReport(w io.Writer, r *pack.FileReport) error {
	p := &printer{w: w}
	p.line("%s", pack.Printable(r.Path))
	if r.Format != "l3" {
		return printPlainReport(p, r)
	}
	if r.Version == 0 {
		p.line("  format          L3, with a head that cannot be read")
		p.line("  bytes           %d", r.FileBytes)
		p.line("  DAMAGED         %s", oneLine(r.Damage))
		return p.err
	}
	p.line("  format          L3 version %d, %s", r.Version, r.Coding)
	p.line("  shape           %d x %d (height x width), %s, %s, %s", r.Shape[0], r.Shape[1], plural.Of(r.Shape[2], "channel"), r.DType, r.Colour)
	p.line("  significant     %d bits", r.SignificantBits)
	p.line("  patches         %d, edge %d", r.Patches, r.PatchEdge)
	p.line("  bytes           %d, of which head %d; %.3f of the %d of the samples", r.FileBytes, r.HeadBytes, r.Ratio, r.RawBytes)
	if r.Checksums {
		p.line("  checksums       yes, pixels CRC-32C %s", r.PixelCRC)
	} else {
		p.line("  checksums       none in this format")
	}
	if r.Label != nil {
		p.line("  label           %d", *r.Label)
	}
	for _, field := range []struct{ name, value string }{
		{"class", r.Class}, {"original name", r.OriginalName}, {"source decoder", r.SourceDecoder},
	} {
		if field.value != "" {
			p.line("  %-15s %s", field.name, pack.Printable(field.value))
		}
	}
	if r.ProfileBytes > 0 {
		p.line("  colour profile  %d bytes", r.ProfileBytes)
	}
	if r.Damage != "" {
		p.line("  DAMAGED         %s", oneLine(r.Damage))
	} else {
		p.line("  decodes         yes")
	}
	return p.err
}

// printPlainReport describes an image that is not packed.
func printPlainReport(p *printer, r *pack.FileReport) error {
	p.line("  format          %s, not packed: a mount shows it as it is", strings.ToUpper(r.Format))
	if r.Damage != "" {
		p.line("  DAMAGED         %s", oneLine(r.Damage))
		return p.err
	}
	p.line("  shape           %d x %d (height x width), %s, %s, %s", r.Shape[0], r.Shape[1], plural.Of(r.Shape[2], "channel"), r.DType, r.Colour)
	p.line("  bytes           %d; %.3f of the %d of the samples", r.FileBytes, r.Ratio, r.RawBytes)
	p.line("  decodes         yes, by %s", pack.Printable(r.SourceDecoder))
	return p.err
}

func printTreeReport(w io.Writer, r *pack.TreeReport) error {
	p := &printer{w: w}
	for _, b := range r.Bad {
		p.line("bad %s: %s", pack.Printable(b.Path), oneLine(b.Reason))
	}
	p.line("%s", pack.Printable(r.Path))
	folders := "class"
	if len(r.Parts) > 0 {
		folders = "part"
	}
	p.line("  samples         %d in %s, and %s", r.Samples, plural.Of(len(r.Classes), folders), plural.Of(r.OtherFiles, "other file"))
	if r.Samples > 0 {
		p.line("  bytes           %s, %.3f of the %s of the samples", size(r.FileBytes), r.Ratio, size(r.RawBytes))
		p.line("  checksums       in %d of %s", r.Samples-r.WithoutCRC, plural.Of(r.Samples, "file"))
	}
	printCounts(p, "as they are", r.PlainImages)
	for _, part := range []struct {
		name   string
		counts []pack.Count
	}{{"format", r.Codings}, {"shape", r.Shapes}, {"source decoder", r.SourceDecoders}, {folders, r.Classes}} {
		printCounts(p, part.name, part.counts)
	}
	if r.Unfinished {
		p.line("  UNFINISHED      %s", r.UnfinishedBecause)
	}
	return p.err
}

// printCounts lists the kinds of something, one a line, the first few of many.
func printCounts(p *printer, name string, counts []pack.Count) {
	for i, c := range counts {
		if i == mostCounts {
			p.line("  %-15s ... and %d more", "", len(counts)-mostCounts)
			return
		}
		if i > 0 {
			name = strings.Repeat(" ", len(name))
		}
		p.line("  %-15s %s", name, fmt.Sprintf("%d of %s", c.Samples, pack.Printable(c.Name)))
	}
}
