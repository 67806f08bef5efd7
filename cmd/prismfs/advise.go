package main

import (
	"io"

	"github.com/spf13/cobra"

	"prismfs/advice"
	"prismfs/fs"
	"prismfs/internal/plural"
	"prismfs/pack"
)

func newAdviseCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "advise MOUNTPOINT",
		Short: "Say whether readers of a mount wait, and what would free them",
		Long: `Compare the time that readers of a mount wait for images with the time that they take
between them, for each view that was read in the last minutes, and name what would make
the waiting shorter, with the numbers behind it: echoes, a lower fidelity, another
coding, the cache or its policy, processors, workers, a plan. Ask while the job runs, after a
minute or so. A loader whose workers wait for room in its queue counts as busy, as it
should: then decoding is not what is slow.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := fs.Advise(cmd.Context(), args[0])
			if err != nil {
				return withStatus(statusOfControl(err), err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), got)
			}
			return printAdvice(cmd.OutOrStdout(), got)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printAdvice(w io.Writer, got fs.Advised) error {
	p := &printer{w: w}
	if len(got.Views) == 0 {
		p.line("No image of this mount has been opened yet; ask again while a job runs.")
	}
	for i, view := range got.Views {
		if i > 0 {
			p.line("")
		}
		p.line("%s", pack.Printable(view.Text))
		for _, step := range view.Steps {
			p.line("  - %s", pack.Printable(step.Text))
		}
		if view.Verdict == advice.Waiting && len(view.Steps) == 0 {
			p.line("  - Nothing that is known here would change that.")
		}
	}
	if got.LeftOut > 0 {
		p.line("")
		p.line("%s, which %s read less, %s left out.", plural.Of(got.LeftOut, "more view"), plural.Or(got.LeftOut, "was", "were"), plural.Or(got.LeftOut, "is", "are"))
	}
	return p.err
}
