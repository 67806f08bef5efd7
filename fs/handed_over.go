package fs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A driver of containers mounts with rights that it does not give away: it opens
// /dev/fuse, calls mount(2) with the descriptor, and starts prismfs with the
// descriptor and the mount point /dev/fd/N. prismfs then needs no right at all. It
// does not know where the mount is, and whoever mounted it unmounts it.

// handedOverPrefix begins the name of a descriptor as a mount point.
const handedOverPrefix = "/dev/fd/"

// fuseDevice is the number of /dev/fuse (misc device 229).
var fuseDevice = unix.Mkdev(10, 229)

// HandedOver returns the descriptor that a mount point names, where it is
// /dev/fd/N.
func HandedOver(mountpoint string) (fd int, ok bool) {
	text, ok := strings.CutPrefix(filepath.Clean(mountpoint), handedOverPrefix)
	if !ok {
		return 0, false
	}
	fd, err := strconv.Atoi(text)
	return fd, err == nil && fd > 0
}

// checkHandedOver looks whether a descriptor is one of /dev/fuse.
func checkHandedOver(mountpoint string, fd int) error {
	refuse := func(err error) error {
		return &MountError{Mountpoint: mountpoint, Reason: ReasonMountpoint, Err: fmt.Errorf(
			"%w; whoever starts prismfs has to open /dev/fuse, mount with fd=%d (mount(2)) and pass the descriptor on", err, fd)}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return refuse(fmt.Errorf("descriptor %d is not open", fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != fuseDevice {
		return refuse(fmt.Errorf("descriptor %d is something else than /dev/fuse", fd))
	}
	return nil
}

// errNotMountedYet is why a descriptor that was handed over is of no use.
var errNotMountedYet = errors.New("the descriptor belongs to no mount yet, or to one that is gone")

// HandedOver reports whether the mount came as a descriptor. Unmounting it is
// not for this process; Unmount and Detach only end its service, upon which
// readers are told that the mount is dead.
func (x *Mounted) HandedOver() bool {
	_, ok := HandedOver(x.m.opt.Mountpoint)
	return ok
}
