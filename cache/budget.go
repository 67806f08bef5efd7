package cache

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory is what a budget is derived from, in bytes.
type Memory struct {
	// Available is the kernel's estimate of what can be taken without
	// swapping (MemAvailable).
	Available int64
	// CgroupFree is what the tightest memory cgroup of this process leaves,
	// counting the file pages that the kernel would drop first as free;
	// math.MaxInt64 without a limit. Pages of tmpfs are charged there.
	CgroupFree int64
}

// budgetShare is the part of free memory that a cache takes unless told
// otherwise: the training job beside it needs most.
const budgetShare = 4

// MinBudget is what a cache gets where the machine looks full: a few photos.
const MinBudget = 64 << 20

// DefaultBudget returns a quarter of what cgroup and machine have free.
func (m Memory) DefaultBudget() int64 {
	return max(m.Free()/budgetShare, MinBudget)
}

// Free returns the smaller of what the machine and the cgroup have left.
func (m Memory) Free() int64 { return min(m.Available, m.CgroupFree) }

// CgroupLimited tells whether a cgroup limits memory at all.
func (m Memory) CgroupLimited() bool { return m.CgroupFree != math.MaxInt64 }

// ReadMemory reads the state of this machine and of this process's cgroup, v1
// or v2, from /proc and /sys.
func ReadMemory() (Memory, error) { return readMemory(os.DirFS("/")) }

// readMemory reads from root, which stands for the root folder.
func readMemory(root fs.FS) (Memory, error) {
	m := Memory{CgroupFree: math.MaxInt64}
	info, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("reading free memory: %w", err)
	}
	if m.Available, err = memAvailable(info); err != nil {
		return m, err
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return m, nil // no cgroups, no limit
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy-ID:controllers:path (cgroups(7)); v2 has ID 0 and no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			m.limit(root, parts[2], cgroupV2)
		case hasController(parts[1], "memory"):
			m.limit(root, parts[2], cgroupV1)
		}
	}
	return m, nil
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// hierarchy names the files of one version of cgroups.
type hierarchy struct {
	mount  string
	limits []string // the smallest counts
	usage  string
	stat   string // holds lines of a name and a number
	cold   string // the name there of file pages that were not used lately
}

// unlimited is above every limit that means one: v1 writes the largest number
// of whole pages for none.
const unlimited = 1 << 62

var (
	// Above memory.high the kernel slows a group down to a crawl, so it is as
	// good as the maximum.
	cgroupV2 = hierarchy{"sys/fs/cgroup", []string{"memory.max", "memory.high"}, "memory.current", "memory.stat", "inactive_file"}
	cgroupV1 = hierarchy{"sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "memory.stat", "total_inactive_file"}
)

// limit lowers CgroupFree to what each group from group up to the root leaves.
// In a container the path in /proc may name the host's group while /sys shows
// only its own: then the top is all there is.
func (m *Memory) limit(root fs.FS, group string, h hierarchy) {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		base := path.Join(h.mount, dir)
		// The page cache fills every group that reads a lot up to its limit,
		// so usage alone would say that nothing is free.
		used, ok := readBytes(root, path.Join(base, h.usage))
		if ok {
			used = max(used-coldPages(root, path.Join(base, h.stat), h.cold), 0)
		}
		for _, name := range h.limits {
			limit, ok := readBytes(root, path.Join(base, name))
			if ok && limit < unlimited {
				m.CgroupFree = min(m.CgroupFree, max(limit-used, 0))
			}
		}
		if dir == "/" {
			return
		}
	}
}

// coldPages returns the number that name has in a group's statistics, 0 when
// there is none.
func coldPages(root fs.FS, file, name string) int64 {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return max(n, 0)
		}
	}
	return 0
}

// readBytes reads a file that holds one number; the word max is no limit.
func readBytes(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	text := string(bytes.TrimSpace(b))
	if text == "max" {
		return math.MaxInt64, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

func memAvailable(meminfo []byte) (int64, error) {
	s := bufio.NewScanner(bytes.NewReader(meminfo))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) >= 2 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
				return 0, fmt.Errorf("reading free memory: MemAvailable is %q", f[1])
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("reading free memory: no MemAvailable in /proc/meminfo")
}
