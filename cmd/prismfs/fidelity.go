package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"prismfs/fs"
	"prismfs/pack"
)

// fullFidelity is how full fidelity is written and read.
const fullFidelity = "full"

func newFidelityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fidelity MOUNTPOINT/FOLDER+auto [K]",
		Short: "Set or show the fidelity of an auto view",
		Long: `Set the fidelity of a view FOLDER+auto, or FOLDER+auto-NAME, of a mount: 1, 2, 3 and
so on, or full. It holds for everything that is opened from now on; what is open or
mapped stays as it is. Above the fidelities that an image has, it is shown whole, as it
is by full; a warning says so where no image has it, or where all have one, as L3 images do. A view that was never set has full fidelity. Views of one
folder that differ in their form only (train+auto, train+auto+png) share it; others,
such as train+auto-a and train+auto-b, are independent.

Without K the fidelity is printed; of a mount point alone, all that have been set.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showFidelities(cmd, args[0])
			}
			k, err := parseFidelity(args[1])
			if err != nil {
				return err
			}
			largest, err := fs.SetFidelity(cmd.Context(), args[0], k)
			if err != nil {
				return withStatus(statusOfControl(err), err)
			}
			if text := noDifference(k, largest); text != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "prismfs: warning: %s: %s\n", pack.Printable(args[0]), text)
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if m := negativeNumber.FindStringSubmatch(err.Error()); m != nil {
			return notAFidelity(m[1]) // taken for a flag
		}
		return flagError(err)
	})
	return cmd
}

// noDifference says why a fidelity that was set, 0 being full, is not what images are
// shown at, whose largest one is known unless it is 0.
func noDifference(k, largest int) string {
	switch {
	case k == 0 || largest == 0:
		return ""
	case largest == 1:
		return "its images have one fidelity, as all of L3: they are shown as before"
	case k > largest:
		return fmt.Sprintf("no image has fidelity %d, %d is the largest: all are shown at full fidelity", k, largest)
	}
	return ""
}

// negativeNumber finds one in the error about a flag of that name.
var negativeNumber = regexp.MustCompile(`^unknown shorthand flag: .* in (-\d+)$`)

func showFidelities(cmd *cobra.Command, path string) error {
	all, err := fs.Fidelities(cmd.Context(), path)
	if err != nil {
		return withStatus(statusOfControl(err), err)
	}
	for _, view := range slices.Sorted(maps.Keys(all)) {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\n", view, fidelityText(all[view])); err != nil {
			return err
		}
	}
	return nil
}

func fidelityText(k int) string {
	if k == 0 {
		return fullFidelity
	}
	return strconv.Itoa(k)
}

func parseFidelity(text string) (int, error) {
	if text == fullFidelity {
		return 0, nil
	}
	k, err := strconv.Atoi(text)
	if err != nil || k < 1 {
		return 0, notAFidelity(text)
	}
	return k, nil
}

func notAFidelity(text string) error {
	return usageError("fidelity %q is neither a number (1, 2, 3, …) nor full", text)
}

// statusOfControl maps what went wrong between this command and the daemon of a
// mount to an exit status.
func statusOfControl(err error) exitStatus {
	var refused *fs.RefusedError
	switch {
	case errors.As(err, new(*fs.NoAnswerError)):
		return statusMountNoAnswer
	case errors.Is(err, fs.ErrNoMount):
		return statusNotMounted
	case errors.Is(err, fs.ErrNotMountPoint):
		return statusUsage
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return statusNotPermitted
	case errors.Is(err, context.Canceled):
		return statusInterrupted
	case errors.As(err, &refused) && refused.Status == http.StatusBadRequest:
		return statusUsage
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return statusBadInput
	}
	return statusFailed
}
