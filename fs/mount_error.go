package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
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
	ReasonForbidden  // to everybody here, by a security profile or the container
	ReasonMounted    // something is mounted there
	ReasonNotMounted // nothing is
	ReasonBusy       // files of the mount are open
	ReasonNoAnswer   // the mount that is there hangs
)

// reasonOf is the reason of an error, unless it is that a mount hangs.
func reasonOf(err error, otherwise Reason) Reason {
	if errors.As(err, new(*NoAnswerError)) {
		return ReasonNoAnswer
	}
	return otherwise
}

// MountError says why mounting or unmounting failed, and what to do.
type MountError struct {
	Mountpoint string
	Err        error
	Unmounting bool
	Looking    bool   // neither: it was only asked for
	Reason     Reason // see Why
}

func (e *MountError) Unwrap() error { return e.Err }

// Error is one line: what failed, where, and the remedy if one is known.
func (e *MountError) Error() string {
	doing := "mounting on"
	if e.Unmounting {
		doing = "unmounting"
	} else if e.Looking {
		doing = "looking at"
	}
	// go-fuse passes on what fusermount3 printed, with its line ends.
	text := strings.Join(strings.Fields(e.Err.Error()), " ")
	if e.Why() == ReasonNoFusermount {
		text = "fusermount3, which mounts for users, was not found"
	}
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
	case errors.As(e.Err, new(*exec.Error)): // of the search for it
		return ReasonNoFusermount
	case e.profileForbids(), e.containerForbids():
		return ReasonForbidden
	case errors.Is(e.Err, syscall.EPERM) || errors.Is(e.Err, syscall.EACCES) ||
		strings.Contains(text, "user_allow_other") || strings.Contains(text, "ermission denied") ||
		strings.Contains(text, "no write access") || strings.Contains(text, "not owned by user"):
		return ReasonNotPermitted
	}
	return ReasonOther
}

// profileForbids recognizes AppArmor and SELinux: fusermount3 has root's rights and
// is denied all the same, or may not even be started. Ubuntu's profile has it mount
// below the home folder, /mnt, /media and /tmp only.
func (e *MountError) profileForbids() bool {
	var start *iofs.PathError
	if errors.As(e.Err, &start) && start.Op == "fork/exec" && errors.Is(start, syscall.EACCES) {
		return true
	}
	text := e.Err.Error()
	return strings.Contains(text, "mount failed: Permission denied") || strings.Contains(text, "umount") && strings.Contains(text, ": Permission denied")
}

// containerForbids recognizes that fusermount3 has not root's rights: it is not
// setuid, or in a container that has no right to mount.
func (e *MountError) containerForbids() bool {
	return strings.Contains(e.Err.Error(), "mount failed: Operation not permitted")
}

func (e *MountError) remedy() string {
	switch {
	case e.Reason != ReasonOther:
		return "" // said by whoever set it
	case strings.Contains(e.Err.Error(), "user_allow_other"):
		return "uncomment user_allow_other in /etc/fuse.conf, or leave --allow-other away"
	case strings.Contains(e.Err.Error(), "unknown option"):
		return "the kernel of this machine has no such mount option (context and its like need SELinux), or leaves it to root"
	}
	switch e.Why() {
	case ReasonForbidden:
		if e.containerForbids() {
			return "fusermount3 has to be setuid root (chmod u+s), and a container needs --cap-add SYS_ADMIN; or use prismfs run, or mount outside and bind the mount into the container"
		}
		return "AppArmor or SELinux forbids it to fusermount3 (journalctl -k | grep -i denied shows it); mount below your home folder, /mnt or /tmp, use prismfs run, or mount as root"
	case ReasonNotPermitted:
		return "use a mount point that is yours and that you may write, or mount as root"
	case ReasonBusy:
		return "close what is open there (fuser -vm shows it), or use prismfs umount --lazy"
	case ReasonNoFusermount:
		return "install fuse3, which has fusermount3, or mount as root"
	}
	return ""
}
