package l3

import (
	"encoding/binary"
	"math"
	"slices"

	"prismfs/raster"
)

// A dense8Chooser chooses transforms and predictors. It is scratch memory of one
// goroutine.
type dense8Chooser struct {
	img    raster.Image
	search dense8Search
	code   *dense8Code

	samples [raster.MaxChannels]plane // as they are, in the order of planeChannels
	mixed   [2]planeRow               // of a trial of shares: a row and the one above it
	planes  [raster.MaxChannels]densePlane

	prediction, sums laneRow
	even             [evenPredictors]laneRow // residuals
	odd              [oddPredictors]laneRow
	tables           [maxPairs]uint8
	oddSums          [2]laneRow

	counts [8 * levels8][32]uint32
	ids    [maxTokens]uint32
}

func newDense8Chooser(e *dense8Encoder, code *dense8Code) *dense8Chooser {
	return &dense8Chooser{img: e.img, search: e.search, code: code}
}

// addCounts adds what was counted.
func (c *dense8Chooser) addCounts(total *dense8Count) {
	for context := range c.counts {
		for token, n := range c.counts[context] {
			total.values[context][token] += n
		}
	}
	for token, n := range c.ids {
		total.ids[token] += n
	}
}

// patch chooses for the patch of a region.
func (c *dense8Chooser) patch(p *densePatch, r region) {
	if p.uniform {
		return
	}
	if isConstant(c.img, r) {
		p.uniform = true
		return
	}
	channels := c.img.Channels
	for i := range channels {
		c.load(i, r)
	}
	if p.values == nil {
		// The transform does not depend on tables: once is enough.
		p.transform = c.chooseTransform(r)
	}
	c.start(p, r)
	coded := codedPlanes(p.constants, channels)
	words := depth8.words(r.pairs())
	if p.values == nil {
		p.ids = make([]uint8, coded*r.height)
		both := make([]uint8, 2*16*words*coded*r.height)
		p.values, p.levels = both[:len(both)/2], both[len(both)/2:]
	}
	row := 0
	for y := range r.height {
		for i := range channels {
			if p.constants>>i&1 != 0 {
				continue
			}
			c.loadRow(p.transform, i, y, r)
			at := 2 * row * 8 * words
			p.ids[row] = c.row(i, y, r, p.values[at:], p.levels[at:])
			row++
		}
	}
}

// load sets samples to a plane's.
func (c *dense8Chooser) load(plane int, r region) {
	s := c.img.Shape
	channel, step := planeChannels[s.Channels][plane], s.Channels
	for y := range r.height {
		src := r.row(c.img.Pix, y, s)[channel:]
		dst := &c.samples[plane][y]
		for k := range depth8.words(r.pairs()) {
			var even, odd uint64
			n := min(8, r.width/2-8*k)
			at := 16 * k * step
			for shift := range max(0, n) {
				even |= uint64(src[at]) << (8 * shift)
				odd |= uint64(src[at+step]) << (8 * shift)
				at += 2 * step
			}
			if n < 8 && r.width%2 != 0 { // something likely for the column that is missing
				v := uint64(src[at]) << (8 * max(0, n))
				even |= v
				odd |= v
			}
			dst.even[k], dst.odd[k] = even, odd
		}
	}
}

// start sets what precedes the rows of a patch.
func (c *dense8Chooser) start(p *densePatch, r region) {
	p.constants = 0
	for i := range c.img.Channels {
		base, constant := c.baseValue(p.transform, i, r)
		p.bases[i] = uint8(base)
		if constant {
			p.constants |= 1 << i
		}
		c.planes[i].start(base, constant, &depth8)
	}
}

// baseValue returns the first value of a plane as it is coded, and whether all
// values are the same.
func (c *dense8Chooser) baseValue(transform uint8, plane int, r region) (base uint64, constant bool) {
	mixed := &c.mixed[0]
	for y := range r.height {
		c.mix(mixed, transform, plane, y, r)
		if y == 0 {
			base = mixed.even[0] & 0xff
		}
		if !isConstantPhase(&mixed.even, base, r.pairs(), &depth8) || !isConstantPhase(&mixed.odd, base, r.width/2, &depth8) {
			return base, false
		}
	}
	return base, true
}

// mix sets dst to a row of a plane as it is coded.
func (c *dense8Chooser) mix(dst *planeRow, transform uint8, plane, y int, r region) {
	words := depth8.words(r.pairs())
	src := &c.samples[plane][y]
	if plane == 0 || plane == 3 {
		copy(dst.even[:words], src.even[:words])
		copy(dst.odd[:words], src.odd[:words])
		return
	}
	first, second := &c.samples[0][y], &c.samples[1][y]
	s := planeShares(transform, plane)
	s.decorrelate(&dst.even, &src.even, &first.even, &second.even, words, &depth8)
	s.decorrelate(&dst.odd, &src.odd, &first.odd, &second.odd, words, &depth8)
}

// loadRow sets a row of a plane as it is coded.
func (c *dense8Chooser) loadRow(transform uint8, plane, y int, r region) {
	row := &c.planes[plane].rows[y%3]
	c.mix(row, transform, plane, y, r)
	row.even.replicate(r.pairs(), &depth8)
}

// chooseTransform returns the transform byte for a patch.
func (c *dense8Chooser) chooseTransform(r region) uint8 {
	transform := uint8(0)
	if c.img.Channels >= 2 {
		transform |= c.chooseShares(1, len(plane1Shares), 0, r)
	}
	if c.img.Channels >= 3 {
		transform |= c.chooseShares(2, len(plane2Shares), 2, r)
	}
	return transform
}

// chooseShares returns the one of the first n choices of shares, as the transform
// byte has it, that leaves the least to code.
func (c *dense8Chooser) chooseShares(plane, n, shift int, r region) uint8 {
	least, best := uint32(math.MaxUint32), uint8(0)
	for k := range n {
		transform := uint8(k) << shift
		if cost := c.roughCost(plane, transform, r); cost < least {
			least, best = cost, transform
		}
	}
	return best
}

// roughCosts is about what a residual takes, in sixteenths of a bit, whatever
// its context.
var roughCosts = func() (costs [256]uint8) {
	for v := range costs {
		m := math.Abs(float64(int8(v)))
		costs[v] = uint8(16 * math.Log2(1+m))
		if v != 0 {
			costs[v] += 5
		}
	}
	return costs
}()

// roughCost is about what a plane takes under a transform: rows some way apart
// are predicted from the samples above and to the left.
func (c *dense8Chooser) roughCost(plane int, transform uint8, r region) uint32 {
	step := min(c.search.transformRows, max(1, r.height/8))
	high := depth8.high
	words := depth8.words(r.width / 2)
	cost := uint32(0)
	for y := step; y < r.height; y += step {
		above, row := &c.mixed[0], &c.mixed[1]
		c.mix(above, transform, plane, y-1, r)
		c.mix(row, transform, plane, y, r)
		carry := row.odd[0] & 0xff
		for k := range words {
			even, odd := row.even[k], row.odd[k]
			a := sub(even, avg(odd<<8|carry, above.even[k], high), high)
			b := sub(odd, avg(even, above.odd[k], high), high)
			carry = odd >> 56
			for range 8 {
				cost += uint32(roughCosts[byte(a)]) + uint32(roughCosts[byte(b)])
				a >>= 8
				b >>= 8
			}
		}
	}
	return cost
}

// row chooses the predictors of a row of a plane, writes its values and the levels
// of their contexts, and counts them. It returns the predictors' id.
func (c *dense8Chooser) row(plane, y int, r region, values, levels []uint8) uint8 {
	d, pairs, oddCount := &depth8, r.pairs(), r.width/2
	words := d.words(pairs)
	p := &c.planes[plane]
	row, above, above2 := &p.rows[y%3], &p.rows[(y+2)%3], &p.rows[(y+1)%3]
	magnitudes := &p.magnitudes[y%3]

	evenContexts(&c.sums, c.planes[:], plane, y, words, d)
	evenCosts := c.evenCosts(row, above, above2, plane, pairs)
	c.oddResiduals(row, above, oddCount, words)

	best, bestEven, bestOdd, even := uint32(math.MaxUint32), 0, 0, 0
	sums, kept := &c.oddSums[0], &c.oddSums[1]
	for range c.search.evens {
		even = slices.Index(evenCosts[:], slices.Min(evenCosts[:]))
		setMagnitudes(&magnitudes.even, &c.even[even], pairs)
		oddContexts(sums, c.planes[:], plane, y, words, d)
		least := best
		for odd, cost := range c.oddCosts(sums, plane, oddCount) {
			cost += evenCosts[even] + c.code.idCost(idOf(even, odd)) - c.code.idCost(idOf(even, 0))
			if cost < best {
				best, bestEven, bestOdd = cost, even, odd
			}
		}
		if best < least {
			sums, kept = kept, sums
		}
		evenCosts[even] = math.MaxUint32 / 2
	}

	if even != bestEven {
		setMagnitudes(&magnitudes.even, &c.even[bestEven], pairs)
	}
	setMagnitudes(&magnitudes.odd, &c.odd[bestOdd], pairs)
	if r.width%2 != 0 {
		c.setMissing(row, above, bestOdd, pairs)
	}
	id := idOf(bestEven, bestOdd)
	token, _, _ := valueToken(uint32(id))
	c.ids[token]++
	size := 8 * words
	c.keep(values, levels, &c.even[bestEven], &c.sums, contextClass(plane, false), pairs)
	c.keep(values[size:], levels[size:], &c.odd[bestOdd], kept, contextClass(plane, true), oddCount)
	return uint8(id)
}

// setMagnitudes sets magnitudes to those of residuals.
func setMagnitudes(magnitudes, residuals *laneRow, pairs int) {
	for k, v := range residuals[:depth8.words(pairs)] {
		magnitudes[k] = magnitude(v, depth8.high, depth8.low, depth8.bits)
	}
	magnitudes.replicate(pairs, &depth8)
}

// evenCosts sets the residuals of all even predictors and returns their costs,
// those of their ids with the first odd predictor included.
func (c *dense8Chooser) evenCosts(row, above, above2 *planeRow, plane, pairs int) (costs [evenPredictors]uint32) {
	d := &depth8
	words := d.words(pairs)
	for id := range evenPredictors {
		predictEven(&c.prediction, id, above, above2, words, d)
		if sumsLeft(id) {
			subtractFromLeft(&c.even[id], &row.even, &c.prediction, words, d)
		} else {
			subtract(&c.even[id], &row.even, &c.prediction, words, d)
		}
		c.even[id][words-1] &= d.laneMask(pairs - 8*(words-1))
	}
	tables := c.lookUp(&c.sums, contextClass(plane, false), pairs)
	costs4((*[4]uint32)(costs[:4]), (*[4]laneRow)(c.even[:4]), tables, &c.code.costs)
	costs4((*[4]uint32)(costs[4:]), (*[4]laneRow)(c.even[4:]), tables, &c.code.costs)
	for id := range costs {
		costs[id] += c.code.idCost(idOf(id, 0))
	}
	return costs
}

// oddResiduals sets the residuals of all odd predictors.
func (c *dense8Chooser) oddResiduals(row, above *planeRow, count, words int) {
	d := &depth8
	for id := range oddPredictors {
		predictOdd(&c.prediction, id, row, above, words, d)
		subtract(&c.odd[id], &row.odd, &c.prediction, words, d)
		c.odd[id][words-1] &= d.laneMask(count - 8*(words-1))
	}
}

// oddCosts returns the costs of the odd predictors.
func (c *dense8Chooser) oddCosts(sums *laneRow, plane, count int) (costs [oddPredictors]uint32) {
	tables := c.lookUp(sums, contextClass(plane, true), count)
	costs4(&costs, &c.odd, tables, &c.code.costs)
	return costs
}

// lookUp returns the tables of the contexts of count lanes.
func (c *dense8Chooser) lookUp(sums *laneRow, class, count int) []uint8 {
	of := &c.code.tables[class]
	tables := c.tables[:count]
	for i := 0; i < count; i += 8 {
		s := sums[i>>3]
		for j := range tables[i:min(i+8, count)] {
			tables[i+j] = of[byte(s)]
			s >>= 8
		}
	}
	return tables
}

// costs4 sets costs to those of four rows of residuals, whose tables are the same.
func costs4(costs *[4]uint32, residuals *[4]laneRow, tables []uint8, table *[maxTables + 1][256]uint16) {
	var c0, c1, c2, c3 uint32
	for k := 0; len(tables) > 0; k++ {
		w0, w1, w2, w3 := residuals[0][k], residuals[1][k], residuals[2][k], residuals[3][k]
		n := min(8, len(tables))
		for _, t := range tables[:n] {
			of := &table[t&maxTables]
			c0 += uint32(of[byte(w0)])
			c1 += uint32(of[byte(w1)])
			c2 += uint32(of[byte(w2)])
			c3 += uint32(of[byte(w3)])
			w0, w1, w2, w3 = w0>>8, w1>>8, w2>>8, w3>>8
		}
		tables = tables[n:]
	}
	*costs = [4]uint32{c0, c1, c2, c3}
}

// setMissing sets the odd column that a patch of odd width lacks: its residual
// is zero, so it is what was predicted.
func (c *dense8Chooser) setMissing(row, above *planeRow, id, pairs int) {
	d := &depth8
	predictOdd(&c.prediction, id, row, above, d.words(pairs), d)
	k, shift := d.place(pairs - 1)
	mask := d.laneMask(1) << shift
	row.odd[k] = row.odd[k]&^mask | c.prediction[k]&mask
}

// level8Of has the level of each sum.
var level8Of = func() (levels [256]uint8) {
	for sum := range levels {
		levels[sum] = uint8(level8(sum))
	}
	return levels
}()

// token8Of has the token of each value.
var token8Of = func() (tokens [256]uint8) {
	for v := range tokens {
		token, _, _ := valueToken(uint32(v))
		tokens[v] = uint8(token)
	}
	return tokens
}()

// keep writes count values of a phase and the levels of their contexts, and counts
// them. Both have room for whole words.
func (c *dense8Chooser) keep(values, levels []uint8, residuals, sums *laneRow, class, count int) {
	d := &depth8
	counts := (*[levels8][32]uint32)(c.counts[class*levels8:])
	for k := 0; 8*k < count; k++ {
		z, s, packed := zigzag(residuals[k], d.high, d.low, d.bits), sums[k], uint64(0)
		binary.LittleEndian.PutUint64(values[8*k:], z)
		for range min(8, count-8*k) {
			level := level8Of[byte(s)]
			counts[level%levels8][token8Of[byte(z)]&31]++
			packed = packed>>8 | uint64(level)<<56
			z, s = z>>8, s>>8
		}
		binary.LittleEndian.PutUint64(levels[8*k:], packed>>(8*max(0, 8*k+8-count)))
	}
}
