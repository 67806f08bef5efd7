package namespace

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestWhy(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("fork/exec: %w", err) }
	for _, c := range []struct {
		err        error
		file, text string
		want       string
	}{
		{syscall.ENOSPC, "proc/sys/user/max_user_namespaces", "0\n", "switched off"},
		{syscall.ENOSPC, "proc/sys/user/max_user_namespaces", "10\n", "too many"},
		{syscall.EPERM, "proc/sys/kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"},
		{syscall.EPERM, "proc/sys/kernel/unprivileged_userns_clone", "1\n", "chroot"},
		{syscall.EACCES, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor"},
		{syscall.EPERM, "proc/self/status", "Name:\tprismfs\nSeccomp:\t2\n", "seccomp"},
		{syscall.EPERM, "proc/self/status", "Name:\tprismfs\nSeccomp:\t0\n", "chroot"},
		{syscall.EINVAL, "proc/self/status", "", "CONFIG_USER_NS"},
		{fmt.Errorf("%w: %w", ErrEnter, syscall.EINVAL), "proc/self/status", "", "no mount point here, as in a chroot"},
		{syscall.ENOMEM, "proc/self/status", "", "cannot allocate memory"},
	} {
		machine := fstest.MapFS{c.file: {Data: []byte(c.text)}}
		got := why(wrap(c.err), machine)
		if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%v with %s = %q: %q, want %q", c.err, c.file, c.text, got, c.want)
		}
	}
}

func TestAttributes(t *testing.T) {
	if a := None.Attributes(); a.Cloneflags != 0 || len(a.AmbientCaps) != 0 {
		t.Errorf("none: %+v", a)
	}
	if a := Mount.Attributes(); a.Cloneflags != syscall.CLONE_NEWNS {
		t.Errorf("mount: %+v", a)
	}
	a := User.Attributes()
	if a.Cloneflags&syscall.CLONE_NEWUSER == 0 || a.UidMappings[0].ContainerID != os.Geteuid() || a.UidMappings[0].Size != 1 || a.GidMappingsEnableSetgroups {
		t.Errorf("user: %+v", a)
	}
}

// TestUserNamespace starts a process in one, as the user that we are.
func TestUserNamespace(t *testing.T) {
	cmd := exec.Command("sh", "-c", "id -u; readlink /proc/self/ns/mnt; mount -t tmpfs none /tmp && echo mounted")
	cmd.SysProcAttr = User.Attributes()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Skipf("no user namespaces here: %s", Why(err))
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 2 || lines[0] != fmt.Sprint(os.Geteuid()) {
		t.Fatalf("%v: %s", err, out)
	}
	outside, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if lines[1] == outside {
		t.Error("it has our mount namespace")
	}
	if os.Geteuid() == 0 && lines[len(lines)-1] != "mounted" { // mount(8) wants to be run by root
		t.Errorf("it may not mount: %s", out)
	}
}
