package l3

import "sync"

// A dense8Code is a table set as an encoder uses it.
type dense8Code struct {
	set *tableSet

	// tables has the table of each class and sum.
	tables [8][256]uint8

	// costs are those of a residual under a table, in units of 1/costUnit bits.
	costs [maxTables + 1][256]uint16

	// symbols are those of a value, which is a residual zigzagged, or an id.
	symbols [maxTables + 1][256]ransSymbol
}

// costUnit is how many units of cost a bit has. The sum over a row of 64 pairs
// stays below 2^20.
const costUnit = 256

// builtinDense8Codes are those of the built-in sets.
var builtinDense8Codes = sync.OnceValue(func() []*dense8Code {
	var codes []*dense8Code
	for _, set := range dense8Sets.sets() {
		codes = append(codes, newDense8Code(set))
	}
	return codes
})

func newDense8Code(set *tableSet) *dense8Code {
	c := &dense8Code{set: set}
	for class := range c.tables {
		for sum := range c.tables[class] {
			c.tables[class][sum] = set.contexts[class*levels8+level8(sum)]
		}
	}
	for _, t := range set.shape.numbers(set.count) {
		c.addTable(t, &set.frequencies[t])
	}
	return c
}

func (c *dense8Code) addTable(t int, frequencies *[maxTokens]uint16) {
	var first [maxTokens]uint16
	var costs [maxTokens]uint16
	for token, n := range frequencies[:dense8Shape.tokens] {
		first[token+1] = first[token] + n
		costs[token] = uint16(tokenBits(n, dense8Bits) * costUnit)
	}
	for v := range c.symbols[t] {
		token, rawBits, raw := valueToken(uint32(v))
		c.symbols[t][v] = ransSymbol{
			first: first[token], frequency: frequencies[token], raw: uint16(raw), rawBits: uint8(rawBits),
		}
		residual := uint8(v>>1) ^ -uint8(v&1)
		c.costs[t][residual] = costs[token] + uint16(rawBits)*costUnit
	}
}

// idCost returns the cost of a predictor id.
func (c *dense8Code) idCost(id int) uint32 {
	residual := uint8(id>>1) ^ -uint8(id&1)
	return uint32(c.costs[tableOfID][residual])
}
