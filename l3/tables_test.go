package l3

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkTables checks what decoders rely on: every context has a table, and every
// slot of every table a token.
func checkTables(t testing.TB, set *tableSet) {
	t.Helper()
	s := set.shape
	if set.count < 1 || set.count > maxTables || len(set.contexts) != s.contexts() {
		t.Fatalf("%d tables, %d contexts", set.count, len(set.contexts))
	}
	for context, table := range set.contexts {
		if int(table) >= set.count {
			t.Fatalf("context %d has table %d of %d", context, table, set.count)
		}
	}
	for _, i := range s.numbers(set.count) {
		sum := 0
		for token, n := range set.frequencies[i] {
			sum += int(n)
			if n > 0 && (token >= s.tokens || i == tableOfID && token >= maxIDTokens) {
				t.Fatalf("table %d has token %d", i, token)
			}
		}
		if sum != 1<<s.bits {
			t.Fatalf("frequencies of table %d add up to %d", i, sum)
		}
	}
}

// anyShape is a shape without ids, and with other numbers than those of the dense
// coding.
var anyShape = tableShape{bits: 10, tokens: 41, classes: 3, levels: 256}

func TestTablesSurviveTheirSection(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	var set tableSet
	for i := range 300 {
		shape := []*tableShape{&dense8Shape, &anyShape}[i%2]
		section := randomTableSection(rng, shape)
		if len(section) > maxTablesBytes {
			t.Fatalf("%d bytes", len(section))
		}
		if err := set.parse(section, shape); err != nil {
			t.Fatal(err)
		}
		checkTables(t, &set)
		if again := set.appendTo(nil); !bytes.Equal(again, section) {
			t.Fatalf("%d bytes became %d others", len(section), len(again))
		}
		for _, table := range shape.numbers(set.count) {
			at := table << shape.bits
			for token, n := range set.frequencies[table] {
				for offset := range uint32(n) {
					want := uint32(token) | offset<<6 | uint32(n)<<16
					if shape.slot != nil {
						want = shape.slot(uint32(token), offset, uint32(n))
					}
					if set.slots[at] != want {
						t.Fatalf("table %d, token %d, offset %d: slot %#x, want %#x", table, token, offset, set.slots[at], want)
					}
					at++
				}
			}
		}
	}
}

func TestLyingTables(t *testing.T) {
	good := randomTableSection(rand.New(rand.NewPCG(43, 44)), &dense8Shape)
	bits := func(fill func(w *bitWriter)) []byte {
		var w bitWriter
		fill(&w)
		return w.finish()
	}
	// A set of one table, for all contexts, with some frequencies.
	one := func(frequencies, ids []int) []byte {
		return bits(func(w *bitWriter) {
			w.put(1, tableCountBits)
			for range dense8Shape.classes {
				w.put(0, tableCountBits)
				w.number(0)
			}
			for _, list := range [][]int{frequencies, ids} {
				for token := range dense8Shape.tokens {
					n := 0
					if token < len(list) {
						n = list[token]
					}
					w.number(n)
				}
			}
		})
	}
	whole := []int{512}
	tests := []struct {
		name    string
		section []byte
		says    string
	}{
		{"good", one(whole, whole), ""},
		{"empty", nil, "none"},
		{"no tables", []byte{0}, "none"},
		{"table out of range", bits(func(w *bitWriter) { w.put(2, 4); w.put(2, 4); w.number(0) }), "table 2 of 2"},
		{"run too long", bits(func(w *bitWriter) { w.put(1, 4); w.put(0, 4); w.number(41) }), "for 41 levels of 40"},
		{"runs too long", bits(func(w *bitWriter) { w.put(1, 4); w.put(0, 4); w.number(30); w.put(0, 4); w.number(11) }), "for 11 levels of 10"},
		{"sum too small", one([]int{511}, whole), "table 0 add up to 511"},
		{"sum too large", one([]int{512, 1}, whole), "table 0 add up to 513"},
		{"largest numbers", one([]int{1<<15 - 1, 1<<15 - 1}, whole), "table 0 add up to 65534"},
		{"ids that do not exist", one(whole, append(make([]int, 18), 512)), "an id has token 18"},
		{"ids sum", one(whole, []int{1}), "table 15 add up to 1"},
		{"a byte too many", append(one(whole, whole), 0), "bits of which are used"},
		{"a byte too few", good[:len(good)-1], ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var set tableSet
			err := set.parse(test.section, &dense8Shape)
			if test.name == "good" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want one that says %q", err, test.says)
			}
		})
	}
	t.Run("bits after the end", func(t *testing.T) {
		section := one(whole, whole)
		used := 4 + 8*8 + 2*(13+23*4)
		if used%8 == 0 {
			t.Fatal("no bits are left")
		}
		section[len(section)-1] |= 0x80
		if err := new(tableSet).parse(section, &dense8Shape); !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}

// FuzzTables reads any bytes as tables of two shapes.
func FuzzTables(f *testing.F) {
	rng := rand.New(rand.NewPCG(45, 46))
	for i := range 20 {
		f.Add(randomTableSection(rng, []*tableShape{&dense8Shape, &anyShape}[i%2]))
	}
	f.Add(dense8Set0)
	f.Fuzz(func(t *testing.T, section []byte) {
		for _, shape := range []*tableShape{&dense8Shape, &anyShape} {
			var set, again tableSet
			if err := set.parse(section, shape); err != nil {
				checkOneKind(t, err)
				continue
			}
			checkTables(t, &set)
			if err := again.parse(set.appendTo(nil), shape); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.contexts, set.contexts) || again.frequencies != set.frequencies {
				t.Error("tables became others")
			}
		}
	})
}

// TestClusterTables checks sets made of any counts: what occurs can be coded, and
// in few bits.
func TestClusterTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		counts := make([][maxTokens]uint32, dense8Shape.contexts())
		var ids [maxTokens]uint32
		for range rapid.IntRange(0, 3000).Draw(t, "symbols") {
			context := rng.IntN(1 + rng.IntN(len(counts)))
			token := min(dense8Shape.tokens-1, int(rng.ExpFloat64()*float64(1+context%levels8)/4))
			counts[context][token] += 1 + rng.Uint32N(1+rng.Uint32N(5000))
			ids[rng.IntN(maxIDTokens)]++
		}
		set := clusterTables(counts, &ids, &dense8Shape)
		var parsed tableSet
		if err := parsed.parse(set.appendTo(nil), &dense8Shape); err != nil {
			t.Fatal(err)
		}
		for context := range counts {
			for token, n := range counts[context] {
				if n > 0 && set.frequencies[set.contexts[context]][token] == 0 {
					t.Fatalf("context %d cannot have token %d", context, token)
				}
			}
		}
		for token, n := range ids {
			if n > 0 && set.frequencies[tableOfID][token] == 0 {
				t.Fatalf("no id can have token %d", token)
			}
		}
		// One table for all contexts is what many must beat.
		var all [maxTokens]uint32
		for context := range counts {
			for token, n := range counts[context] {
				all[token] += n
			}
		}
		one := &tableSet{shape: dense8Shape, count: 1, contexts: make([]uint8, len(counts))}
		one.frequencies[0], one.frequencies[tableOfID] = normalise(&all, &dense8Shape), set.frequencies[tableOfID]
		least := one.symbolBits(counts, &ids) + float64(8*len(one.appendTo(nil)))
		if bits := set.symbolBits(counts, &ids) + float64(8*len(set.appendTo(nil))); bits > least*1.02+400 {
			t.Errorf("%d tables: %.0f bits, one table %.0f", set.count, bits, least)
		}
	})
}

// TestClusteringFindsKinds has contexts of three kinds, which clearly differ.
func TestClusteringFindsKinds(t *testing.T) {
	counts := make([][maxTokens]uint32, dense8Shape.contexts())
	for context := range counts {
		first := context % levels8 / 14 * 8
		for token := range 8 {
			counts[context][first+token] = 1000 >> token
		}
	}
	set := clusterTables(counts, &[maxTokens]uint32{1}, &dense8Shape)
	if set.count != 3 {
		t.Fatalf("%d tables for 3 kinds of contexts", set.count)
	}
	for context, table := range set.contexts {
		if want := set.contexts[context%levels8/14*14]; table != want {
			t.Errorf("context %d has table %d, others of its kind %d", context, table, want)
		}
	}
}

func TestNormalise(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 48))
	for range 500 {
		var counts [maxTokens]uint32
		for range 1 + rng.IntN(40) {
			counts[rng.IntN(dense8Shape.tokens)] = rng.Uint32N(1 << rng.IntN(31))
		}
		f := normalise(&counts, &dense8Shape)
		sum, bits, total, ideal := 0, 0.0, 0.0, 0.0
		for token, n := range counts {
			sum += int(f[token])
			total += float64(n)
			if n > 0 && f[token] == 0 {
				t.Fatalf("%d symbols of token %d cannot be coded", n, token)
			}
		}
		for token, n := range counts {
			if n > 0 {
				bits += float64(n) * tokenBits(f[token], dense8Bits)
				ideal += float64(n) * math.Log2(total/float64(n))
			}
		}
		if sum != 1<<dense8Bits {
			t.Fatalf("frequencies add up to %d", sum)
		}
		// The least frequency of 24 tokens is at most so far from its share.
		if bits > ideal+total*0.08+1 {
			t.Fatalf("%.0f bits instead of %.0f: %v", bits, ideal, counts)
		}
	}
}

func TestTokens(t *testing.T) {
	next := uint32(0)
	for token := range uint32(dense8Shape.tokens) {
		base, rawBits := tokenValue(token)
		if base != next {
			t.Errorf("token %d begins at %d, want %d", token, base, next)
		}
		for raw := range uint32(1) << rawBits {
			if gotToken, gotBits, gotRaw := valueToken(base + raw); gotToken != token || gotBits != rawBits || gotRaw != raw {
				t.Errorf("value %d: token %d, %d raw bits %d", base+raw, gotToken, gotBits, gotRaw)
			}
		}
		next = base + 1<<rawBits
	}
	if next != 256 {
		t.Errorf("tokens end at %d", next)
	}
}

// TestBuiltinTablesKnowEveryToken checks that with a built-in set anything can be
// coded.
func TestBuiltinTablesKnowEveryToken(t *testing.T) {
	for number, set := range dense8Sets.sets() {
		checkTables(t, set)
		for _, table := range set.shape.numbers(set.count) {
			tokens := set.shape.tokens
			if table == tableOfID {
				tokens = maxIDTokens
			}
			for token, n := range set.frequencies[table][:tokens] {
				if n == 0 {
					t.Errorf("set %d: table %d cannot code token %d", number, table, token)
				}
			}
		}
	}
}
