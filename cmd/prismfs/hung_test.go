package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hungMount returns a mount whose daemon is stopped, and of which the kernel remembers
// nothing that it could answer by itself.
func hungMount(t *testing.T) (packed, mnt string) {
	t.Helper()
	packed, mnt = packedImages(t)
	if status, out := output(t, prismfs("mount", "--timeout", "0", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	s, _ := statusOfMountAt(t, mnt)
	if s == nil || s.PID == 0 {
		t.Fatalf("status says %+v", s)
	}
	stop(t, s.PID)
	t.Cleanup(func() { syscall.Kill(s.PID, syscall.SIGCONT) })
	return packed, mnt
}

// ends runs a command that must not wait for a mount that hangs.
func ends(t *testing.T, cmd *exec.Cmd, want exitStatus) string {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return ""
	}
	watch := time.AfterFunc(40*time.Second, func() { cmd.Process.Kill() })
	defer watch.Stop()
	_ = cmd.Wait() // its status says more
	status, out := exitStatus(cmd.ProcessState.ExitCode()), said.String()
	if status != want {
		t.Errorf("%q ends with %d, want %d: %s", cmd.Args[1:], status, want, out)
	}
	return out
}

// TestHungMount: what concerns a mount whose daemon is stopped ends, says what it is, and
// takes it away.
func TestHungMount(t *testing.T) {
	packed, mnt := hungMount(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(mnt, link); err != nil {
		t.Fatal(err)
	}
	lines := [][]string{
		{"mount", packed, mnt}, {"mount", packed, link}, {"advise", mnt}, {"warmup", mnt + "/cat"}, {"fidelity", mnt + "/+auto", "1"}, {"plan", mnt}, {"advise", link},
	}
	var wg sync.WaitGroup // at once, since each waits a few seconds
	for _, line := range lines {
		wg.Go(func() {
			if out := ends(t, prismfs(line...), statusMountNoAnswer); !strings.Contains(out, "prismfs umount --lazy") || strings.Count(out, "\n") != 1 {
				t.Errorf("%q says %s", line, out)
			}
		})
	}
	wg.Wait()
}

// TestUmountOfHungMount: the mount point is not looked at, by whatever name.
func TestUmountOfHungMount(t *testing.T) {
	for _, c := range []struct {
		name string
		args func(mnt, link string) []string
	}{
		{"lazy", func(mnt, _ string) []string { return []string{"umount", "--lazy", mnt} }},
		{"link", func(_, link string) []string { return []string{"umount", "--lazy", link} }},
		{"plain", func(mnt, _ string) []string { return []string{"umount", mnt} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, mnt := hungMount(t)
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(filepath.Base(mnt), filepath.Join(filepath.Dir(mnt), filepath.Base(mnt)+"-link")); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(mnt + "-link")
			if err := os.Symlink(mnt+"-link", link); err != nil {
				t.Fatal(err)
			}
			ends(t, prismfs(c.args(mnt, link)...), statusOK)
			if text, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(text), " "+mnt+" ") {
				t.Errorf("%s is still mounted (%v)", mnt, err)
			}
		})
	}
}

// TestSignalWhileMounting: a signal ends mount, and what it has started, while something
// that it looks at does not answer.
func TestSignalWhileMounting(t *testing.T) {
	_, source := hungMount(t)
	cmd := prismfs("mount", filepath.Join(source, "cat"), t.TempDir())
	said, err := cmd.StderrPipe() // the process that it starts has it too
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(40*time.Second, func() { cmd.Process.Kill() })
	defer watch.Stop()
	time.Sleep(500 * time.Millisecond) // long enough for it to wait
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(said)
	cmd.Wait()
	if got := exitStatus(cmd.ProcessState.ExitCode()); got != statusInterrupted {
		t.Errorf("it ends with %d: %s", got, text)
	}
}
