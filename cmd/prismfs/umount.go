package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"prismfs/fs"
)

func newUmountCommand() *cobra.Command {
	var lazy, all bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT… | --all",
		Aliases: []string{"unmount"},
		Short:   "Unmount what mount has mounted",
		Long: `Unmount mounts of prismfs; with --all every mount of this user, of all users for
root. One that is in use stays and is an error; with --lazy it vanishes, and files that
are open stay readable until they are closed. Of several mounts all are tried, and the
exit status is that of the first error.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usageError("umount: --all names all mounts, and so leaves no room for %q", args)
			case !all && len(args) == 0:
				return usageError("umount: which mount? Name a mount point, or --all")
			case all:
				var err error
				if args, err = fs.OwnMountpoints(); err != nil {
					return err
				}
			}
			return unmountEach(cmd, args, lazy)
		},
	}
	cmd.Flags().BoolVar(&lazy, "lazy", false, "detach a busy mount: it vanishes, open files stay readable until closed")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "all mounts of this user; of all users for root")
	return cmd
}

// unmountEach tries all, and returns the first error when the others have been
// printed.
func unmountEach(cmd *cobra.Command, mountpoints []string, lazy bool) error {
	var first error
	for _, m := range mountpoints {
		err := fs.Unmount(m, lazy)
		switch {
		case err == nil:
		case first == nil:
			first = withStatus(statusOfMount(err), err)
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "prismfs: %s\n", oneLine(err.Error()))
		}
	}
	return first
}
