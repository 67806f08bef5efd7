package cache

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a cache told in the plainest way: what it holds, oldest use first.
type model struct {
	budget, limit int64
	idle, spent   []int
	worn          map[int]bool // of pinned ones, that they were spent
	pins          map[int]int
	charge        map[int]int64

	hits, misses, evictions uint64
}

func (m *model) used() (n int64) {
	for _, c := range m.charge {
		n += c
	}
	return n
}

// evict makes the next buffer give way and reports false where none can.
func (m *model) evict() bool {
	from := &m.spent
	if len(m.spent) == 0 {
		from = &m.idle
	}
	if len(*from) == 0 {
		return false
	}
	delete(m.charge, (*from)[0])
	*from = (*from)[1:]
	m.evictions++
	return true
}

func without(list []int, key int) []int {
	return slices.DeleteFunc(list, func(k int) bool { return k == key })
}

func (m *model) spend(key int) {
	switch {
	case m.pins[key] > 0:
		m.worn[key] = true
	case m.charge[key] > 0:
		m.idle, m.spent = without(m.idle, key), append(without(m.spent, key), key)
	}
}

// get says whether there is room, and for what has come it makes a pin.
func (m *model) get(key int, charge int64, fails bool) (ok bool) {
	if _, hit := m.charge[key]; hit {
		m.hits++
		m.idle, m.spent = without(m.idle, key), without(m.spent, key)
		delete(m.worn, key)
		m.pins[key]++
		return true
	}
	m.misses++
	if charge > m.limit {
		return false
	}
	for m.used()+charge > m.budget && m.evict() {
	}
	if m.used()+charge > m.limit {
		return false
	}
	if !fails {
		m.charge[key] = charge
		m.pins[key] = 1
	}
	return true
}

func (m *model) unpin(key int) {
	if m.pins[key]--; m.pins[key] > 0 {
		return
	}
	delete(m.pins, key)
	if m.worn[key] {
		delete(m.worn, key)
		m.spent = append(m.spent, key)
	} else {
		m.idle = append(m.idle, key)
	}
	for m.used() > m.budget && m.evict() {
	}
}

// Any sequence of operations leaves the cache as the model says.
func TestCacheFollowsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Int64Range(pageBytes, 12*unit).Draw(t, "budget")
		allowance := rapid.Int64Range(0, 6*unit).Draw(t, "allowance")
		watch := &watched{Medium: NewMemory(warmBytes)}
		k := newKernel()
		opt := Options{Budget: budget, PinAllowance: allowance, Medium: watch, MaxWait: time.Nanosecond}
		if rapid.Bool().Draw(t, "files") {
			watch.Medium = NewMemfd()
			opt.Register, opt.Unregister = k.register, k.unregister
			every := rapid.Int32Range(2, 5).Draw(t, "refuses every")
			k.refuse = func(n int32) bool { return n%every == 0 }
		}
		c, err := New[int](opt)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if s, n := watch.out(); s != 0 || n != 0 || k.held() != 0 || len(k.faults) > 0 {
				t.Errorf("after Close %d scratch memories, %d contents and %d registrations are out; %v", s, n, k.held(), k.faults)
			}
		}()
		m := model{budget: budget, limit: budget + allowance, pins: map[int]int{}, worn: map[int]bool{}, charge: map[int]int64{}}
		var pinned []*Buffer[int]
		sizeOf := func(key int) int64 { return int64(key) * 1500 }
		get := func(t *rapid.T) {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			fails := rapid.IntRange(0, 6).Draw(t, "fails") == 0
			charge := (sizeOf(key)+pageBytes-1)/pageBytes*pageBytes + overheadBytes
			_, hit := m.charge[key]
			room := m.get(key, charge, fails)
			b, err := c.Get(key, sizeOf(key), func(dst []byte) error {
				if fails {
					return errFill
				}
				write(key, dst)
				return nil
			})
			switch {
			case !room && !errors.Is(err, ErrNoSpace):
				t.Fatalf("no room for %d: %v", key, err)
			case room && !hit && fails && err != errFill:
				t.Fatalf("a failing fill of %d: %v", key, err)
			case room && (hit || !fails):
				if err != nil {
					t.Fatalf("Get(%d): %v", key, err)
				}
				got, err := k.read(b)
				if err != nil || !bytes.Equal(got, expect(key, sizeOf(key))) {
					t.Fatalf("content of %d differs (%v)", key, err)
				}
				pinned = append(pinned, b)
			}
		}
		unpin := func(t *rapid.T) {
			if len(pinned) == 0 {
				t.Skip("nothing is pinned")
			}
			i := rapid.IntRange(0, len(pinned)-1).Draw(t, "pin")
			b := pinned[i]
			pinned = slices.Delete(pinned, i, i+1)
			m.unpin(b.key)
			b.Unpin()
		}
		spend := func(t *rapid.T) {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			m.spend(key)
			if i := slices.IndexFunc(pinned, func(b *Buffer[int]) bool { return b.key == key }); i >= 0 {
				pinned[i].Spend()
			} else {
				c.Spend(key)
			}
		}
		check := func(t *rapid.T) {
			if err := c.audit(); err != nil {
				t.Fatal(err)
			}
			s := c.Stats()
			if s.Hits != m.hits || s.Misses != m.misses || s.Evictions != m.evictions || s.Bytes != m.used() ||
				s.Buffers != len(m.charge) || s.Pinned != len(m.pins) || s.Limit != m.limit || s.Budget != m.budget {
				t.Fatalf("stats %+v, the model says %+v, %d bytes", s, m, m.used())
			}
			for on, want := range map[shelf][]int{passing: m.idle, spent: m.spent} {
				if got := c.idle.lru[on].Keys(); !slices.Equal(got, want) && len(got)+len(want) > 0 {
					t.Fatalf("shelf %d has %v, the model says %v", on, got, want)
				}
			}
			if scratches, contents := watch.out(); scratches != 0 || contents != s.Buffers {
				t.Fatalf("%d scratch memories and %d contents are out with %d buffers", scratches, contents, s.Buffers)
			}
		}
		t.Repeat(map[string]func(*rapid.T){"get": get, "again": get, "unpin": unpin, "spend": spend, "": check})
	})
}

// Many readers of more than fits, with every kind of trouble: what is read is
// always right, the limit is never passed, and at the end everything adds up.
func TestConcurrentReaders(t *testing.T) {
	const budget, allowance = 2 << 20, 1 << 20
	test := func(t *testing.T, medium Medium, registered, lowDescriptors bool) {
		before := openDescriptors(t)
		m := &watched{Medium: medium}
		if lowDescriptors {
			m.descriptors = 20
		}
		k := newKernel()
		opt := Options{Budget: budget, PinAllowance: allowance, Medium: m, MaxWait: time.Minute}
		if registered {
			opt.Register, opt.Unregister = k.register, k.unregister
			k.refuse = func(n int32) bool { return n%7 == 0 }
		}
		c, err := New[int](opt)
		if err != nil {
			t.Fatal(err)
		}
		var gets, failed atomic.Uint64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				if err := readAtRandom(c, k, rand.New(rand.NewPCG(uint64(g), 1)), &gets, &failed); err != nil {
					t.Error(err)
				}
			})
		}
		stop := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if s := c.Stats(); s.Bytes > s.Limit || s.PinnedBytes > s.Bytes || s.PinnedBytes < 0 {
					t.Errorf("while running: %+v", s)
				}
			}
		})
		wg.Wait()
		close(stop)
		watcher.Wait()
		mustAddUp(t, c)
		s := c.Stats()
		if s.Hits+s.Misses != gets.Load() || s.Pinned != 0 || s.Evictions == 0 || failed.Load() == 0 {
			t.Errorf("%d Gets, %d failed: %+v", gets.Load(), failed.Load(), s)
		}
		if registered == (s.RegisterFailures == 0) {
			t.Errorf("%d registrations were refused", s.RegisterFailures)
		}
		if n := m.failedPublishes(); n > 0 {
			t.Errorf("the medium was full %d times although it is as large as the limit", n)
		}
		m.mustHold(t, s.Buffers)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		m.mustHold(t, 0)
		k.mustBeInOrder(t, 0)
		if after := openDescriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	}
	for _, registered := range []bool{false, true} {
		t.Run(fmt.Sprintf("registered=%v", registered), func(t *testing.T) {
			eachMedium(t, budget+allowance, func(t *testing.T, m Medium) {
				if m.Name() == "memory" && registered {
					t.Skip("memory has no files to register")
				}
				test(t, m, registered, false)
			})
		})
	}
	t.Run("few descriptors", func(t *testing.T) { test(t, NewMemfd(), false, true) })
}

// images are what readAtRandom reads: made once, since the race detector makes
// it slow.
var images = sync.OnceValue(func() [][]byte {
	list := make([][]byte, 200)
	for key := range list {
		list[key] = expect(key, int64(key*key)%40_000)
	}
	return list
})

// readAtRandom holds up to four buffers at a time, as a loader's worker does.
// Eight of these hold less than the limit, so that nobody waits for ever.
func readAtRandom(c *Cache[int], k *kernel, r *rand.Rand, gets, failed *atomic.Uint64) error {
	const rounds, hold = 300, 4
	var held []*Buffer[int]
	defer func() {
		for _, b := range held {
			b.Unpin()
		}
	}()
	for range rounds {
		key := r.IntN(len(images()))
		if r.IntN(2) == 0 {
			key /= 10 // some are asked for often, by several at once
		}
		fails, panics := r.IntN(20) == 0, r.IntN(50) == 0
		get := c.Get
		if key%5 == 0 { // a key is always one or the other
			get = c.GetReadable
		}
		b, err := get(key, int64(len(images()[key])), func(dst []byte) error {
			switch {
			case fails:
				return errFill
			case panics:
				panic(errFill.Error())
			}
			copy(dst, images()[key])
			return nil
		})
		gets.Add(1)
		if err != nil {
			if !strings.Contains(err.Error(), errFill.Error()) {
				return fmt.Errorf("Get(%d): %w", key, err)
			}
			failed.Add(1)
			continue
		}
		held = append(held, b)
		for _, b := range held { // also those held for a while
			got, err := k.read(b)
			if err != nil || !bytes.Equal(got, images()[b.key]) {
				return fmt.Errorf("content of %d differs (%v)", b.key, err)
			}
		}
		for len(held) > r.IntN(hold+1) {
			i := r.IntN(len(held))
			if r.IntN(4) == 0 {
				held[i].Spend()
			}
			held[i].Unpin()
			held = slices.Delete(held, i, i+1)
		}
	}
	return nil
}
