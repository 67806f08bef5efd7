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

// switches are the settings by which kernels and distributions forbid user
// namespaces, what they are when they do, and how that is undone.
var switches = []struct{ file, forbids, reason string }{
	{"proc/sys/user/max_user_namespaces", "0",
		"user namespaces are switched off (sysctl -w user.max_user_namespaces=10000 allows them)"},
	{"proc/sys/kernel/unprivileged_userns_clone", "0",
		"user namespaces are for root only here (sysctl -w kernel.unprivileged_userns_clone=1 allows them)"},
	{"proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"AppArmor keeps user namespaces to programs that have a profile (sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for prismfs with the rule userns)"},
}

func why(err error, machine iofs.FS) string {
	setting := func(name string) string {
		text, _ := iofs.ReadFile(machine, name) // "" for a kernel that has none
		return strings.TrimSpace(string(text))
	}
	for _, s := range switches {
		if setting(s.file) == s.forbids {
			return s.reason
		}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		return "there are too many user namespaces already (sysctl user.max_user_namespaces)"
	case errors.Is(err, syscall.EINVAL):
		return "the kernel has no user namespaces (CONFIG_USER_NS)"
	case !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("namespaces cannot be made: %v", err)
	case strings.Contains(setting("proc/self/status"), "Seccomp:\t2"):
		return "a seccomp filter forbids user namespaces, as that of Docker does (start the container with --security-opt seccomp=unconfined, or mount outside and bind the mount into it)"
	}
	return "user namespaces are forbidden here, as they are in a chroot"
}
