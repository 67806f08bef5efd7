package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLogFileIsOpenedAnew does what logrotate does.
func TestLogFileIsOpenedAnew(t *testing.T) {
	packed, mnt := packedImages(t)
	log := filepath.Join(t.TempDir(), "log")
	cmd := prismfs("mount", "--log-file", log, packed, mnt)
	if status, out := output(t, cmd); status != statusOK || out != "" {
		t.Fatalf("mount: status %d: %s", status, out)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	pid := daemonOf(t, mnt)
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	within(t, "a new log file is begun", func() bool {
		text, _ := os.ReadFile(log)
		return bytes.Contains(text, []byte("opened anew"))
	})
	if old, _ := os.ReadFile(log + ".1"); !bytes.Contains(old, []byte("msg=mounted")) || bytes.Contains(old, []byte("opened anew")) {
		t.Errorf("the old log file has %s", old)
	}
	if !isMounted(t, mnt) {
		t.Error("SIGHUP has unmounted")
	}
}

// daemonOf returns the process that serves a mount.
func daemonOf(t *testing.T, mnt string) int {
	t.Helper()
	var config struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(cat(t, filepath.Join(mnt, ".prismfs", "config"))), &config); err != nil {
		t.Fatal(err)
	}
	return config.PID
}

// TestServiceManagerIsTold: a unit of Type=notify counts as started when the
// mount answers.
func TestServiceManagerIsTold(t *testing.T) {
	packed, mnt := packedImages(t)
	address := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := prismfs("mount", "-f", packed, mnt)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	buf := make([]byte, 1000)
	if err := socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := socket.Read(buf)
	told := string(buf[:n])
	if err != nil || !strings.HasPrefix(told, "READY=1\nSTATUS="+packed+" at "+mnt+", ") || strings.Count(told, "\n") != 1 {
		t.Fatalf("the service manager was told %q, %v", told, err)
	}
	if !isMounted(t, mnt) {
		t.Error("it was told before there was a mount")
	}
}

// TestHandedOverDescriptor is a driver of containers: it mounts, and prismfs
// serves the descriptor.
func TestHandedOverDescriptor(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd, log := startHandedOver(t, packed, mnt)
	if got := cat(t, filepath.Join(mnt, "cat", "0.npy")); len(got) != 3728 {
		t.Errorf("0.npy has %d bytes", len(got))
	}
	if status, out := output(t, prismfs("fidelity", mnt)); status != statusOK {
		t.Errorf("the control socket: status %d: %s", status, out)
	}
	// The driver unmounts, upon which the process ends.
	if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v: %s", err, log.String())
	}
}

// TestHandedOverDescriptorEnds: SIGTERM ends the service of a mount that somebody
// else has to unmount.
func TestHandedOverDescriptorEnds(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd, log := startHandedOver(t, packed, mnt)
	cat(t, filepath.Join(mnt, "dog", "1.npy"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v: %s", err, log.String())
	}
	out, err := exec.Command("cat", filepath.Join(mnt, "dog", "1.npy")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not connected") {
		t.Errorf("reading after the end: %v, %s", err, out)
	}
}

// startHandedOver mounts as a driver does that hands the descriptor over, and starts
// the process that serves it. What that logs can be read when it has ended.
func startHandedOver(t *testing.T, packed, mnt string) (cmd *exec.Cmd, log *bytes.Buffer) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount(2)")
	}
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fuse.Close()
	t.Cleanup(func() { unix.Unmount(mnt, unix.MNT_DETACH) })
	if err := unix.Mount(packed, mnt, "fuse.prismfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions", fuse.Fd())); err != nil {
		t.Fatal(err)
	}
	cmd, log = prismfs("mount", packed, "/dev/fd/3", "-f"), new(bytes.Buffer)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{fuse}, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, log
}

func TestHandedOverRefusals(t *testing.T) {
	packed, _ := packedImages(t)
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fuse.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		args   []string
		pass   *os.File
		status exitStatus
		text   string
	}{
		{[]string{packed, "/dev/fd/3"}, fuse, statusUsage, "--foreground"},
		{[]string{packed, "/dev/fd/3", "-f"}, null, statusMountPoint, "something else than /dev/fuse"},
		{[]string{packed, "/dev/fd/77", "-f"}, null, statusMountPoint, "77 is not open"},
		{[]string{packed, "/dev/fd/3", "-f"}, fuse, statusMountPoint, "no mount yet"},
	} {
		cmd := prismfs(append([]string{"mount"}, c.args...)...)
		cmd.ExtraFiles = []*os.File{c.pass}
		if status, out := output(t, cmd); status != c.status || !strings.Contains(out, c.text) || strings.Count(out, "\n") > 2 {
			t.Errorf("%v: status %d, want %d: %s", c.args, status, c.status, out)
		}
	}
}
