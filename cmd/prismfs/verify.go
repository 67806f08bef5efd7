package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"prismfs/internal/plural"
	"prismfs/pack"
)

func newVerifyCommand() *cobra.Command {
	var asJSON bool
	var opt pack.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Decode every L3 file, or every image of records, and check every checksum",
		Long: `Decode the L3 file PATH, or every one in the folder PATH and the images beside
them that pack left as they are, and check every checksum. Such an image can be named
by itself, too; it counts as good if it can be decoded. Also printed is which
library, and version, the pixels were decoded by when they were packed. Of a folder of
PCR records every image is decoded at full fidelity, and compared with its checksums
where the records have any, which is where prismfs wrote them. If folders of records
lie below PATH, as train and val, each of them is verified. Of several --json prints a list.
Bad files are listed. The exit status is 1 then, and also where pack has not finished
its work.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Jobs < 0 {
				return usageError("--jobs %d: it takes one job at least", opt.Jobs)
			}
			var all []*pack.Verification
			bad := false
			err := eachDataset(cmd.Context(), args, func(path string, alone bool) error {
				bar := newProgress(cmd, "verifying")
				opt.Progress = bar.update
				v, err := pack.Verify(cmd.Context(), path, opt)
				bar.finish()
				if err != nil {
					return err
				}
				all = append(all, v)
				bad = bad || len(v.Bad) > 0 || v.Unfinished
				if asJSON {
					return nil
				}
				return printVerification(cmd.OutOrStdout(), v, !alone)
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
	flags := cmd.Flags()
	flags.IntVarP(&opt.Jobs, "jobs", "j", 0, "files to decode at a time (default: the number of processors)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printVerification(w io.Writer, v *pack.Verification, named bool) error {
	p := &printer{w: w}
	if named {
		p.line("%s:", pack.Printable(v.Path))
	}
	for _, b := range v.Bad {
		p.line("bad %s: %s", pack.Printable(b.Path), oneLine(b.Reason))
	}
	p.line("%s = %d good + %d bad; %s", plural.Of(v.Samples, "sample"), v.Good, v.Samples-v.Good, besideSamples(v))
	if v.Good > 0 {
		p.line("%s decoded from %s in %.1f s", size(v.RawBytes), size(v.FileBytes), v.Seconds)
	}
	if v.PlainImages > 0 {
		p.line("%d of the good ones %s: %s can be decoded", v.PlainImages, plural.Or(v.PlainImages, "is an image that is not packed", "are images that are not packed"), plural.Or(v.PlainImages, "it", "they"))
	}
	if v.WithoutCRC > 0 {
		p.line("%d of the good ones %s of the published format, which has no checksums: %s whole and consistent, no more is known", v.WithoutCRC, plural.Or(v.WithoutCRC, "is", "are"), plural.Or(v.WithoutCRC, "it is", "they are"))
	}
	for _, d := range v.SourceDecoders {
		p.line("source decoder: %s, %s", pack.Printable(d.Name), plural.Of(d.Samples, "sample"))
	}
	if v.Unfinished {
		p.line("UNFINISHED: %s", v.UnfinishedBecause)
	}
	return p.err
}

// besideSamples tells of what was met that is no sample.
func besideSamples(v *pack.Verification) string {
	others := plural.Of(v.OtherFiles, "other file") + " not looked into"
	if v.BadRecords == 0 {
		return others
	}
	return fmt.Sprintf("%d %s; %s", v.BadRecords, plural.Or(v.BadRecords, "record or index is bad, too", "records and indexes are bad, too"), others)
}
