package integration

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// fioFiles is how many files fixtures.py makes for fio.
const fioFiles = 8

// TestFio has fio read blocks that it wrote itself before they were packed: it
// knows every block by its place, seed and checksum.
func TestFio(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.path("fio-packed"), m, "--view", "raw")
		check(t, "fio", args{"mount": mt.dir, "files": fioFiles, "jobs": 3})
	})
}

// TestFioSeesDamage makes sure that TestFio can fail.
func TestFioSeesDamage(t *testing.T) {
	f := testFixtures(t)
	dir := scratch(t)
	raw := filepath.Join(dir, "0.raw")
	// The samples follow the 128 bytes of a .npy file's head.
	if out, err := exec.Command("dd", "if="+f.path("fio/0.npy"), "of="+raw, "bs=128", "skip=1").CombinedOutput(); err != nil {
		t.Fatalf("dd: %v\n%s", err, out)
	}
	check(t, "fio_sees_damage", args{"path": raw, "work": dir})
}

// TestOneDecode has 32 processes open a file that nobody has read.
func TestOneDecode(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.path("fio-packed"), m)
		for i := range 2 {
			name := strconv.Itoa(i) + ".npy"
			check(t, "one_decode", args{"mount": mt.dir, "name": name, "expected": f.path("fio/" + name)})
		}
	})
}

// TestSmallCache reads twice what the cache holds, ten times over, with files
// held open and mapped.
func TestSmallCache(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		rounds := 10
		if m != best {
			rounds = 4
		}
		if testing.Short() {
			rounds = 2
		}
		mt := mount(t, f.path("bulk-packed"), m, "--cache", "64MiB")
		check(t, "small_cache", args{"mount": mt.dir, "expected": f.path("bulk"), "budget": 64 << 20, "pid": mt.pid, "rounds": rounds})
	})
}
