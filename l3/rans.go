package l3

// The entropy coder is a range variant of asymmetric numeral systems (J. Duda,
// "Asymmetric numeral systems", arXiv:1311.2540; the decoding step by table is
// F. Giesen's, "Interleaved entropy coders", arXiv:1402.3392). A state of 32 bits
// holds the symbols to come; decoding one makes it smaller, and when less than
// 2^16 is left, a word of 16 bits is taken from the stream. A patch has several
// states, lanes, that take turns and share one stream of words.
//
// An encoder goes through the symbols backwards and does the reverse of every
// step.

const (
	// ransLow is the least state between two steps: a smaller one takes a word.
	ransLow = 1 << 16

	maxLogStreams = 5 // log2 of the largest number of lanes of a patch
	maxLanes      = 1 << maxLogStreams
)

// A ransSymbol is all that a step needs, in the encoder: slots first to
// first+frequency−1 of 2^bits are the symbol's, and rawBits bits of it follow,
// which are raw.
type ransSymbol struct {
	first, frequency uint16
	raw              uint16
	rawBits          uint8
}

// put returns the state from which a decoder gets x and the symbol. It may be
// 2^32 or more if x is not below limit.
func (s ransSymbol) put(x uint64, bits uint) uint64 {
	x = x<<s.rawBits | uint64(s.raw)
	f := uint64(s.frequency)
	q := x / f
	return q<<bits + uint64(s.first) + (x - q*f)
}

// limit is the least state from which put would pass 2^32.
func (s ransSymbol) limit(bits uint) uint64 {
	return uint64(s.frequency) << (32 - bits - uint(s.rawBits))
}

// A ransEncoder makes the stream of a patch, last symbol first.
type ransEncoder struct {
	bits   uint // log2 of slots of a table
	lanes  int
	states [maxLanes]uint32
	words  []uint16 // last one first
}

// reset begins a patch, all of whose steps renormalise.
func (e *ransEncoder) reset(bits uint, lanes int) {
	e.bits, e.lanes, e.words = bits, lanes, e.words[:0]
	for i := range e.states {
		e.states[i] = ransLow
	}
}

// push adds a symbol before all those that were pushed, as a step that
// renormalises.
func (e *ransEncoder) push(lane int, s ransSymbol) {
	x := e.states[lane]
	if uint64(x) >= s.limit(e.bits) {
		e.words = append(e.words, uint16(x))
		x >>= 16
	}
	// As put, in 32 bits, which are enough now and divide faster.
	x = x<<s.rawBits | uint32(s.raw)
	f := uint32(s.frequency)
	q := x / f
	e.states[lane] = q<<e.bits + uint32(s.first) + (x - q*f)
}

// appendTo appends the states and the words.
func (e *ransEncoder) appendTo(b []byte) []byte {
	for _, x := range e.states[:e.lanes] {
		b = append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24))
	}
	for i := len(e.words) - 1; i >= 0; i-- {
		b = append(b, byte(e.words[i]), byte(e.words[i]>>8))
	}
	return b
}

// Steps at the end of a patch need no words: a lane that ends with any state,
// not just with one of at least 2^16, has 16 bits of it to spend on its last
// symbols. So the last steps do not renormalise.

// fitsUnrenormalised reports whether a lane can hold symbols, last one first,
// without renormalising, and returns the state that it must begin with.
func fitsUnrenormalised(symbols []ransSymbol, bits uint) (state uint32, ok bool) {
	if _, ok := putAll(0, symbols, bits); !ok {
		return 0, false
	}
	// The least final state that makes a first one of at least 2^16: the first
	// one grows with the final one.
	low, high := uint64(0), uint64(ransLow)
	for low < high {
		middle := (low + high) / 2
		if x, ok := putAll(middle, symbols, bits); ok && x < ransLow {
			low = middle + 1
		} else {
			high = middle
		}
	}
	x, ok := putAll(low, symbols, bits)
	return uint32(x), ok && x >= ransLow
}

// putAll puts symbols, last one first, and reports whether the state stays
// below 2^32.
func putAll(x uint64, symbols []ransSymbol, bits uint) (uint64, bool) {
	for _, s := range symbols {
		if x = s.put(x, bits); x>>32 != 0 {
			return 0, false
		}
	}
	return x, true
}
