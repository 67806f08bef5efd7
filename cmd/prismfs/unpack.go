package main

import (
	"github.com/spf13/cobra"

	"prismfs/pack"
)

func newUnpackCommand() *cobra.Command {
	var asJSON, allowRefused bool
	var opt pack.UnpackOptions
	cmd := &cobra.Command{
		Use:   "unpack SRC DST",
		Short: "Restore images from L3 files or from records",
		Long: `Restore images from the L3 files of folder SRC into folder DST: PNG, or .npy for
what PNG cannot hold and for what was a .npy. img.l3 becomes img.png. Of a folder of
PCR records the images become progressive JPEGs of full fidelity, in folders by class
and under their original names where the records have these; a.png becomes a.jpg, or
a.png.jpg beside another a. Folders of records may lie below SRC, as train and val. Other
files are copied. A file that exists and holds something else is not replaced unless
--force is given. If pack has not finished SRC, what is there is restored, and the exit
status is 1.`,
		Example: "  prismfs unpack photos.l3 restored",
		Args:    usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Jobs < 0 {
				return usageError("--jobs %d: it takes one job at least", opt.Jobs)
			}
			bar := newProgress(cmd, "unpacking")
			opt.Progress = bar.update
			summary, err := pack.Unpack(cmd.Context(), args[0], args[1], opt)
			bar.finish()
			if err != nil {
				err = packedError(err, args[0])
			}
			return report(cmd, summary, err, "unpacked", asJSON, allowRefused)
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&opt.Jobs, "jobs", "j", 0, "images to restore at a time (default: the number of processors)")
	flags.BoolVar(&opt.Force, "force", false, "replace existing files")
	flags.BoolVar(&allowRefused, "allow-refused", false, "exit with status 0 although files were refused")
	flags.BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return cmd
}
