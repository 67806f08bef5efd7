package doctor

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strconv"
	"strings"
)

// capSysAdmin is the number of CAP_SYS_ADMIN in the sets of /proc.
const capSysAdmin = 21

// A privilege is what this process may do.
type privilege struct {
	admin   bool // CAP_SYS_ADMIN, perhaps in a user namespace alone
	initial bool // in the first user namespace, as the kernel demands for passthrough

	// out says why no program that is started from here can have CAP_SYS_ADMIN,
	// set-user-ID or not; empty if one can.
	out string
}

func readPrivilege(files iofs.FS) (privilege, error) {
	text, err := iofs.ReadFile(files, "proc/self/status")
	if err != nil {
		return privilege{}, fmt.Errorf("reading what this process may do: %w", err)
	}
	var p privilege
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapEff":
			p.admin, err = hasAdmin(value)
		case "CapBnd":
			var bound bool
			if bound, err = hasAdmin(value); !bound {
				p.out = "CAP_SYS_ADMIN is denied to all programs of this container or session"
			}
		case "NoNewPrivs":
			if value == "1" {
				p.out = "programs that are started here get no new privileges (no_new_privs)"
			}
		}
		if err != nil {
			return p, fmt.Errorf("reading what this process may do: %s: %w", name, err)
		}
	}
	// The first namespace maps all users to themselves (user_namespaces(7)). A
	// kernel without namespaces has no such file.
	ids, err := iofs.ReadFile(files, "proc/self/uid_map")
	p.initial = errors.Is(err, iofs.ErrNotExist) || strings.Join(strings.Fields(string(ids)), " ") == "0 0 4294967295"
	return p, nil
}

// hasAdmin reads a set of capabilities.
func hasAdmin(set string) (bool, error) {
	bits, err := strconv.ParseUint(set, 16, 64)
	return bits>>capSysAdmin&1 == 1, err
}

// The first kernel with passthrough, and the switch that it is built with.
const (
	passthroughMajor, passthroughMinor = 6, 9
	passthroughSwitch                  = "CONFIG_FUSE_PASSTHROUGH"
)

// checkPassthrough tells whether the kernel would serve decoded files.
func (m machine) checkPassthrough(r *Report, release string, who privilege) bool {
	const name = "passthrough"
	major, minor, err := versionOf(release)
	built, known := builtWith(m.files, release, passthroughSwitch)
	switch {
	case err != nil:
		r.add(name, Less, "", "%v", err)
		return false
	case major < passthroughMajor || major == passthroughMajor && minor < passthroughMinor:
		r.add(name, Less, "a newer kernel; nothing else is lost", "the kernel has none: it came with Linux %d.%d", passthroughMajor, passthroughMinor)
		return false
	case known && !built:
		r.add(name, Less, "a kernel built with "+passthroughSwitch, "the kernel was built without it")
		return false
	case !who.admin:
		r.add(name, Less, "mount as root; in a container, --cap-add SYS_ADMIN", "this user may not: CAP_SYS_ADMIN is missing")
		return false
	case !who.initial:
		r.add(name, Less, "mount from outside of the user namespace", "CAP_SYS_ADMIN counts in this user namespace only")
		return false
	case !known:
		r.add(name, OK, "", "CAP_SYS_ADMIN, and Linux %d.%d or later; whether it was built with %s is seen when something is mounted",
			passthroughMajor, passthroughMinor, passthroughSwitch)
		return true
	}
	r.add(name, OK, "", "CAP_SYS_ADMIN, and a kernel built with %s", passthroughSwitch)
	return true
}

// versionOf reads the first two numbers of a release, such as 6.12.38+deb13-amd64.
func versionOf(release string) (major, minor int, err error) {
	first, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("the kernel's release %q has no version", release)
	}
	return major, minor, nil
}

// builtWith tells whether a kernel was built with a switch, where it says so.
func builtWith(files iofs.FS, release, name string) (on, known bool) {
	if f, err := files.Open("proc/config.gz"); err == nil {
		defer f.Close()
		if text, err := gzip.NewReader(f); err == nil {
			return switchIn(text, name)
		}
	}
	f, err := files.Open("boot/config-" + release)
	if err != nil {
		return false, false
	}
	defer f.Close()
	return switchIn(f, name)
}

// switchIn reads a kernel's configuration, in which a switch that is off is a
// comment or is not there. It is not known where reading ends with an error.
func switchIn(config io.Reader, name string) (on, known bool) {
	s := bufio.NewScanner(config)
	for s.Scan() {
		if value, ok := strings.CutPrefix(s.Text(), name+"="); ok {
			return value == "y" || value == "m", true
		}
	}
	return false, s.Err() == nil
}

// hugePages is where the kernel says what tmpfs may do; it is there if the kernel
// has large folios for tmpfs at all.
const hugePages = "sys/kernel/mm/transparent_hugepage/shmem_enabled"

// checkTmpfs tells whether decoded files can be on a private tmpfs.
func (m machine) checkTmpfs(r *Report, who privilege) bool {
	err := m.tmpfs()
	switch {
	case err != nil && !who.admin:
		r.add("tmpfs", Less, "mount as root; in a container, --cap-add SYS_ADMIN", "no private tmpfs: CAP_SYS_ADMIN is missing")
	case err != nil:
		r.add("tmpfs", Less, "Linux 5.2 or later; in a container, allow the system calls fsopen and fsmount", "no private tmpfs: %v", err)
	default:
		r.add("tmpfs", OK, "", "a private tmpfs can be made")
	}
	text, fileErr := iofs.ReadFile(m.files, hugePages)
	switch {
	case err != nil:
		return false
	case fileErr != nil:
		r.add("folios", Less, "a kernel built with CONFIG_TRANSPARENT_HUGEPAGE", "no large folios: %v", fileErr)
	case strings.Contains(string(text), "[deny]"):
		r.add("folios", Less, "echo never > /"+hugePages, "no large folios: they are denied to every tmpfs")
	default:
		r.add("folios", OK, "", "large folios are allowed")
	}
	return true
}
