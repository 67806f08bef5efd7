package l3

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A slowStep decodes a symbol of a table of 2^bits slots as the specification
// says, and returns the state after it.
func slowStep(x uint64, frequencies []uint16, bits uint, rawBits func(token int) uint8) (token int, raw, next uint64) {
	offset := x & (1<<bits - 1)
	for offset >= uint64(frequencies[token]) {
		offset -= uint64(frequencies[token])
		token++
	}
	x = uint64(frequencies[token])*(x>>bits) + offset
	k := rawBits(token)
	return token, x & (1<<k - 1), x >> k
}

// randomFrequencies adds up to 2^bits.
func randomFrequencies(rng *rand.Rand, bits uint) []uint16 {
	shape := tableShape{bits: bits, tokens: 24}
	var counts [maxTokens]uint32
	for range 1 + rng.IntN(30) {
		counts[rng.IntN(shape.tokens)] = 1 + rng.Uint32N(1<<rng.IntN(16))
	}
	f := normalise(&counts, &shape)
	return f[:shape.tokens]
}

func TestRANSComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		bits := uint(rapid.IntRange(9, 10).Draw(t, "bits"))
		lanes := rapid.IntRange(1, maxLanes).Draw(t, "lanes")
		count := rapid.IntRange(0, 2000).Draw(t, "symbols")
		free := min(count, rapid.IntRange(0, 40).Draw(t, "free")) // symbols at the end
		f := randomFrequencies(rng, bits)
		rawBits := func(token int) uint8 { return uint8(token % 7) }
		symbols := make([]ransSymbol, count)
		tokens := make([]int, count)
		for i := range symbols {
			for f[tokens[i]] == 0 || rng.IntN(3) > 0 {
				tokens[i] = rng.IntN(len(f))
			}
			first := uint16(0)
			for _, n := range f[:tokens[i]] {
				first += n
			}
			k := rawBits(tokens[i])
			symbols[i] = ransSymbol{first: first, frequency: f[tokens[i]], rawBits: k, raw: uint16(rng.IntN(1 << k))}
		}

		var e ransEncoder
		e.reset(bits, lanes)
		if !startFree(&e, symbols[count-free:], count-free) {
			free = 0
			e.reset(bits, lanes)
		}
		for i := count - free - 1; i >= 0; i-- {
			e.push(i%lanes, symbols[i])
		}
		stream := e.appendTo(nil)

		states := make([]uint64, lanes)
		for i := range states {
			states[i] = uint64(binary.LittleEndian.Uint32(stream[4*i:]))
		}
		words := stream[4*lanes:]
		for i, want := range symbols {
			token, raw, x := slowStep(states[i%lanes], f, bits, rawBits)
			if token != tokens[i] || raw != uint64(want.raw) {
				t.Fatalf("symbol %d: token %d, raw bits %d, want %d, %d", i, token, raw, tokens[i], want.raw)
			}
			if i < count-free && x < ransLow {
				x = x<<16 | uint64(binary.LittleEndian.Uint16(words))
				words = words[2:]
			}
			states[i%lanes] = x
		}
		if len(words) > 0 {
			t.Errorf("%d bytes are left", len(words))
		}
	})
}

// startFree lets an encoder begin with symbols, the first of which is number from,
// that do not renormalise, and reports whether it can.
func startFree(e *ransEncoder, symbols []ransSymbol, from int) bool {
	for lane := range e.lanes {
		var last []ransSymbol
		for i := len(symbols) - 1; i >= 0; i-- {
			if (from+i)%e.lanes == lane {
				last = append(last, symbols[i])
			}
		}
		state, ok := fitsUnrenormalised(last, e.bits)
		if !ok {
			return false
		}
		e.states[lane] = state
	}
	return true
}

// TestFreeSymbolsCostNothing checks what the search for final states is for: 16
// bits of symbols at the end fit into a state without a word.
func TestFreeSymbolsCostNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	for range 300 {
		var symbols []ransSymbol
		for range 2 { // of eight bits each
			symbols = append(symbols, ransSymbol{first: 2 * uint16(rng.IntN(256)), frequency: 2})
		}
		state, ok := fitsUnrenormalised(symbols, dense8Bits)
		if !ok || state < ransLow || state >= 4*ransLow {
			t.Fatalf("16 bits: state %#x, %v", state, ok)
		}
	}
	long := make([]ransSymbol, 40)
	for i := range long {
		long[i] = ransSymbol{first: 511, frequency: 1}
	}
	if _, ok := fitsUnrenormalised(long, dense8Bits); ok {
		t.Error("a state holds 360 bits")
	}
	if state, ok := fitsUnrenormalised(nil, dense8Bits); !ok || state != ransLow {
		t.Errorf("no symbols: state %#x, %v", state, ok)
	}
}
