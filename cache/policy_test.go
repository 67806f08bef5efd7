package cache

import (
	"math"
	"math/rand/v2"
	"testing"
)

// passOver reads files 0 to n-1 in a random order, in theirs where r is nil, and
// returns the share of hits.
func passOver(t testing.TB, c *Cache[int], r *rand.Rand, first, n int) float64 {
	t.Helper()
	before := c.Stats()
	order := make([]int, n)
	for i := range order {
		order[i] = first + i
	}
	if r != nil {
		r.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, key := range order {
		pass(t, c, key, 100)
	}
	return float64(c.Stats().Hits-before.Hits) / float64(n)
}

// TestHitsOfShuffledPasses: with another order in each pass, LRU finds
// 1-a+a·ln a of a dataset of which a part a does not fit (a file is found if
// fewer files than fit were read since); Pin finds what has a place, whatever
// the order, and of the newcomers next to nothing.
func TestHitsOfShuffledPasses(t *testing.T) {
	const budget, passes = 256, 8
	for _, times := range []int{2, 4} {
		for _, policy := range []Policy{LRU, Pin} {
			c := newCache(t, Options{Budget: budget * unit, Policy: policy})
			r := rand.New(rand.NewPCG(1, uint64(times)))
			passOver(t, c, r, 0, times*budget)
			var hits float64
			for range passes {
				share := passOver(t, c, r, 0, times*budget)
				if places := float64(budget-budget/newcomerShare) / float64(times*budget); policy == Pin && share < places-2.0/(float64(times)*budget) {
					t.Errorf("a dataset of %d times the budget: a pass found %.4f, places are for %.4f", times, share, places)
				}
				hits += share / passes
			}
			a := 1 - 1/float64(times)
			lru := 1 - a + a*math.Log(a)
			t.Logf("a dataset of %d times the budget: %v finds %.3f, theory of LRU %.3f, budget/dataset %.3f", times, policy, hits, lru, 1/float64(times))
			switch {
			case policy == LRU && math.Abs(hits-lru) > 0.02:
				t.Errorf("LRU finds %.3f of a dataset of %d times the budget, want %.3f", hits, times, lru)
			case policy == Pin && (hits > 1/float64(times) || hits < 2*lru):
				t.Errorf("Pin finds %.3f of a dataset of %d times the budget, LRU %.3f", hits, times, lru)
			}
			mustAddUp(t, c)
		}
	}
}

// TestPinInTheSameOrder: LRU finds nothing then.
func TestPinInTheSameOrder(t *testing.T) {
	const budget = 256
	for policy, want := range map[Policy]float64{LRU: 0, Pin: (1 - 1.0/newcomerShare) / 6} {
		c := newCache(t, Options{Budget: budget * unit, Policy: policy})
		passOver(t, c, nil, 0, 6*budget)
		for range 5 {
			if got := passOver(t, c, nil, 0, 6*budget); math.Abs(got-want) > 0.005 {
				t.Errorf("%v finds %.3f, want %.3f", policy, got, want)
			}
		}
		mustAddUp(t, c)
	}
}

// TestPinOfLargeDatasets: what came first may lose its place before the first
// pass is over, but the gaps of those that are found teach patience.
func TestPinOfLargeDatasets(t *testing.T) {
	const budget, times = 256, 20
	c := newCache(t, Options{Budget: budget * unit, Policy: Pin})
	r := rand.New(rand.NewPCG(2, 2))
	for range 3 {
		passOver(t, c, r, 0, times*budget)
	}
	places := (1 - 1.0/newcomerShare) / times
	for range 5 {
		if got := passOver(t, c, r, 0, times*budget); got < 0.99*places {
			t.Errorf("a pass found %.4f, places are for %.4f", got, places)
		}
	}
	mustAddUp(t, c)
}

// TestPinLetsGo: a job that goes on to other files gets the places of those that
// nobody reads any more.
func TestPinLetsGo(t *testing.T) {
	const budget = 256
	c := newCache(t, Options{Budget: budget * unit, Policy: Pin})
	r := rand.New(rand.NewPCG(3, 3))
	for range 4 {
		passOver(t, c, r, 0, 2*budget)
	}
	for range 1 + staleBudgets { // of two budgets each
		passOver(t, c, r, 10_000, 2*budget)
	}
	places := (1 - 1.0/newcomerShare) / 2
	if got := passOver(t, c, r, 10_000, 2*budget); got < 0.99*places {
		t.Errorf("after the change a pass finds %.3f, places are for %.3f", got, places)
	}
	mustAddUp(t, c)
}

// TestPinKeepsWhatIsMadeAhead: of Ahead bytes that are made before they are asked
// for, each is there when it is, though others are read meanwhile.
func TestPinKeepsWhatIsMadeAhead(t *testing.T) {
	const budget = 256
	for _, policy := range []Policy{LRU, Pin} {
		c := newCache(t, Options{Budget: budget * unit, Policy: policy})
		r := rand.New(rand.NewPCG(4, 4))
		passOver(t, c, r, 0, 2*budget)
		ahead := int(c.Ahead(8) / unit)
		if ahead < budget/16 {
			t.Fatalf("%v: %d of %d may be made ahead", policy, ahead, budget)
		}
		made := 0
		for i := range 4 * budget { // nothing of which was there before
			for ; made < i+ahead; made++ {
				if did, err := c.Prefetch(10_000+made, 100, fillOf(10_000+made)); !did || err != nil {
					t.Fatalf("%v: %v, %v", policy, did, err)
				}
			}
			b, err := c.Get(10_000+i, 100, never(t))
			if err != nil {
				t.Fatal(err)
			}
			b.Unpin()
			b.Spend()
		}
		mustAddUp(t, c)
	}
}

// TestPinBesidePins: a pool of pinned buffers takes of what stays, newcomers keep
// their part, and afterwards the places are given away again.
func TestPinBesidePins(t *testing.T) {
	const budget, pool = 256, 64
	c := newCache(t, Options{Budget: budget * unit, Policy: Pin})
	r := rand.New(rand.NewPCG(5, 5))
	passOver(t, c, r, 0, 2*budget)
	var pinned []*Buffer[int]
	for key := 0; len(pinned) < pool; key++ {
		if !c.Holds(key) {
			pinned = append(pinned, mustGet(t, c, key, 100))
		}
	}
	passOver(t, c, r, 0, 2*budget)
	ahead := int(c.Ahead(8) / unit)
	for key := 6000; key < 6000+ahead; key++ {
		if did, err := c.Prefetch(key, 100, fillOf(key)); !did || err != nil {
			t.Fatalf("%v, %v", did, err)
		}
	}
	for key := 6000; key < 6000+ahead; key++ {
		if !c.Holds(key) {
			t.Errorf("of %d made ahead beside a pool of pins, %d is gone", ahead, key)
		}
	}
	const places = (1 - 1.0/newcomerShare) / 2
	if got := passOver(t, c, r, 0, 2*budget); got < 0.95*places {
		t.Errorf("with a pool of pins a pass finds %.3f, places are for %.3f", got, places)
	}
	for _, b := range pinned {
		b.Unpin()
	}
	mustAddUp(t, c)
	passOver(t, c, r, 0, 2*budget)
	if got := passOver(t, c, r, 0, 2*budget); got < 0.95*places {
		t.Errorf("after the pins have ended a pass finds %.3f, places are for %.3f", got, places)
	}
	mustAddUp(t, c)
}

// TestPinUnderPressure: the budget is kept when it shrinks, and used when it
// grows again.
func TestPinUnderPressure(t *testing.T) {
	const budget = 256
	c := newCache(t, Options{Budget: budget * unit, Policy: Pin})
	r := rand.New(rand.NewPCG(6, 6))
	passOver(t, c, r, 0, 2*budget)
	for _, now := range []int{budget / 2, budget / 16, budget} {
		c.SetBudget(int64(now) * unit)
		if s := c.Stats(); s.Bytes > int64(now)*unit {
			t.Errorf("a budget of %d is not kept: %+v", now, s)
		}
		mustAddUp(t, c)
		passOver(t, c, r, 0, 2*budget)
		places := (1 - 1.0/newcomerShare) * float64(now) / (2 * budget)
		if got := passOver(t, c, r, 0, 2*budget); got < 0.95*places {
			t.Errorf("with a budget of %d a pass finds %.3f, places are for %.3f", now, got, places)
		}
		mustAddUp(t, c)
	}
}

// TestSpendUnderPin: what has a place keeps it, what has none goes first.
func TestSpendUnderPin(t *testing.T) {
	const budget = 64
	c := newCache(t, Options{Budget: budget * unit, Policy: Pin})
	for key := range budget {
		pass(t, c, key, 100)
	}
	c.Spend(0)
	c.Spend(budget - 1)
	pass(t, c, 1000, 100)
	if !c.Holds(0) || c.Holds(budget-1) || !c.Holds(budget-2) {
		t.Error("not the newcomer that was spent went first")
	}
	mustAddUp(t, c)
}

// TestRetire: what is retired leaves its place to what is read next.
func TestRetire(t *testing.T) {
	const budget = 64
	c := newCache(t, Options{Budget: budget * unit, Policy: Pin})
	for key := range budget {
		pass(t, c, key, 100)
	}
	held := mustGet(t, c, 1, 100)
	c.Retire(func(key int) bool { return key%2 == 1 })
	if s := c.Stats(); s.Evictions != 0 || s.KeptBytes != (budget-budget/newcomerShare)/2*unit+unit {
		t.Errorf("after retiring every second one but one that is in use: %+v", s)
	}
	held.Unpin()
	mustAddUp(t, c)
	for key := 1000; key < 1000+budget/4; key++ {
		pass(t, c, key, 100)
	}
	for key := 0; key < 50; key += 2 {
		if !c.Holds(key) {
			t.Errorf("%d is gone, which had a place", key)
		}
	}
	for key := 1000; key < 1000+budget/4; key++ {
		if !c.Holds(key) {
			t.Errorf("%d is gone, which came when there were places", key)
		}
	}
	mustAddUp(t, c)
}

func TestParsePolicy(t *testing.T) {
	for _, p := range []Policy{LRU, Pin} {
		if got, err := ParsePolicy(p.String()); got != p || err != nil {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParsePolicy("fifo"); err == nil {
		t.Error("fifo is accepted")
	}
}
