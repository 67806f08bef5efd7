package main

import (
	"github.com/spf13/cobra"

	"prismfs/fs"
)

func newUmountCommand() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "Unmount what mount has mounted",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := fs.Unmount(args[0], lazy)
			return withStatus(statusOfMount(err), err)
		},
	}
	cmd.Flags().BoolVar(&lazy, "lazy", false, "detach a busy mount: it vanishes, open files stay readable until closed")
	return cmd
}
