package order

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func pathHash(path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(path))
	return h.Sum64() * 0x9e3779b97f4a7c15 // whose upper bits are good
}

func readPlan(t *testing.T, text string, how PlanText) *PlanLines {
	t.Helper()
	how.Hash = pathHash
	p, err := ReadPlan(strings.NewReader(text), how)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadPlan(t *testing.T) {
	long := strings.Repeat("x/", maxPlanLine/2-1) + "y"
	how := PlanText{Prefixes: []string{"/mnt/", "/data/link"}}
	text := "a/b.npy\n\n/mnt/c d.npy\n/data/link//e/../f\n./g\ng\r\n\xff\n" + long + "\n/mnt//h+png/i"
	p := readPlan(t, text, how)
	defer p.Close()
	want := []string{"a/b.npy", "c d.npy", "f", "g", "g", "\xff", long, "h+png/i"}
	if p.Len() != int64(len(want)) {
		t.Fatalf("%d lines", p.Len())
	}
	for i, w := range want {
		if got, err := p.Path(int64(i)); err != nil || got != w {
			t.Errorf("line %d is %.50q, %v, want %.50q", i, got, err, w)
		}
	}
	for text, want := range map[string]error{
		"": ErrPlan, "\n\n": ErrPlan, "a\x00b": ErrPlan, "..": ErrPlan, "a/../../b": ErrPlan, ".": ErrPlan, "/": ErrPlan,
		"/mnt": ErrPlan, "/mntx/a": ErrPlan, "/etc/passwd": ErrPlan, "a\nb\n" + long + "yz\nc": ErrPlan,
		strings.Repeat("x", 1<<20): ErrPlan,
	} {
		if _, err := ReadPlan(strings.NewReader(text), how); !errors.Is(err, want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	small := PlanText{Hash: pathHash, MaxLines: 3, MaxBytes: 100}
	if p, err := ReadPlan(strings.NewReader("a\nb\nc"), small); err != nil {
		t.Error(err)
	} else {
		p.Close()
	}
	for _, text := range []string{"a\nb\nc\nd", strings.Repeat(strings.Repeat("x", 60)+"\n", 2), strings.Repeat("\n", 101)} {
		if _, err := ReadPlan(strings.NewReader(text), small); !errors.Is(err, ErrPlanTooLarge) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := ReadPlan(strings.NewReader("a\nbb/\nd/../../x"), how); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%v does not say where", err)
	}
	if _, err := ReadPlan(strings.NewReader("a"), PlanText{Hash: pathHash, Dir: t.TempDir() + "/none"}); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

// TestReadPlanThatBreaksOff: what a writer who vanishes has sent is no plan, and
// nothing of it stays.
func TestReadPlanThatBreaksOff(t *testing.T) {
	before := openFiles(t)
	gone := errors.New("gone")
	r := io.MultiReader(strings.NewReader(strings.Repeat("a/b.npy\n", 1e5)), iotest.ErrReader(gone))
	if _, err := ReadPlan(r, PlanText{Hash: pathHash}); !errors.Is(err, gone) {
		t.Errorf("the error is %v", err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestPlanIndex: every line is found by its path, and what is there several times
// several times.
func TestPlanIndex(t *testing.T) {
	const lines, paths = 10000, 3000
	var text bytes.Buffer
	want := make(map[string][]int64)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range int64(lines) {
		name := fmt.Sprintf("train/%d.npy", rng.IntN(paths))
		want[name] = append(want[name], i)
		fmt.Fprintln(&text, name)
	}
	p := readPlan(t, text.String(), PlanText{})
	defer p.Close()
	for name, at := range want {
		var got []int64
		for _, w := range p.find(pathHash(name)) {
			got = append(got, lineOf(w))
		}
		if fmt.Sprint(got) != fmt.Sprint(at) {
			t.Fatalf("%s is in lines %v, want %v", name, got, at)
		}
	}
	for i := range 1000 {
		if got := p.find(pathHash(fmt.Sprint("other", i))); len(got) > 0 {
			t.Errorf("%d is found in lines", i)
		}
	}
}

// FuzzReadPlan: whatever is sent is refused with a reason, or gives clean paths
// that are found again.
func FuzzReadPlan(f *testing.F) {
	f.Add("a/b.npy\n/mnt/c\n")
	f.Add("\n\n../x")
	f.Add("/mnt/../mnt/./a\x00")
	f.Add("a+png/b//c/.\r\n/\n")
	f.Add(strings.Repeat("x", 5000))
	f.Fuzz(func(t *testing.T, text string) {
		how := PlanText{Prefixes: []string{"/mnt"}, Hash: pathHash, MaxLines: 50, MaxBytes: 1 << 16}
		p, err := ReadPlan(strings.NewReader(text), how)
		if err != nil {
			if !errors.Is(err, ErrPlan) && !errors.Is(err, ErrPlanTooLarge) {
				t.Errorf("%v", err)
			}
			return
		}
		defer p.Close()
		if p.Len() == 0 || p.Len() > 50 || p.Len() > int64(strings.Count(text, "\n"))+1 {
			t.Errorf("%d lines", p.Len())
		}
		for i := range p.Len() {
			name, err := p.Path(i)
			if err != nil || !iofs.ValidPath(strings.ToValidUTF8(name, "?")) || name == "." || len(name) > maxPlanLine {
				t.Errorf("line %d is %q, %v", i, name, err)
			}
			found := false
			for _, w := range p.find(pathHash(name)) {
				found = found || lineOf(w) == i
			}
			if !found {
				t.Errorf("line %d, %q, is not found", i, name)
			}
		}
	})
}

// A printer makes the files of a plan.
type printer struct {
	mu   sync.Mutex
	made map[string]bool
}

func (x *printer) make(path string) (int64, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if strings.HasPrefix(path, "none") {
		return 0, false, fmt.Errorf("looking for %s: %w", path, iofs.ErrNotExist)
	}
	if x.made[path] {
		return 0, false, nil
	}
	x.made[path] = true
	return 100, true, nil
}

func (x *printer) options(start int64) PlanOptions {
	return PlanOptions{
		Start: start, Make: x.make, Window: 100,
		Flight: func() int { return 4 }, Bytes: func() int64 { return 1 << 30 },
	}
}

// read opens a file and reports whether it was made, and whether the plan knew.
func (x *printer) read(p *Plan, path string) (missed, known bool) {
	x.mu.Lock()
	missed = !x.made[path]
	x.made[path] = true
	x.mu.Unlock()
	known = p.Opened(pathHash(path))
	synctest.Wait()
	return missed, known
}

// planned runs f in a bubble with a plan of the files 0 to n−1.
func planned(t *testing.T, n int, start int64, f func(t *testing.T, x *printer, p *Plan)) {
	t.Helper()
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintln(&text, i)
	}
	lines := readPlan(t, text.String(), PlanText{})
	synctest.Test(t, func(t *testing.T) {
		x := &printer{made: make(map[string]bool)}
		p := NewPlan(lines, x.options(start))
		synctest.Wait()
		f(t, x, p)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPlan: a reader misses nothing, with or without leaving lines out, opening
// files several times, and opening others in between.
func TestPlan(t *testing.T) {
	planned(t, 2000, 0, func(t *testing.T, x *printer, p *Plan) {
		for i := range 2000 {
			if i%7 == 6 {
				continue
			}
			for range 3 { // as np.load does with a map
				if missed, known := x.read(p, fmt.Sprint(i)); missed || !known {
					t.Fatalf("line %d: missed %v, known %v", i, missed, known)
				}
			}
			if p.Wants(pathHash(fmt.Sprint(i))) || i < 1990 && !p.Wants(pathHash(fmt.Sprint(i+3))) {
				t.Fatalf("line %d is wanted, or what comes after it is not", i)
			}
			if _, known := x.read(p, fmt.Sprint("other", i)); known {
				t.Fatal("another file is known")
			}
		}
		s := p.Stats()
		if s.Lines != 2000 || s.Place < 1999 || s.Read != 2000-285 || s.Ahead.Useful != uint64(s.Read) || s.Absent != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPlanJump: the plan begins where it is told to, follows a reader who jumps,
// is not led astray by single opens, and begins anew with its reader.
func TestPlanJump(t *testing.T) {
	planned(t, 3000, 1000, func(t *testing.T, x *printer, p *Plan) {
		if !x.made["1000"] || x.made["0"] {
			t.Errorf("%d are made, not from 1000 on", len(x.made))
		}
		through := func(from, to, misses int) {
			t.Helper()
			missed := 0
			for i := from; i < to; i++ {
				if m, _ := x.read(p, fmt.Sprint(i)); m {
					missed++
				}
				x.read(p, fmt.Sprint((i*977)%3000)) // another reader, somewhere
			}
			if missed > misses {
				t.Errorf("%d were missed from %d to %d", missed, from, to)
			}
		}
		through(1000, 1200, 0)
		for i := 2000; i < 2000+2*jumpAfter; i++ {
			x.read(p, fmt.Sprint(i))
		}
		through(2000+2*jumpAfter, 3000, 0)
		clear(x.made)
		for i := range 2 * jumpAfter {
			x.read(p, fmt.Sprint(i))
		}
		through(2*jumpAfter, 3000, 0)
	})
	planned(t, 50, 0, func(t *testing.T, x *printer, p *Plan) { // smaller than the window
		for epoch := range 3 {
			missed := 0
			clear(x.made)
			for i := range 50 {
				if m, _ := x.read(p, fmt.Sprint(i)); m {
					missed++
				}
			}
			if epoch > 0 && missed > jumpAfter {
				t.Errorf("%d of 50 were missed in epoch %d", missed, epoch)
			}
		}
	})
}

// TestPlanLinesThatLeadNowhere are counted and cost nothing else.
func TestPlanLinesThatLeadNowhere(t *testing.T) {
	lines := readPlan(t, "a\nnone1\nb\nnone2\nc\na\n", PlanText{})
	synctest.Test(t, func(t *testing.T) {
		x := &printer{made: make(map[string]bool)}
		p := NewPlan(lines, x.options(0))
		synctest.Wait()
		for _, name := range []string{"a", "b", "c", "a"} {
			if missed, known := x.read(p, name); missed || !known {
				t.Errorf("%s: missed %v, known %v", name, missed, known)
			}
		}
		if s := p.Stats(); s.Absent != 2 || s.Ahead.Failed != 2 || s.Read != 4 || s.Ahead.Made != 3 {
			t.Errorf("%+v", s)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkPlanOpened(b *testing.B) {
	var text bytes.Buffer
	for i := range 1300000 {
		fmt.Fprintf(&text, "train/n%08d/n%08d_%d.npy\n", i%1000, i%1000, i)
	}
	lines, err := ReadPlan(&text, PlanText{Hash: pathHash})
	if err != nil {
		b.Fatal(err)
	}
	p := NewPlan(lines, PlanOptions{
		Make:   func(string) (int64, bool, error) { return 100, true, nil },
		Flight: func() int { return 2 }, Bytes: func() int64 { return 1 << 20 }, Window: 8192,
	})
	defer p.Close()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Opened(pathHash(fmt.Sprintf("train/n%08d/n%08d_%d.npy", i%1000, i%1000, i)))
		i++
	}
}
