package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// eventually waits for a log to say a text so many times.
func eventually(t *testing.T, mt *mounted, text string, times int) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		log, err := os.ReadFile(mt.log)
		if n := strings.Count(string(log), text); n == times {
			return
		} else if err != nil || n > times || time.Now().After(deadline) {
			t.Fatalf("the log says %q %d times, want %d (%v):\n%s", text, n, times, err, log)
		}
	}
}

// TestSourceGoes removes the source folder under a mount, and makes it anew: the log
// tells of both, once, and what is in the new one is shown.
func TestSourceGoes(t *testing.T) {
	f := testFixtures(t)
	source := filepath.Join(scratch(t), "source")
	create := func(image string) {
		if err := os.MkdirAll(filepath.Join(source, "cat"), 0o755); err != nil {
			t.Fatal(err)
		}
		copyFile(t, f.path("small-packed/"+image+".l3"), filepath.Join(source, "cat", "a.l3"))
	}
	create("000")
	mt := mount(t, source, best)
	file := filepath.Join(mt.dir, "cat", "a.npy")
	shows := func(image string) {
		t.Helper()
		if out, err := exec.Command("cmp", file, f.path("small/"+image+".npy")).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	shows("000")
	for i := range 2 {
		if err := os.RemoveAll(source); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if out, err := exec.Command("cat", file).CombinedOutput(); err == nil || !strings.Contains(string(out), "No such file or directory") {
				t.Errorf("reading what was removed: %v, %q", err, out)
			}
		}
		eventually(t, mt, "the source folder is gone", i+1)
		create("001")
		eventually(t, mt, "the source folder is back", i+1)
		shows("001")
	}
	// A folder that is renamed stays the source, and statfs speaks of it.
	if err := os.Rename(source, source+"-renamed"); err != nil {
		t.Fatal(err)
	}
	shows("001")
	if out, err := exec.Command("stat", "-f", mt.dir).CombinedOutput(); err != nil {
		t.Errorf("statfs: %v: %s", err, out)
	}
	eventually(t, mt, "the source folder is gone", 2)
}
