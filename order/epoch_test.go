package order

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func epochOf(t rapid.TB, samples int, v StreamView, epoch uint64) []Item {
	t.Helper()
	e, err := NewEpoch(samples, v, epoch)
	if err != nil {
		t.Fatal(err)
	}
	items := make([]Item, e.Len())
	for i := range items {
		items[i] = e.At(i)
	}
	return items
}

// TestRandomGolden: the numbers of SplitMix64 as its authors publish them, and the
// numbers that it is begun with. They must never change.
func TestRandomGolden(t *testing.T) {
	r := random{state: 1234567}
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := r.next(); got != want {
			t.Fatalf("next() = %d, want %d", got, want)
		}
	}
	r = newRandom(forPermutation, 7, 3)
	if want := uint64(0xb130fc8a743c26d4); r.state != want {
		t.Errorf("the state for permutation 3 of seed 7 is %#x, want %#x", r.state, want)
	}
}

// TestEpochGolden: orders that must never change, since runs are resumed in them.
func TestEpochGolden(t *testing.T) {
	for _, c := range []struct {
		samples int
		v       StreamView
		epoch   uint64
		want    string // a number with ' is an echo
	}{
		{10, StreamView{Ranks: 1, Factor: 100}, 0, " 5 2 1 0 7 9 4 6 3 8"},
		{10, StreamView{Ranks: 1, Factor: 100, Seed: 7}, 3, " 6 3 7 4 1 8 9 0 2 5"},
		{7, StreamView{Ranks: 3, Rank: 2, Factor: 100, Seed: 7}, 3, " 5 1 4"},
		{5, StreamView{Ranks: 1, Factor: 200, Seed: 7, Buffer: 4}, 3, " 4 3 3' 0 1 1' 4' 0' 2 2'"},
		{5, StreamView{Ranks: 2, Rank: 1, Factor: 150, Seed: 9}, 1 << 40, " 3 0 4 4'"},
	} {
		got := ""
		for _, x := range epochOf(t, c.samples, c.v, c.epoch) {
			got += fmt.Sprint(" ", x.Sample)
			if x.Echo {
				got += "'"
			}
		}
		if got != c.want {
			t.Errorf("%d samples, %+v, epoch %d:%s, want%s", c.samples, c.v, c.epoch, got, c.want)
		}
	}
}

// views draws views of streams.
func views(t *rapid.T) StreamView {
	v := StreamView{
		Seed:   rapid.Uint64().Draw(t, "seed"),
		Factor: Factor(rapid.SampledFrom([]int{100, 101, 133, 150, 200, 250, 300, 700, 10000}).Draw(t, "factor")),
		Buffer: rapid.SampledFrom([]int{0, 1, 2, 5, 40}).Draw(t, "buffer"),
		Ranks:  rapid.SampledFrom([]int{1, 2, 3, 8, 300}).Draw(t, "ranks"),
	}
	v.Rank = rapid.IntRange(0, v.Ranks-1).Draw(t, "rank")
	return v
}

// TestEpochProperties: what docs/streams.md promises of every order.
func TestEpochProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples, v := rapid.IntRange(0, 120).Draw(t, "samples"), views(t)
		epoch := rapid.Uint64().Draw(t, "epoch")
		items := epochOf(t, samples, v, epoch)
		n, err := EpochLen(samples, v)
		if err != nil || n != len(items) {
			t.Fatalf("EpochLen is %d (%v), and there are %d items", n, err, len(items))
		}
		if !slices.Equal(items, epochOf(t, samples, v, epoch)) {
			t.Fatal("made twice, the order differs")
		}
		checkItems(t, items, samples, v)
	})
}

// checkItems: each sample of the rank comes fresh once and as often again as the
// factor has it, and of no more samples than the buffer holds an echo is to come.
func checkItems(t *rapid.T, items []Item, samples int, v StreamView) {
	count := map[int]int{}
	live, most := map[int]bool{}, 0
	for i, x := range items {
		if x.Sample < 0 || x.Sample >= samples {
			t.Fatalf("item %d is sample %d of %d", i, x.Sample, samples)
		}
		if x.Echo != (count[x.Sample] > 0) {
			t.Fatalf("item %d, sample %d, comes for the %d. time; echo %v", i, x.Sample, count[x.Sample]+1, x.Echo)
		}
		count[x.Sample]++
		live[x.Sample] = true
		if x.Last {
			delete(live, x.Sample)
		}
		most = max(most, len(live))
	}
	buffer := v.Buffer
	if buffer == 0 {
		buffer = DefaultBuffer
	}
	if len(live) > 0 || most > buffer {
		t.Fatalf("of %d samples an echo is to come at a time, of %d in the end; the buffer holds %d", most, len(live), buffer)
	}
	mine := (samples + v.Ranks - 1) / v.Ranks
	if len(count) != mine || len(items) != mine*int(v.Factor)/100 {
		t.Fatalf("%d items of %d samples, of %d in %d ranks", len(items), len(count), samples, v.Ranks)
	}
	least := int(v.Factor) / 100
	for s, n := range count {
		if n < least || n > least+1 || n > least && v.Factor%100 == 0 {
			t.Fatalf("sample %d comes %d times", s, n)
		}
	}
}

// TestRanks: all ranks together have each sample once, and the padding, which is
// the beginning of the permutation, once more; all have the same number of items.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples, v := rapid.IntRange(1, 200).Draw(t, "samples"), views(t)
		whole := v
		whole.Rank, whole.Ranks, whole.Factor = 0, 1, NoEchoes
		first := epochOf(t, samples, whole, 5)
		padding := (samples+v.Ranks-1)/v.Ranks*v.Ranks - samples
		want := map[int]int{}
		for i := range samples + padding {
			want[first[i%samples].Sample]++
		}
		got, length := map[int]int{}, -1
		for v.Rank = range v.Ranks {
			items := epochOf(t, samples, v, 5)
			if length < 0 {
				length = len(items)
			}
			if len(items) != length {
				t.Fatalf("rank %d has %d items, others have %d", v.Rank, len(items), length)
			}
			for _, x := range items {
				if !x.Echo {
					got[x.Sample]++
				}
			}
		}
		for s := range samples {
			if got[s] != want[s] {
				t.Fatalf("sample %d is fresh %d times in all ranks, want %d", s, got[s], want[s])
			}
		}
	})
}

// TestOrdersDiffer: seeds and epochs that differ in one bit give orders that have
// nothing to do with each other.
func TestOrdersDiffer(t *testing.T) {
	const samples = 1000
	base := StreamView{Ranks: 1, Factor: 100, Seed: 42}
	first := epochOf(t, samples, base, 17)
	for bit := range 63 {
		other := base
		other.Seed ^= 1 << bit
		for what, items := range map[string][]Item{
			"seed": epochOf(t, samples, other, 17), "epoch": epochOf(t, samples, base, 17^1<<bit),
		} {
			same := 0
			for i := range items {
				if items[i] == first[i] {
					same++
				}
			}
			if same > 12 { // one in the mean
				t.Errorf("with bit %d of the %s changed, %d of %d samples stay in their place", bit, what, same, samples)
			}
		}
	}
}

// TestEvenly: every sample comes to every place about as often.
func TestEvenly(t *testing.T) {
	const samples, epochs = 10, 20_000
	var count [samples][samples]int
	for epoch := range uint64(epochs) {
		for place, x := range epochOf(t, samples, StreamView{Ranks: 1, Factor: 100, Seed: 3}, epoch) {
			count[place][x.Sample]++
		}
	}
	for place := range count {
		for s, n := range count[place] {
			if n < 1750 || n > 2250 { // 2000, and six times the spread of 42
				t.Errorf("sample %d is at place %d in %d of %d epochs", s, place, n, epochs)
			}
		}
	}
}

// TestEchoesSpread: echoes are not of what came just before, and fresh samples
// come all over the epoch.
func TestEchoesSpread(t *testing.T) {
	const samples, buffer = 20_000, 1000
	items := epochOf(t, samples, StreamView{Ranks: 1, Factor: 200, Seed: 1, Buffer: buffer}, 0)
	at := map[int]int{}
	near, apart, fresh := 0, 0, 0
	for i, x := range items {
		if x.Echo {
			apart += i - at[x.Sample]
			if i-at[x.Sample] < 100 {
				near++
			}
		} else if i < len(items)/2 {
			fresh++
		}
		at[x.Sample] = i
	}
	if mean := apart / samples; mean < buffer*8/10 || mean > buffer*12/10 {
		t.Errorf("an echo comes %d items after its sample in the mean", mean)
	}
	if near > samples*12/100 { // one in ten, if it leaves the buffer at random
		t.Errorf("%d of %d echoes come within 100 items", near, samples)
	}
	if fresh < samples*50/100 || fresh > samples*55/100 {
		t.Errorf("%d of %d samples come in the first half of the epoch", fresh, samples)
	}
}

func TestPart(t *testing.T) {
	e, err := NewEpoch(50, StreamView{Ranks: 1, Factor: 200}, 2)
	if err != nil {
		t.Fatal(err)
	}
	part := e.Part(40, 60)
	if part.Len() != 20 || part.Bytes() != 80 || e.Bytes() != 400 {
		t.Fatalf("a part of %d items, %d bytes of %d", part.Len(), part.Bytes(), e.Bytes())
	}
	for i := range part.Len() {
		if part.At(i) != e.At(40+i) {
			t.Errorf("item %d of the part is %+v, want %+v", i, part.At(i), e.At(40+i))
		}
	}
}

func TestEpochTooLarge(t *testing.T) {
	for _, c := range []struct {
		samples int
		f       Factor
		ranks   int
	}{{MaxSamples + 1, 100, 1}, {-1, 100, 1}, {MaxSamples, 101, 1}, {3_000_000, 10000, 1}} {
		if _, err := NewEpoch(c.samples, StreamView{Factor: c.f, Ranks: c.ranks}, 0); !errors.Is(err, ErrEpochTooLarge) {
			t.Errorf("%d samples, %d ranks, echo%v: %v", c.samples, c.ranks, c.f, err)
		}
	}
	if n, err := EpochLen(3_000_000, StreamView{Factor: 10000, Ranks: 8}); err != nil || n != 37_500_000 {
		t.Errorf("an epoch of 8 ranks: %d items, %v", n, err)
	}
}

func BenchmarkEpoch(b *testing.B) {
	for _, f := range []Factor{100, 200} {
		b.Run("million+echo"+f.String(), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if _, err := NewEpoch(1_000_000, StreamView{Ranks: 1, Factor: f}, uint64(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
