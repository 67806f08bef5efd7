package pack

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/l3"
)

// There are never more goroutines at work than slots.
func TestSlots(t *testing.T) {
	ctx := context.Background()
	s := newSlots(4)
	enter := func() {
		t.Helper()
		if err := s.enter(ctx); err != nil {
			t.Fatal(err)
		}
	}
	enter()
	for _, c := range []struct {
		bytes int64
		want  int
	}{{1, 1}, {sliceBytes, 1}, {2 * sliceBytes, 2}, {3*sliceBytes + 1, 3}, {100 * sliceBytes, 4}} {
		got := s.borrow(c.bytes)
		if got != c.want {
			t.Errorf("%d goroutines for %d bytes, expected %d", got, c.bytes, c.want)
		}
		s.giveBack(got)
	}
	enter()
	if got := s.borrow(100 * sliceBytes); got != 3 {
		t.Errorf("beside another image: %d goroutines", got)
	}
	full, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.enter(full); err == nil {
		t.Error("a fifth goroutine has entered")
	}
	s.giveBack(3)
	enter()
	s.leave()
	s.leave()
	s.leave()
	if got := s.borrow(100 * sliceBytes); got != 4 {
		t.Errorf("in the end, %d of 4 slots are free beside the caller's", got-1)
	}
}

// One large image is encoded by all jobs, to the same file.
func TestLargeImagesDoNotDependOnJobs(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"a/large.png": encodePNG(t, photograph(900, 800, 1)), "a/small.png": pngBytes(t, 1)})
	var first map[string]string
	for _, jobs := range []int{1, 4} {
		dst := filepath.Join(t.TempDir(), "dst")
		mustPack(t, src, dst, Options{Mode: l3.ModeDense, Effort: 1, Jobs: jobs})
		outputs := listing(t, filepath.Join(dst, "a"))
		delete(outputs, ".")
		if first == nil {
			first = outputs
		}
		if diff := cmp.Diff(first, outputs); diff != "" {
			t.Errorf("with %d jobs:\n%s", jobs, diff)
		}
	}
}
