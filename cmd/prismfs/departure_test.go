package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// hold keeps a file of a mount open in a process of its own.
func hold(t *testing.T, path string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `exec <"$1" && echo open && exec sleep 600`, "sh", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if n, err := out.Read(make([]byte, 10)); n == 0 {
		t.Fatalf("opening %s: %v", path, err)
	}
}

// ended returns how a process ends.
func ended(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var err error
	within(t, "the process ends", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	return err
}

// TestLinger: one signal is all that engines of containers send before they kill.
func TestLinger(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd := startInForeground(t, "--linger", "10ms", packed, mnt)
	hold(t, filepath.Join(mnt, "cat", "0.npy"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := ended(t, cmd); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	if isMounted(t, mnt) {
		t.Error("a busy mount has outlived its daemon")
	}
}

// TestThirdSignal: a detached mount whose files stay open can be ended.
func TestThirdSignal(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd := startInForeground(t, packed, mnt)
	hold(t, filepath.Join(mnt, "cat", "0.npy"))
	signal := func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	signal()
	within(t, "the log says that the mount is busy", func() bool {
		return strings.Contains(cat(t, filepath.Join(mnt, ".prismfs", "log")), "still mounted")
	})
	signal()
	within(t, "the mount is detached", func() bool { return !isMounted(t, mnt) })
	signal()
	if err := ended(t, cmd); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

// TestSignalOfADetachedMount: another mount may be in its place by now.
func TestSignalOfADetachedMount(t *testing.T) {
	packed, mnt := packedImages(t)
	old := startInForeground(t, "--linger", "10ms", packed, mnt)
	hold(t, filepath.Join(mnt, "cat", "0.npy"))
	if status, out := output(t, prismfs("umount", "--lazy", mnt)); status != statusOK {
		t.Fatalf("umount: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatalf("mount: status %d: %s", status, out)
	}
	if err := old.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := ended(t, old); err != nil {
		t.Errorf("the old daemon ended with %v", err)
	}
	if got := cat(t, filepath.Join(mnt, "cat", "0.npy")); len(got) != 3728 {
		t.Errorf("the new mount gives %d bytes", len(got))
	}
}
