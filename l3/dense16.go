package l3

import (
	"math/bits"

	"prismfs/raster"
)

// The dense coding of 16 bits: planes, transform and predictors of the fast
// coding, residuals as tokens of an entropy coder whose tables are chosen by what
// is known of the neighbourhood. docs/format-l3.md is the specification.

const (
	valueTokens16 = 40            // tokens of 16-bit values
	holeToken16   = valueTokens16 // of a hole, in images with a hole value

	dense16Bits = 10 // log2 of the slots of a table

	// firstRawBits16 is how many raw bits fit into the step that decodes the
	// token: of a state of 2^16 or more, ten bits of table and these leave
	// something, so that one word makes it whole again. The rest takes a second
	// step.
	firstRawBits16 = 6
)

// tokens16 has the token of each value, rawBits16 how many raw bits follow a
// token.
var tokens16, rawBits16 = tokenTables16()

func tokenTables16() (tokens [1 << 16]uint8, rawBits [valueTokens16 + 1]uint8) {
	for v := range tokens {
		token, n, _ := valueToken(uint32(v))
		tokens[v], rawBits[token] = uint8(token), uint8(n)
	}
	return tokens, rawBits
}

// A slot of 16-bit values has, from its lowest bit on: eight bits of value, three
// that say how many raw bits the first step takes, the slot's offset within the
// token's slots (10 bits), the token's frequency (11 bits). The raw bits take the
// place of the lowest bits of the value; what stands there is how many more
// follow in a second step. A hole, whose value is 0, has slotHole for raw bits.
const (
	slotRaw16       = 8
	slotOffset16    = 11
	slotFrequency16 = 21
	slotHole        = 7
)

func slot16(token, offset, frequency uint32) uint32 {
	slot := offset<<slotOffset16 | frequency<<slotFrequency16
	if token == holeToken16 {
		return slot | slotHole<<slotRaw16
	}
	base, rawBits := tokenValue(token)
	first := min(rawBits, firstRawBits16)
	return slot | first<<slotRaw16 | base>>(rawBits-first) | (rawBits - first)
}

// Contexts of 16-bit values: a class and a level. Classes are the phases of
// planes, and in images with a hole value each of them in four zones.
const (
	levels16  = 32
	classes16 = 2 * raster.MaxChannels
	zones16   = 4
)

// level16 returns the level of a sum of magnitudes.
func level16(sum uint16) int {
	if sum < 8 {
		return int(sum)
	}
	e := bits.Len16(sum) - 1
	return min(levels16-1, 8+2*(e-3)+int(sum>>(e-1)&1))
}

// dense16Shape is what table sets of images without a hole value are, and
// dense16HoleShape of those with one.
var (
	dense16Shape = tableShape{
		bits: dense16Bits, tokens: valueTokens16, classes: classes16, levels: levels16, ids: true, slot: slot16,
	}
	dense16HoleShape = tableShape{
		bits: dense16Bits, tokens: valueTokens16 + 1, classes: classes16 * zones16, levels: levels16, ids: true, slot: slot16,
	}
)

// firstContext16 is the first context of a phase: its zone 0 and level 0. The
// other zones follow, then the next phase.
func firstContext16(plane int, odd, holes bool) int {
	class := contextClass(plane, odd)
	if holes {
		class *= zones16
	}
	return class * levels16
}

// noHole stands for the hole value of an image that has none.
const noHole = -1

// plainTransforms are the transform bytes with which no plane has a share of
// another one, by the number of channels. Images with a hole value have no
// others: where one channel has a hole, it tells nothing of the others.
var plainTransforms = [raster.MaxChannels + 1]uint8{1: 0, 2: 1, 3: 5, 4: 5}
