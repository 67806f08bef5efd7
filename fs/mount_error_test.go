package fs

import (
	"errors"
	iofs "io/fs"
	"log/slog"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

func TestMountErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		want   Reason
		remedy string
	}{
		{&exec.Error{Name: "fusermount3", Err: exec.ErrNotFound}, ReasonNoFusermount, "install fuse3"},
		{&exec.Error{Name: "/bin/fusermount", Err: syscall.ENOENT}, ReasonNoFusermount, "install fuse3"},
		{&iofs.PathError{Op: "fork/exec", Path: "/usr/bin/fusermount3", Err: syscall.EACCES}, ReasonForbidden, "AppArmor"},
		{errors.New("mount failed: Permission denied"), ReasonForbidden, "AppArmor"},
		{errors.New("mount failed: Operation not permitted"), ReasonForbidden, "--cap-add SYS_ADMIN"},
		{errors.New("failed to unmount /m: Device or resource busy"), ReasonBusy, "--lazy"},
		{syscall.EBUSY, ReasonBusy, "--lazy"},
		{errors.New("mountpoint /m not owned by user"), ReasonNotPermitted, "a mount point that is yours"},
		{errors.New("unknown option 'context=x'"), ReasonOther, "need SELinux"},
		{errors.New("something\nelse"), ReasonOther, ""},
	} {
		e := &MountError{Mountpoint: "/m", Err: c.err}
		if e.Why() != c.want || !strings.Contains(e.Error(), c.remedy) || strings.Contains(e.Error(), "\n") || !strings.Contains(e.Error(), "/m: ") {
			t.Errorf("%v: reason %d, want %d: %s", c.err, e.Why(), c.want, e)
		}
	}
}

// TestConnectionLog: the end of a connection with its mount is not logged, all else is.
func TestConnectionLog(t *testing.T) {
	var out strings.Builder
	l := connectionLog(slog.New(slog.NewTextHandler(&out, nil)))
	l.Printf("Failed to read from fuse conn: %v", fuse.Status(syscall.ECONNABORTED))
	if out.Len() > 0 {
		t.Errorf("the end of a mount logs %s", &out)
	}
	l.Printf("Failed to read from fuse conn: %v", fuse.Status(syscall.EIO))
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "input/output error") {
		t.Errorf("a fault logs %q", &out)
	}
}
