package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"prismfs/fs"
)

// A background process finds envReady in its environment, and says on the
// descriptor readyFD that the mount answers (readyText), or why there is none.
const (
	envReady  = "PRISMFS_BACKGROUND"
	readyFD   = 3
	readyText = "ready"
)

// warningsOnly returns the logger of a background process without a log file:
// the terminal is told what is wrong until the mount answers, and the rest
// stands in .prismfs/log.
func warningsOnly(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// serveInBackground is serve in the process that mountInBackground starts: it
// says on the pipe how the mount went, and keeps no folder busy.
func serveInBackground(opt fs.Options, s service) error {
	os.Unsetenv(envReady)
	pipe := os.NewFile(readyFD, "ready")
	if s.log == nil {
		opt.Logger = warningsOnly(os.Stderr)
	}
	s.background = true
	s.report = func(err error) {
		if err != nil {
			fmt.Fprintf(pipe, "%d %s", statusOf(err), oneLine(err.Error()))
		} else {
			beginSession()
			fmt.Fprint(pipe, readyText)
		}
		pipe.Close()
		leaveCaller()
	}
	return serve(opt, s)
}

// beginSession leaves the caller's process group, which a terminal sends its signals
// to. Not before the mount is made: the kernel lets the process group of systemd alone
// look at the mount point of an automount that is being mounted, and keeps all others
// waiting until it is.
func beginSession() {
	if _, err := unix.Setsid(); err != nil && err != unix.EPERM { // that of one which has its own
		slog.Warn("the mount stays in the caller's session, and may end with it", "error", err)
	}
}

// leaveCaller lets go of the caller's folder and terminal. Until the mount
// answers, fusermount3 may have had something to say there.
func leaveCaller() {
	if err := os.Chdir("/"); err != nil {
		slog.Warn("the folder of the caller stays busy", "error", err)
	}
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		unix.Dup3(int(null.Fd()), int(os.Stderr.Fd()), 0)
		null.Close()
	}
}

// mountInBackground runs this command line again, and waits until that mount answers.
func mountInBackground(ctx context.Context) error {
	// Locks and pipes of the caller's shell must not live as long as the mount.
	if err := unix.CloseRange(readyFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		slog.Debug("descriptors of the caller stay open in the mount", "error", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	child, err := startMount(ctx, os.Environ(), null, nil)
	if err != nil {
		return err
	}
	return child.Release()
}

// startMount runs this command line again to serve a mount, and returns the
// process once the mount answers. The end of ctx tells that process to end.
func startMount(ctx context.Context, env []string, stdin *os.File, attr *syscall.SysProcAttr) (*os.Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	child, err := os.StartProcess(self, os.Args, &os.ProcAttr{
		Env:   append(env, envReady+"=1"),
		Files: []*os.File{stdin, null, os.Stderr, write},
		Sys:   attr,
	})
	write.Close()
	if err != nil {
		return nil, fmt.Errorf("starting the mount in the background: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = child.Signal(syscall.SIGTERM) })() // it may have ended
	answer, err := io.ReadAll(read)
	if err == nil && string(answer) == readyText {
		return child, nil
	}
	state, err := child.Wait()
	if err != nil {
		return nil, err
	}
	var status exitStatus
	var text string
	if _, err := fmt.Sscanf(string(answer), "%d", &status); err == nil {
		_, text, _ = strings.Cut(string(answer), " ")
		return nil, withStatus(status, errors.New(text))
	}
	return nil, fmt.Errorf("the background process ended with %v before the mount answered; --foreground shows more", state)
}
