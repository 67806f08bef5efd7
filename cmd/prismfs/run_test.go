package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is a user who owns nothing, with a packed folder and a copy of the binary.
type nobody struct{ base, binary, source string }

// asNobodyScript runs a command as nobody, in a mount namespace where /dev/fuse can
// be opened by everybody, as on most machines.
const asNobodyScript = `set -e
if [ "$(stat -c %a /dev/fuse)" != 666 ]; then
  mount -t tmpfs none "$1"
  mknod -m 666 "$1/fuse" c 10 229
  mount --bind "$1/fuse" /dev/fuse
fi
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`

func newNobody(t *testing.T) nobody {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	packed, _ := packedImages(t)
	base, err := os.MkdirTemp("", "prismfs-nobody") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	n := nobody{base, filepath.Join(base, "prismfs"), filepath.Join(base, "packed")}
	if out, err := exec.Command("sh", "-c", `chmod 755 "$0" && cp "$1" "$2" && cp -r "$3" "$4" && mkdir "$0/dev" "$0/home" "$0/tmp" && chmod 777 "$0/home" "$0/tmp"`,
		base, os.Args[0], n.binary, packed, n.source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// What is looked for there is then of this test, whatever else runs.
	t.Setenv("TMPDIR", filepath.Join(base, "tmp"))
	return n
}

// run is prismfs run by nobody.
func (n nobody) run(args ...string) *exec.Cmd {
	return n.command(append([]string{n.binary, "run"}, args...)...)
}

func (n nobody) command(args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", asNobodyScript, "sh", n.base + "/dev"}, args...)...)
	cmd.Env = append(os.Environ(), envRunMain+"=1", "HOME="+n.base+"/home", "XDG_RUNTIME_DIR=")
	cmd.Dir = n.base
	return cmd
}

// runners are who runs: each has namespaces of another kind.
func runners(t *testing.T) map[string]func(args ...string) *exec.Cmd {
	n := newNobody(t)
	return map[string]func(args ...string) *exec.Cmd{
		"nobody": func(args ...string) *exec.Cmd { return n.run(append([]string{n.source, "--"}, args...)...) },
		"root":   func(args ...string) *exec.Cmd { return prismfs(append([]string{"run", n.source, "--"}, args...)...) },
	}
}

// TestRun: the command sees the mount, nobody else does, nothing is left, and all
// that passes between a command and its caller passes as if nothing was between.
func TestRun(t *testing.T) {
	// What could differ between the kinds of namespaces.
	ofKind := map[string]bool{"status": true, "file": true, "killed": true, "seen": true, "removed": true}
	for who, run := range runners(t) {
		for _, c := range []struct {
			name, script string
			status       exitStatus
			out          string
		}{
			{"status", `exit 7`, 7, ""},
			{"success", `true`, 0, ""},
			{"file", `wc -c <"$PRISMFS_MOUNT/cat/0.npy"`, 0, "3728\n"},
			{"stdin", `cat`, 0, "from outside"},
			{"stderr", `echo wrong >&2; exit 1`, 1, "wrong\n"},
			{"environment", `env | grep -c ^PRISMFS_RUN; true`, 0, "0\n"},
			{"descriptor", `cat <&5`, 0, "5 is open\n"},
			{"no other descriptor", `ls /proc/self/fd | grep -v '^[01235]$' | while read fd; do readlink /proc/self/fd/$fd; done | grep -E 'fuse|epoll'; true`, 0, ""},
			{"killed", `kill -KILL $$`, 128 + 9, ""},
			{"terminated", `kill -TERM $$`, 128 + 15, ""},
			{"seen", `grep -c "$PRISMFS_MOUNT" /proc/self/mountinfo; grep -c "$PRISMFS_MOUNT" "/proc/$OUTSIDE/mountinfo"; exit 3`, 3, "1\n0\n"},
			{"removed", `echo "$PRISMFS_MOUNT"`, 0, "/"},
			{"not found", ``, statusNoCommand, "prismfs: running"},
		} {
			if who == "root" && !ofKind[c.name] {
				continue
			}
			t.Run(who+"/"+c.name, func(t *testing.T) {
				command := []string{"sh", "-c", c.script}
				if c.script == "" {
					command = []string{"no-such-command"}
				}
				file := filepath.Join(t.TempDir(), "five")
				writeFile(t, file, []byte("5 is open\n"))
				five, err := os.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				defer five.Close()
				cmd := run(command...)
				cmd.Stdin = strings.NewReader("from outside")
				cmd.ExtraFiles = []*os.File{nil, nil, five}
				cmd.Env = append(cmd.Env, fmt.Sprintf("OUTSIDE=%d", os.Getpid()))
				status, out := output(t, cmd)
				if status != c.status || !strings.HasPrefix(out, c.out) || c.out == "" && out != "" {
					t.Errorf("status %d, want %d; output %q, want %q", status, c.status, out, c.out)
				}
				if c.name == "removed" {
					if _, err := os.Stat(strings.TrimSpace(out)); !os.IsNotExist(err) {
						t.Errorf("the mount point that was made: %v", err)
					}
				}
			})
		}
	}
}

// TestRunAsUser: inside, the user is who he is, with no more rights than outside.
func TestRunAsUser(t *testing.T) {
	n := newNobody(t)
	status, out := output(t, n.run(n.source, "--", "sh", "-c", `id -u; id -g; grep CapEff /proc/self/status; touch home/made; stat -c %u home/made; mkdir "$PRISMFS_MOUNT/x"`))
	want := "65534\n65534\nCapEff:\t0000000000000000\n65534\n"
	if status != 1 || !strings.HasPrefix(out, want) || !strings.Contains(out, "Read-only") {
		t.Errorf("status %d, %q, want %q and a read-only file system", status, out, want)
	}
	if _, out := output(t, exec.Command("stat", "-c", "%u", filepath.Join(n.base, "home", "made"))); out != "65534\n" {
		t.Errorf("what the user makes inside belongs outside to %s", out)
	}
}

// TestRunMountpoint mounts where it is told to, by all ways to say how.
func TestRunMountpoint(t *testing.T) {
	n := newNobody(t)
	mnt := filepath.Join(n.base, "home", "mnt")
	if err := os.Mkdir(mnt, 0o777); err != nil {
		t.Fatal(err)
	}
	status, out := output(t, n.run("--view", "png", "--cache=64MiB", "packed", "home/mnt", "--", "sh", "-c", `echo "$PRISMFS_MOUNT"; head -c 4 home/mnt/dog/1.png`))
	if want := mnt + "\n\x89PNG"; status != statusOK || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
	if _, err := os.Stat(mnt); err != nil {
		t.Errorf("the mount point was not ours to remove: %v", err)
	}
	for _, c := range []struct {
		args   []string
		status exitStatus
		text   string
	}{
		{[]string{"packed"}, statusUsage, "write -- before the command"},
		{[]string{"packed", "sh"}, statusUsage, "write -- before the command"},
		{[]string{"packed", "home/mnt", "more", "--", "sh"}, statusUsage, "before --"},
		{[]string{"--", "sh"}, statusUsage, "before --"},
		{[]string{"packed", "--"}, statusUsage, "no command"},
		{[]string{"--view", "gif", "packed", "--", "sh"}, statusUsage, "view"},
		{[]string{"none", "--", "sh"}, statusBadInput, "no such file"},
		{[]string{"packed", "home/none", "--", "sh"}, statusMountPoint, "mkdir"},
		{[]string{"packed", "--", "./packed"}, statusNotExecutable, "running ./packed"},
	} {
		status, out := output(t, n.run(c.args...))
		if status != c.status || !strings.Contains(out, c.text) || strings.Count(out, "\n") > 2 {
			t.Errorf("%q: status %d, want %d: %s", c.args, status, c.status, out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "prismfs-run-*")); len(left) != 0 {
		t.Errorf("mount points were left over: %v", left)
	}
}

// startRun starts a command under prismfs run and returns when it has said that
// it goes, with what it says from then on.
func startRun(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "go\n" {
		t.Fatalf("the command said %q, %v", line, err)
	}
	return lines
}

// TestRunPassesSignals: a batch system tells its job that time is up, once.
func TestRunPassesSignals(t *testing.T) {
	for who, run := range runners(t) {
		t.Run(who, func(t *testing.T) {
			for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1} {
				cmd := run("sh", "-c", `n=0; trap 'n=$((n+1))' TERM INT USR1 HUP; echo go; while [ $n = 0 ]; do sleep 0.01; done; sleep 0.05; exit $n`)
				startRun(t, cmd)
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != 1 {
					t.Errorf("after %v the command ended with %d, want 1, the signals that it got", s, got)
				}
			}
		})
	}
}

// TestRunKilled: who kills prismfs run has killed the command.
func TestRunKilled(t *testing.T) {
	for who, run := range runners(t) {
		t.Run(who, func(t *testing.T) {
			cmd := run("sh", "-c", `echo go; echo $$; exec sleep 1000`)
			said := startRun(t, cmd)
			var pid int
			if _, err := fmt.Fscan(said, &pid); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			within(t, "the command is gone", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
			left, _ := filepath.Glob(filepath.Join(os.TempDir(), "prismfs-run-*"))
			for _, dir := range left { // nobody was left to do it
				within(t, "nobody has the mount", func() bool { return os.Remove(dir) == nil })
			}
		})
	}
}

// TestRunLeavesChildren: what a command leaves running keeps what it has open,
// and prismfs run does not wait for it.
func TestRunLeavesChildren(t *testing.T) {
	for who, run := range runners(t) {
		t.Run(who, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "prismfs-child")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			cmd := run("sh", "-c", `exec 4<"$PRISMFS_MOUNT/cat/0.npy"
(while [ ! -e "$0/go" ]; do sleep 0.01; done; wc -c <&4 >"$0/read"; cat "$PRISMFS_MOUNT/cat/0.npy" 2>"$0/opened"; echo done >"$0/done") >/dev/null 2>&1 &
exit 3`, dir)
			if status, out := output(t, cmd); status != 3 || out != "" {
				t.Errorf("status %d, %q", status, out)
			}
			writeFile(t, filepath.Join(dir, "go"), nil)
			within(t, "the child has read", func() bool { _, err := os.Stat(filepath.Join(dir, "done")); return err == nil })
			read, _ := os.ReadFile(filepath.Join(dir, "read"))
			opened, _ := os.ReadFile(filepath.Join(dir, "opened"))
			if string(read) != "3728\n" || !strings.Contains(string(opened), "No such file") {
				t.Errorf("the child has read %q, and opening says %q", read, opened)
			}
		})
	}
}

// TestRunDaemonDies: the command goes on, its reads fail, its status counts.
func TestRunDaemonDies(t *testing.T) {
	for who, run := range runners(t) {
		t.Run(who, func(t *testing.T) {
			cmd := run("sh", "-c", `kill -KILL $(grep -o '"pid": [0-9]*' "$PRISMFS_MOUNT/.prismfs/config" | grep -o '[0-9]*')
sleep 0.2; cat "$PRISMFS_MOUNT/cat/0.npy"; exit 9`)
			status, out := output(t, cmd)
			if status != 9 || !strings.Contains(out, "the mount is dead") || !strings.Contains(out, "signal: killed") || !strings.Contains(out, "not connected") {
				t.Errorf("status %d: %s", status, out)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "prismfs-run-*")); len(left) != 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// TestRunLetsGoOfUnmounted: where mounts are shared, one that was there before the job
// and is unmounted while it runs is taken away from it, so that its daemon ends.
func TestRunLetsGoOfUnmounted(t *testing.T) {
	for who, run := range runners(t) {
		t.Run(who, func(t *testing.T) {
			packed, _ := packedImages(t)
			dir, err := os.MkdirTemp("", "prismfs-shared")
			if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(dir)
			job := run("sh", "-c", `echo runs; while [ -e "$0/left" ] || [ ! -e "$0/old" ]; do sleep 0.05; done; echo free`, dir)
			if who == "nobody" { // becomes so in a namespace of his own, which is to be as shared as ours
				job.Args = append([]string{"unshare", "--propagation", "slave"}, job.Args[1:]...)
			}
			// The mounts of this test are in a namespace that ends with it.
			cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", `set -e
dir=$1 source=$2 prismfs=$3
shift 3
mount -t tmpfs none "$dir"
mount --make-shared "$dir"
chmod 755 "$dir"
mkdir "$dir/old"
touch "$dir/left"
"$prismfs" mount -f "$source" "$dir/old" 2>/dev/null &
daemon=$!
until [ -e "$dir/old/.prismfs/version" ]; do sleep 0.02; done
"$@" >"$dir/said" &
job=$!
trap 'kill $job $daemon 2>/dev/null || true' EXIT
trap 'exit 1' TERM
until grep -qs runs "$dir/said"; do sleep 0.02; done
umount "$dir/old"
wait $daemon
kill -0 $job
echo the daemon has ended
rm "$dir/left"
wait $job
grep free "$dir/said"`, "sh", dir, packed, os.Args[0]}, job.Args...)...)
			cmd.Env = job.Env
			timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
			defer timer.Stop()
			if status, out := output(t, cmd); status != statusOK || out != "the daemon has ended\nfree\n" {
				t.Errorf("status %d: %s", status, out)
			}
		})
	}
}

// TestRunWithoutNamespaces: where they are forbidden, fusermount3 mounts, and who
// runs it is told why.
func TestRunWithoutNamespaces(t *testing.T) {
	n := newNobody(t)
	bin := filepath.Join(n.base, "bin")
	writeFile(t, filepath.Join(bin, "fusermount3"), []byte("#!/bin/sh\necho \"fusermount3: called with $*\" >&2\nexit 1\n"))
	if err := os.Chmod(filepath.Join(bin, "fusermount3"), 0o755); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("/dev/fuse"); err != nil || info.Mode().Perm() != 0o666 {
		t.Skip("users cannot open /dev/fuse, and in a user namespace no other one can be made")
	}
	cmd := n.run(n.source, "--", "true")
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	// A user namespace with all users of this one, in which no other can be made.
	forbidding := exec.Command("sh", append([]string{"-c", `echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"`, "sh"}, cmd.Args...)...)
	forbidding.Env, forbidding.Dir = cmd.Env, cmd.Dir
	all := []syscall.SysProcIDMap{{Size: 65536}}
	forbidding.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
	status, out := output(t, forbidding)
	if status != statusFailed || !strings.Contains(out, "user namespaces are switched off") || !strings.Contains(out, "called with") {
		t.Errorf("status %d, without a word of why, or of fusermount3: %s", status, out)
	}
}
