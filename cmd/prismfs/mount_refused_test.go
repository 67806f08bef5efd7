package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hiding runs a script, as root in a mount namespace of its own, that hides
// something of the machine, and then a command line of prismfs.
func (n nobody) hiding(script string, args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", "set -e\n" + script + "\nexec \"$@\"", n.base + "/dev"}, args...)...)
	cmd.Env = append(os.Environ(), envRunMain+"=1", "HOME="+n.base+"/home", "XDG_RUNTIME_DIR=")
	cmd.Dir = n.base
	return cmd
}

// Scripts of hiding. $0 is an empty folder.
const (
	withoutDevice = `mount -t tmpfs none "$0"; mknod -m 666 "$0/null" c 1 3; mount --move "$0" /dev`
	closedDevice  = `mount -t tmpfs none "$0"; mknod -m 600 "$0/fuse" c 10 229; mount --bind "$0/fuse" /dev/fuse`
	openDevice    = `mount -t tmpfs none "$0"; mknod -m 666 "$0/fuse" c 10 229; mount --bind "$0/fuse" /dev/fuse`
	// Nothing is left of /usr/bin but setpriv.
	withoutFusermount = openDevice + `; mkdir "$0/bin"; cp /usr/bin/setpriv "$0/bin"; mount --bind "$0/bin" /usr/bin`
)

// TestMountRefused shows what stands in the way of a mount, each with a message
// of one line that says what to do, and an exit status.
func TestMountRefused(t *testing.T) {
	n := newNobody(t)
	mnt := filepath.Join(n.base, "home", "mnt")
	if err := os.Mkdir(mnt, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(mnt, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	asNobody := []string{"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", n.binary, "mount", n.source, mnt}
	asRoot := []string{n.binary, "mount", n.source, mnt}
	// fusermount3 is one that says what the real one would.
	says := func(text string) string {
		return openDevice + `; mkdir "$0/bin"; printf '#!/bin/sh\necho "/usr/bin/fusermount3: ` + text + `" >&2; exit 1\n' >"$0/bin/fusermount3"; chmod 755 "$0/bin" "$0/bin/fusermount3"; PATH="$0/bin:$PATH"`
	}
	for _, c := range []struct {
		name, script string
		args         []string
		status       exitStatus
		text, remedy string
	}{
		{"no device", withoutDevice, asRoot, statusNoFuse, "/dev/fuse: no such file", "modprobe fuse"},
		{"closed device", closedDevice, asNobody, statusNoFuse, "/dev/fuse: permission denied", "chmod 666 /dev/fuse"},
		{"no fusermount3", withoutFusermount, asNobody, statusNoFusermount, "fusermount3, which mounts for users, was not found", "install fuse3"},
		{"profile", says("mount failed: Permission denied"), asNobody, statusForbidden, "mount failed: Permission denied", "AppArmor"},
		{"container", says("mount failed: Operation not permitted"), asNobody, statusForbidden, "mount failed: Operation not permitted", "--cap-add SYS_ADMIN"},
		{"allow_other", says("option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf"), append(asNobody[:len(asNobody):len(asNobody)], "--allow-other"), statusNotPermitted, "user_allow_other", "uncomment user_allow_other"},
		{"not the user's", says("user has no write access to mountpoint " + mnt), asNobody, statusNotPermitted, "no write access", "a mount point that is yours"},
		{"something else", says("too many FUSE filesystems mounted; mount_max=1000 can be set in /etc/fuse.conf"), asNobody, statusFailed, "too many FUSE filesystems", "mount_max"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out := output(t, n.hiding(c.script, c.args...))
			if status != c.status || !strings.Contains(out, c.text) || !strings.Contains(out, c.remedy) || !strings.Contains(out, mnt) || strings.Count(out, "\n") != 1 {
				t.Errorf("status %d, want %d, %q and %q in one line: %s", status, c.status, c.text, c.remedy, out)
			}
		})
	}
}
