package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"prismfs/fs"
	"prismfs/namespace"
)

// daemonEnds is how long the keeper waits for the daemon of a mount that is gone
// to finish what it does, before it leaves it to itself.
const daemonEnds = 5 * time.Second

// keep is the keeper. It returns the exit status of the command as an error.
func keep(mountpoint string, command []string) error {
	// Capabilities, and the signal that a dying parent sends, belong to threads.
	runtime.LockOSThread()
	kind := os.Getenv(envKeeper)
	report, signals, err := keeperPipes()
	if err != nil {
		return err
	}
	// Who gets our signals is up to the waiter. They must not end us.
	caught := make(chan os.Signal, 1)
	for _, s := range passedSignals {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	if kind != withoutNamespace {
		if err := namespace.Enter(); err != nil {
			var number syscall.Errno
			errors.As(err, &number)
			fmt.Fprint(report, int(number))
			return exitWith(statusFailed)
		}
	}
	report.Close()

	own := inheritedDescriptors()
	own.closeOnExec(true)
	ends, daemonStdin, err := os.Pipe()
	if err != nil {
		return err
	}
	daemon, err := startMount(context.Background(), os.Environ(), ends, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return err
	}
	ends.Close()
	own.closeOnExec(false)
	if namespace.Kind(kind) == namespace.User {
		if err := namespace.DropRights(); err != nil {
			return err
		}
	}
	err = runUnder(mountpoint, command, signals, daemon)
	daemonStdin.Close() // it ends, at the latest when the last file is closed
	return err
}

// keeperPipes returns the descriptors that the waiter passes.
func keeperPipes() (report, signals *os.File, err error) {
	var r, s int
	if _, err := fmt.Sscanf(os.Getenv(envPipes), "%d,%d", &r, &s); err != nil {
		return nil, nil, fmt.Errorf("%s is for prismfs itself: %w", envPipes, err)
	}
	unix.CloseOnExec(r)
	unix.CloseOnExec(s)
	return os.NewFile(uintptr(r), "report"), os.NewFile(uintptr(s), "signals"), nil
}

// runUnder runs the command and unmounts when it has ended. It returns the exit
// status as an error.
func runUnder(mountpoint string, command []string, signals *os.File, daemon *os.Process) error {
	gone := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(gone)
		state, err := daemon.Wait()
		select {
		case <-ended:
		default:
			slog.Error("the mount is dead: its daemon has ended while the command runs", "state", fmt.Sprint(state), "error", err)
		}
	}()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isOurs), envMount+"="+mountpoint)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		close(ended)
		leaveMount(mountpoint, gone)
		return notStarted(command[0], err)
	}
	go passTo(cmd.Process, signals)
	_ = cmd.Wait() // what it says is in the state
	close(ended)
	leaveMount(mountpoint, gone)
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitWith(killedBy(status.Signal()))
	}
	return exitWith(exitStatus(cmd.ProcessState.ExitCode()))
}

// isOurs reports whether a variable is between our processes.
func isOurs(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return name == envKeeper || name == envMountpoint || name == envPipes || name == envMount
}

// notStarted gives a command that could not be started its exit status.
func notStarted(name string, err error) error {
	err = fmt.Errorf("running %s: %w", name, err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, iofs.ErrNotExist) {
		return withStatus(statusNoCommand, err)
	}
	return withStatus(statusNotExecutable, err)
}

// passTo sends the command the signals that the waiter passes on. When the waiter
// is killed, so is the command, as if there was nothing between them.
func passTo(command *os.Process, signals *os.File) {
	number := make([]byte, 1)
	for {
		if _, err := signals.Read(number); err != nil {
			_ = command.Kill() // it may have ended
			return
		}
		_ = command.Signal(syscall.Signal(number[0]))
	}
}

// leaveMount unmounts. What the command has left running keeps its open files.
func leaveMount(mountpoint string, gone <-chan struct{}) {
	err := fs.Unmount(mountpoint, false)
	if err == nil {
		select {
		case <-gone:
		case <-time.After(daemonEnds):
		}
		return
	}
	slog.Debug("something is still open in the mount; it is detached", "error", err)
	if err := fs.Unmount(mountpoint, true); err != nil {
		slog.Warn("the mount could not be detached", "error", err)
	}
}

// descriptors are those that the command line was given beside the first three.
type descriptors []int

// inheritedDescriptors lists them: ours are all closed at exec.
func inheritedDescriptors() descriptors {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		slog.Debug("descriptors of the caller stay open in the daemon", "error", err)
	}
	var list descriptors
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, fd)
		}
	}
	return list
}

// closeOnExec keeps them from what is started next, or lets it have them.
func (d descriptors) closeOnExec(on bool) {
	flag := 0
	if on {
		flag = unix.FD_CLOEXEC
	}
	for _, fd := range d {
		// They are open, so it cannot fail.
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flag)
	}
}
