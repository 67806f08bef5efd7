package fs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPatience is how long a mount waits for another one that is being made at the
// same place.
const lockPatience = 30 * time.Second

// lockMountpoint keeps other mounts of this user from a mount point until the lock is
// closed: of two that begin at once, both would find it free. Where no file can be
// locked there is no lock, and that is no reason not to mount.
func lockMountpoint(mountpoint string) (unlock func(), err error) {
	abs, err := resolveParent(mountpoint)
	if err != nil {
		return func() {}, nil // checkMountpoint says so
	}
	for _, dir := range socketFolders() {
		if privateFolder(dir) != nil {
			continue
		}
		name := filepath.Join(dir, lockName(abs))
		sweepLocks(dir, name)
		until := time.Now().Add(lockPatience)
		for {
			lock, err := tryLock(name, os.O_CREATE)
			switch {
			case err == nil:
				return func() {
					os.Remove(lock.Name()) // first, while nobody else can have it
					lock.Close()
				}, nil
			case !errors.Is(err, unix.EWOULDBLOCK):
				return func() {}, nil
			case time.Now().After(until):
				return nil, &MountError{Mountpoint: abs, Reason: ReasonMounted,
					Err: fmt.Errorf("another prismfs has been mounting there for %v; end it, or wait", lockPatience)}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return func() {}, nil
}

// lockName is of a mount point in this mount namespace: in others it is another one.
func lockName(abs string) string {
	space, _ := os.Readlink("/proc/self/ns/mnt") // without it, they wait for each other
	return fmt.Sprintf("%x%s", sha256.Sum256([]byte(space+" "+abs)), lockSuffix)
}

// lockSuffix ends the names of locks, beside those of control sockets.
const lockSuffix = ".lock"

// sweepLocks removes the locks in a folder that nobody has: of mounts that were killed
// while they were made. own, which is taken next, may stay.
//
// Who has a lock, and nobody else, may remove its file: what is removed here is first
// locked. Somebody who has opened the file and not yet locked it finds, when he has,
// that it is not there any more (see tryLock), and tries again with another one.
func sweepLocks(dir, own string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing depends on it
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(name, lockSuffix) || name == own {
			continue
		}
		if lock, err := tryLock(name, 0); err == nil {
			os.Remove(name)
			lock.Close()
		}
	}
}

// tryLock locks a file; flags may say that it is to be made. One that its owner has
// removed meanwhile is no lock any more.
func tryLock(name string, flags int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	mine, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Lstat(name); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	return nil, errors.Join(unix.EWOULDBLOCK, f.Close())
}
