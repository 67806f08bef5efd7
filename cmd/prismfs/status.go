package main

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"prismfs/fs"
	"prismfs/internal/plural"
)

func newStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [MOUNTPOINT…]",
		Short: "List your mounts and say how they are",
		Long: `List the mounts of this user, of all users for root, and say how each is: what it
shows, what its cache holds, how fast it is and how long it has been there. Mounts of
prismfs run and of containers, which are not seen here, are listed too, and those that
were detached (umount --lazy) while files in them were open, until these are closed. A
mount whose daemon does not answer within two seconds, or is gone, is shown as such, as is
one whose source folder is gone, so that nothing can be read, and the exit status is 1.
Of MOUNTPOINTs these alone are listed, and the exit status is 0 only if all of them
serve, which a readiness probe can ask; it is 15 where none of yours is mounted.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := fs.Statuses(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if list, err = fs.StatusesAt(list, args); err != nil {
					return withStatus(statusOfMount(err), err)
				}
			}
			print := printStatuses
			if asJSON {
				print = func(w io.Writer, list []fs.Status) error { return printJSON(w, append([]fs.Status{}, list...)) }
			}
			if err := print(cmd.OutOrStdout(), list); err != nil {
				return err
			}
			for _, s := range list {
				if s.State != fs.StateServing {
					return exitWith(statusSomeBad)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStatuses(w io.Writer, list []fs.Status) error {
	p := &printer{w: w}
	if len(list) == 0 {
		p.line("nothing is mounted")
	}
	for _, s := range list {
		printStatus(p, s)
	}
	return p.err
}

func printStatus(p *printer, s fs.Status) {
	where := ""
	switch {
	case s.Detached:
		where = ", detached: it ends when its last open file is closed"
	case s.Elsewhere && s.State.Answers():
		where = ", in another mount namespace"
	case s.Elsewhere: // its daemon cannot tell which
		where = ", in another mount namespace or detached"
	}
	p.line("%s  %s%s", oneLine(s.Mountpoint), s.State, where)
	if s.Why != "" {
		p.line("  why      %s", oneLine(s.Why))
	}
	if s.State == fs.StateDead {
		p.line("  ->       prismfs umount --lazy %s, or mount there again", oneLine(s.Mountpoint))
	}
	view := ""
	if s.View != "" {
		view = ", as " + s.View
	}
	p.line("  source   %s%s", oneLine(s.Source), view)
	if c := s.Counts; c != nil {
		p.line("  speed    %s; %s decodes", speedText(c.Passthrough), c.Backend)
		p.line("  memory   cache %s of %s, %s of it in use; process %s",
			humanize.IBytes(uint64(c.CacheBytes)), humanize.IBytes(uint64(c.CacheBudget)),
			humanize.IBytes(uint64(c.PinnedBytes)), humanize.IBytes(uint64(c.DaemonBytes)))
		p.line("  served   %s, %s decoded, %s, %s", plural.Of(c.Served, "open"), plural.Of(c.Decoded, "image"), plural.Of(c.Errors, "error"), plural.Of(c.SlowRequests, "slow request"))
		p.line("  up       %v", time.Duration(c.UptimeS)*time.Second)
	}
	if s.PID != 0 {
		p.line("  process  %d", s.PID)
	}
	if s.LogFile != "" {
		p.line("  log      %s", oneLine(s.LogFile))
	}
}

// speedText names the speed class; passthrough is true, or why there is none.
func speedText(passthrough any) string {
	if on, ok := passthrough.(bool); ok && on {
		return "passthrough"
	}
	return fmt.Sprintf("plain (%v)", passthrough)
}
