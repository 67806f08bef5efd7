package fs

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prismfs/dataset"
	"prismfs/order"
)

func fileNamed(path string) content {
	return content{sample: &dataset.Sample{Path: path, Levels: 1}, form: DefaultView.Form, fidelity: 1, size: 1000}
}

// TestReaderTimes: what readers wait and what they take for themselves is told
// apart, and several opens of one file in a row are one.
func TestReaderTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderTimes()
		time.Sleep(time.Second)
		open := func(reader uint64, view View, path string, wait time.Duration, missed bool) {
			o := anOpen{reader: reader, view: view, file: fileNamed(path), begun: time.Now(), missed: missed, took: fillTimes{store: wait / 2}}
			time.Sleep(wait)
			r.opened(o)
		}
		for i := range 40 {
			open(1, DefaultView, fmt.Sprintf("train/%d", i), 8*time.Millisecond, true)
			open(1, DefaultView, fmt.Sprintf("train/%d", i), 0, false) // np.load(mmap_mode=…)
			time.Sleep(2 * time.Millisecond)
			open(2+timeShards, DefaultView, fmt.Sprintf("train/%d", i), 0, false)
			open(0, DefaultView, "train/0", 0, true) // nobody knows by whom
		}
		seen := r.seen()
		if len(seen) != 1 {
			t.Fatalf("%d views", len(seen))
		}
		v := seen[0]
		if v.opens != 80 || v.misses != 40 || v.readers != 2 || v.took.store != 40*4*time.Millisecond {
			t.Errorf("%+v", v.timeSums)
		}
		if v.waited != 40*8*time.Millisecond || v.own != 39*(2+10)*time.Millisecond {
			t.Errorf("readers waited %v and worked %v", v.waited, v.own)
		}
		if v.name != "train" || viewName(v.name, v.of, DefaultView) != "train" {
			t.Errorf("the view is called %q", viewName(v.name, v.of, DefaultView))
		}
		if n := v.distinct.count(); n < 30 || n > 50 {
			t.Errorf("%d different files, 40 were read", n)
		}
	})
}

// TestReaderTimesOfFolders: two folders that are read as one view are named, if they are few.
func TestReaderTimesOfFolders(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{"train/a", "train/b"}, "train"}, {[]string{"val/a", "train/b", "val/c"}, "train val"},
		{[]string{"train/a", "b"}, ""}, {[]string{"b", "train/a"}, ""}, {[]string{"1/a", "2/a", "3/a", "4/a", "5/a", "1/b"}, ""},
	} {
		r := newReaderTimes()
		for i, path := range c.paths {
			r.opened(anOpen{reader: uint64(i + 1), file: content{sample: &dataset.Sample{Path: path}}, begun: time.Now()})
		}
		if got := strings.Join(r.seen()[0].folders.names, " "); got != c.want {
			t.Errorf("%v: folders %q, want %q", c.paths, got, c.want)
		}
	}
}

// TestReaderTimesOfPairs: a thread that opens each sample in two views reads two
// files, and waits for both.
func TestReaderTimesOfPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderTimes()
		coarse := DefaultView
		coarse.Fidelity = 1
		for i := range 20 {
			for _, v := range []View{coarse, DefaultView} {
				o := anOpen{reader: 3, view: v, file: fileNamed(fmt.Sprint("x/", i)), begun: time.Now(), missed: true}
				time.Sleep(5 * time.Millisecond)
				r.opened(o)
			}
		}
		seen := r.seen()
		if len(seen) != 2 {
			t.Fatalf("%d views", len(seen))
		}
		for _, v := range seen {
			if v.opens != 20 || v.readers != 1 || v.waited != 100*time.Millisecond {
				t.Errorf("%v: %+v", v.of, v.timeSums)
			}
		}
	})
}

func TestReaderTimesOfAnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderTimes()
		const images = 200
		for i := range images {
			o := anOpen{reader: 7, view: DefaultView, file: fileNamed(fmt.Sprint("x/", i)), begun: time.Now(), missed: i%2 == 0}
			time.Sleep(6 * time.Millisecond)
			if o.missed {
				o.took = fillTimes{store: 4 * time.Millisecond, decode: time.Millisecond}
			}
			r.opened(o)
			time.Sleep(3 * time.Millisecond)
			if i == images/2 {
				time.Sleep(pauseAfter)
			}
		}
		v := r.seen()[0]
		if v.opens != images || v.misses != images/2 || v.readers != 1 || v.bytes != images*1000 {
			t.Errorf("%+v", v.timeSums)
		}
		if v.waited != images*6*time.Millisecond || v.own != (images-2)*3*time.Millisecond {
			t.Errorf("readers waited %v and worked %v", v.waited, v.own)
		}
		if v.took.store != images/2*4*time.Millisecond || v.took.decode != images/2*time.Millisecond {
			t.Errorf("%+v", v.took)
		}
		// It is of the last time in which the view was read.
		time.Sleep(5 * timePeriod)
		if got := r.seen()[0]; got.opens != images {
			t.Errorf("after a while %d opens are known", got.opens)
		}
		r.opened(anOpen{reader: 7, view: DefaultView, file: fileNamed("x/y"), begun: time.Now()})
		if got := r.seen()[0]; got.opens != 1 {
			t.Errorf("of a new job, %d opens are known", got.opens)
		}
	})
}

// TestReaderTimesAreBounded, whatever is read by whomever.
func TestReaderTimesAreBounded(t *testing.T) {
	r := newReaderTimes()
	for i := range 20_000 {
		view := DefaultView
		view.Fidelity = i % 3000
		r.opened(anOpen{reader: uint64(1 + i), view: view, file: fileNamed(fmt.Sprint("x/", i)), begun: time.Now(), missed: true})
	}
	for i := range r.shard {
		s := &r.shard[i]
		if len(s.threads) > maxTimeThreads || len(s.views) > maxTimeViews {
			t.Fatalf("%d threads and %d views in a shard", len(s.threads), len(s.views))
		}
		for _, v := range s.views {
			if len(v.samples) > maxTimeSamples {
				t.Fatalf("%d samples of a view", len(v.samples))
			}
		}
	}
	if n := len(r.seen()); n == 0 || n > timeShards*maxTimeViews {
		t.Errorf("%d views", n)
	}
}

// TestReaderTimesOfManyReaders at once, for the race detector.
func TestReaderTimesOfManyReaders(t *testing.T) {
	r := newReaderTimes()
	var wg sync.WaitGroup
	for reader := range 40 {
		wg.Go(func() {
			for i := range 200 {
				r.opened(anOpen{reader: uint64(reader + 1), view: DefaultView, file: fileNamed(fmt.Sprint(reader, i)), begun: time.Now(), missed: true})
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			r.seen()
		}
	})
	wg.Wait()
	if v := r.seen()[0]; v.opens != 40*200 || v.readers != 40 {
		t.Errorf("%+v", v.timeSums)
	}
}

func TestDistinctFiles(t *testing.T) {
	for _, n := range []int{0, 1, 10, 1000, 5000, 100_000} {
		var a, b distinctFiles
		state := uint64(n)
		for i := range n {
			state += 0x9e3779b97f4a7c15 // splitmix64
			z := state
			z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			z ^= z >> 31
			for range 3 { // again and again
				if i%2 == 0 {
					a.add(z)
				} else {
					b.add(z)
				}
			}
		}
		a.merge(&b)
		if got := float64(a.count()); math.Abs(got-float64(n)) > 0.1*float64(n) {
			t.Errorf("%d different hashes are counted as %.0f", n, got)
		}
	}
}

func TestViewName(t *testing.T) {
	with := func(change func(*View)) View {
		v := DefaultView
		change(&v)
		return v
	}
	png, err := ParseView("png+rgb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder      string
		view, mount View
		want        string
	}{
		{"train", DefaultView, DefaultView, "train"},
		{"", DefaultView, DefaultView, ""},
		{"train", with(func(v *View) { v.Fidelity = 2 }), DefaultView, "train+2"},
		{"", with(func(v *View) { v.Fidelity = 2 }), DefaultView, "+2"},
		{"train", png, DefaultView, "train+png+rgb"},
		{"train", DefaultView, png, "train+npy"},
		{"train", png, png, "train"},
		{"train", with(func(v *View) { v.Form.CHW = true }), DefaultView, "train+chw"},
		{"train", with(func(v *View) { v.Form.CHW, v.Fidelity = true, 3 }), DefaultView, "train+3+chw"},
		{"train", with(func(v *View) { v.Fidelity = 3 }), with(func(v *View) { v.Fidelity = 3 }), "train"},
		{"train", DefaultView, with(func(v *View) { v.Form.RGB = true }), "train+npy"},
		{"train", with(func(v *View) { v.Form.CHW, v.Form.RGB = true, true }), with(func(v *View) { v.Form.RGB = true }), "train+chw"},
		{"cat", with(func(v *View) { v.Auto = AutoView{Folder: "train", Word: "auto-a"} }), DefaultView, "train+auto-a"},
		{"cat", with(func(v *View) { v.Echo = order.EchoView{Folder: "train", Factor: 250, Seed: 3} }), DefaultView, "train+echo2.5+seed3"},
	} {
		if got := viewName(c.folder, c.view, c.mount); got != c.want {
			t.Errorf("%q in %v is called %q, want %q", c.folder, c.view, got, c.want)
		}
	}
}

func BenchmarkReaderTimes(b *testing.B) {
	r := newReaderTimes()
	file := fileNamed("train/n01440764/n01440764_10026.JPEG")
	b.ReportAllocs()
	var readers sync.Mutex
	next := uint64(0)
	b.RunParallel(func(p *testing.PB) {
		readers.Lock()
		next++
		reader := next
		readers.Unlock()
		for p.Next() {
			r.opened(anOpen{reader: reader, view: DefaultView, file: file, begun: time.Now()})
		}
	})
}
