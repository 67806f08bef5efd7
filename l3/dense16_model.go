package l3

import (
	"math"

	"prismfs/raster"
)

// patchSymbols16 is a patch as what the entropy coder is given.
type patchSymbols16 struct {
	constant  bool // all of it is one pixel: there is nothing to code
	transform uint8
	constants uint8 // bit p set: plane p has one value everywhere
	bases     [raster.MaxChannels]uint16
	ids       []uint8  // predictors of rows: in each row, of each coded plane
	values    []uint16 // zigzagged residuals, in the order of decoding
	contexts  []uint16 // of each value, with holeMark
}

// holeMark is added to the context of a hole.
const holeMark = 1 << 15

// costs16 are what values cost, raw bits included, in units of 1/costUnit bits.
type costs16 struct {
	tokens [maxContexts][valueTokens16 + 1]uint16 // by context
	ids    [evenPredictors * oddPredictors]uint16
}

// priorCosts16 are the costs as long as no tables are known.
var priorCosts16 = func() *costs16 {
	c := new(costs16)
	for level := range levels16 {
		mean := 2 * sumOfLevel16(level) / priorTerms
		for token := range valueTokens16 {
			low, rawBits := tokenValue(uint32(token))
			z := float64(low) + (math.Exp2(float64(rawBits))-1)/2
			p := (1-priorTail)*geometric(z, mean) + priorTail*geometric(z, priorTailScale*mean+1)
			cost := uint16(min(-math.Log2(p), priorMaxBits) * costUnit)
			for class := range classes16 * zones16 {
				c.tokens[class*levels16+level][token] = cost
			}
		}
	}
	return c
}()

// The prior supposes that a zigzagged residual is distributed geometrically, its
// mean being twice that of the priorTerms magnitudes that a context sums, but for
// a share of priorTail of all, whose mean is several times that.
const (
	priorTerms     = 7
	priorTail      = 0.05
	priorTailScale = 4
	priorMaxBits   = 40
)

// geometric is the probability of z in a geometric distribution.
func geometric(z, mean float64) float64 {
	return math.Pow(mean/(1+mean), z) / (1 + mean)
}

// sumOfLevel16 is a typical sum of magnitudes of a level.
func sumOfLevel16(level int) float64 {
	if level < 8 {
		return float64(level) + 0.5
	}
	return (2.5 + float64(level&1)) * math.Exp2(float64((level-8)/2+2))
}

// A modeller16 turns patches into symbols: it chooses transform and predictors.
// It is scratch memory, which one goroutine uses for one patch after another.
type modeller16 struct {
	source *source16
	costs  *costs16
	joint  int // even predictors, best first, that are tried with all odd ones

	patch  patchPlanes16
	coded  [raster.MaxChannels]*plane // the planes of the patch less their shares
	planes [raster.MaxChannels]densePlane
	none   planeRow // no holes

	sums, zones, prediction laneRow
	residual, zigzagged     laneRow
	contexts                [2][maxPairs]uint16 // of the row's even and odd columns
}

func newModeller16(s *source16, costs *costs16, joint int) *modeller16 {
	return &modeller16{source: s, costs: costs, joint: joint}
}

// model sets s to the symbols of a patch. Once a patch has been modelled, its
// transform stays.
func (m *modeller16) model(s *patchSymbols16, r region, again bool) {
	img := m.source.img
	if s.constant = isConstant(img, r); s.constant {
		return
	}
	m.patch.load(m.source, r)
	if !again {
		s.transform = m.chooseTransform(r)
	}
	m.start(s, r)
	s.ids, s.values, s.contexts = s.ids[:0], s.values[:0], s.contexts[:0]
	for y := range r.height {
		for i := range img.Channels {
			if s.constants>>i&1 == 0 {
				m.modelRow(s, i, y, r)
			}
		}
	}
}

// start sets what a patch begins with.
func (m *modeller16) start(s *patchSymbols16, r region) {
	s.constants = 0
	for i := range m.source.img.Channels {
		m.coded[i] = &m.patch.rows[i]
		if i == 1 || i == 2 {
			m.coded[i] = m.patch.mix(i, s.transform, r)
		}
		base := m.baseValue(i, r)
		constant := isConstantPlane(m.coded[i], uint64(base), r, &depth16)
		if constant {
			s.constants |= 1 << i
		}
		s.bases[i] = base
		m.planes[i].start(uint64(base), constant, &depth16)
	}
}

// baseValue is the first value of a plane that is no hole, so that the first
// row of a patch that begins with holes is predicted well, too.
func (m *modeller16) baseValue(plane int, r region) uint16 {
	p := m.coded[plane]
	if m.source.hole != noHole {
		for y := range r.height {
			for x := range r.width {
				k, shift := depth16.place(x / 2)
				lanes := &p[y].even
				if x%2 != 0 {
					lanes = &p[y].odd
				}
				if v := uint16(lanes[k] >> shift); int(v) != m.source.hole {
					return v
				}
			}
		}
	}
	return uint16(p[0].even[0])
}

// A modelRow is a row of a plane that is being modelled, and what it depends on.
type modelRow struct {
	plane, y, pairs, words int
	odds                   int // odd columns
	row, above, above2     *planeRow
	magnitudes             *planeRow
	holes, holesAbove      *planeRow
}

// begin copies a row of a plane to where contexts are computed from.
func (m *modeller16) begin(plane, y int, r region) modelRow {
	p := &m.planes[plane]
	w := modelRow{
		plane: plane, y: y, pairs: r.pairs(), words: depth16.words(r.pairs()), odds: r.width / 2,
		row: &p.rows[y%3], above: &p.rows[(y+2)%3], above2: &p.rows[(y+1)%3], magnitudes: &p.magnitudes[y%3],
		holes: &m.none, holesAbove: &m.none,
	}
	*w.row = m.coded[plane][y]
	if m.source.hole != noHole {
		w.holes = &m.patch.holes[plane][y]
		w.holes.even.replicate(w.pairs, &depth16)
		if y > 0 {
			w.holesAbove = &m.patch.holes[plane][y-1]
		}
	}
	return w
}

// modelRow chooses the predictors of a row of a plane and appends its symbols.
func (m *modeller16) modelRow(s *patchSymbols16, plane, y int, r region) {
	p := m.begin(plane, y, r)
	evenContexts(&m.sums, m.planes[:], plane, y, p.words, &depth16)
	if m.source.hole != noHole {
		evenZones(&m.zones, p.holesAbove, p.words)
	}
	m.setContexts(false, plane, p.pairs)
	var costs [evenPredictors]int
	for id := range costs {
		m.tryEven(id, &p)
		costs[id] = m.cost(0, p.pairs)
	}
	least, even, odd := math.MaxInt, 0, 0
	for range m.joint {
		id := 0
		for other, c := range costs {
			if c < costs[id] {
				id = other
			}
		}
		if best, c := m.bestOdd(id, &p); costs[id]+c < least {
			least, even, odd = costs[id]+c, id, best
		}
		costs[id] = math.MaxInt / 2
	}
	s.ids = append(s.ids, uint8(idOf(even, odd)))
	m.tryEven(even, &p)
	m.keepEven(&p)
	m.appendPhase(s, 0, p.pairs, &p.holes.even)
	m.tryOdd(odd, &p)
	m.keepOdd(&p)
	m.setOddContexts(&p)
	m.appendPhase(s, 1, p.odds, &p.holes.odd)
}

// bestOdd returns the best odd predictor beside an even one, and what it costs,
// the two predictors' number included.
func (m *modeller16) bestOdd(even int, p *modelRow) (id, cost int) {
	m.tryEven(even, p)
	m.keepEven(p)
	m.setOddContexts(p)
	cost = math.MaxInt
	for odd := range oddPredictors {
		m.tryOdd(odd, p)
		if c := m.cost(1, p.odds) + int(m.costs.ids[idOf(even, odd)]); c < cost {
			id, cost = odd, c
		}
	}
	return id, cost
}

// tryEven sets residual and zigzagged to those of a row's even columns with a
// predictor, and the holes of the row to what is predicted.
func (m *modeller16) tryEven(id int, p *modelRow) {
	d := &depth16
	predictEven(&m.prediction, id, p.above, p.above2, p.words, d)
	if m.source.hole != noHole {
		fillEvenHoles(&p.row.even, &p.holes.even, &m.prediction, sumsLeft(id), p.pairs, p.words)
	}
	if sumsLeft(id) {
		subtractFromLeft(&m.residual, &p.row.even, &m.prediction, p.words, d)
	} else {
		subtract(&m.residual, &p.row.even, &m.prediction, p.words, d)
	}
	m.zigzag(p.words)
}

// fillEvenHoles sets the lanes of row that are holes to what is predicted.
func fillEvenHoles(row, holes, prediction *laneRow, sums bool, pairs, words int) {
	if !sums {
		for k := range row[:words] {
			row[k] = row[k]&^holes[k] | prediction[k]&holes[k]
		}
		return
	}
	left := uint64(0)
	for i := range pairs {
		k, shift := depth16.place(i)
		if holes[k]>>shift&1 != 0 {
			v := (left + prediction[k]>>shift) & 0xffff
			row[k] = row[k]&^(0xffff<<shift) | v<<shift
		}
		left = row[k] >> shift & 0xffff
	}
}

// keepEven makes a row what tryEven has left: magnitudes and replicated lanes.
func (m *modeller16) keepEven(p *modelRow) {
	p.row.even.replicate(p.pairs, &depth16)
	m.setMagnitudes(&p.magnitudes.even, p.words)
	p.magnitudes.even.replicate(p.pairs, &depth16)
}

// tryOdd is tryEven for the odd columns.
func (m *modeller16) tryOdd(id int, p *modelRow) {
	predictOdd(&m.prediction, id, p.row, p.above, p.words, &depth16)
	row := &p.row.odd
	if m.source.hole != noHole {
		for k := range row[:p.words] {
			row[k] = row[k]&^p.holes.odd[k] | m.prediction[k]&p.holes.odd[k]
		}
	}
	if p.odds < p.pairs { // the last one does not exist
		k, shift := depth16.place(p.odds)
		mask := uint64(0xffff) << shift
		row[k] = row[k]&^mask | m.prediction[k]&mask
	}
	subtract(&m.residual, row, &m.prediction, p.words, &depth16)
	m.zigzag(p.words)
}

func (m *modeller16) keepOdd(p *modelRow) {
	m.setMagnitudes(&p.magnitudes.odd, p.words)
	p.magnitudes.odd.replicate(p.pairs, &depth16)
}

func (m *modeller16) zigzag(words int) {
	d := &depth16
	for k := range m.zigzagged[:words] {
		m.zigzagged[k] = zigzag(m.residual[k], d.high, d.low, d.bits)
	}
}

// setOddContexts sets the contexts of the odd columns of a row whose even ones
// are known.
func (m *modeller16) setOddContexts(p *modelRow) {
	oddContexts(&m.sums, m.planes[:], p.plane, p.y, p.words, &depth16)
	if m.source.hole != noHole {
		oddZones(&m.zones, p.holes, p.holesAbove, p.words)
	}
	m.setContexts(true, p.plane, p.odds)
}

// setContexts sets the contexts of count columns from sums and zones.
func (m *modeller16) setContexts(odd bool, plane, count int) {
	holes := m.source.hole != noHole
	first := firstContext16(plane, odd, holes)
	contexts := &m.contexts[0]
	if odd {
		contexts = &m.contexts[1]
	}
	for i := range contexts[:count] {
		k, shift := depth16.place(i)
		context := first + level16(uint16(m.sums[k]>>shift))
		if holes {
			context += int(m.zones[k]>>shift&3) * levels16
		}
		contexts[i] = uint16(context)
	}
}

// setMagnitudes sets dst to the magnitudes of the residuals.
func (m *modeller16) setMagnitudes(dst *laneRow, words int) {
	for k, r := range m.residual[:words] {
		dst[k] = magnitude(r, depth16.high, depth16.low, depth16.bits)
	}
}

// cost is what count columns cost with the zigzagged residuals. A hole counts as
// a residual of 0, with every predictor.
func (m *modeller16) cost(odd, count int) int {
	total := 0
	var z uint64
	for i, context := range m.contexts[odd][:count] {
		if i%4 == 0 {
			z = m.zigzagged[i/4]
		}
		total += int(m.costs.tokens[context][tokens16[uint16(z)]])
		z >>= 16
	}
	return total
}

// appendPhase appends the symbols of count columns.
func (m *modeller16) appendPhase(s *patchSymbols16, odd, count int, holes *laneRow) {
	for i, context := range m.contexts[odd][:count] {
		k, shift := depth16.place(i)
		if holes[k]>>shift&1 != 0 {
			context |= holeMark
		}
		s.values = append(s.values, uint16(m.zigzagged[k]>>shift))
		s.contexts = append(s.contexts, context)
	}
}

// transformRows is how many rows apart the rows are that decide on a patch's
// transform.
const transformRows = 4

// roughLevel is the level of the context in which rough costs are counted.
const roughLevel = 14

// chooseTransform returns the transform byte of a patch whose planes are loaded.
func (m *modeller16) chooseTransform(r region) uint8 {
	channels := m.source.img.Channels
	if m.source.hole != noHole {
		return plainTransforms[channels]
	}
	transform := uint8(0)
	if channels >= 2 {
		transform |= m.chooseShares(1, len(plane1Shares), 0, r)
	}
	if channels >= 3 {
		transform |= m.chooseShares(2, len(plane2Shares), 2, r)
	}
	return transform
}

// chooseShares returns the best of the first n choices of shares of a plane, as
// the transform byte has it, shift bits up.
func (m *modeller16) chooseShares(plane, n, shift int, r region) uint8 {
	least, best := math.MaxInt, uint8(0)
	for k := range n {
		transform := uint8(k) << shift
		if c := m.roughCost(m.patch.mix(plane, transform, r), r); c < least {
			least, best = c, transform
		}
	}
	return best
}

// roughCost is about what every transformRows-th row of a plane costs, with one
// predictor for each phase. It is 0 for a constant plane.
func (m *modeller16) roughCost(p *plane, r region) int {
	d := &depth16
	if isConstantPlane(p, p[0].even[0]&d.laneMask(1), r, d) {
		return 0
	}
	step := transformRows
	if r.height < 4*step {
		step = 1
	}
	pairs, words := r.pairs(), d.words(r.pairs())
	costs := &priorCosts16.tokens[roughLevel]
	total := 1
	for y := min(step, r.height) - 1; y < r.height; y += step {
		row, above := &p[y], &p[max(0, y-1)]
		row.even.replicate(pairs, d)
		above.even.replicate(pairs, d)
		predictEven(&m.prediction, evenWeighted, above, above, words, d)
		subtract(&m.residual, &row.even, &m.prediction, words, d)
		m.zigzag(words)
		for i := range pairs {
			total += int(costs[tokens16[uint16(m.zigzagged[i/4]>>(i%4*16))]])
		}
		predictOdd(&m.prediction, oddBetween, row, above, words, d)
		subtract(&m.residual, &row.odd, &m.prediction, words, d)
		m.zigzag(words)
		for i := range r.width / 2 {
			total += int(costs[tokens16[uint16(m.zigzagged[i/4]>>(i%4*16))]])
		}
	}
	return total
}
