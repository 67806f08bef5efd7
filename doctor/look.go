package doctor

import (
	"fmt"

	"prismfs/cache"
	"prismfs/fs"
)

// Look looks at this machine. An error means that it could not.
func Look() (*Report, error) { return look(thisMachine()) }

func look(m machine) (*Report, error) {
	release, err := m.release()
	if err != nil {
		return nil, err
	}
	who, err := readPrivilege(m.files)
	if err != nil {
		return nil, err
	}
	r := &Report{Devices: []Device{}}
	r.add("kernel", OK, "", "Linux %s", release)
	byMount, byRun := m.checkFuse(r, who)
	passthrough := m.checkPassthrough(r, release, who)
	tmpfs := m.checkTmpfs(r, who)
	m.checkMemory(r)
	m.checkDecoders(r)
	m.checkGPU(r)
	r.Class, r.Speed = speedOf(byMount, byRun, passthrough, tmpfs)
	return r, nil
}

// speedOf says how fast a mount would be.
func speedOf(byMount, byRun, passthrough, tmpfs bool) (Class, string) {
	switch {
	case !byMount && byRun:
		return Daemon, "by prismfs run alone, and without passthrough: the first read of each file goes through the daemon, further ones come from the page cache"
	case !byMount:
		return NoMount, "nothing can be mounted here, as said above"
	case !passthrough:
		return Daemon, "without passthrough: the first read of each file goes through the daemon, further ones come from the page cache"
	case !tmpfs:
		return Passthrough, "passthrough: the kernel serves decoded files by itself, out of memfds, which are slower than a private tmpfs"
	}
	return Passthrough, "passthrough, the fastest: the kernel serves decoded files by itself, out of a private tmpfs"
}

func (m machine) checkMemory(r *Report) {
	mem, err := m.memory()
	if err != nil {
		r.add("memory", Less, "mount with --cache", "how much is free cannot be read: %v", err)
		return
	}
	r.CacheBudget = fs.CacheBudget(0, mem)
	group := "no limit of a cgroup"
	if mem.CgroupFree < mem.Available {
		group = fmt.Sprintf("the cgroup leaves %s", bytesText(mem.CgroupFree))
	} else if mem.CgroupLimited() {
		group = fmt.Sprintf("the cgroup leaves more, %s", bytesText(mem.CgroupFree))
	}
	state, remedy := OK, ""
	if r.CacheBudget <= cache.MinBudget {
		state, remedy = Less, "free some memory, or raise the limit of the cgroup"
	}
	r.add("memory", state, remedy, "%s available, %s; a mount's cache is %s, unless --cache says otherwise",
		bytesText(mem.Available), group, bytesText(r.CacheBudget))
}

func (m machine) checkDecoders(r *Report) {
	switch {
	case m.decoder == "avx2":
		r.add("decoder", OK, "", "avx2")
	default:
		r.add("decoder", Less, "a processor with AVX2 decodes some ten times as fast; PRISMFS_SIMD must not be off", "%s", m.decoder)
	}
	r.add("libjpeg", OK, "", "%s", m.jpegLibrary)
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
