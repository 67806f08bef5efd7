package order

import "math/bits"

// random is the generator of the order of epochs: SplitMix64. It is spelled out
// here, since the order of an epoch must be the same for ever: a run that is
// resumed with another version of prismfs must go on where it was.
type random struct{ state uint64 }

// The purposes for which numbers are drawn have generators of their own.
const (
	forPermutation uint64 = 1
	forEchoes      uint64 = 2
)

const (
	gamma = 0x9e3779b97f4a7c15 // the step of the state: 2^64 over the golden ratio
	mul1  = 0xbf58476d1ce4e5b9
	mul2  = 0x94d049bb133111eb
)

// newRandom returns the generator for a purpose. Words that differ in one bit
// give states that have nothing to do with each other.
func newRandom(words ...uint64) random {
	var r random
	for _, w := range words {
		r.state ^= w
		r.state = r.next()
	}
	return r
}

// next returns the next 64 bits.
func (r *random) next() uint64 {
	r.state += gamma
	z := r.state
	z = (z ^ z>>30) * mul1
	z = (z ^ z>>27) * mul2
	return z ^ z>>31
}

// below returns a number below n, which is not 0, all with the same probability:
// the high half of a product, where the low half does not say that it is one of
// the few too many.
func (r *random) below(n uint64) uint64 {
	high, low := bits.Mul64(r.next(), n)
	if low < n {
		for over := -n % n; low < over; {
			high, low = bits.Mul64(r.next(), n)
		}
	}
	return high
}
