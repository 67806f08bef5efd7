package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"prismfs/fs"
	"prismfs/namespace"
	"prismfs/order"
)

// prismfs run is three processes beside the command, all of this command line:
//
//	waiter   what the user started: passes signals on, gives the exit status
//	└ keeper  the first process in the namespaces: starts the other two, unmounts
//	  ├ daemon   serves the mount, as that of mount does
//	  └ the command
//
// A process of several threads, as every Go program is, cannot enter a user
// namespace; so there have to be a waiter and a keeper. The daemon is by itself so
// that the command outlives its end, and children of the command the keeper's.
//
// The keeper finds envKeeper in its environment, with the kind of its namespaces,
// and the daemon envReady as well.
const (
	envKeeper     = "PRISMFS_RUN"            // kind of namespaces, or withoutNamespace
	envMountpoint = "PRISMFS_RUN_MOUNTPOINT" // as the waiter has chosen it
	envPipes      = "PRISMFS_RUN_PIPES"      // two descriptors: for the keeper to report, and of the signals that the waiter passes on

	// EnvMount tells the command where the mount is.
	envMount = fs.EnvMount

	withoutNamespace = "none"
)

func newRunCommand() *cobra.Command {
	f := mountFlags{readAhead: order.DefaultImages}
	cmd := &cobra.Command{
		Use:   "run SRC [MOUNTPOINT] -- COMMAND [ARGUMENT]…",
		Short: "Run a command that sees a dataset mounted",
		Long: `Mount a dataset as mount does, run a command that sees the mount, unmount, and exit
with the command's status (128 and the number of a signal that killed it). It needs no
root and no fusermount3: the mount is in a namespace of its own, which nobody else sees
and which is gone with the command, whatever happens. Where namespaces are forbidden it
is an ordinary mount, and a warning says so.

The command finds the mount point in the environment variable PRISMFS_MOUNT. Without
MOUNTPOINT, a folder is made for it and removed in the end; it stays, empty, if prismfs
run itself is killed by SIGKILL. Signals are passed on. What
the command leaves running keeps the files that it has open, and finds no others. It
also keeps the copies of the machine's mounts that the namespace began with: where /
is not shared ('findmnt -o PROPAGATION /', private in most containers), the daemon of
another mount of prismfs that is unmounted meanwhile lives on until all of it has ended.

  prismfs run photos.l3 -- sh -c 'python train.py --data "$PRISMFS_MOUNT/train+png"'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			places, command, err := splitRun(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			mountpoint := os.Getenv(envMountpoint)
			opt, err := f.mountOptions(places[0], mountpoint)
			if err != nil {
				return err
			}
			kind := os.Getenv(envKeeper)
			opt.Alone = namespace.Kind(kind) == namespace.User
			switch {
			case os.Getenv(envReady) != "":
				return serveInBackground(opt, service{log: logFileOf(cmd), keeper: os.Stdin})
			case kind != "":
				return keep(mountpoint, command)
			}
			return waitForRun(places)
		},
	}
	f.register(cmd)
	return cmd
}

// splitRun takes the arguments apart at the two hyphens.
func splitRun(args []string, dash int) (places, command []string, err error) {
	switch {
	case dash < 0:
		return nil, nil, usageError("run: write -- before the command: prismfs run SRC -- COMMAND")
	case dash < 1 || dash > 2:
		return nil, nil, usageError("run: before -- there have to be a source and, if you like, a mount point, not %q", args[:dash])
	case dash == len(args):
		return nil, nil, usageError("run: there is no command after --")
	}
	return args[:dash], args[dash:], nil
}

// waitForRun is the waiter.
func waitForRun(places []string) error {
	mountpoint, remove, err := runMountpoint(places)
	if err != nil {
		return err
	}
	defer remove()
	signals := make(chan os.Signal, 8)
	for _, s := range passedSignals {
		if !signal.Ignored(s) { // as nohup has it, for the command too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	kind := namespace.Choose()
	keeper, err := startKeeper(kind, mountpoint)
	var none *noNamespace
	if errors.As(err, &none) {
		slog.Warn("no namespace of its own, an ordinary mount: your other processes see it", "why", namespace.Why(none.err))
		keeper, err = startKeeper(namespace.None, mountpoint)
	}
	if err != nil {
		return err
	}
	go keeper.pass(signals)
	state, err := keeper.process.Wait()
	if err != nil {
		return err
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		slog.Error("the keeper of the mount was killed, and the command with it", "signal", status.Signal())
		return exitWith(killedBy(status.Signal()))
	}
	return exitWith(exitStatus(state.ExitCode()))
}

// killedBy is the exit status that shells have for a signal.
func killedBy(s syscall.Signal) exitStatus { return 128 + exitStatus(s) }

// runMountpoint returns the mount point as an absolute path, and removes it if
// it was made for this.
func runMountpoint(places []string) (path string, remove func(), err error) {
	if len(places) == 2 {
		path, err = filepath.Abs(places[1])
		return path, func() {}, err
	}
	if path, err = os.MkdirTemp("", "prismfs-run-"); err != nil {
		return "", nil, fmt.Errorf("making a mount point: %w", err)
	}
	// Others may look into it where --allow-other lets them.
	if err := os.Chmod(path, 0o755); err != nil {
		return "", nil, errors.Join(err, os.Remove(path))
	}
	// systemd-tmpfiles removes old empty folders, and with the folder goes the
	// mount, in all namespaces; it leaves alone what is locked.
	lock, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		slog.Debug("the mount point cannot be locked", "error", err)
	}
	return path, func() {
		if err := os.Remove(path); err != nil {
			slog.Warn("the mount point that was made is still there", "error", err)
		}
		lock.Close()
	}, nil
}

// noNamespace says that a keeper could not have its namespaces.
type noNamespace struct{ err error }

func (e *noNamespace) Error() string { return e.err.Error() }
func (e *noNamespace) Unwrap() error { return e.err }

// runningKeeper is the keeper as the waiter has it.
type runningKeeper struct {
	process *os.Process
	signals *os.File // of numbers, a byte each; its end kills the command
}

// startKeeper runs this command line again in namespaces, and returns when it is
// known whether they can be used. Its descriptors keep their numbers, so that the
// command has those that it was given, whatever they are.
func startKeeper(kind namespace.Kind, mountpoint string) (*runningKeeper, error) {
	report, theirReport, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	theirSignals, signals, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirSignals.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	word := string(kind)
	if kind == namespace.None {
		word = withoutNamespace
	}
	cmd.Env = append(os.Environ(), envKeeper+"="+word, envMountpoint+"="+mountpoint,
		fmt.Sprintf("%s=%d,%d", envPipes, theirReport.Fd(), theirSignals.Fd()))
	cmd.SysProcAttr = kind.Attributes()
	for _, f := range []*os.File{theirReport, theirSignals} {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return nil, err
		}
	}
	err = cmd.Start()
	theirReport.Close()
	if err != nil {
		signals.Close()
		if kind != namespace.None {
			return nil, &noNamespace{err}
		}
		return nil, fmt.Errorf("starting the keeper of the mount: %w", err)
	}
	said, err := io.ReadAll(report)
	if number, convErr := strconv.Atoi(string(said)); err == nil && convErr == nil {
		signals.Close()
		_, _ = cmd.Process.Wait() // it has said all there is
		return nil, &noNamespace{fmt.Errorf("%w: %w", namespace.ErrEnter, syscall.Errno(number))}
	}
	return &runningKeeper{cmd.Process, signals}, nil
}

// passedSignals are passed on to the command.
var passedSignals = []syscall.Signal{
	syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// pass passes signals on. Those of a key the terminal has sent to the command
// itself, which is in our process group.
func (k *runningKeeper) pass(signals <-chan os.Signal) {
	for s := range signals {
		number, ok := s.(syscall.Signal)
		if !ok || (number == syscall.SIGINT || number == syscall.SIGQUIT) && inForeground() {
			continue
		}
		if _, err := k.signals.Write([]byte{byte(number)}); err != nil {
			return // it has ended, as Wait will tell
		}
	}
}

// inForeground reports whether our process group has the terminal.
func inForeground() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false // there is none
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
