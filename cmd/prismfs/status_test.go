package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"prismfs/fs"
)

// statusOfMountAt returns what prismfs status says of one mount, nil for nothing, and how
// long that took.
func statusOfMountAt(t *testing.T, mnt string) (*fs.Status, time.Duration) {
	t.Helper()
	cmd := prismfs("status", "--json")
	begin := time.Now()
	out, err := cmd.Output()
	took := time.Since(begin)
	if err != nil && cmd.ProcessState.ExitCode() != int(statusSomeBad) {
		t.Fatalf("status: %v", err)
	}
	var list []fs.Status
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, s := range list {
		if s.Mountpoint == mnt {
			if bad := cmd.ProcessState.ExitCode() == int(statusSomeBad); s.State != fs.StateServing && !bad {
				t.Errorf("%s is %s, and the exit status says that all is well", mnt, s.State)
			}
			return &s, took
		}
	}
	return nil, took
}

// stop stops a process, all of its threads.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	within(t, "the process has stopped", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return strings.Contains(string(text), "State:\tT")
	})
}

// TestStatus follows a mount through its life: it serves, hangs, dies and is gone.
func TestStatus(t *testing.T) {
	packed, mnt := packedImages(t)
	log := filepath.Join(t.TempDir(), "log")
	if status, out := output(t, prismfs("mount", "--view", "png", "--cache", "32MiB", "--log-file", log, packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	cat(t, filepath.Join(mnt, "cat", "0.png"))
	s, _ := statusOfMountAt(t, mnt)
	if s == nil {
		t.Fatal("status does not list the mount")
	}
	if s.State != fs.StateServing || s.Elsewhere || s.Source != packed || s.View != "png" || s.LogFile != log || s.PID == 0 ||
		s.Counts == nil || s.Counts.Served != 1 || s.Counts.Decoded != 1 || s.Counts.CacheBudget != 32<<20 || s.Counts.Errors != 0 {
		t.Errorf("status says %+v, %+v", s, s.Counts)
	}
	if _, out := output(t, prismfs("status")); !strings.Contains(out, mnt+"  serving\n") || !strings.Contains(out, "1 open, 1 image decoded") {
		t.Errorf("status says %s", out)
	}

	if status, out := output(t, prismfs("status", mnt)); status != statusOK || !strings.HasPrefix(out, mnt+"  serving\n") || strings.Count(out, "source ") != 1 {
		t.Errorf("status of the mount alone: %d: %s", status, out)
	}
	if status, out := output(t, prismfs("status", mnt, packed)); status != statusNotMounted || !strings.Contains(out, packed+": no mount of yours") {
		t.Errorf("status of what is no mount: %d: %s", status, out)
	}

	stop(t, s.PID)
	hung, took := statusOfMountAt(t, mnt)
	if status, out := output(t, prismfs("status", mnt)); status != statusSomeBad {
		t.Errorf("status of one that hangs: %d: %s", status, out)
	}
	syscall.Kill(s.PID, syscall.SIGCONT)
	if hung == nil || hung.State != fs.StateNoAnswer || hung.PID != s.PID || hung.Source != packed || !strings.Contains(hung.Why, "did not answer") {
		t.Errorf("of one that hangs, status says %+v", hung)
	}
	if took > 20*time.Second {
		t.Errorf("status hung for %v", took)
	}

	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "the daemon is gone", func() bool { return syscall.Kill(s.PID, 0) == syscall.ESRCH })
	if dead, _ := statusOfMountAt(t, mnt); dead == nil || dead.State != fs.StateDead || dead.Source != packed {
		t.Errorf("of one that was killed, status says %+v", dead)
	}
	if status, out := output(t, prismfs("umount", "--lazy", mnt)); status != statusOK {
		t.Errorf("umount of a dead mount: status %d: %s", status, out)
	}
	if gone, _ := statusOfMountAt(t, mnt); gone != nil {
		t.Errorf("of one that is gone, status says %+v", gone)
	}
}

// TestStatusWithoutSource: a mount whose source folder is gone does not serve, as a probe
// is told, until there is one again.
func TestStatusWithoutSource(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	if err := os.Rename(packed, packed+".away"); err != nil {
		t.Fatal(err)
	}
	if status, out := output(t, prismfs("status", mnt)); status != statusOK {
		t.Errorf("of a source that was renamed: %d: %s", status, out)
	}
	if err := os.RemoveAll(packed + ".away"); err != nil {
		t.Fatal(err)
	}
	within(t, "status says that the source is gone", func() bool {
		status, out := output(t, prismfs("status", mnt))
		return status == statusSomeBad && strings.HasPrefix(out, mnt+"  without its source\n  why      look at "+packed+": was removed: ")
	})
	s, _ := statusOfMountAt(t, mnt)
	if s == nil || s.State != fs.StateNoSource || s.Counts == nil || s.Elsewhere {
		t.Errorf("status says %+v", s)
	}
	if stats := cat(t, filepath.Join(mnt, ".prismfs", "stats")); !strings.Contains(stats, `"source_gone": true`) {
		t.Errorf("stats say %s", stats)
	}
	if err := os.Mkdir(packed, 0o755); err != nil {
		t.Fatal(err)
	}
	within(t, "it serves again", func() bool { return prismfs("status", mnt).Run() == nil })
	if stats := cat(t, filepath.Join(mnt, ".prismfs", "stats")); !strings.Contains(stats, `"source_gone": false`) {
		t.Errorf("afterwards stats say %s", stats)
	}
}

// TestStatusWithoutSocket: a mount whose socket is nowhere that status looks is
// found by its mount point, also when its daemon hangs.
func TestStatusWithoutSocket(t *testing.T) {
	packed, mnt := packedImages(t)
	hidden, err := os.MkdirTemp("/tmp", "prismfs-test-") // addresses of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(hidden) })
	cmd := prismfs("mount", packed, mnt)
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+hidden)
	if status, out := output(t, cmd); status != statusOK {
		t.Fatal(out)
	}
	s, _ := statusOfMountAt(t, mnt)
	if s == nil || s.State != fs.StateServing || s.PID == 0 || s.Counts == nil {
		t.Fatalf("status says %+v", s)
	}
	stop(t, s.PID)
	hung, _ := statusOfMountAt(t, mnt)
	syscall.Kill(s.PID, syscall.SIGCONT)
	if hung == nil || hung.State != fs.StateNoAnswer {
		t.Errorf("of one that hangs, status says %+v", hung)
	}
}

// TestStatusOfADetachedMount: it is told apart from one of another namespace, and from
// another one in its place.
func TestStatusOfADetachedMount(t *testing.T) {
	packed, mnt := packedImages(t)
	old := startInForeground(t, packed, mnt)
	hold(t, filepath.Join(mnt, "cat", "0.npy"))
	if status, out := output(t, prismfs("umount", "--lazy", mnt)); status != statusOK {
		t.Fatalf("umount: status %d: %s", status, out)
	}
	if s, _ := statusOfMountAt(t, mnt); s == nil || s.State != fs.StateServing || !s.Detached || s.Elsewhere || s.PID != old.Process.Pid {
		t.Errorf("status says %+v", s)
	}
	const detached = "serving, detached: it ends when its last open file is closed\n"
	if _, out := output(t, prismfs("status")); !strings.Contains(out, mnt+"  "+detached) {
		t.Errorf("status says %s", out)
	}
	if status, out := output(t, prismfs("status", mnt)); status != statusNotMounted || !strings.Contains(out, "one that was is detached") {
		t.Errorf("status of its mount point: %d: %s", status, out)
	}
	stop(t, old.Process.Pid)
	_, hung := output(t, prismfs("status"))
	syscall.Kill(old.Process.Pid, syscall.SIGCONT)
	if !strings.Contains(hung, mnt+"  no answer, in another mount namespace or detached\n") {
		t.Errorf("when it hangs, status says %s", hung)
	}
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatalf("mount: status %d: %s", status, out)
	}
	if _, out := output(t, prismfs("status")); !strings.Contains(out, mnt+"  "+detached) || !strings.Contains(out, mnt+"  serving\n") {
		t.Errorf("of two, status says %s", out)
	}
	if status, out := output(t, prismfs("status", mnt)); status != statusOK || strings.Contains(out, "detached") {
		t.Errorf("status of the one in its place: %d: %s", status, out)
	}
}

// TestStatusOfRun: mounts of other namespaces are listed, those of users for root.
func TestStatusOfRun(t *testing.T) {
	n := newNobody(t)
	cmd := n.run(n.source, "--", "sh", "-c", `echo go; read wait`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	startRun(t, cmd)
	_, out := output(t, prismfs("status"))
	if !strings.Contains(out, n.source) || !strings.Contains(out, "in another mount namespace") {
		t.Errorf("root is told %s", out)
	}
	if _, out := output(t, n.command(n.binary, "status")); strings.Count(out, "source   "+n.source+",") != 1 || !strings.Contains(out, "serving") {
		t.Errorf("the user is told %s", out)
	}
	in.Close()
	cmd.Wait()
	if _, out := output(t, n.command(n.binary, "status")); strings.Contains(out, n.source) {
		t.Errorf("afterwards the user is told %s", out)
	}
}

// TestUnmountSeveral unmounts by name and by --all, in a mount namespace of its
// own, where --all finds nobody else's mounts but copies of them.
func TestUnmountSeveral(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has a mount namespace without more ado")
	}
	packed, mnt := packedImages(t)
	script := `mkdir "$3/a" "$3/b" "$3/c"
for m in a b c; do "$1" mount "$2" "$3/$m" || exit 90; done
"$1" umount "$3/a" "$3/b" || exit 91
grep -c " $3/" /proc/self/mountinfo
"$1" umount "$3/a" "$3/c" "$3/none"; echo "status $?"
for m in a b; do "$1" mount "$2" "$3/$m" || exit 92; done
exec 5<"$3/b/cat/0.npy"
"$1" umount --all; echo "status $?"
grep -c " $3/" /proc/self/mountinfo
"$1" umount --all --lazy; echo "status $?"
grep -c " $3/" /proc/self/mountinfo
wc -c <&5
"$1" umount; "$1" umount --all "$3"
rmdir "$3/a" "$3/b" "$3/c"
`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", os.Args[0], packed, mnt)
	cmd.Env = append(os.Environ(), envRunMain+"=1")
	status, out := output(t, cmd)
	rest := out
	for _, want := range []string{
		"1\n",                               // c
		"/none: ", "/a: nothing of prismfs", // the first error comes last, and gives the status
		"status 15\n", "status 16\n", "1\n", "status 0\n", "0\n", "3728\n", "which mount?", "leaves no room",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("status %d; after %q there is no %q in:\n%s", status, strings.TrimSuffix(out, rest), want, out)
		}
		rest = after
	}
}
