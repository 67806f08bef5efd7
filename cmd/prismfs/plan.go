package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"prismfs/fs"
	"prismfs/internal/plural"
)

func newPlanCommand() *cobra.Command {
	var name string
	var start int64
	var remove, asJSON bool
	cmd := &cobra.Command{
		Use:   "plan MOUNTPOINT [FILE|-]",
		Short: "Hand over the order in which a job will read",
		Long: `Hand over the order in which files of a mount will be read, so that they are decoded
before that, in large batches. FILE, or standard input where it is -, has their paths,
one a line, as the job will open them: absolute, relative to the mount point, or, where
nothing is found there, to the folder that this command runs in; view terms belong to them. Lines end in LF or CR LF. Files that the job opens beside the plan, or leaves out, do
not matter. A plan takes the place of the one of the same name; jobs that read at the
same time, such as the ranks of one, have plans of their own by --name. Where a mount
is taking many plans, the command waits for its turn, for two minutes at most.

Without FILE the plans of the mount are listed, with their progress.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			switch {
			case remove && (len(args) > 1 || flags.Changed("start") || asJSON):
				return usageError("--remove takes a mount point and --name alone")
			case remove:
				err := fs.RemovePlan(cmd.Context(), args[0], name)
				return withStatus(statusOfControl(err), err)
			case len(args) == 1 && (flags.Changed("start") || flags.Changed("name")):
				return usageError("--name and --start are for a plan that is handed over; name its FILE, or -")
			case len(args) == 1:
				return listPlans(cmd, args[0], asJSON)
			case asJSON:
				return usageError("--json is for the list of plans")
			case start < 0:
				return usageError("--start %d: lines are counted from 0", start)
			}
			return putPlan(cmd, args[0], args[1], name, start)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", fs.DefaultPlan, "of the plan, where there are several")
	flags.Int64Var(&start, "start", 0, "line that is read first, counted from 0, to go on in the middle of an epoch")
	flags.BoolVar(&remove, "remove", false, "remove the plan")
	flags.BoolVar(&asJSON, "json", false, "list the plans as JSON")
	return cmd
}

func putPlan(cmd *cobra.Command, mountpoint, file, name string, start int64) error {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return withStatus(statusBadInput, err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return withStatus(statusBadInput, fmt.Errorf("%s is a folder; FILE has the paths that will be read, one a line", file))
		}
		in = f
	}
	p, err := fs.PutPlan(cmd.Context(), mountpoint, name, start, in)
	if err != nil {
		return withStatus(statusOfControl(err), err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "plan %s has %s\n", p.Name, plural.Of(p.Lines, "line"))
	return err
}

func listPlans(cmd *cobra.Command, mountpoint string, asJSON bool) error {
	all, err := fs.Plans(cmd.Context(), mountpoint)
	if err != nil {
		return withStatus(statusOfControl(err), err)
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), all)
	}
	return printPlans(cmd.OutOrStdout(), all)
}

// printPlans prints a line for each plan, and nothing where there is none.
func printPlans(out io.Writer, all []fs.PlanProgress) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tLINES\tPLACE\tREAD\tMADE\tUSEFUL\tWASTED\tFAILED\tABSENT\tSKIPPED\tIDLE")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%ds\n",
			p.Name, p.Lines, p.Place, p.Read, p.Made, p.Useful, p.Wasted, p.Failed, p.Absent, p.Skipped, p.IdleSeconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	p := &printer{w: out}
	for _, plan := range all {
		if plan.OneFailure != "" {
			p.line("%s: the first that failed: %s", plan.Name, oneLine(plan.OneFailure))
		}
	}
	return p.err
}
