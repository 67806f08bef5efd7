package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// twiceScript mounts $1 on $2 twice at once, some times, and prints the exit statuses, the
// lower one first, and how many mounts there are.
const twiceScript = `mkdir -p "$2"
for round in 1 2 3 4; do
  "$0" mount "$1" "$2" & a=$!
  "$0" mount "$1" "$2" & b=$!
  wait $a; a=$?
  wait $b; b=$?
  echo $(printf '%s\n' $a $b | sort -n) of $(grep -c " $2 " /proc/self/mountinfo)
  while "$0" umount "$2" 2>/dev/null; do :; done
done`

// TestMountTwiceAtOnce: of two mounts that begin together on one mount point, one is
// made, and the other is told that something is mounted there.
func TestMountTwiceAtOnce(t *testing.T) {
	n := newNobody(t)
	packed, mnt := packedImages(t)
	root := exec.Command("sh", "-c", twiceScript, os.Args[0], packed, mnt)
	root.Env = append(os.Environ(), envRunMain+"=1")
	for who, cmd := range map[string]*exec.Cmd{
		"root":   root,
		"nobody": n.command("sh", "-c", twiceScript, n.binary, n.source, n.base+"/tmp/mnt"),
	} {
		if _, out := output(t, cmd); strings.Count(out, "0 14 of 1\n") != 4 {
			t.Errorf("%s: two mounts end with\n%s", who, out)
		}
	}
}

// TestUmountOfOthers: who may unmount a mount is said where one may not.
func TestUmountOfOthers(t *testing.T) {
	n := newNobody(t)
	packed, _ := packedImages(t)
	mnt := filepath.Join(n.base, "mnt")
	if status, out := output(t, prismfs("mount", "--mkdir", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	defer prismfs("umount", "--lazy", mnt).Run()
	status, out := output(t, n.command(n.binary, "umount", mnt))
	if status != statusNotPermitted || !strings.Contains(out, "another user (0)") {
		t.Errorf("of root's mount: status %d: %s", status, out)
	}
	status, out = output(t, n.run(n.source, "--", "sh", "-c", `"$0" umount "$PRISMFS_MOUNT"`, n.binary))
	if status != statusNotPermitted || !strings.Contains(out, "ends with the command") {
		t.Errorf("of the mount of run: status %d: %s", status, out)
	}
}

// TestMountOverADeadMountOfOthers: the kernel tells root nothing of another user's
// mount, not even that it is dead; it is cleared all the same.
func TestMountOverADeadMountOfOthers(t *testing.T) {
	n := newNobody(t)
	mnt := filepath.Join(n.base, "tmp", "mnt")
	asNobody := exec.Command("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c",
		`mkdir "$2" && "$0" mount "$1" "$2" && kill -9 $(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$2/.prismfs/config")`, n.binary, n.source, mnt)
	asNobody.Env = append(os.Environ(), envRunMain+"=1", "HOME="+n.base+"/home", "XDG_RUNTIME_DIR=")
	if status, out := output(t, asNobody); status != statusOK {
		t.Skipf("nobody cannot mount here: status %d: %s", status, out)
	}
	defer prismfs("umount", "--lazy", mnt).Run()
	within(t, "root mounts there, when the daemon has ended", func() bool {
		status, _ := output(t, prismfs("mount", n.source, mnt))
		return status == statusOK
	})
	if status, out := output(t, prismfs("umount", mnt)); status != statusOK || isMounted(t, mnt) {
		t.Errorf("umount: status %d: %s", status, out)
	}
}
