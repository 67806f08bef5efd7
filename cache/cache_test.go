package cache

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errFill = errors.New("no such image")

func TestNewRefusesNonsense(t *testing.T) {
	register := func(int) (int32, error) { return 1, nil }
	for name, opt := range map[string]Options{
		"budget below a page": {Budget: pageBytes - 1, Medium: NewMemory(warmBytes)},
		"negative budget":     {Budget: -1, Medium: NewMemory(warmBytes)},
		"negative allowance":  {Budget: 1 << 20, PinAllowance: -1, Medium: NewMemory(warmBytes)},
		"sum overflows":       {Budget: 1 << 20, PinAllowance: math.MaxInt64, Medium: NewMemory(warmBytes)},
		"no medium":           {Budget: 1 << 20},
		"register alone":      {Budget: 1 << 20, Medium: NewMemory(warmBytes), Register: register},
		"budget beyond 2^60":  {Budget: maxBytes + 1, Medium: NewMemory(warmBytes)},
	} {
		if _, err := New[int](opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestConcurrentMissesShareOneFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 32
		m := &watched{Medium: NewMemory(warmBytes)}
		c := newCache(t, Options{Budget: 8 * unit, Medium: m})
		var fills atomic.Int32
		release := make(chan struct{})
		got := make([]*Buffer[int], callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				b, err := c.Get(7, 100, func(dst []byte) error {
					fills.Add(1)
					<-release
					write(7, dst)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				got[i] = b
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if fills.Load() != 1 {
			t.Fatalf("%d fills", fills.Load())
		}
		s := c.Stats()
		if s.Misses != 1 || s.Hits != callers-1 || s.Pinned != 1 || s.PinnedBytes != unit {
			t.Fatalf("stats %+v", s)
		}
		for i, b := range got {
			if b != got[0] {
				t.Fatal("callers got different buffers")
			}
			b.Unpin()
			if wantIdle := i == callers-1; (c.Stats().Pinned == 0) != wantIdle {
				t.Fatalf("after %d of %d unpins: %+v", i+1, callers, c.Stats())
			}
		}
		mustAddUp(t, c)
		m.mustHold(t, 1)
	})
}

// Every way in which a fill can go wrong: everybody who waits gets the error,
// nobody remembers it, and no memory stays behind.
func TestFailedFill(t *testing.T) {
	for name, tc := range map[string]struct {
		fill func([]byte) error
		want func(error) bool
		ends bool // the filling goroutine
	}{
		"error":  {fill: func([]byte) error { return errFill }, want: func(err error) bool { return err == errFill }},
		"panic":  {fill: func([]byte) error { panic("codec bug") }, want: func(err error) bool { return strings.Contains(err.Error(), "codec bug") }},
		"bounds": {fill: func(dst []byte) error { dst[len(dst)] = 1; return nil }, want: func(err error) bool { return strings.Contains(err.Error(), "out of range") }},
		"append": {fill: func(dst []byte) error { _ = dst[:len(dst)+1]; return nil }, want: func(err error) bool { return strings.Contains(err.Error(), "out of range") }},
		"exit":   {fill: func([]byte) error { runtime.Goexit(); return nil }, want: func(err error) bool { return err == errAbandoned }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &watched{Medium: NewMemory(warmBytes)}
				c := newCache(t, Options{Budget: 8 * unit, Medium: m})
				release := make(chan struct{})
				var answered, wrong atomic.Int32
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						b, err := c.Get(1, 100, func(dst []byte) error { <-release; return tc.fill(dst) })
						answered.Add(1)
						if b != nil || err == nil || !tc.want(err) {
							wrong.Add(1)
							t.Errorf("got %v, %v", b, err)
						}
					})
				}
				synctest.Wait()
				close(release)
				wg.Wait()
				want := int32(8)
				if tc.ends {
					want--
				}
				if answered.Load() != want {
					t.Errorf("%d of %d were answered", answered.Load(), want)
				}
				mustAddUp(t, c)
				m.mustHold(t, 0)
				pass(t, c, 1, 100) // not remembered
				mustAddUp(t, c)
			})
		})
	}
}

func TestOldestGoesFirst(t *testing.T) {
	c := newCache(t, Options{Budget: 10 * unit})
	for key := range 10 {
		pass(t, c, key, pageBytes)
	}
	for _, key := range []int{3, 0} { // used again: 1 2 4 5 6 7 8 9 3 0
		b, err := c.Get(key, pageBytes, never(t))
		if err != nil {
			t.Fatal(err)
		}
		b.Unpin()
	}
	pass(t, c, 10, 1) // one byte takes a page
	if want := []int{0, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(cached(c, 12), want) {
		t.Fatalf("cached %v, want %v", cached(c, 12), want)
	}
	pass(t, c, 11, 3*pageBytes) // bytes count, not buffers: it needs 3 pages, and has 0.x of one to spare
	if want := []int{0, 3, 6, 7, 8, 9, 10, 11}; !slices.Equal(cached(c, 12), want) {
		t.Fatalf("cached %v, want %v", cached(c, 12), want)
	}
	if s := c.Stats(); s.Evictions != 4 || s.Hits != 2 || s.Misses != 12 || s.Buffers != 8 {
		t.Fatalf("stats %+v", s)
	}
	mustAddUp(t, c)
}

func cached(c *Cache[int], n int) []int {
	var keys []int
	for key := range n {
		if c.Holds(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Time of last use is when the last pin ended, not when it began.
func TestUseEndsWithTheLastPin(t *testing.T) {
	c := newCache(t, Options{Budget: 3 * unit})
	first := mustGet(t, c, 0, 1)
	again := mustGet(t, c, 0, 1)
	pass(t, c, 1, 1)
	first.Unpin()
	pass(t, c, 2, 1)
	again.Unpin()
	pass(t, c, 3, 1)
	if want := []int{0, 2, 3}; !slices.Equal(cached(c, 4), want) {
		t.Fatalf("cached %v, want %v", cached(c, 4), want)
	}
}

func TestPinnedBuffersStay(t *testing.T) {
	c := newCache(t, Options{Budget: 4 * unit})
	a, b := mustGet(t, c, 0, pageBytes), mustGet(t, c, 1, pageBytes)
	for key := 2; key < 50; key++ {
		pass(t, c, key, pageBytes)
		mustAddUp(t, c)
	}
	for key, buf := range []*Buffer[int]{a, b} {
		got, err := buf.Slice(nil, 0, int(pageBytes))
		if err != nil || !slices.Equal(got, expect(key, pageBytes)) {
			t.Fatalf("buffer %d changed (%v)", key, err)
		}
		hit, err := c.Get(key, pageBytes, never(t))
		if err != nil || hit != buf {
			t.Fatalf("buffer %d left the cache (%v)", key, err)
		}
		hit.Unpin()
		buf.Unpin()
	}
	mustAddUp(t, c)
}

func TestUnpinTooOftenPanics(t *testing.T) {
	c := newCache(t, Options{Budget: 4 * unit})
	b := mustGet(t, c, 0, 1)
	b.Unpin()
	defer func() {
		if recover() == nil {
			t.Error("a second Unpin was taken")
		}
		mustAddUp(t, c)
	}()
	b.Unpin()
}

// Pins may exceed the budget by the allowance and no further. What they
// exceeded is given back when they end.
func TestPinAllowance(t *testing.T) {
	c := newCache(t, Options{Budget: 4 * unit, PinAllowance: 2 * unit, MaxWait: time.Nanosecond})
	var pins []*Buffer[int]
	for key := range 6 {
		pins = append(pins, mustGet(t, c, key, pageBytes))
	}
	if s := c.Stats(); s.PinnedBytes != 6*unit || s.Bytes != 6*unit || s.Limit != 6*unit || s.Evictions != 0 {
		t.Fatalf("stats %+v", s)
	}
	if _, err := c.Get(6, 1, fillOf(6)); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrNeverFits) {
		t.Fatalf("a seventh pin: %v", err)
	}
	mustAddUp(t, c)
	for _, b := range pins {
		b.Unpin()
		mustAddUp(t, c)
	}
	if s := c.Stats(); s.Bytes != 4*unit || s.Evictions != 2 || s.Pinned != 0 {
		t.Fatalf("stats %+v", s)
	}
}

func TestNoSpaceAtOnce(t *testing.T) {
	for _, size := range []int64{6*unit + 1, 1 << 40, math.MaxInt64, math.MaxInt64 - pageBytes} {
		c := newCache(t, Options{Budget: 4 * unit, PinAllowance: 2 * unit, MaxWait: time.Hour})
		pass(t, c, 1, 1)
		if _, err := c.Get(0, size, never(t)); !errors.Is(err, ErrNoSpace) || !errors.Is(err, ErrNeverFits) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if !c.Holds(1) {
			t.Errorf("%d bytes: something was evicted for what can never fit", size)
		}
		mustAddUp(t, c)
	}
	c := newCache(t, Options{Budget: 4 * unit})
	if _, err := c.Get(0, -1, never(t)); err == nil || errors.Is(err, ErrNoSpace) {
		t.Errorf("-1 bytes: %v", err)
	}
	// What exceeds the budget alone still goes through, out of the allowance.
	c = newCache(t, Options{Budget: 4 * unit, PinAllowance: 2 * unit})
	pass(t, c, 1, 5*pageBytes)
	if s := c.Stats(); s.Buffers != 0 || s.Bytes != 0 || s.Evictions != 1 {
		t.Errorf("after a buffer larger than the budget: %+v", s)
	}
}

func TestMissWaitsForAPinToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{Budget: 2 * unit, MaxWait: time.Minute})
		a, b := mustGet(t, c, 0, 1), mustGet(t, c, 1, 1)
		began := time.Now()
		done := make(chan *Buffer[int])
		go func() { done <- mustGet(t, c, 2, 1) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("there was no room")
		default:
		}
		b.Unpin()
		(<-done).Unpin()
		if waited := time.Since(began); waited != 30*time.Second {
			t.Errorf("went on after %v, the pin ended after 30 s", waited)
		}
		a.Unpin()
		if want := []int{0, 2}; !slices.Equal(cached(c, 3), want) {
			t.Errorf("cached %v, want %v", cached(c, 3), want)
		}
		mustAddUp(t, c)
	})
}

func TestFailingFillWakesWhoWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Options{Budget: unit, MaxWait: time.Minute})
		began := time.Now()
		go func() {
			_, err := c.Get(0, 1, func([]byte) error { time.Sleep(time.Second); return errFill })
			if err != errFill {
				t.Error(err)
			}
		}()
		synctest.Wait()
		pass(t, c, 1, 1)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("went on after %v, the fill failed after 1 s", waited)
		}
	})
}

func TestWaitEndsWithErrNoSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, 3 * time.Second} {
			c := newCache(t, Options{Budget: 2 * unit, MaxWait: wait})
			b := mustGet(t, c, 0, pageBytes+1)
			want := wait
			if want == 0 {
				want = defaultWait
			}
			began := time.Now()
			var wg sync.WaitGroup
			for range 4 { // of one key: all get the one error
				wg.Go(func() {
					if _, err := c.Get(1, 1, never(t)); !errors.Is(err, ErrNoSpace) {
						t.Errorf("got %v", err)
					}
				})
			}
			wg.Wait()
			if waited := time.Since(began); waited != want {
				t.Errorf("waited %v, want %v", waited, want)
			}
			mustAddUp(t, c)
			b.Unpin()
			pass(t, c, 1, 1)
			mustAddUp(t, c)
		}
	})
}

// The end of a wait is signalled by a timer, which may fire before the waiter
// listens. It must not sleep for ever then.
func TestShortestWaitsEnd(t *testing.T) {
	for i := range 1500 {
		c := newCache(t, Options{Budget: unit, MaxWait: time.Duration(i%300) * 100})
		b := mustGet(t, c, 0, 1)
		if c.opt.MaxWait == defaultWait {
			continue
		}
		if _, err := c.Get(1, 1, never(t)); !errors.Is(err, ErrNoSpace) {
			t.Fatal(err)
		}
		b.Unpin()
	}
}

// While one buffer's memory is being freed, its bytes are promised to who
// evicted it: others evict for their own need, and not for more.
func TestNoMoreIsEvictedThanNeeded(t *testing.T) {
	t.Run("misses", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &watched{Medium: NewMemory(warmBytes), freeing: make(chan struct{})}
			c := newCache(t, Options{Budget: 8 * unit, Medium: m})
			for key := range 8 {
				pass(t, c, key, pageBytes)
			}
			var wg sync.WaitGroup
			for key := 10; key < 13; key++ {
				wg.Go(func() { pass(t, c, key, pageBytes) })
			}
			synctest.Wait()
			if s := c.Stats(); s.Evictions != 3 || s.Bytes != 8*unit {
				t.Errorf("three misses wait: %+v", s)
			}
			close(m.freeing)
			wg.Wait()
			if want := []int{3, 4, 5, 6, 7, 10, 11, 12}; !slices.Equal(cached(c, 13), want) {
				t.Errorf("cached %v, want %v", cached(c, 13), want)
			}
			mustAddUp(t, c)
		})
	})
	t.Run("a large one is dying", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &watched{Medium: NewMemory(warmBytes), freeing: make(chan struct{})}
			c := newCache(t, Options{Budget: 8 * unit, PinAllowance: 4 * unit, Medium: m})
			pass(t, c, 0, 4*pageBytes)
			for key := 1; key < 5; key++ {
				pass(t, c, key, pageBytes)
			}
			var wg sync.WaitGroup
			for key := 10; key < 12; key++ {
				wg.Go(func() { pass(t, c, key, pageBytes) })
			}
			synctest.Wait()
			if s := c.Stats(); s.Evictions != 1 || s.Bytes != 8*unit-3*overheadBytes {
				t.Errorf("two misses wait, and the allowance is for pins: %+v", s)
			}
			close(m.freeing)
			wg.Wait()
			if s := c.Stats(); s.Evictions != 1 || s.Buffers != 6 {
				t.Errorf("%v: %+v", cached(c, 12), s)
			}
			mustAddUp(t, c)
		})
	})
	t.Run("unpins", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &watched{Medium: NewMemory(warmBytes), freeing: make(chan struct{})}
			c := newCache(t, Options{Budget: 2 * unit, PinAllowance: 2 * unit, Medium: m})
			var pins []*Buffer[int]
			for key := range 4 {
				pins = append(pins, mustGet(t, c, key, pageBytes))
			}
			var wg sync.WaitGroup
			for _, b := range pins {
				wg.Go(b.Unpin)
			}
			synctest.Wait()
			close(m.freeing)
			wg.Wait()
			if s := c.Stats(); s.Evictions != 2 || s.Bytes != 2*unit {
				t.Errorf("%+v", s)
			}
			mustAddUp(t, c)
		})
	})
}

func TestClosedCache(t *testing.T) {
	m := &watched{Medium: NewMemory(warmBytes)}
	c := newCache(t, Options{Budget: 8 * unit, Medium: m})
	pass(t, c, 0, 1)
	for range 3 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if m.closed != 1 {
		t.Errorf("medium closed %d times", m.closed)
	}
	for _, key := range []int{0, 1} {
		if _, err := c.Get(key, 1, never(t)); err != ErrClosed {
			t.Errorf("Get(%d) of a closed cache: %v", key, err)
		}
	}
	m.mustHold(t, 0)
	mustAddUp(t, c)
}

// Close while everything goes on: buffers pinned and idle, a fill running with
// others waiting for it, misses waiting for room.
func TestCloseWhileBusy(t *testing.T) {
	before := openDescriptors(t)
	for _, name := range []string{"memfd", "memfd registered", "memory"} {
		t.Run(name, func(t *testing.T) { closeWhileBusy(t, name) })
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func closeWhileBusy(t *testing.T, name string) {
	synctest.Test(t, func(t *testing.T) {
		m := &watched{Medium: NewMemory(warmBytes)}
		opt := Options{Budget: 3 * unit, Medium: m, MaxWait: time.Hour}
		k := newKernel()
		if name != "memory" {
			m.Medium = NewMemfd()
		}
		if name == "memfd registered" {
			opt.Register, opt.Unregister = k.register, k.unregister
		}
		c := newCache(t, opt)
		pinned := mustGet(t, c, 0, 1)
		again := mustGet(t, c, 0, 1)
		pass(t, c, 1, 1)
		mustGetClosed := func(key int, fill func([]byte) error) {
			if b, err := c.Get(key, 1, fill); b != nil || err != ErrClosed {
				t.Errorf("Get(%d): %v, %v", key, b, err)
			}
		}
		var wg sync.WaitGroup
		release := make(chan struct{})
		for range 3 {
			wg.Go(func() { mustGetClosed(2, func(dst []byte) error { <-release; write(2, dst); return nil }) })
		}
		synctest.Wait()
		roomless := func() { mustGetClosed(3, never(t)) }
		held := mustGet(t, c, 1, 1)
		wg.Go(roomless)
		wg.Go(roomless)
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		close(release)
		wg.Wait()
		if time.Since(began) != 0 {
			t.Error("somebody waited on")
		}
		for _, b := range []*Buffer[int]{pinned, held, again} {
			b.Unpin() // the last of them late, which changes nothing
		}
		mustAddUp(t, c)
		m.mustHold(t, 0)
		k.mustBeInOrder(t, 0)
		if s := c.Stats(); s.Bytes != 0 || s.Pinned != 0 || s.PinnedBytes != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Who waits for the room that a running fill takes is answered by Close, not
// by the end of the fill.
func TestCloseAnswersWhoWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &watched{Medium: NewMemory(warmBytes)}
		c := newCache(t, Options{Budget: unit, Medium: m, MaxWait: time.Hour})
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Get(0, 1, func([]byte) error { time.Sleep(time.Minute); return nil }); err != ErrClosed {
				t.Errorf("the fill: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := c.Get(1, 1, never(t)); err != ErrClosed || time.Since(began) != 0 {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		mustAddUp(t, c)
		m.mustHold(t, 0)
	})
}

func TestSliceBounds(t *testing.T) {
	const size = 10000
	eachMedium(t, 1<<20, func(t *testing.T, m Medium) {
		c := newCache(t, Options{Budget: 1 << 20, Medium: m})
		b := mustGet(t, c, 5, size)
		defer b.Unpin()
		want := expect(5, size)
		for _, r := range []struct{ off, n, got int64 }{
			{0, size, size}, {0, size + 100, size}, {1, 10, 10}, {4095, 2, 2}, {size - 1, 1, 1}, {size - 1, 9, 1},
			{size, 1, 0}, {size + 1, 1, 0}, {math.MaxInt64, 1, 0}, {3, 0, 0}, {1, size, size - 1},
		} {
			got, err := b.Slice(make([]byte, r.n), r.off, int(r.n))
			if err != nil || int64(len(got)) != r.got {
				t.Errorf("%d bytes at %d: got %d, %v", r.n, r.off, len(got), err)
				continue
			}
			if m.Name() == "memory" && cap(got) != len(got) {
				t.Errorf("%d bytes at %d: an append would write into the buffer", r.n, r.off)
			}
			if r.got > 0 && !slices.Equal(got, want[r.off:r.off+r.got]) {
				t.Errorf("%d bytes at %d differ", r.n, r.off)
			}
		}
		for _, r := range [][2]int64{{-1, 1}, {math.MinInt64, 1}, {0, -1}} {
			if _, err := b.Slice(nil, r[0], int(r[1])); err == nil {
				t.Errorf("%d bytes at %d were given", r[1], r[0])
			}
		}
		if b.Size() != size || b.BackingID() != 0 {
			t.Errorf("size %d, backing %d", b.Size(), b.BackingID())
		}
	})
}

func TestEmptyAndOddSizes(t *testing.T) {
	eachMedium(t, 64<<20, func(t *testing.T, m Medium) {
		w := &watched{Medium: m}
		c := newCache(t, Options{Budget: 64 << 20, Medium: w})
		sizes := []int64{0, 1, 4095, 4096, 4097, 65535, 65537, 1 << 21, 1<<21 + 1}
		for key, size := range sizes {
			b := mustGet(t, c, key, size)
			got, err := b.Slice(make([]byte, size), 0, int(size))
			if err != nil || !slices.Equal(got, expect(key, size)) {
				t.Errorf("%d bytes differ (%v)", size, err)
			}
			b.Unpin()
		}
		mustAddUp(t, c)
		w.mustHold(t, len(sizes))
	})
}

func ExampleCache() {
	c, err := New[string](Options{Budget: 1 << 20, Medium: NewMemory(warmBytes)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	b, err := c.Get("cat/001.npy", 5, func(dst []byte) error { copy(dst, "pixel"); return nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Unpin()
	p, err := b.Slice(nil, 1, 3)
	fmt.Printf("%s %v\n", p, err)
	// Output: ixe <nil>
}
