package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"prismfs/cache"
	"prismfs/fs"
	"prismfs/internal/plural"
	"prismfs/pack"
)

// warmupJobs is how many files are opened at a time, unless told otherwise: two
// for each processor, and enough for the batches of a GPU.
func warmupJobs() int { return max(16, 2*runtime.GOMAXPROCS(0)) }

func newWarmupCommand() *cobra.Command {
	var asJSON bool
	var opt fs.WarmUpOptions
	cmd := &cobra.Command{
		Use:   "warmup PATH...",
		Short: "Decode files of a mount into its cache",
		Long: `Open every file below each PATH, which lies in a mount, so that it is decoded before
a job reads it. PATH is what the job will read, view terms included: files of
MOUNTPOINT/train are others than those of MOUNTPOINT/train+png. At the end it says how
many of them the cache holds, and what is wrong where that is not all of them.
Files that cannot be opened are listed. The exit status is 1 then.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Jobs < 1 {
				return usageError("--jobs %d: it takes one job at least", opt.Jobs)
			}
			bar := newProgress(cmd, "warming up")
			opt.Progress = bar.update
			all, err := fs.WarmUp(cmd.Context(), args, opt)
			bar.finish()
			var printErr error
			switch {
			case asJSON && len(all) > 0:
				printErr = printList(cmd.OutOrStdout(), all)
			case !asJSON:
				printErr = printWarmth(cmd.OutOrStdout(), all)
			}
			return warmupError(all, errors.Join(err, printErr))
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&opt.Jobs, "jobs", "j", warmupJobs(), "files to open at a time")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// warmupError returns what the command ends with.
func warmupError(all []*fs.Warmth, err error) error {
	var source *fs.SourceError
	switch {
	case errors.Is(err, context.Canceled):
		return withStatus(statusInterrupted, errors.New("interrupted; what is decoded stays in the cache"))
	case errors.Is(err, fs.ErrOrdered):
		return withStatus(statusUsage, err)
	case errors.As(err, &source):
		return withStatus(statusBadInput, err)
	case err != nil:
		return withStatus(statusOfControl(err), err)
	}
	for _, w := range all {
		if w.Failed > 0 {
			return exitWith(statusSomeBad)
		}
	}
	return nil
}

// printWarmth says of each mount what was opened, decoded, and is held.
func printWarmth(out io.Writer, all []*fs.Warmth) error {
	p := &printer{w: out}
	for _, w := range all {
		if len(all) > 1 {
			p.line("%s:", pack.Printable(w.Mountpoint))
		}
		for _, f := range w.Failures {
			p.line("failed %s: %s", pack.Printable(f.Path), oneLine(f.Reason))
		}
		if more := w.Failed - int64(len(w.Failures)); more > 0 {
			p.line("and %d more that failed", more)
		}
		p.line("%s opened, %d of them made from images, %s; %d failed, in %.1f s; the mount decoded %s meanwhile, for anybody",
			plural.Of(w.Files, "file"), w.Samples, size(w.Bytes), w.Failed, w.Seconds, plural.Of(w.Decoded, "image"))
		p.line("%s", heldText(w))
	}
	return p.err
}

// heldText says what the cache holds of the files, and why not all of them.
func heldText(w *fs.Warmth) string {
	switch {
	case w.Held < 0:
		return "what the cache holds of them was not looked for"
	case w.Samples == 0:
		return "there is nothing to be held in the cache"
	case w.Held == w.Samples:
		return fmt.Sprintf("the cache holds all of them (its budget is %s)", size(w.Budget))
	case w.Bytes <= w.Budget:
		return fmt.Sprintf("the cache holds %d of them (its budget is %s, and other files were read meanwhile: %s)",
			w.Held, size(w.Budget), plural.Of(w.Evictions, "eviction"))
	case w.Policy == cache.Pin.String():
		return fmt.Sprintf("the cache is too small: it holds %d of %d (its budget is %s for %s; %s); what it holds stays (--cache-policy pin)",
			w.Held, w.Samples, size(w.Budget), size(w.Bytes), plural.Of(w.Evictions, "eviction"))
	}
	return fmt.Sprintf("the cache is too small: it holds %d of %d (its budget is %s for %s; %s); mount with a larger --cache, or with --cache-policy pin, which keeps what came first",
		w.Held, w.Samples, size(w.Budget), size(w.Bytes), plural.Of(w.Evictions, "eviction"))
}
