//go:build man

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The manual pages are written by a build of their own, `go run -tags man
// ./cmd/prismfs man DIR`, which is what make man does: the converter from Markdown
// that it needs is in no binary that anybody installs.
func init() { subcommands = append(subcommands, newManCommand) }

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   usedArguments,
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), args[0]) },
	}
}

// writeManual writes a page for each command, and its subcommands'.
func writeManual(cmd *cobra.Command, dir string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	f, err := os.Create(filepath.Join(dir, name+".1"))
	if err != nil {
		return err
	}
	err = writePage(f, cmd, name)
	if err := f.Close(); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("writing the page of %s: %w", cmd.CommandPath(), err)
	}
	if cmd.Name() == "completion" {
		return nil // one page for all shells will do
	}
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		if err := writeManual(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func writePage(w io.Writer, cmd *cobra.Command, name string) error {
	cmd.DisableAutoGenTag = true                                     // it would say when, by cobra
	cmd.Long, _, _ = strings.Cut(cmd.Long, "\n\n"+exitStatusesTitle) // they have a section
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "prismfs", Manual: "prismfs"}
	if err := doc.GenMan(cmd, header, w); err != nil {
		return err
	}
	if cmd.HasParent() {
		return nil
	}
	_, err := io.WriteString(w, exitStatusSection()+environmentSection())
	return err
}

// exitStatusSection lists every exit status, as exit_status.go has them.
func exitStatusSection() string {
	var b strings.Builder
	b.WriteString(".SH EXIT STATUS\nScripts may depend on the numbers: they are added to, never changed.\n")
	for s := range statusInterrupted + 1 {
		if text := s.String(); text != fmt.Sprintf("exit status %d", int(s)) {
			fmt.Fprintf(&b, ".TP\n\\fB%d\\fP\n%s\n", int(s), text)
		}
	}
	return b.String()
}

// environmentSection lists the variables that users set. Those for tests are in
// docs/development.md.
func environmentSection() string {
	return `.SH ENVIRONMENT
.TP
\fBPRISMFS_MOUNT\fP
is set by \fBprismfs run\fP for the command that it runs: the mount point
.TP
\fBXDG_RUNTIME_DIR\fP
holds the control sockets of mounts, in the folder prismfs; without it they are in /run/prismfs (root) or /tmp/prismfs-UID
.TP
\fBXDG_CACHE_HOME\fP
holds tables of PCR datasets, in the folder prismfs/tables; the default is ~/.cache
.TP
\fBNOTIFY_SOCKET\fP
is told that a mount answers, as systemd has it for units of Type=notify
`
}
