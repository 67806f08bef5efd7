package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRandomReads reads decoded files and one that passes through by every call
// that reads, in any order, while other files push them out of the cache.
func TestRandomReads(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		source := scratch(t)
		files := args{"passed": f.path("small/007.npy")}
		copyFile(t, f.path("small/007.npy"), filepath.Join(source, "passed"))
		for _, name := range append(smallOthers()[:10], "000.npy") {
			packed := strings.TrimSuffix(name, ".npy") + ".l3"
			copyFile(t, f.path("small-packed/"+packed), filepath.Join(source, packed))
			files[name] = f.path("small/" + name)
		}
		mt := mount(t, source, m, "--cache", "8MiB", "--timeout", "1s")
		check(t, "random_reads", args{"mount": mt.dir, "files": files, "scratch": filepath.Join(scratch(t), "copy"), "seed": len(m), "steps": 1500})
	})
}

// TestPageCache: what the daemon has to answer itself, it answers in few requests.
func TestPageCache(t *testing.T) {
	f := testFixtures(t)
	mt := mount(t, f.path("fio-packed"), memory)
	files := args{}
	for _, name := range []string{"0.npy", "1.npy", "2.npy"} {
		files[name] = f.path("fio/" + name)
	}
	check(t, "page_cache", args{"mount": mt.dir, "files": files, "direct": kernelNumber() >= directMapsKernel})
}
