package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// envSoak is how long the soak takes, as Go writes durations; see make soak.
const envSoak = "PRISMFS_TEST_SOAK"

// soakRounds is how often it mounts anew.
const soakRounds = 4

// Growth of the daemon that is no leak: what was being decoded when the collector
// last looked, garbage that it has not collected, a buffer more in a pool.
const (
	allowedLive       = 16 << 20
	allowedRSS        = 48 << 20
	allowedGoroutines = 4
	allowedFiles      = 16 // of buffers that this process reads: as many as fit
)

// soakSpare is what is left to the daemon's cgroup when memory is short: less than
// the cache leaves free, and enough for what is being decoded.
const soakSpare = 24 << 20

// soakSlice is how long it goes on at a time: well below checkTimeout.
const soakSlice = 30 * time.Second

// standing is what a daemon holds while nobody reads.
type standing struct {
	RSS, Live, Files, Goroutines, Lookups, Pinned int64
}

// TestSoak reads, kills readers, replaces the source of mounts and makes memory
// short, one mount after another, with a cache that is much too small. At the end
// of each no byte was wrong and the daemon holds what it held at the beginning:
// descriptors, goroutines, inodes, pins, memory.
func TestSoak(t *testing.T) {
	whole := duration(16*time.Second, 8*time.Second)
	if text := os.Getenv(envSoak); text != "" {
		var err error
		if whole, err = time.ParseDuration(text); err != nil {
			t.Fatal(envSoak, err)
		}
	}
	f := testFixtures(t)
	for round := range soakRounds {
		m := []mode{best, noPassthrough, memfd, memory}[round%4]
		t.Run(fmt.Sprintf("%d %v", round, m), func(t *testing.T) { soak(t, f, m, round, whole/soakRounds) })
	}
}

func soak(t *testing.T, f fixtures, m mode, round int, whole time.Duration) {
	source := soakSource(t, f)
	group, wrapper := "", []string(nil)
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		group = memoryCgroup(t, 1<<30)
		wrapper = inCgroup(group)
	} else {
		t.Log("memory is never short here, where there are no cgroups of version 1:", err)
	}
	mt := mountBy(t, source, m, wrapper, nil, "--cache", "12MiB", "--timeout", "1s")
	run := func(time time.Duration, seed string) (sum soakCounts) {
		for slice := 0; time > 0; slice++ {
			var done soakCounts
			checkInto(t, &done, "soak", args{
				"mount": mt.dir, "source": source, "expected": f.path("small"), "versions": f.path("replace-packed"),
				"version_bytes": f.path("replace"), "seconds": min(time, soakSlice).Seconds(), "seed": fmt.Sprint(round, seed, slice),
				"classes": "classes", "records": "records", "group": group, "spare": soakSpare,
			})
			sum.add(done)
			time -= soakSlice
		}
		return sum
	}
	run(max(whole/4, 2*time.Second), "warm") // until pools, tables and the heap have their size
	before := mt.standing(t)
	done := run(whole*3/4, "soak")
	if done.Read < 20 || done.Replaced < 20 || done.Killed < 2 || group != "" && done.Pressed < 1 {
		t.Errorf("too little was done to show anything: %+v", done)
	}
	after := mt.standing(t)
	t.Logf("%+v; before %+v, after %+v", done, before, after)
	if after.RSS > before.RSS+allowedRSS || after.Live > before.Live+allowedLive || after.Files > before.Files+allowedFiles || after.Goroutines > before.Goroutines+allowedGoroutines ||
		after.Lookups > before.Lookups || after.Pinned != 0 {
		t.Errorf("the daemon holds more than before: %+v, then %+v", before, after)
	}
	if group != "" {
		if killed := oomKills(t, group); killed != 0 {
			t.Errorf("the kernel has killed %d processes for want of memory", killed)
		}
	}
}

// soakCounts is how much was done.
type soakCounts struct{ Read, Replaced, Killed, Pressed int }

func (c *soakCounts) add(o soakCounts) {
	c.Read += o.Read
	c.Replaced += o.Replaced
	c.Killed += o.Killed
	c.Pressed += o.Pressed
}

// soakSource makes what is read: images, one of which is replaced all the time,
// classes of them, and records.
func soakSource(t *testing.T, f fixtures) string {
	t.Helper()
	source := scratch(t)
	copyFile(t, f.path("replace-packed/000.l3"), filepath.Join(source, "picture.l3"))
	for _, class := range []string{"even", "odd"} {
		if err := os.MkdirAll(filepath.Join(source, "classes", class), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i, file := range filesIn(t, f.path("small-packed")) {
		copyFile(t, f.path("small-packed/"+file), filepath.Join(source, file))
		copyFile(t, f.path("small-packed/"+file), filepath.Join(source, "classes", []string{"even", "odd"}[i%2], file))
	}
	_, packed := testPCR(t)
	if err := os.CopyFS(filepath.Join(source, "records"), os.DirFS(packed)); err != nil {
		t.Fatal(err)
	}
	return source
}

// standing asks what the daemon holds, as soon as it has let go of what it does
// for readers that are gone.
func (mt *mounted) standing(t *testing.T) standing {
	t.Helper()
	var stats struct {
		Goroutines int64 `json:"goroutines"`
		Lookups    int64 `json:"lookups_held"`
		Pinned     int64 `json:"pinned_bytes"`
		EchoBytes  int64 `json:"echo_bytes"` // of files that are kept for requests to come
		Echoes     int64 `json:"echo_buffered"`
		Memory     struct {
			Live int64 `json:"heap_live"`
		} `json:"memory"`
	}
	// Buffers are whole pages.
	pinned := func() int64 { return max(0, stats.Pinned-stats.EchoBytes-stats.Echoes*int64(os.Getpagesize())) }
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		check(t, "drop_caches", args{})
		checkInto(t, &stats, "stats", args{"mount": mt.dir})
		if pinned() == 0 || time.Now().After(deadline) {
			break
		}
	}
	s := standing{Goroutines: stats.Goroutines, Lookups: stats.Lookups, Pinned: pinned(), Live: stats.Memory.Live}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", mt.pid))
	if err != nil {
		t.Fatal(err)
	}
	s.Files = int64(len(files))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", mt.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			s.RSS = kib << 10
		}
	}
	if s.RSS == 0 || s.Live == 0 || s.Files == 0 || s.Goroutines == 0 {
		t.Fatalf("what the daemon holds is not known: %+v", s)
	}
	return s
}

// filesIn lists the files of a folder.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
