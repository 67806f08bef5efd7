package fs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fsType is what the kernel calls our mounts.
const fsType = "fuse.prismfs"

// mountEntry is a line of /proc/self/mountinfo.
type mountEntry struct {
	mountpoint, fsType, source, device string
	user                               int // of FUSE; -1 for none
}

// mounts lists what is mounted, in the order of mounting.
func mounts() ([]mountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	defer f.Close()
	return parseMountinfo(f)
}

// parseMountinfo reads the format of proc_pid_mountinfo(5): the device number is
// field 3, the mount point field 5; type, source and options follow the lone hyphen.
func parseMountinfo(r io.Reader) ([]mountEntry, error) {
	var list []mountEntry
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		user := -1
		if len(right) > 2 {
			user = userOf(right[2])
		}
		list = append(list, mountEntry{unescape(left[4]), right[0], unescape(right[1]), left[2], user})
	}
	return list, s.Err()
}

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountedAt returns the topmost mount on a path.
func mountedAt(path string) (mountEntry, bool, error) {
	list, err := mounts()
	if err != nil {
		return mountEntry{}, false, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].mountpoint == path {
			return list[i], true, nil
		}
	}
	return mountEntry{}, false, nil
}

// checkMountpoint returns the absolute mount point, or why it cannot be one. A
// mount whose daemon died is cleared away; mkdir makes a folder that is missing.
func checkMountpoint(source, mountpoint string, nonEmpty, mkdir bool, log *slog.Logger) (string, error) {
	abs, err := resolveParent(mountpoint)
	if err != nil {
		return "", &MountError{Mountpoint: mountpoint, Reason: reasonOf(err, ReasonMountpoint), Err: err}
	}
	refuse := func(reason Reason, format string, args ...any) (string, error) {
		return "", &MountError{Mountpoint: abs, Reason: reason, Err: fmt.Errorf(format, args...)}
	}
	entry, mounted, err := mountedAt(abs)
	if err != nil {
		return "", err
	}
	if mounted && entry.fsType == fsType {
		if err := answers(background, entry); !errors.Is(err, syscall.ENOTCONN) {
			if reason := reasonOf(err, ReasonMounted); reason == ReasonNoAnswer {
				return refuse(reason, "%w", err)
			}
			return refuse(ReasonMounted, "%s is mounted there already; prismfs umount %s removes it", entry.source, abs)
		}
		log.Warn("clearing a dead mount", "mountpoint", abs, "of", entry.source)
		if err := Unmount(abs, true); err != nil {
			return "", err
		}
	}
	info, err := os.Stat(abs)
	if mkdir && errors.Is(err, os.ErrNotExist) {
		if err := os.Mkdir(abs, 0o755); err != nil {
			return refuse(ReasonMountpoint, "%w", err)
		}
		info, err = os.Stat(abs)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refuse(ReasonMountpoint, "the mount point does not exist; make it with mkdir %s, or give --mkdir", abs)
	case err != nil:
		return refuse(ReasonMountpoint, "%w", err)
	case !info.IsDir():
		return refuse(ReasonMountpoint, "the mount point is no folder")
	}
	from, err := filepath.EvalSymlinks(source)
	if err != nil {
		return "", &SourceError{fmt.Errorf("source not usable: %w", err)}
	}
	if from, err = filepath.Abs(from); err != nil {
		return "", &SourceError{err}
	}
	if within(abs, from) || within(from, abs) {
		return refuse(ReasonMountpoint, "mount point and source %s lie one in the other: the mount would wait for itself; mount elsewhere", from)
	}
	if !nonEmpty {
		if names, err := readNames(abs, 1); err == nil && len(names) > 0 {
			return refuse(ReasonMountpoint, "the mount point is not empty (%s is there) and would be hidden; use an empty folder, or --nonempty", names[0])
		}
	}
	return abs, nil
}

// makeParents makes the folders above a mount point, but none in the source: a mount
// point there is refused.
func makeParents(source, mountpoint string) error {
	abs, err := absolute(mountpoint)
	if err != nil {
		return err
	}
	if from, err := absolute(source); err != nil || within(abs, from) {
		return err
	}
	_, err = inTime(background, abs, func() (struct{}, error) { return struct{}{}, os.MkdirAll(filepath.Dir(abs), 0o755) })
	return err
}

func readNames(dir string, n int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(n)
}

// within says whether path is dir or lies in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// checkFuse looks whether FUSE can be used at all.
func checkFuse(mountpoint string) error {
	remedy, err := TryFuse()
	if err == nil {
		return nil
	}
	return &MountError{Mountpoint: mountpoint, Reason: ReasonNoFuse, Err: fmt.Errorf("%w; %s", err, remedy)}
}

// TryFuse opens the device of FUSE, and says what to do if it cannot. fusermount3
// opens it as the user that calls it, too.
func TryFuse() (remedy string, err error) {
	const device = "/dev/fuse"
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return "", f.Close()
	case errors.Is(err, os.ErrPermission):
		return "root can allow it with chmod 666 /dev/fuse, which is its mode on most systems", err
	}
	return "load FUSE with modprobe fuse; in a container, pass --device /dev/fuse", err
}

// Unmount removes a mount of prismfs by its path. A busy mount is an error;
// lazy detaches it instead, and its files stay readable until they are closed.
func Unmount(mountpoint string, lazy bool) error {
	abs, err := resolveParent(mountpoint)
	if err != nil {
		return &MountError{Mountpoint: mountpoint, Unmounting: true, Reason: reasonOf(err, ReasonNotMounted), Err: err}
	}
	entry, mounted, err := mountedAt(abs)
	if err != nil {
		return err
	}
	if !mounted || entry.fsType != fsType {
		return &MountError{Mountpoint: abs, Unmounting: true, Reason: ReasonNotMounted,
			Err: errors.New("nothing of prismfs is mounted there")}
	}
	if err := detach(abs, lazy); err != nil {
		return whyNotDetached(entry, err)
	}
	removeAllStale() // of this one, if its daemon was killed
	return nil
}

// EnvMount is set by prismfs run for the command that it runs: the mount point.
const EnvMount = "PRISMFS_MOUNT"

// whyNotDetached says of a mount that somebody else decides about, who that is.
func whyNotDetached(e mountEntry, err error) error {
	text := ""
	switch user := os.Getuid(); {
	case errors.Is(err, syscall.EBUSY):
		return err
	case e.mountpoint == os.Getenv(EnvMount):
		text = "it is the mount of prismfs run, and ends with the command that runs in it"
	case user != 0 && e.user >= 0 && e.user != user:
		text = fmt.Sprintf("it is the mount of another user (%d), who can unmount it, and root", e.user)
	default:
		return err
	}
	return &MountError{Mountpoint: e.mountpoint, Unmounting: true, Reason: ReasonNotPermitted, Err: errors.New(text)}
}

// fusermountWait is how long fusermount3 may take to unmount.
const fusermountWait = 10 * time.Second

// detach unmounts by system call, and where that is not permitted by
// fusermount3, which may unmount what the user has mounted.
func detach(abs string, lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	args := []string{"-u"}
	if lazy {
		flags |= unix.MNT_DETACH
		args = append(args, "-z")
	}
	err := unix.Unmount(abs, flags)
	if err == nil {
		return nil
	}
	if err == unix.EPERM {
		ctx, cancel := context.WithTimeout(background, fusermountWait)
		defer cancel()
		cmd := exec.CommandContext(ctx, "fusermount3", append(args, "--", abs)...)
		cmd.WaitDelay = time.Second
		out, ferr := cmd.CombinedOutput()
		if ferr == nil {
			return nil
		}
		err = ferr
		if text := strings.TrimSpace(string(out)); text != "" {
			if strings.Contains(text, "busy") {
				return &MountError{Mountpoint: abs, Unmounting: true, Err: syscall.EBUSY}
			}
			err = errors.New(text)
		}
	}
	return &MountError{Mountpoint: abs, Unmounting: true, Err: err}
}
