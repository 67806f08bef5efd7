package namespace

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strings"
	"syscall"
)

// Why explains, in one line and with a remedy, why namespaces could not be had.
func Why(err error) string { return why(err, os.DirFS("/")) }

// WhyNot is Why in two parts; the remedy is "" where none is known.
func WhyNot(err error) (reason, remedy string) { return whyNot(err, os.DirFS("/")) }

// Forbidden returns by which setting of a machine, of whose files machine has those
// of the root, users other than root can have no namespaces, and the remedy; ""
// where there is none.
func Forbidden(machine iofs.FS) (reason, remedy string) {
	for _, s := range switches {
		if setting(machine, s.file) == s.forbids {
			return s.reason, s.remedy
		}
	}
	return "", ""
}

// switches are the settings by which kernels and distributions forbid user
// namespaces, what they are when they do, and how that is undone.
var switches = []struct{ file, forbids, reason, remedy string }{
	{"proc/sys/user/max_user_namespaces", "0",
		"user namespaces are switched off", "sysctl -w user.max_user_namespaces=10000 allows them"},
	{"proc/sys/kernel/unprivileged_userns_clone", "0",
		"user namespaces are for root only here", "sysctl -w kernel.unprivileged_userns_clone=1 allows them"},
	{"proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"AppArmor keeps user namespaces to programs that have a profile", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for prismfs with the rule userns"},
}

// setting reads a file of one line, "" for a kernel that has none.
func setting(machine iofs.FS, name string) string {
	text, _ := iofs.ReadFile(machine, name)
	return strings.TrimSpace(string(text))
}

func why(err error, machine iofs.FS) string {
	reason, remedy := whyNot(err, machine)
	if remedy != "" {
		return reason + " (" + remedy + ")"
	}
	return reason
}

func whyNot(err error, machine iofs.FS) (reason, remedy string) {
	if errors.Is(err, ErrEnter) && errors.Is(err, syscall.EINVAL) {
		return "the root folder is no mount point here, as in a chroot, and so its mounts cannot be kept apart",
			"mount --bind DIR DIR before chroot DIR makes it one"
	}
	if reason, remedy := Forbidden(machine); reason != "" {
		return reason, remedy
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		return "there are too many user namespaces already", "sysctl user.max_user_namespaces has the limit"
	case errors.Is(err, syscall.EINVAL):
		return "the kernel has no user namespaces", "CONFIG_USER_NS"
	case !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("namespaces cannot be made: %v", err), ""
	case strings.Contains(setting(machine, "proc/self/status"), "Seccomp:\t2"):
		return "a seccomp filter forbids user namespaces, as that of Docker does",
			"start the container with --security-opt seccomp=unconfined, or mount outside and bind the mount into it"
	}
	return "user namespaces are forbidden here, as they are in a chroot", ""
}
