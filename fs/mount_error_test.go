package fs

import (
	"errors"
	iofs "io/fs"
	"os/exec"
	"strings"
	"syscall"
	"testing"
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
		{errors.New("something\nelse"), ReasonOther, ""},
	} {
		e := &MountError{Mountpoint: "/m", Err: c.err}
		if e.Why() != c.want || !strings.Contains(e.Error(), c.remedy) || strings.Contains(e.Error(), "\n") || !strings.Contains(e.Error(), "/m: ") {
			t.Errorf("%v: reason %d, want %d: %s", c.err, e.Why(), c.want, e)
		}
	}
}
