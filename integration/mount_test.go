package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mode is a way of serving, forced by the environment.
type mode string

// Every way of serving: what the machine allows, then what is left when
// something is not allowed. All of them must give the same bytes.
const (
	best               mode = ""
	noFsopen           mode = "no-fsopen"
	noPassthrough      mode = "no-passthrough"
	memfd              mode = "memfd"
	memfdNoPassthrough mode = "memfd,no-passthrough"
	memory             mode = "memory"
)

const (
	startTimeout  = 20 * time.Second
	stopTimeout   = 20 * time.Second
	copiesTimeout = 2 * time.Minute
	logLines      = 60 // of a log, shown when a test fails
	// passthroughKernel is the first Linux with passthrough, as kernelNumber gives it.
	passthroughKernel = 6009
	// directMapsKernel is the first that maps files which are open for direct reads.
	directMapsKernel = 6006
)

var modes = []mode{best, noFsopen, noPassthrough, memfd, memfdNoPassthrough, memory}

func (m mode) String() string {
	if m == best {
		return "best"
	}
	return strings.ReplaceAll(string(m), ",", "+")
}

// wantsPassthrough says whether the kernel should serve reads itself. It needs
// root and a kernel that can, and buffers that are files.
func (m mode) wantsPassthrough() bool {
	return os.Getuid() == 0 && kernelNumber() >= passthroughKernel && m != memory && !strings.Contains(string(m), string(noPassthrough))
}

// kernelNumber is 6009 for Linux 6.9.
func kernelNumber() int {
	var name syscall.Utsname
	if err := syscall.Uname(&name); err != nil {
		return 0
	}
	var release []byte
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		release = append(release, byte(c))
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil {
		return 0
	}
	return major*1000 + minor
}

// mounted is a mount for the time of a test.
type mounted struct {
	dir  string // never to be touched by this process
	pid  int
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the daemon has ended
	err  error         // how, once done is closed

	killed bool // by the test, so that it need not have ended well
}

// mount mounts a source in the foreground of a child process and has it
// unmounted when the test ends.
func mount(t *testing.T, source string, m mode, flags ...string) *mounted {
	t.Helper()
	return mountWith(t, source, m, nil, flags...)
}

func mountWith(t *testing.T, source string, m mode, env []string, flags ...string) *mounted {
	t.Helper()
	return mountBy(t, source, m, nil, env, flags...)
}

// mountBy mounts by way of a command that ends by executing its arguments.
func mountBy(t *testing.T, source string, m mode, wrapper, env []string, flags ...string) *mounted {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Fatal("there is no /dev/fuse; see make setup:", err)
	}
	dir, err := os.MkdirTemp(work, "mnt-")
	if err != nil {
		t.Fatal(err)
	}
	mt := &mounted{dir: dir, log: dir + ".log", done: make(chan struct{})}
	args := slices.Concat(wrapper, []string{binary, "mount", "-f", "--log-file", mt.log, "--log-level", "debug"}, flags, []string{source, dir})
	mt.cmd = exec.Command(args[0], args[1:]...)
	mt.cmd.Env = append(os.Environ(), "PRISMFS_FORCE="+string(m))
	mt.cmd.Env = append(mt.cmd.Env, env...)
	// Should this process die, so must the mount.
	mt.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	said := &bytes.Buffer{}
	mt.cmd.Stdout, mt.cmd.Stderr = said, said
	if err := mt.cmd.Start(); err != nil {
		t.Fatal("starting the mount:", err)
	}
	mt.pid = mt.cmd.Process.Pid
	go func() {
		mt.err = mt.cmd.Wait()
		close(mt.done)
	}()
	t.Cleanup(func() { mt.unmount(t, said) })
	for deadline := time.Now().Add(startTimeout); !mt.listed(); {
		select {
		case <-mt.done:
			t.Fatalf("%s ended before it mounted: %v\n%s", strings.Join(args, " "), mt.err, said)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not mount within %v", strings.Join(args, " "), startTimeout)
		}
	}
	return mt
}

// listed says whether the kernel lists the mount.
func (mt *mounted) listed() bool { return slices.Contains(mountsBelow(work), mt.dir) }

// unmount takes the mount down and complains of what the daemon left behind.
func (mt *mounted) unmount(t *testing.T, said *bytes.Buffer) {
	if mt.listed() {
		if out, err := prismfs("umount", mt.dir); err != nil {
			t.Errorf("prismfs umount: %v\n%s", err, out)
		}
	}
	if mt.endsInTime() {
		var exit *exec.ExitError
		if errors.As(mt.err, &exit) && !mt.killed {
			t.Errorf("the daemon ended with %v", mt.err)
		}
	} else {
		t.Errorf("the daemon did not end within %v of umount; processes that still have the mount: %v", stopTimeout, mt.holders())
		_ = mt.cmd.Process.Signal(syscall.SIGQUIT) // so that its goroutines are in the output
		if !mt.endsWithin(5 * time.Second) {
			_ = mt.cmd.Process.Kill()
			<-mt.done
		}
	}
	if mt.listed() {
		t.Errorf("%s is still mounted", mt.dir)
		detach(mt.dir)
	}
	for _, trouble := range []string{"panic:", "DATA RACE", "fatal error:"} {
		if strings.Contains(said.String(), trouble) {
			t.Errorf("the daemon said %q", trouble)
		}
	}
	if t.Failed() {
		t.Logf("output of the daemon:\n%s", last(said.Bytes()))
		if log, err := os.ReadFile(mt.log); err == nil {
			t.Logf("end of its log:\n%s", last(log))
		}
	}
	if err := os.Remove(mt.dir); err != nil { // only if it is empty
		t.Errorf("removing the mount point: %v", err)
	}
}

// endsInTime waits for the end of the daemon. It may take longer than stopTimeout for
// as long as another mount namespace has a copy of the mount, which is no fault of the
// daemon: where / is not shared, whatever makes a namespace (prismfs run, a container)
// has one of all mounts that there are just then.
func (mt *mounted) endsInTime() bool {
	if mt.endsWithin(stopTimeout) {
		return true
	}
	for end := time.Now().Add(copiesTimeout); len(mt.holders()) > 0 && time.Now().Before(end); {
		if mt.endsWithin(time.Second) {
			return true
		}
	}
	return mt.endsWithin(time.Second)
}

func (mt *mounted) endsWithin(patience time.Duration) bool {
	select {
	case <-mt.done:
		return true
	case <-time.After(patience):
		return false
	}
}

// holders lists processes in whose mount namespace the mount is still there: a
// copy of it keeps the daemon waiting.
func (mt *mounted) holders() []string {
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		panic(err) // only for a malformed pattern
	}
	var found []string
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err == nil && strings.Contains(string(text), " "+mt.dir+" ") {
			dir := filepath.Dir(table)
			name, _ := os.ReadFile(filepath.Join(dir, "comm")) // "" of one that has ended meanwhile
			found = append(found, filepath.Base(dir)+" "+strings.TrimSpace(string(name)))
		}
	}
	return found
}

// last returns the last lines of a text.
func last(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-logLines):], nil)
}

// eachMode runs a test for every way of serving.
func eachMode(t *testing.T, test func(t *testing.T, m mode)) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) { test(t, m) })
	}
}
