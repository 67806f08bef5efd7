package integration

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// kill kills the daemon.
func (mt *mounted) kill(t *testing.T) {
	t.Helper()
	mt.killed = true
	if err := syscall.Kill(mt.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-mt.done
}

// TestTwoMounts mounts one source twice at once. The daemon of one is killed; the
// other's readers and its control socket do not notice, and the first comes back.
func TestTwoMounts(t *testing.T) {
	f := testFixtures(t)
	for _, m := range []mode{best, memory} {
		t.Run(m.String(), func(t *testing.T) {
			source := f.path("small-packed")
			mt, other := mount(t, source, m, "--cache", "12MiB"), mount(t, source, m, "--cache", "12MiB")
			other.killed = true
			check(t, "one_of_two_killed", args{"mount": mt.dir, "other": other.dir, "pid": other.pid, "expected": f.path("small")})
			<-other.done
			if out, err := prismfs("mount", source, other.dir); err != nil {
				t.Fatalf("mounting again: %v\n%s", err, out)
			}
			for _, dir := range []string{mt.dir, other.dir} {
				check(t, "arrays_named", args{"mount": dir, "want": args{"000.npy": f.path("small/000.npy"), "020.npy": f.path("small/020.npy")}})
			}
			out, _ := prismfs("status") // an error where somebody else's mount is dead
			for _, dir := range []string{mt.dir, other.dir} {
				if _, after, found := strings.Cut(out, dir); !found || !strings.Contains(firstLines(after, 2), "serving") {
					t.Errorf("%s is not among the mounts that serve:\n%s", dir, out)
				}
			}
			if out, err := prismfs("umount", other.dir); err != nil {
				t.Errorf("umount: %v\n%s", err, out)
			}
		})
	}
}

// firstLines returns the first lines of a text.
func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "")
}

// TestTablesKilled has two mounts make the same tables at the same time, and kills
// one: while it makes the table of the folder, and while it fills in what it finds.
// What the other reads, and who comes next, is right, and nothing is left.
func TestTablesKilled(t *testing.T) {
	fixture := pcrFixture(t, "pb")
	for moment, slow := range map[string]string{"new-*.table": "20ms", "[0-9a-f]*.table": "3ms"} {
		t.Run(moment, func(t *testing.T) {
			tables := scratch(t)
			there := func() bool {
				found, err := filepath.Glob(filepath.Join(tables, moment))
				return err == nil && len(found) > 0
			}
			flags, levels := []string{"--table-dir", tables}, []int{1, 3}
			victim := mountWith(t, fixture, memory, []string{"PRISMFS_STORE=read delay " + slow}, flags...)
			beside := mount(t, fixture, best, flags...)
			var both sync.WaitGroup
			both.Go(func() { check(t, "pcr_until_gone", args{"mount": victim.dir, "fixture": fixture}) })
			waitUntil(t, "a table is being made", there)
			both.Go(func() { check(t, "pcr_fixture", args{"mount": beside.dir, "fixture": fixture, "levels": levels}) })
			if slow == "3ms" {
				time.Sleep(200 * time.Millisecond) // until it is filled in
			}
			victim.kill(t)
			both.Wait()
			warm := mount(t, fixture, best, flags...)
			check(t, "pcr_fixture", args{"mount": warm.dir, "fixture": fixture, "levels": levels})
			var stats struct {
				Index uint64 `json:"store_bytes_index"`
			}
			checkInto(t, &stats, "stats", args{"mount": warm.dir})
			if stats.Index != 0 {
				t.Errorf("%d bytes were read to find what others have found", stats.Index)
			}
			// What the victim was writing, if the other was first, goes when the next table is made.
			unfinished, err := filepath.Glob(filepath.Join(tables, "new-*.table"))
			if left, e := filepath.Glob(filepath.Join(tables, "*")); err != nil || e != nil || len(left)-len(unfinished) != 1 || len(unfinished) > 1 {
				t.Errorf("the folder of tables has %q, %v, %v", left, err, e)
			}
		})
	}
}
