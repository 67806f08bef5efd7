package fs

import (
	"fmt"
	"os"
	"path/filepath"
)

// readAheadKiB is how far the kernel reads ahead of a sequential reader, in
// KiB. Its default of 128 makes a round trip of every 128 KiB of a file that is
// already decoded; beyond 4 MiB nothing is gained.
const readAheadKiB = 4096

// raiseReadAhead sets it for the mount, where this process may: the setting
// belongs to the device of the mount, in /sys, and is root's.
func raiseReadAhead(mountpoint string) error {
	entry, ok, err := mountedAt(mountpoint)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s is not among the mounts", mountpoint)
	}
	name := filepath.Join("/sys/class/bdi", entry.device, "read_ahead_kb")
	return os.WriteFile(name, fmt.Appendln(nil, readAheadKiB), 0)
}
