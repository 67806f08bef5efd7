package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestReadersInACgroup has a memory cgroup of 512 MiB, eight readers of 2 GiB of
// decoded images, and one who holds 300 MiB of them mapped all the time. The daemon
// alone is in the cgroup, or the readers with it. Nothing is killed, no byte is wrong,
// and opens may fail with ENOMEM at the most.
func TestReadersInACgroup(t *testing.T) {
	f := testFixtures(t)
	const limit, hold = 512 << 20, 300 << 20
	images, each, whole := 240, 45, os.Getenv(envWhole) != ""
	if whole {
		images, each = 1550, 400 // 2 GiB
	}
	source := scratch(t)
	packed := filesIn(t, f.path("bulk-packed"))
	var names, expected []string
	for _, name := range packed {
		expected = append(expected, filepath.Join(f.path("bulk"), name[:len(name)-len(".l3")]+".npy"))
	}
	for i := range images {
		of := filepath.Join(f.path("bulk-packed"), packed[i%len(packed)])
		if err := os.Link(of, filepath.Join(source, fmt.Sprintf("%04d.l3", i))); err != nil {
			copyFile(t, of, filepath.Join(source, fmt.Sprintf("%04d.l3", i)))
		}
		names = append(names, fmt.Sprintf("%04d.npy", i))
	}
	for _, c := range []struct {
		mode     mode
		together bool
	}{{best, true}, {memory, true}, {best, false}, {memory, false}} {
		if !whole && !c.together { // f18 has that
			continue
		}
		t.Run(fmt.Sprintf("%v/together=%v", c.mode, c.together), func(t *testing.T) {
			group := memoryCgroup(t, limit)
			before := oomKills(t, group)
			readers := ""
			if c.together {
				readers = group
			}
			mt := mountBy(t, source, c.mode, []string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group}, nil, "--cache", "208MiB")
			check(t, "readers_within", args{"mount": mt.dir, "names": names, "expected": expected, "hold": hold, "group": readers, "each": each})
			if killed := oomKills(t, group) - before; killed != 0 {
				t.Errorf("the kernel has killed %d processes for want of memory", killed)
			}
			for _, name := range []string{"memory.max_usage_in_bytes", "memory.failcnt"} {
				text, err := os.ReadFile(filepath.Join(group, name))
				t.Logf("%s: %s %v", name, text, err)
			}
		})
	}
}

// TestSmallCgroups has eight readers of images of 72 MB in cgroups that have hardly
// room for one, or none. Whatever does not fit fails with ENOMEM, and nothing is
// killed.
func TestSmallCgroups(t *testing.T) {
	limits := []int{96, 128}
	if os.Getenv(envWhole) != "" {
		limits = []int{64, 96, 128, 144, 160, 256}
	}
	packed, array := largeImage(t)
	source := scratch(t)
	var names []string
	for i := range 8 {
		if err := os.Link(packed, filepath.Join(source, fmt.Sprintf("%d.l3", i))); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%d.npy", i))
	}
	for _, limit := range limits {
		for _, m := range []mode{best, memory} {
			t.Run(fmt.Sprintf("%v/%dMiB", m, limit), func(t *testing.T) {
				group := memoryCgroup(t, limit<<20)
				mt := mountBy(t, source, m, inCgroup(group), nil)
				check(t, "readers_within", args{"mount": mt.dir, "names": names, "expected": []string{array}, "hold": 0, "group": "", "each": 1})
				if killed := oomKills(t, group); killed != 0 {
					t.Errorf("the kernel has killed %d processes for want of memory", killed)
				}
			})
		}
	}
}
