package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// exitStatus is what the process answers to whoever started it. Scripts
// depend on the numbers: they are added to, never changed.
type exitStatus int

// Every exit status of every subcommand. That of run is the command's, unless the
// mount could not be made.
const (
	statusOK       exitStatus = 0 // all was done
	statusSomeBad  exitStatus = 1 // all was tried, and some files were refused or are bad, or the dataset is not finished; the output says which
	statusUsage    exitStatus = 2 // the command line is wrong; nothing was done
	statusFailed   exitStatus = 3 // an input or output error, or a fault in prismfs, ended the work
	statusBadInput exitStatus = 4 // the source is missing, unreadable or not of the kind the command takes

	statusBadOutput exitStatus = 5 // the destination cannot be used: inside the source, locked by another run, not writable

	statusMountPoint    exitStatus = 10 // the mount point is missing, no folder, not empty, or lies around the source
	statusNoFuse        exitStatus = 11 // /dev/fuse is missing or cannot be opened
	statusNoFusermount  exitStatus = 12 // fusermount3 is needed here and not installed
	statusNotPermitted  exitStatus = 13 // this user may not do it, or fuse.conf lacks user_allow_other
	statusMounted       exitStatus = 14 // something is mounted there already, or a dead mount was left behind
	statusNotMounted    exitStatus = 15 // nothing of prismfs is mounted there
	statusUnmountBusy   exitStatus = 16 // files of the mount are still open; it was left, or detached as the message says
	statusMountNoAnswer exitStatus = 17 // the mount does not answer in time: its daemon hangs
	statusNoDevice      exitStatus = 18 // --backend cuda, and no GPU can be used
	statusForbidden     exitStatus = 19 // a security profile, or the container, lets nobody mount there

	statusNotExecutable exitStatus = 126 // run: the command is there and cannot be started, as shells have it
	statusNoCommand     exitStatus = 127 // run: there is no such command

	statusInterrupted exitStatus = 130 // SIGINT or SIGTERM ended the work; what was finished is whole
)

// String returns the meaning in a few words.
func (s exitStatus) String() string {
	switch s {
	case statusOK:
		return "ok"
	case statusSomeBad:
		return "some files refused or bad"
	case statusUsage:
		return "usage"
	case statusFailed:
		return "failed"
	case statusBadInput:
		return "source not usable"
	case statusBadOutput:
		return "destination not usable"
	case statusMountPoint:
		return "mount point not usable"
	case statusNoFuse:
		return "no /dev/fuse"
	case statusNoFusermount:
		return "no fusermount3"
	case statusNotPermitted:
		return "not permitted"
	case statusMounted:
		return "already mounted"
	case statusNotMounted:
		return "not mounted"
	case statusUnmountBusy:
		return "unmount busy"
	case statusMountNoAnswer:
		return "mount does not answer"
	case statusNoDevice:
		return "no GPU"
	case statusForbidden:
		return "mounting forbidden by a security profile or the container"
	case statusNotExecutable:
		return "run: command not executable"
	case statusNoCommand:
		return "run: command not found"
	case statusInterrupted:
		return "interrupted"
	}
	return fmt.Sprintf("exit status %d", int(s))
}

// exitStatusesTitle stands above their list in the help.
const exitStatusesTitle = "Exit statuses:"

// exitStatuses lists every exit status, a line each.
func exitStatuses() string {
	var lines []string
	for s := range statusInterrupted + 1 {
		if text := s.String(); text != fmt.Sprintf("exit status %d", int(s)) {
			lines = append(lines, fmt.Sprintf("  %3d  %s", int(s), text))
		}
	}
	return strings.Join(lines, "\n")
}

// statusError is an error that knows the exit status it ends the process
// with. A nil err means that what there is to say has been printed.
type statusError struct {
	status exitStatus
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return e.status.String()
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// withStatus gives an error its exit status; nil stays nil.
func withStatus(status exitStatus, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status, err}
}

// exitWith ends the command with a status and no further message.
func exitWith(status exitStatus) error { return &statusError{status: status} }

// usageError is a mistake in the command line that cobra cannot see.
func usageError(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Errorf(format, args...)}
}

// statusOf returns the exit status of an error: its own, that of a context
// ended by a signal, or statusFailed.
func statusOf(err error) exitStatus {
	var se *statusError
	switch {
	case err == nil:
		return statusOK
	case errors.As(err, &se):
		return se.status
	case errors.Is(err, context.Canceled):
		return statusInterrupted
	}
	return statusFailed
}
