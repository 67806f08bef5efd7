package advice

import (
	"math"
	"strings"
	"testing"
	"time"
)

// seen is of 100 images: times in milliseconds of one.
func seen(own, store, queue, decode float64, change func(*Seen)) Seen {
	sum := func(v float64) time.Duration { return time.Duration(v * 100 * float64(time.Millisecond)) }
	s := Seen{
		View: "train", Path: "/mnt/train", Readers: 8, Opens: 100, Misses: 100, Own: sum(own), Waited: sum(store + queue + decode),
		Store: sum(store), Queue: sum(queue), Decode: sum(decode), Files: 1000, FileBytes: 1 << 20, Coding: Fast,
	}
	if change != nil {
		change(&s)
	}
	return s
}

func pcr(s *Seen) {
	s.Coding, s.Fidelity = JPEG, 10
	s.Fidelities = []int64{6_000, 19_000, 25_000, 30_000, 40_000, 50_000, 60_000, 80_000, 90_000, 100_000}
}

var machine = Machine{Processors: 8, Jobs: 8, CacheBudget: 4 << 30, Memory: 5 << 30}

// small is a machine whose cache holds half of the 1000 MiB that are read.
var small = Machine{Processors: 8, Jobs: 8, CacheBudget: 500 << 20, Memory: 600 << 20}

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		seen    Seen
		machine Machine
		verdict Verdict
		kinds   string
		values  map[Kind]float64
		text    string // somewhere
	}{
		"too few": {seen(1, 0, 0, 50, func(s *Seen) { s.Opens = 10 }), machine, TooFew, "", nil, "10 opens of images"},
		"the consumer is slow": {seen(50, 0, 0, 3, nil), machine, Nothing, "", nil,
			"train: readers wait 3.0 ms for an image and take 50.0 ms for everything else, so that they wait in 6 % of their time: there is nothing to gain."},
		"all is cached":   {seen(1, 0, 0, 0.01, func(s *Seen) { s.Misses = 0 }), machine, Nothing, "", nil, "nothing to gain"},
		"no times at all": {seen(0, 0, 0, 0, nil), machine, Nothing, "", nil, "nothing to gain"},
		"a slow source": {seen(4, 10, 0, 2, pcr), machine, Waiting, "first pass plan fidelity echo",
			map[Kind]float64{Echo: 3, Fidelity: 2}, "fidelity 1 reads 5.9 KiB (6 %; readers would wait about 2.6 ms), fidelity 2 reads 18.6 KiB (19 %; readers would wait about 3.9 ms)"},
		"a very slow source": {seen(1, 100, 0, 2, pcr), machine, Waiting, "first pass fidelity echo",
			map[Kind]float64{Echo: 4, Fidelity: 1}, "More than 4 is not free"},
		"a slow source of L3": {seen(4, 10, 0, 2, nil), machine, Waiting, "first pass plan echo", map[Kind]float64{Echo: 3}, "Read /mnt/train+echo3"},
		"a little slow":       {seen(4, 5, 0, 0.4, nil), machine, Waiting, "first pass plan echo", map[Kind]float64{Echo: 1.35}, "train+echo1.35"},
		"not worth an echo":   {seen(10, 5, 0, 5, nil), machine, Waiting, "first pass plan", nil, "plan"},
		"lowest fidelity":     {seen(4, 10, 0, 2, func(s *Seen) { pcr(s); s.Fidelity = 1 }), machine, Waiting, "first pass plan echo", nil, ""},
		"dense":               {seen(4, 0.1, 0.1, 10, func(s *Seen) { s.Coding = Dense }), machine, Waiting, "first pass plan coding echo", nil, "pack --mode fast"},
		"slow JPEGs":          {seen(4, 0.1, 0.1, 10, pcr), machine, Waiting, "first pass plan coding echo", nil, "baseline"},
		"few threads": {seen(1, 0, 5, 4, nil), Machine{Processors: 8, Jobs: 2, CacheBudget: 4 << 30}, Waiting, "first pass jobs echo",
			map[Kind]float64{Jobs: 8, Echo: 4}, "--jobs 8"},
		"few processors": {seen(1, 0, 5, 4, nil), machine, Waiting, "first pass processors echo", nil, "more loader workers would not"},
		"waiting for others": {seen(4, 10, 0, 2, func(s *Seen) { s.Waited += 300 * time.Millisecond }), machine, Waiting, "first pass plan echo", nil,
			"Of the 15.0 ms, 10.0 ms are reading from the source, 0.00 ms waiting for a free processor, 2.0 ms decoding, 3.0 ms the rest ("},
		"one reader": {seen(4, 0, 0, 5, func(s *Seen) { s.Readers = 1 }), machine, Waiting, "first pass plan workers echo",
			map[Kind]float64{Workers: 8}, "1 threads read"},
		"a small cache": {seen(4, 0, 0, 8, nil), small, Waiting, "policy plan echo", map[Kind]float64{Policy: 0.4375}, "which is a guess, an LRU finds about 15 % in the long run; mount --cache-policy pin keeps what came first and finds 44 %"},
		"pinned":        {seen(4, 0, 0, 8, nil), Machine{Processors: 8, Jobs: 8, CacheBudget: 500 << 20, Pin: true}, Waiting, "plan echo", nil, ""},
		"memory to spare": {seen(4, 0, 0, 8, nil), Machine{Processors: 8, Jobs: 8, CacheBudget: 500 << 20, Memory: 8 << 30, Pin: true}, Waiting, "cache plan echo",
			nil, "mount --cache 1050MiB"},
		"echoes already": {seen(4, 0, 0, 4, func(s *Seen) { s.Echo = 2; s.View = "train+echo2" }), machine, Waiting, "first pass", nil, ""},
		"more echoes": {seen(4, 0, 0, 6, func(s *Seen) { s.Echo = 2; s.View = "train+echo2" }), machine, Waiting, "first pass echo",
			map[Kind]float64{Echo: 3}, "echo3 in the place of echo2"},
	} {
		got := Of(c.seen, c.machine)
		var kinds, texts []string
		for _, step := range got.Steps {
			kinds, texts = append(kinds, string(step.Kind)), append(texts, step.Text)
			if want, ok := c.values[step.Kind]; ok && math.Abs(step.Value-want) > 1e-6 {
				t.Errorf("%s: %s is %g, want %g", name, step.Kind, step.Value, want)
			}
			if step.Gain != 0 && step.Gain < 1 {
				t.Errorf("%s: %s is said to gain %.2f", name, step.Kind, step.Gain)
			}
		}
		if got.Verdict != c.verdict || strings.Join(kinds, " ") != c.kinds {
			t.Errorf("%s: %s, %q, want %s, %q", name, got.Verdict, kinds, c.verdict, c.kinds)
		}
		if all := got.Text + strings.Join(texts, "\n"); !strings.Contains(all, c.text) {
			t.Errorf("%s: %q is not in:\n%s", name, c.text, all)
		}
		for _, text := range append(texts, got.Text) {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// TestEchoIsFree: at the factor that is named, a reader takes no longer for an
// image than it works, as far as the factor is not capped.
func TestFoldersAreNamed(t *testing.T) {
	for _, waits := range []float64{0, 50} {
		s := seen(10, 0, 0, waits, func(s *Seen) { s.Path, s.Folders = "/mnt/+png", []string{"train", "val"} })
		if a := Of(s, machine); !strings.HasPrefix(a.Text, "/mnt/+png (train and val together): ") {
			t.Errorf("%s", a.Text)
		}
	}
}

func TestEchoIsFree(t *testing.T) {
	for wait := 1.0; wait < 20; wait += 0.7 {
		a := Of(seen(4, 0, 0, wait, nil), machine)
		for _, step := range a.Steps {
			if step.Kind != Echo {
				continue
			}
			if ratio := wait / 4; step.Value > ratio || step.Value > maxEcho {
				t.Errorf("readers wait %.2f times as long as they work: echo%g", ratio, step.Value)
			}
			if want := (wait + 4) / (wait/step.Value + 4); math.Abs(step.Gain-want) > 1e-9 {
				t.Errorf("echo%g gains %.3f, want %.3f", step.Value, step.Gain, want)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 40: "3.0 TiB"} {
		if got := bytes(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
	for n, want := range map[float64]string{1 << 20: "1MiB", 1<<20 + 1: "2MiB", 5<<30 - 1: "5GiB"} {
		if got := flagSize(n); got != want {
			t.Errorf("%g is %s", n, got)
		}
	}
}
