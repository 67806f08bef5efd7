package order

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// classTree is a dataset of class folders that is read through an echo view.
type classTree struct {
	echoes *Echoes[string, string, string]
	order  *EchoOrder[string, string, string]
	limit  int64
	names  []string // CLASS/NUMBER
	bytes  int64    // of each

	mu      sync.Mutex
	held    map[string]int // samples that pools hold
	most    int64          // bytes that they held at most
	fresh   map[string]int
	serves  map[string]int // in all, of each sample
	reads   int
	strange []string // echoes that must not be
}

func newClassTree(classes, images int, view EchoView) *classTree {
	t := &classTree{limit: 1 << 40, bytes: 10, held: map[string]int{}, fresh: map[string]int{}, serves: map[string]int{}}
	for c := range classes {
		for i := range images {
			t.names = append(t.names, fmt.Sprintf("%d/%d", c, i))
		}
	}
	t.echoes = NewEchoes[string, string](EchoOptions[string]{
		Bytes: func() int64 { return t.limit },
		Drop: func(s string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.held[s]--
		},
	})
	t.order = t.echoes.Open(view)
	return t
}

func classOf(name string) string {
	for i := range name {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return name
}

// read requests a name and returns what it was served.
func (t *classTree) read(name string) string {
	s := t.order.Settle(HashName(t.order.view.Seed, name), classOf(name), 0)
	got, echo := s.Echo()
	t.mu.Lock()
	t.reads++
	if !echo {
		got = name
		t.fresh[name]++
		t.held[name]++
	} else if t.held[got] == 0 || classOf(got) != classOf(name) {
		t.strange = append(t.strange, fmt.Sprintf("%s gets %s, which pools hold %d times", name, got, t.held[got]))
	}
	t.serves[got]++
	t.mu.Unlock()
	s.Take()
	if !s.Join(got, got, t.bytes) && !echo {
		t.mu.Lock()
		t.held[name]--
		t.mu.Unlock()
	}
	bytes := t.echoes.Bytes()
	t.mu.Lock()
	t.most = max(t.most, bytes)
	t.mu.Unlock()
	return got
}

// pass reads all names in a random order.
func (t *classTree) pass(r *rand.Rand) {
	names := slices.Clone(t.names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		t.read(name)
	}
}

// check looks whether every name was fresh so many times.
func (t *classTree) check(tb testing.TB, fresh int) {
	tb.Helper()
	for _, name := range t.names {
		if t.fresh[name] != fresh {
			tb.Fatalf("%s was fresh %d times, want %d", name, t.fresh[name], fresh)
		}
	}
	if len(t.strange) > 0 {
		tb.Fatalf("%d wrong echoes, the first: %s", len(t.strange), t.strange[0])
	}
}

// TestEchoOncePerCycle is the rule that matters most: whatever the sizes of
// folders and pools, each name is fresh exactly as often as its factor says in
// every cycle of passes, and so decodes for each read are exactly 1/e.
func TestEchoOncePerCycle(t *testing.T) {
	for _, factor := range []Factor{100, 150, 200, 225, 300, 1000} {
		for _, c := range []struct{ classes, images, buffer int }{{5, 1, 0}, {5, 20, 0}, {3, 20, 2}, {3, 20, 1}, {1, 300, 5}, {1, 1300, 13}} {
			if c.images*int(factor) > 300_000 { // of which one is enough
				continue
			}
			tree := newClassTree(c.classes, c.images, EchoView{Factor: factor, Buffer: c.buffer, Seed: 7})
			r := rand.New(rand.NewPCG(1, uint64(factor)))
			cycle := factor.cycle()
			for round := 1; round <= 2; round++ {
				for range cycle.requests {
					tree.pass(r)
				}
				tree.check(t, round*int(cycle.fresh))
			}
			if got := tree.order.Stats(); got.Forced != 0 {
				t.Errorf("echo%v of %+v: %d decodes beyond the schedule", factor, c, got.Forced)
			}
		}
	}
}

// TestEchoServesEvenly: most images are served as often as the factor says, and
// echoes come some time after their fresh image.
func TestEchoServesEvenly(t *testing.T) {
	for _, c := range []struct {
		factor        Factor
		images        int
		buffer        int
		unevenPercent int
	}{
		{200, 20, 64, 5}, {200, 1300, 64, 3}, {200, 1300, 13, 8}, {300, 1300, 16, 10}, {150, 1300, 16, 3}, {300, 200, 64, 4},
	} {
		tree := newClassTree(1, c.images, EchoView{Factor: c.factor, Buffer: c.buffer})
		r := rand.New(rand.NewPCG(2, 3))
		cycle := c.factor.cycle()
		for range 4 * cycle.requests {
			tree.pass(r)
		}
		s := tree.order.Stats()
		if got := s.Fresh * uint64(c.factor); got != 100*uint64(tree.reads) {
			t.Errorf("echo%v of %d: %d fresh of %d requests", c.factor, c.images, s.Fresh, tree.reads)
		}
		uneven := 100 * float64(s.Repeats+s.Lost) / float64(2*s.Echoes)
		if uneven > float64(c.unevenPercent) {
			t.Errorf("echo%v of %d with buffer%d: %.1f %% of the echoes are too many or too few for their image, want %d", c.factor, c.images, c.buffer, uneven, c.unevenPercent)
		}
	}
}

// TestEchoMixes: an echo is not the image that was served just before.
func TestEchoMixes(t *testing.T) {
	tree := newClassTree(1, 1000, EchoView{Factor: 200})
	r := rand.New(rand.NewPCG(4, 4))
	at := map[string]int{}
	var apart []int
	for range 4 {
		for _, i := range r.Perm(1000) {
			name := tree.names[i]
			got := tree.read(name)
			if got == name && tree.fresh[name] > 0 {
				at[name] = tree.reads
			} else {
				apart = append(apart, tree.reads-at[got])
			}
		}
	}
	slices.Sort(apart)
	if median := apart[len(apart)/2]; median < 20 {
		t.Errorf("half of the echoes come within %d requests", median)
	}
}

// TestEchoShareIsKept: pools of all folders stay within their share, which may
// shrink at any time, and what they drop is what they were given.
func TestEchoShareIsKept(t *testing.T) {
	for _, limit := range []int64{0, 9, 10, 45, 100, 1000} {
		tree := newClassTree(10, 50, EchoView{Factor: 200})
		tree.limit = limit
		r := rand.New(rand.NewPCG(5, 6))
		for range 4 {
			tree.pass(r)
		}
		if tree.most > limit {
			t.Errorf("pools that may take %d bytes took %d", limit, tree.most)
		}
		if limit >= 100 { // one for each folder
			tree.check(t, 2)
		}
		tree.limit = limit / 2
		tree.echoes.Trim()
		if got := tree.echoes.Stats().Bytes; got > limit/2 {
			t.Errorf("pools that may take %d bytes now hold %d", limit/2, got)
		}
		tree.echoes.Close()
		for s, n := range tree.held {
			if n != 0 {
				t.Fatalf("%s is held %d times after Close", s, n)
			}
		}
	}
}

// TestEchoPartsOfATree: what nobody asks for is never served, and ranks with a
// seed of their own take nothing from each other.
func TestEchoPartsOfATree(t *testing.T) {
	tree := newClassTree(5, 40, EchoView{Factor: 200})
	other := &classTree{echoes: tree.echoes, held: map[string]int{}, fresh: map[string]int{}, serves: map[string]int{}, bytes: 10}
	other.order = tree.echoes.Open(EchoView{Factor: 200, Seed: 1})
	all := tree.names
	r := rand.New(rand.NewPCG(7, 8))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tree.names, other.names = all[:150], all[150:]
	for range 4 {
		tree.pass(r)
		other.pass(r)
	}
	for _, x := range []*classTree{tree, other} {
		x.check(t, 2)
		for name := range x.serves {
			if !slices.Contains(x.names, name) {
				t.Fatalf("%s was served to those who did not ask for it", name)
			}
		}
	}
}

// TestEchoIsDeterministic: the same seed and order of requests give the same run,
// another seed another.
func TestEchoIsDeterministic(t *testing.T) {
	run := func(seed uint64) (got []string) {
		tree := newClassTree(3, 50, EchoView{Factor: 150, Seed: seed, Buffer: 8})
		r := rand.New(rand.NewPCG(9, 9))
		for range 6 {
			for _, i := range r.Perm(len(tree.names)) {
				got = append(got, tree.read(tree.names[i]))
			}
		}
		return got
	}
	first := run(7)
	if !slices.Equal(first, run(7)) {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(first, run(8)) {
		t.Error("two seeds give the same run")
	}
}

// TestEchoConcurrentReaders: many readers at once, none of whom waits for another
// between settling and serving.
func TestEchoConcurrentReaders(t *testing.T) {
	tree := newClassTree(4, 100, EchoView{Factor: 300, Buffer: 8})
	tree.limit = 20 * tree.bytes
	const readers, passes = 8, 3
	var group sync.WaitGroup
	for reader := range readers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(10, uint64(reader)))
			for range passes {
				tree.pass(r)
			}
		})
	}
	group.Wait()
	s := tree.order.Stats()
	want := readers * passes * len(tree.names) / 3
	if off := int(s.Fresh) - want; off > want/50 || off < -want/50 {
		t.Errorf("%d of %d requests were fresh, want %d", s.Fresh, tree.reads, want)
	}
	if s.Fresh+s.Echoes != uint64(tree.reads) {
		t.Errorf("%d fresh and %d echoes are not %d requests", s.Fresh, s.Echoes, tree.reads)
	}
	tree.echoes.Close()
	for s, n := range tree.held {
		if n != 0 {
			t.Fatalf("%s is held %d times after Close", s, n)
		}
	}
}

// TestEchoGivesBack: requests that do not come, overlap or fail leave the books
// in order.
func TestEchoGivesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factor := Factor(rapid.SampledFrom([]int{100, 150, 200, 300, 137}).Draw(t, "factor"))
		tree := newClassTree(2, 6, EchoView{Factor: factor, Buffer: rapid.IntRange(1, 5).Draw(t, "buffer")})
		var settled []*Settled[string, string, string]
		var of []string
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			name := rapid.SampledFrom(tree.names).Draw(t, "name")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				tree.read(name)
			case 2:
				settled = append(settled, tree.order.Settle(HashName(0, name), classOf(name), 0))
				of = append(of, name)
			case 3:
				tree.order.Again(HashName(0, name), rapid.Bool().Draw(t, "own"))
			case 4:
				tree.limit = rapid.Int64Range(0, 100).Draw(t, "limit")
				tree.echoes.Trim()
			case 5:
				if len(settled) == 0 {
					continue
				}
				s, name := settled[0], of[0]
				settled, of = settled[1:], of[1:]
				end := rapid.IntRange(0, 2).Draw(t, "end")
				if end == 0 {
					s.GiveBack()
					break
				}
				s.Take()
				if end == 1 {
					s.Damaged()
					break
				}
				tree.held[name]++
				if !s.Join(name, name, tree.bytes) {
					tree.held[name]--
				}
			case 6:
				tree.echoes.Release(rapid.Int64Range(0, 50).Draw(t, "bytes"))
			}
			checkPools(t, tree.echoes)
		}
		for _, s := range settled {
			s.GiveBack()
		}
		checkPools(t, tree.echoes)
		for _, p := range tree.echoes.pools {
			if p.promised != 0 {
				t.Fatalf("%d fresh images are still awaited", p.promised)
			}
		}
		tree.echoes.Close()
		for s, n := range tree.held {
			if n != 0 {
				t.Fatalf("%s is held %d times after Close", s, n)
			}
		}
	})
}

// checkPools compares the sums that pools keep with what they hold.
func checkPools(t *rapid.T, e *Echoes[string, string, string]) {
	t.Helper()
	var all int64
	for i, p := range e.pools {
		owing, credits, bytes := 0, 0, int64(0)
		for j, x := range p.samples {
			if x.place != j || p.byKey[x.key] != x || (x.left > 0) != (j < p.owing) {
				t.Fatalf("sample %d of a pool that has %d owing: %+v", j, p.owing, x)
			}
			if x.left > 0 {
				owing++
			}
			credits += x.left
			bytes += x.bytes
		}
		if p.place != i || owing != p.owing || credits != p.credits || bytes != p.bytes || p.promised < 0 {
			t.Fatalf("pool %d: owing %d, credits %d, bytes %d; its books have %d, %d, %d, promised %d", i, owing, credits, bytes, p.owing, p.credits, p.bytes, p.promised)
		}
		all += bytes
	}
	if all != e.bytes {
		t.Fatalf("pools hold %d bytes, the books have %d", all, e.bytes)
	}
}

// TestEchoViewsAreBounded: old views are forgotten, with all that they hold.
func TestEchoViewsAreBounded(t *testing.T) {
	tree := newClassTree(3, 10, EchoView{Factor: 200})
	r := rand.New(rand.NewPCG(11, 12))
	tree.pass(r)
	first := tree.order
	for i := range MaxEchoViews {
		tree.order = tree.echoes.Open(EchoView{Factor: 200, Seed: uint64(i + 1)})
		tree.pass(r)
	}
	if !first.Gone() {
		t.Errorf("the first of %d views is still there", MaxEchoViews+1)
	}
	if got := len(tree.echoes.orders); got != MaxEchoViews {
		t.Errorf("%d views, want %d", got, MaxEchoViews)
	}
	if s := tree.echoes.Stats(); s.Fresh+s.Echoes != uint64(tree.reads) {
		t.Errorf("%d fresh and %d echoes of %d requests: those of forgotten views are missing", s.Fresh, s.Echoes, tree.reads)
	}
	got := first.Settle(1, "0", 0)
	got.Take()
	if got.Join("x", "x", 1) {
		t.Error("a view that was forgotten keeps an image")
	}
}

// TestEchoPoolsAreBounded: a tree of very many folders is not kept.
func TestEchoPoolsAreBounded(t *testing.T) {
	e := NewEchoes[int, int](EchoOptions[int]{Bytes: func() int64 { return 1 << 40 }, Drop: func(int) {}})
	o := e.Open(EchoView{Factor: 200})
	for i := range maxPools + 500 {
		s := o.Settle(mix(uint64(i)), i, 0)
		s.Take()
		s.Join(i, i, 1)
	}
	if len(e.pools) != maxPools || len(o.pools) != maxPools {
		t.Errorf("%d pools, and %d of the view, want %d", len(e.pools), len(o.pools), maxPools)
	}
}

// TestEchoVariants: where another fidelity is asked for, images of the old one
// are not served any more.
func TestEchoVariants(t *testing.T) {
	tree := newClassTree(1, 30, EchoView{Factor: 200})
	for _, name := range tree.names {
		tree.read(name)
	}
	s := tree.order.Settle(HashName(0, "0/0"), "0", 5)
	if got, echo := s.Echo(); echo {
		t.Errorf("an image of another fidelity, %s, is served", got)
	}
	s.GiveBack()
	if got := tree.echoes.Stats().Buffered; got != 0 {
		t.Errorf("%d images of the old fidelity are kept", got)
	}
}

// TestTurnsStayInBounds goes through all turns of all factors: a cycle has as many
// fresh requests as it must, whatever is chosen where there is a choice.
func TestTurnsStayInBounds(t *testing.T) {
	for f := NoEchoes; f <= MaxFactor; f += 1 + f/37 {
		c := f.cycle()
		if c.requests > 1<<14 || c.requests*uint32(NoEchoes) != c.fresh*uint32(f) {
			t.Fatalf("the cycle of %v is %+v", f, c)
		}
		r := rand.New(rand.NewPCG(13, uint64(f)))
		for _, eagerness := range []float64{0, 0.5, 1} {
			turn, phase, fresh := firstTurn, r.Uint32N(c.requests), uint32(0)
			for range 3 * c.requests {
				d := c.due(turn, phase)
				chosen := d == dueLast || d != dueEcho && r.Float64() < eagerness
				if chosen {
					fresh++
				}
				turn = c.after(turn, chosen)
				if lead := turn.lead(); lead < 0 || lead > 1 {
					t.Fatalf("echo%v leads by %d", f, lead)
				}
			}
			if fresh != 3*c.fresh || turn != firstTurn {
				t.Fatalf("echo%v: %d fresh in three cycles, want %d each; turn %d", f, fresh, c.fresh, turn)
			}
		}
	}
}

// TestTurnsCatchUp: where overlapping requests made a name fall behind or run
// ahead, the next ones make up for it.
func TestTurnsCatchUp(t *testing.T) {
	c := Factor(200).cycle()
	for _, lead := range []int{-1, 2} {
		turn, fresh := makeTurn(0, lead), 0
		for range 10 {
			d := c.due(turn, 0)
			chosen := d == dueLast || d == dueNow
			if chosen {
				fresh++
			}
			turn = c.after(turn, chosen)
		}
		if turn.lead() < 0 || turn.lead() > 1 || fresh != 5-lead {
			t.Errorf("from a lead of %d: %d fresh of 10 requests, want %d; a lead of %d is left", lead, fresh, 5-lead, turn.lead())
		}
	}
}

// TestNameTable compares it with a map.
func TestNameTable(t *testing.T) {
	var n nameTable
	want := map[uint64]turn{}
	r := rand.New(rand.NewPCG(14, 15))
	slots := 0
	for i := range 20_000 {
		h := mix(uint64(r.IntN(5000)))
		if _, known := n.get(h, 1<<20); !known {
			t.Fatal("there is no room in a table of 1 << 20")
		}
		v := makeTurn(uint32(i%10_000), i%4-1)
		slots += n.set(h, v)
		want[h&^(1<<turnBits-1)] = v
		if got, _ := n.get(h, 1<<20); got != v {
			t.Fatalf("a turn of %d was kept as %d", v, got)
		}
	}
	for h, v := range want {
		if got, known := n.get(h, 1<<20); got != v || !known {
			t.Fatalf("%x has %d, want %d", h, got, v)
		}
	}
	if n.used != len(want) || slots != len(n.slots) || len(n.slots) > 4*len(want) {
		t.Errorf("%d names in %d slots, grown by %d, of %d", n.used, len(n.slots), slots, len(want))
	}
	if _, known := n.get(0, len(n.slots)); known && n.full() {
		t.Error("a full table has room")
	}
	if got, known := n.get(mix(1), len(n.slots)); !known || got == 0 {
		t.Error("a name that is there is not known where the table is full")
	}
}

// TestEchoBeyondTheNames: names whose turn cannot be kept are fresh as often, by
// chance.
func TestEchoBeyondTheNames(t *testing.T) {
	tree := newClassTree(2, 200, EchoView{Factor: 200})
	tree.echoes.slots = maxSlots // as if other views had them all
	r := rand.New(rand.NewPCG(16, 17))
	for range 20 {
		tree.pass(r)
	}
	s := tree.order.Stats()
	if s.Names != 0 {
		t.Errorf("%d names are kept beyond the bound", s.Names)
	}
	if share := float64(s.Fresh) / float64(tree.reads); share < 0.45 || share > 0.55 {
		t.Errorf("%.3f of the requests were fresh, want about a half", share)
	}
}

// BenchmarkEchoMillion is the memory and time of a dataset of 1.3 million names.
func BenchmarkEchoMillion(b *testing.B) {
	const names, classes = 1_300_000, 1000
	e := NewEchoes[int, int](EchoOptions[int]{Bytes: func() int64 { return 1 << 24 }, Drop: func(int) {}})
	o := e.Open(EchoView{Factor: 200})
	for i := 0; b.Loop(); i++ {
		s := o.Settle(mix(uint64(i%names)), i%classes, 0)
		_, echo := s.Echo()
		s.Take()
		if s.Join(i%names, i, 1000) && echo {
			b.Fatal("an echo has joined its pool")
		}
	}
	b.ReportMetric(float64(8*len(o.names.slots))/float64(max(o.names.used, 1)), "B/name")
}
