package namespace

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is what a command gets.
type Kind string

// The kinds. The zero value is none.
const (
	None  Kind = ""
	Mount Kind = "mount" // a mount namespace
	User  Kind = "user"  // a user namespace that has a mount namespace
)

// Choose returns the kind for this process: the least that allows it to mount.
func Choose() Kind {
	if mayMount() {
		return Mount
	}
	return User
}

// mayMount reports whether the thread has CAP_SYS_ADMIN in its user namespace.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[unix.CAP_SYS_ADMIN/32].Effective&(1<<(unix.CAP_SYS_ADMIN%32)) != 0
}

// Attributes says how a process is started in new namespaces.
func (k Kind) Attributes() *syscall.SysProcAttr {
	switch k {
	case Mount:
		return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	case User:
		uid, gid := os.Geteuid(), os.Getegid()
		return &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
			// The right to mount survives exec only as an ambient capability, since
			// the user inside is not root.
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		}
	}
	return &syscall.SysProcAttr{}
}

// ErrEnter says that a namespace was made, and could not be kept apart.
var ErrEnter = errors.New("separating the mounts of a new namespace")

// Enter keeps what is mounted inside from spreading outside. It fails where
// namespaces can be made, but give no right to mount, as AppArmor may have it.
func Enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("%w: %w", ErrEnter, err)
	}
	return nil
}

// DropRights has what the calling thread starts from now on begin without the
// right to mount, unless it is root's. The thread keeps it, to unmount.
func DropRights() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("asking for capabilities: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}
