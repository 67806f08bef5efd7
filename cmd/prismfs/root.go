package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// subcommands lists the constructors of all subcommands, in the order of the
// help text.
var subcommands = []func() *cobra.Command{
	newPackCommand,
	newInspectCommand,
	newVerifyCommand,
	newUnpackCommand,
	newIndexCommand,
	newMountCommand,
	newRunCommand,
	newUmountCommand,
	newStatusCommand,
	newFidelityCommand,
	newPlanCommand,
	newWarmupCommand,
	newAdviseCommand,
	newDoctorCommand,
	newBenchCommand,
	newVersionCommand,
}

// execute runs one command line and returns its exit status. Errors are
// printed on one line, after which a usage error points to the help.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) exitStatus {
	root, state := newRootCommand()
	defer state.close()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	called, err := root.ExecuteContextC(ctx)
	if err != nil && !state.started {
		err = withStatus(statusUsage, err)
	}
	var se *statusError
	if err != nil && !(errors.As(err, &se) && se.err == nil) {
		fmt.Fprintf(stderr, "prismfs: %s\n", oneLine(err.Error()))
	}
	status := statusOf(err)
	if status == statusUsage && se != nil && se.err != nil {
		fmt.Fprintf(stderr, "See '%s --help'.\n", called.CommandPath())
	}
	return status
}

// oneLine keeps a message on one line, whatever names it quotes.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// rootState is what the persistent flags set up before a subcommand runs.
type rootState struct {
	started bool // the command line was understood
	logFile *logFile
}

func (s *rootState) close() {
	if s.logFile != nil {
		s.logFile.close()
	}
}

func newRootCommand() (*cobra.Command, *rootState) {
	state := &rootState{}
	var level, format, file string
	root := &cobra.Command{
		Use:   "prismfs",
		Short: "Mount compact image datasets and read them decoded",
		Long: `prismfs packs image datasets and mounts them as .npy, PNG, PPM, raw or JPEG files,
decoded on the way, at any fidelity, for programs that know nothing of it.

` + exitStatusesTitle + "\n" + exitStatuses(),
		Args:          cobra.NoArgs,
		SilenceErrors: true, // execute prints them
		SilenceUsage:  true,
		Version:       versionString(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&level, "log-level", "info", "least level of log lines: debug, info, warn or error")
	flags.StringVar(&format, "log-format", "text", "form of log lines: text or json")
	flags.StringVar(&file, "log-file", "", "append log lines to this file, which a mount opens anew on SIGHUP (default: standard error)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		out := cmd.ErrOrStderr()
		if file != "" {
			f, err := openLogFile(file)
			if err != nil {
				return err
			}
			state.logFile, out = f, f
			cmd.SetContext(withLogFile(cmd.Context(), f))
		}
		logger, err := newLogger(out, level, format)
		if err != nil {
			return err
		}
		slog.SetDefault(logger)
		state.started = true
		return nil
	}
	root.SetHelpCommand(newHelpCommand())
	for _, construct := range subcommands {
		root.AddCommand(construct())
	}
	return root, state
}

// flagError says what is wrong with a flag without the name of the Go function
// that found it.
func flagError(err error) error {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err
	}
	return errors.New(strings.Replace(err.Error(), number.Error(), number.Err.Error(), 1))
}

// newLogger returns the logger that the --log flags describe.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, usageError("--log-level %q is none of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usageError("--log-format %q is neither text nor json", format)
}

// newHelpCommand is cobra's, but for topics that do not exist, which cobra takes
// for no mistake.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError("there is no command %q to help with", strings.Join(args, " "))
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of prismfs",
		Args:  usedArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionString())
			return err
		},
	}
}

// versionString names the module version or revision that the binary was
// built from, the Go release and the platform.
func versionString() string {
	version := "development"
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			version = v
		}
	}
	return fmt.Sprintf("prismfs %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
