package order

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// library stands for a mount: folders of images, some of which are made.
type library struct {
	mu      sync.Mutex
	folders map[string][]string // in the order of the listing
	made    map[string]bool
	makes   []string // in their order
	lists   int
	busy    bool
	fail    bool
	wait    chan struct{} // a message lets one Make go on; nil for all
}

func newLibrary(names map[string][]string) *library {
	return &library{folders: names, made: make(map[string]bool)}
}

func (l *library) List(folder string, max int) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists++
	if n := len(l.folders[folder]); n > max {
		return nil, fmt.Errorf("%d names", n)
	}
	return slices.Clone(l.folders[folder]), nil
}

func (l *library) Next(folder string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, found := "", false
	for name := range l.folders {
		if name > folder && (!found || name < next) {
			next, found = name, true
		}
	}
	return next, found
}

func (l *library) Make(folder, name string) (int64, bool, error) {
	if l.wait != nil {
		<-l.wait
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return 0, false, errors.New("damaged")
	}
	l.makes = append(l.makes, name)
	path := folder + "/" + name
	if l.made[path] {
		return 0, false, nil
	}
	l.made[path] = true
	return 100, true, nil
}

func (l *library) Spare() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.busy
}

// open does what a reader's open does, and lets what it starts come to its end.
func (l *library) open(a *ReadAhead[string], folder, name string) (missed bool) {
	l.mu.Lock()
	path := folder + "/" + name
	missed = !l.made[path]
	l.made[path] = true
	l.mu.Unlock()
	a.Opened(folder, name, missed)
	if l.wait == nil {
		synctest.Wait()
	}
	return missed
}

// numbered returns n names whose order in a listing is not the sorted one.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%05d", (i*7919)%n)
	}
	return names
}

func sortedNames(names []string) []string { return slices.Sorted(slices.Values(names)) }

var four = Options{Images: 4, Workers: 2}

// test runs f in a bubble with a library of one folder, "f", of n images.
func test(t *testing.T, n int, opt Options, f func(t *testing.T, l *library, a *ReadAhead[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(map[string][]string{"f": numbered(n)})
		a := New(l, opt)
		f(t, l, a)
		a.Close()
		if a.working != 0 {
			t.Errorf("%d goroutines are left", a.working)
		}
	})
}

// TestInOrder: a reader in either order finds all but the first images made, and
// no more than so many are made ahead of it.
func TestInOrder(t *testing.T) {
	for order, names := range map[string][]string{"sorted": sortedNames(numbered(100)), "listed": numbered(100)} {
		t.Run(order, func(t *testing.T) {
			test(t, 100, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
				misses := 0
				for i, name := range names {
					if l.open(a, "f", name) {
						misses++
					}
					if ahead := len(l.made) - i - 1; ahead > four.Images {
						t.Fatalf("%d images were made ahead", ahead)
					}
				}
				s := a.Stats()
				if misses > listMisses+firstRun || s.Made != uint64(100-misses) || s.Useful != s.Made || s.Wasted != 0 {
					t.Errorf("%d were missed, %+v", misses, s)
				}
				if l.lists != 1 {
					t.Errorf("listed %d times", l.lists)
				}
			})
		})
	}
}

// TestThroughFolders: a reader that goes on to the next folder finds its first
// images made, from the second time on; one that stops at the end of a folder
// has nothing made in the next.
func TestThroughFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(map[string][]string{"a": numbered(20), "b": numbered(20), "c": numbered(20), "d": numbered(20)})
		a := New(l, four)
		misses := map[string]int{}
		for _, folder := range []string{"a", "b", "c"} {
			for _, name := range sortedNames(l.folders[folder]) {
				if l.open(a, folder, name) {
					misses[folder]++
				}
			}
		}
		if misses["a"] > firstRun || misses["b"] != 1 || misses["c"] != 0 {
			t.Errorf("missed %v", misses)
		}
		if !a.crossed {
			t.Error("going through folders was not noticed")
		}
		// The reader does not come to d.
		need := a.need
		time.Sleep(2 * forgetAfter)
		if s := a.Stats(); s.Wasted != uint64(four.Images) || a.need != need || a.crossed {
			t.Errorf("%+v, %d opens are needed instead of %d, crossed %v", s, a.need, need, a.crossed)
		}
		a.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(map[string][]string{"a": numbered(20), "b": numbered(20)})
		a := New(l, four)
		for _, name := range sortedNames(l.folders["a"]) {
			l.open(a, "a", name)
		}
		if len(l.made) != 20 {
			t.Errorf("%d images were made of the 20 in the folder", len(l.made))
		}
		a.Close()
	})
}

// TestLoaderWorkers: the workers of a loader read batches in turns.
func TestLoaderWorkers(t *testing.T) {
	test(t, 400, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		const workers, batch = 3, 16
		names := sortedNames(l.folders["f"])
		misses := 0
		for start := 0; start < len(names); start += workers * batch {
			for i := range batch {
				for w := range workers {
					if at := start + w*batch + i; at < len(names) && l.open(a, "f", names[at]) {
						misses++
					}
				}
			}
		}
		s := a.Stats()
		if misses > 400/4 || s.Useful < s.Made*9/10 {
			t.Errorf("%d of 400 were missed, %+v", misses, s)
		}
	})
}

// TestNoOrder: next to nothing is made for a reader that has none, and it comes
// to an end.
func TestNoOrder(t *testing.T) {
	test(t, 1000, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, i := range rng.Perm(1000) {
			l.open(a, "f", l.folders["f"][i])
		}
		if s := a.Stats(); s.Made > 50 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWarm: nothing is asked for where everything is there.
func TestWarm(t *testing.T) {
	test(t, 50, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		for _, name := range l.folders["f"] {
			l.made["f/"+name] = true
		}
		for range 3 {
			for _, name := range l.folders["f"] {
				l.open(a, "f", name)
			}
		}
		if len(l.makes) != 0 || l.lists != 0 {
			t.Errorf("asked for %v, %d listings", l.makes, l.lists)
		}
	})
}

// TestPartlyWarm: what is there already puts the making to sleep, and what is
// missed wakes it.
func TestPartlyWarm(t *testing.T) {
	test(t, 120, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		names := l.folders["f"]
		for _, name := range names[40:80] {
			l.made["f/"+name] = true
		}
		misses := 0
		for _, name := range names {
			if l.open(a, "f", name) {
				misses++
			}
		}
		asked := 0
		for _, name := range l.makes {
			if i := slices.Index(names, name); i >= 40 && i < 80 {
				asked++
			}
		}
		if asked > 3*idleImages || misses > listMisses+firstRun+2 {
			t.Errorf("asked for %d that were there, %d misses", asked, misses)
		}
	})
}

func TestNoSpareProcessor(t *testing.T) {
	test(t, 100, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		l.busy = true
		for _, name := range l.folders["f"][:50] {
			l.open(a, "f", name)
		}
		if s := a.Stats(); len(l.makes) != 0 || s != (Stats{}) {
			t.Errorf("made %v, %+v", l.makes, s)
		}
		l.busy = false
		for _, name := range l.folders["f"][50:53] {
			l.open(a, "f", name)
		}
		if len(l.makes) == 0 {
			t.Error("nothing is made when there is a processor again")
		}
	})
}

// TestMemory: what is made and not opened stays within the bytes.
func TestMemory(t *testing.T) {
	room := int64(250)
	opt := Options{Images: 16, Workers: 1, Bytes: func() int64 { return room }}
	test(t, 100, opt, func(t *testing.T, l *library, a *ReadAhead[string]) {
		for i, name := range l.folders["f"][:40] {
			l.open(a, "f", name)
			// The size of the first one is not known before it is made.
			if ahead := len(l.made) - i - 1; int64(ahead)*100 > room {
				t.Fatalf("%d bytes are made ahead", ahead*100)
			}
		}
		if s := a.Stats(); s.Made < 30 {
			t.Errorf("%+v", s)
		}
	})
}

// TestReaderThatLeaves: what was made for it is wasted, and the next ones must
// show more.
func TestReaderThatLeaves(t *testing.T) {
	test(t, 3000, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		names := l.folders["f"]
		for reader := range 10 {
			for _, name := range names[reader*200:][:6] {
				l.open(a, "f", name)
			}
			time.Sleep(2 * forgetAfter)
		}
		s := a.Stats()
		if s.Made == 0 || s.Wasted == 0 || s.Useful+s.Wasted != s.Made {
			t.Errorf("%+v", s)
		}
		if s.Made > 30 {
			t.Errorf("%d were made for readers that leave", s.Made)
		}
		// One that stays is trusted again.
		misses := 0
		for _, name := range names[2500:2900] {
			if l.open(a, "f", name) {
				misses++
			}
		}
		if misses > 2*lastRun {
			t.Errorf("%d of 400 were missed after that", misses)
		}
	})
}

func TestDamagedImages(t *testing.T) {
	test(t, 100, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		l.fail = true
		for _, name := range l.folders["f"] {
			l.open(a, "f", name)
		}
		if s := a.Stats(); s != (Stats{}) || a.unread != 0 {
			t.Errorf("%+v, %d unread", s, a.unread)
		}
	})
}

// TestOpenedWhileMade: an image that its reader opens while it is being made was
// of use.
func TestOpenedWhileMade(t *testing.T) {
	test(t, 100, Options{Images: 1, Workers: 1}, func(t *testing.T, l *library, a *ReadAhead[string]) {
		names := l.folders["f"]
		for _, name := range names[:2] {
			l.open(a, "f", name)
		}
		l.wait = make(chan struct{})
		l.open(a, "f", names[2])
		synctest.Wait()
		a.Opened("f", names[3], false) // it has waited for the one who makes it
		l.wait <- struct{}{}
		close(l.wait)
		synctest.Wait()
		if s := a.Stats(); s.Useful != 1 || s.Made < 1 || s.Wasted != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestNewImages: a folder that has grown is listed again.
func TestNewImages(t *testing.T) {
	test(t, 20, four, func(t *testing.T, l *library, a *ReadAhead[string]) {
		for _, name := range l.folders["f"] {
			l.open(a, "f", name)
		}
		more := make([]string, 200)
		for i := range more {
			more[i] = fmt.Sprintf("new%05d", i)
		}
		l.folders["f"] = append(l.folders["f"], more...)
		misses := 0
		for _, name := range more {
			if l.open(a, "f", name) {
				misses++
			}
		}
		if l.lists != 2 || misses > 50 {
			t.Errorf("listed %d times, %d of 200 were missed", l.lists, misses)
		}
	})
}

// TestManyFolders: what is remembered is bounded, and a reader that jumps about
// among many folders lists few of them.
func TestManyFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(make(map[string][]string))
		for i := range 1000 {
			l.folders[fmt.Sprint(i)] = numbered(30)
		}
		a := New(l, four)
		rng := rand.New(rand.NewPCG(7, 2))
		for range 20000 {
			folder := fmt.Sprint(rng.IntN(1000))
			l.open(a, folder, l.folders[folder][rng.IntN(30)])
			if len(a.folders) > maxFolders {
				t.Fatalf("%d folders are remembered", len(a.folders))
			}
		}
		if l.lists > 1000 {
			t.Errorf("%d listings for 20000 opens", l.lists)
		}
		a.Close()
	})
}

func TestFolderThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(map[string][]string{"small": numbered(50), "large": numbered(maxNames + 1)})
		a := New(l, four)
		for _, name := range l.folders["large"][:50] {
			l.open(a, "large", name)
		}
		for _, name := range l.folders["small"] {
			l.open(a, "small", name)
		}
		if s := a.Stats(); l.lists != 2 || s.Made == 0 || a.names != 50 {
			t.Errorf("%d listings, %+v, %d names", l.lists, s, a.names)
		}
		a.Close()
	})
}

// TestAnything: whatever is opened, the counts add up and the bounds hold.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLibrary(map[string][]string{"a": numbered(23), "b": numbered(60), "c": numbered(5)})
		a := New(l, Options{Images: rapid.IntRange(1, 6).Draw(t, "images"), Workers: rapid.IntRange(1, 3).Draw(t, "workers")})
		at := map[string]int{}
		for range rapid.IntRange(1, 150).Draw(t, "opens") {
			folder := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "folder")
			if rapid.IntRange(0, 5).Draw(t, "jump") == 0 {
				at[folder] = rapid.IntRange(0, 59).Draw(t, "to")
			}
			names := l.folders[folder]
			name := names[at[folder]%len(names)]
			at[folder]++
			l.mu.Lock()
			missed := !l.made[folder+"/"+name]
			l.made[folder+"/"+name] = true
			if rapid.IntRange(0, 9).Draw(t, "evict") == 0 {
				delete(l.made, folder+"/"+names[0])
			}
			l.busy = rapid.IntRange(0, 4).Draw(t, "busy") == 0
			l.mu.Unlock()
			a.Opened(folder, name, missed)
		}
		a.Close()
		unread := 0
		for name, f := range a.folders {
			unread += len(f.ahead)
			if len(f.streams) > maxStreams {
				t.Fatalf("%d streams in %s", len(f.streams), name)
			}
		}
		s := a.stats
		if unread != a.unread || s.Useful+s.Wasted+uint64(unread) != s.Made {
			t.Fatalf("%+v, %d unread, counted %d", s, unread, a.unread)
		}
	})
}

func BenchmarkOpened(b *testing.B) {
	l := newLibrary(map[string][]string{"f": numbered(1300)})
	l.busy = true
	a := New(l, four)
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		a.Opened("f", l.folders["f"][rng.IntN(1300)], true)
	}
	a.Close()
}
