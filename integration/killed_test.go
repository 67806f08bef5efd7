package integration

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// home is where a user's programs leave things, for the time of a test.
type home struct{ dir string }

// newHome makes one that belongs to a user.
func newHome(t *testing.T, uid int) home {
	t.Helper()
	h := home{openFolder(t)}
	for _, name := range []string{"", "home", "run", "tmp"} {
		dir := filepath.Join(h.dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// environment says to programs where the home is.
func (h home) environment() []string {
	return []string{
		"HOME=" + filepath.Join(h.dir, "home"), "XDG_CACHE_HOME=" + filepath.Join(h.dir, "home/.cache"),
		"XDG_RUNTIME_DIR=" + filepath.Join(h.dir, "run"), "TMPDIR=" + filepath.Join(h.dir, "tmp"),
	}
}

// left lists all that is in it, but the folders of control sockets and tables,
// which stay.
func (h home) left(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(h.dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(h.dir, path)
		switch name {
		case ".", "home", "run", "tmp", "run/prismfs", "home/.cache", "home/.cache/prismfs", "home/.cache/prismfs/tables":
			return err
		}
		found = append(found, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// asNobody has a daemon run as the user nobody, by fusermount3.
const asNobody = `for last; do :; done; touch "$last.log"; chown 65534:65534 "$last" "$last.log"
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`

// mayMountAsNobody skips a test where nobody may not mount.
func mayMountAsNobody(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody")
	}
	if info, err := os.Stat("/dev/fuse"); err != nil || info.Mode().Perm()&0o006 != 0o006 {
		t.Skip("/dev/fuse is closed to users here")
	}
}

// TestKilled kills the daemon with SIGKILL while loaders, maps and readers are
// busy. Nobody hangs, mount at the same place works with no other command, and
// nothing is left.
func TestKilled(t *testing.T) {
	f := testFixtures(t)
	for _, m := range []mode{best, memory} {
		t.Run(m.String(), func(t *testing.T) { killUnderLoad(t, f, m, 0) })
	}
	t.Run("nobody", func(t *testing.T) {
		mayMountAsNobody(t)
		killUnderLoad(t, f, best, nobody)
	})
}

func killUnderLoad(t *testing.T, f fixtures, m mode, uid int) {
	source := openFolder(t)
	for _, name := range filesIn(t, f.path("small-packed")) {
		copyFile(t, filepath.Join(f.path("small-packed"), name), filepath.Join(source, name))
	}
	copyFile(t, f.path("small/007.npy"), filepath.Join(source, "passed"))
	if err := os.Mkdir(filepath.Join(source, "slow"), 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "slow/000.l3"))
	user := newHome(t, uid)
	wrapper, group := []string{}, ""
	if os.Getuid() == 0 {
		group = memoryCgroup(t, 4<<30)
		wrapper = append(wrapper, "sh", "-c", `echo $$ > "$0"/cgroup.procs; `, group)
	}
	switch {
	case uid != 0:
		wrapper[2] += asNobody
	case group != "":
		wrapper[2] += `exec "$@"`
	}
	environment := append(user.environment(), "PRISMFS_STORE=open delay 1h path slow/*")
	before := sharedMemory(t)
	mt := mountBy(t, source, m, wrapper, environment, "--cache", "12MiB")
	mt.killed = true
	variables := args{"PATH": os.Getenv("PATH"), "PRISMFS_FORCE": string(m)}
	for _, v := range user.environment() {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	check(t, "killed", args{
		"mount": mt.dir, "binary": binary, "source": source, "pid": mt.pid, "expected": f.path("small"), "slow": "slow/000.npy", "passed": "passed",
		"served_by_kernel": m.wantsPassthrough() && uid == 0, "environment": variables, "nobody": uid != 0,
	})
	<-mt.done
	if left := user.left(t); len(left) > 0 {
		t.Errorf("left in the home of the user: %q", left)
	}
	if mt.listed() {
		t.Error("it is mounted still")
	}
	waitUntil(t, "no process has anything to do with the mount", func() bool { return len(commandsWith(t, mt.dir)) == 0 })
	if after := sharedMemory(t); after != before {
		t.Errorf("/dev/shm has %q, before %q", after, before)
	}
	if group != "" {
		waitUntil(t, "the memory of decoded files is free", func() bool { return cgroupStat(t, group, "total_shmem") == 0 })
	}
}

// readUntilDead reads the files in the folder $1 through the page cache, whose pages it
// drops each time, until one fails.
const readUntilDead = `
import os, random, sys
names = [os.path.join(sys.argv[1], name) for name in os.listdir(sys.argv[1])]
print("go", flush=True)
while True:
    try:
        file = os.open(random.choice(names), os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        while os.read(file, 1 << 20):
            pass
        os.close(file)
    except OSError:
        sys.exit(0)
`

// TestKilledInMidRead: a daemon that is killed while the kernel fills pages ends, and so do
// those who read. It may not be in a call that waits, deaf to signals, for pages which
// it should give itself; with such calls one of 40 hung on a busy machine.
func TestKilledInMidRead(t *testing.T) {
	f := testFixtures(t)
	rounds := 3
	if os.Getenv(envWhole) != "" {
		rounds = 60
	}
	for round := range rounds {
		mt := mount(t, f.path("fio-packed"), memory)
		mt.killed = true
		var readers []*exec.Cmd
		for range 4 {
			r := exec.Command(python(), "-c", readUntilDead, mt.dir)
			out, err := r.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 2)); err != nil {
				t.Fatal("a reader did not begin:", err)
			}
			readers = append(readers, r)
		}
		time.Sleep(time.Second/2 + time.Duration(round%7)*37*time.Millisecond)
		if err := mt.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			<-mt.done
			for _, r := range readers {
				_ = r.Wait() // that it ends is what counts
			}
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(stopTimeout):
			_ = syscall.Unmount(mt.dir, syscall.MNT_FORCE) // or nothing would ever end
			t.Fatalf("round %d: the daemon, or who read, did not end within %v of the kill", round, stopTimeout)
		}
		detach(mt.dir)
	}
}

// sharedMemory lists what is ours in /dev/shm.
func sharedMemory(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("/dev/shm/*prismfs*")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// commandsWith lists the processes whose command lines have a text.
func commandsWith(t *testing.T, text string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, line := range lines {
		if command, err := os.ReadFile(line); err == nil && strings.Contains(string(command), text) {
			found = append(found, line)
		}
	}
	return found
}

// cgroupStat returns a number of memory.stat.
func cgroupStat(t *testing.T, group, name string) (n int64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, "memory.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("memory.stat of %s has no %s", group, name)
	return 0
}
