package fs

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// SourceError says that a source cannot be served.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Reason sorts the errors of mounting and unmounting.
type Reason uint8

// The reasons. The zero value is none of the others.
const (
	ReasonOther        Reason = iota
	ReasonMountpoint          // the mount point is missing, not empty, or lies around the source
	ReasonNoFuse              // no /dev/fuse
	ReasonNoFusermount        // fusermount3 is needed and missing
	ReasonNotPermitted
	ReasonMounted    // something is mounted there
	ReasonNotMounted // nothing is
	ReasonBusy       // files of the mount are open
)

// MountError says why mounting or unmounting failed, and what to do.
type MountError struct {
	Mountpoint string
	Err        error
	Unmounting bool
	Reason     Reason // see Why
}

func (e *MountError) Unwrap() error { return e.Err }

// Error is one line: what failed, where, and the remedy if one is known.
func (e *MountError) Error() string {
	doing := "mounting on"
	if e.Unmounting {
		doing = "unmounting"
	}
	// go-fuse passes on what fusermount3 printed, with its line ends.
	text := strings.Join(strings.Fields(e.Err.Error()), " ")
	if r := e.remedy(); r != "" {
		text += "; " + r
	}
	return fmt.Sprintf("%s %s: %s", doing, e.Mountpoint, text)
}

// Why returns the reason: the one that was set, else what the error tells.
func (e *MountError) Why() Reason {
	text := e.Err.Error()
	switch {
	case e.Reason != ReasonOther:
		return e.Reason
	case errors.Is(e.Err, syscall.EBUSY) || strings.Contains(text, "busy"):
		return ReasonBusy
	case errors.Is(e.Err, exec.ErrNotFound):
		return ReasonNoFusermount
	case errors.Is(e.Err, syscall.EPERM) || errors.Is(e.Err, syscall.EACCES) ||
		strings.Contains(text, "user_allow_other") || strings.Contains(text, "ermission denied") ||
		strings.Contains(text, "no write access") || strings.Contains(text, "not owned by user"):
		return ReasonNotPermitted
	}
	return ReasonOther
}

func (e *MountError) remedy() string {
	switch {
	case e.Reason != ReasonOther:
		return "" // said by whoever set it
	case strings.Contains(e.Err.Error(), "user_allow_other"):
		return "uncomment user_allow_other in /etc/fuse.conf, or leave --allow-other away"
	}
	switch e.Why() {
	case ReasonNotPermitted:
		return "use a mount point that is yours and that you may write, or mount as root"
	case ReasonBusy:
		return "close what is open there (fuser -vm shows it), or use prismfs umount --lazy"
	case ReasonNoFusermount:
		return "install fuse3, which has fusermount3, or mount as root"
	}
	return ""
}
