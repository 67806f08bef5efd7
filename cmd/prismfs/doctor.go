package main

import (
	"io"

	"github.com/spf13/cobra"

	"prismfs/doctor"
)

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine allows, and how fast a mount would be",
		Long: `Say what this machine allows a mount to do: FUSE, passthrough, memory, decoders and
GPUs, a line each, and what to do where something is missing. The last line says how
fast a mount would be. Nothing is mounted, and nothing changed.

A line is ok; less, where a mount works without it, slower or with less; none, where
there is no NVIDIA driver or card, and may need to be none; or bad, where nothing can be
mounted. The exit status is 0 all the same, unless it was not
possible to look.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := doctor.Look()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), report)
			}
			return printDoctor(cmd.OutOrStdout(), report)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printDoctor(w io.Writer, r *doctor.Report) error {
	p := &printer{w: w}
	for _, c := range r.Checks {
		p.line("%-12s  %-4s  %s", c.Name, c.State, oneLine(c.Found))
		if c.Remedy != "" {
			p.line("%-12s  %-4s  -> %s", "", "", c.Remedy)
		}
	}
	p.line("%-12s        %s", "speed", r.Speed)
	return p.err
}
