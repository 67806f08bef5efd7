package l3

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"prismfs/raster"
)

// Encoding goes over the image in passes. A pass chooses the transform and the
// predictors of every patch by what their symbols cost, and counts the symbols;
// tables made from the counts are what the next pass goes by. After the last
// one the symbols are coded.

// A search16 is how much an effort tries.
type search16 struct {
	passes int
	joint  int  // see modeller16
	edges  bool // both patch edges
}

var searches16 = [...]search16{
	1: {passes: 1, joint: 1},
	2: {passes: 2, joint: 1},
	3: {passes: 3, joint: 3, edges: true},
}

// dense16Draft encodes img with the dense coding of 16 bits.
func dense16Draft(img raster.Image, opt EncodeOptions) (*draft, error) {
	search := searches16[opt.effort()]
	e := &encoder16{source: chooseSource16(img), search: search, workers: opt.workers()}
	best := e.smallest(logEdge16(img.Shape), opt)
	if search.edges && max(img.Height, img.Width) > 1<<minLogEdge {
		if other := e.smallest(minLogEdge+maxLogEdge-best.logEdge, opt); other.size() < best.size() {
			best = other
		}
	}
	return best, nil
}

// logEdge16 is the edge of patches that are tried first. Larger ones are smaller in
// all, if by less with several channels, and fewer: then a decoder of thousands of
// lanes has too few of them.
func logEdge16(s raster.Shape) int {
	if s.Channels == 1 {
		return maxLogEdge
	}
	return minLogEdge
}

// An encoder16 encodes one image.
type encoder16 struct {
	source  *source16
	search  search16
	workers int

	logEdge    int
	grid       grid
	logStreams int
	patches    []patchSymbols16
	counts     *count16
	code       *code16
}

// smallest encodes the image in patches of 2^logEdge pixels, with the tables and
// the number of streams that make it the smallest.
func (e *encoder16) smallest(logEdge int, opt EncodeOptions) *draft {
	set, number := e.model(logEdge)
	size := e.counts.bits(set) / 8
	e.logStreams = logStreams16(size / float64(max(1, e.codedPatches())))
	return e.draft(set, number, opt)
}

// codedPatches is how many patches are not constant.
func (e *encoder16) codedPatches() int {
	n := 0
	for i := range e.patches {
		if !e.patches[i].constant {
			n++
		}
	}
	return n
}

// A patch has as many streams as its size bears: each takes some laneBytes more
// than one stream would, and they together at most 1 in minLaneShare of the patch.
const (
	laneBytes    = 2.5
	minLaneShare = 32
	minLogLanes  = 3 // fewer are hardly smaller, and slow
)

// logStreams16 is how many streams patches get if the coded ones are of so many
// bytes on average.
func logStreams16(patchBytes float64) int {
	n := minLogLanes
	for n < maxLogStreams && float64(int(2)<<n)*laneBytes*minLaneShare <= patchBytes {
		n++
	}
	return n
}

// draft codes all patches, which have been modelled.
func (e *encoder16) draft(set *tableSet, number int, opt EncodeOptions) *draft {
	e.code = newCode16(set)
	f := &draft{coding: Dense16, logEdge: e.logEdge, tableSet: number, logStreams: e.logStreams}
	if number == tableSetOwn {
		f.sections = appendSection(f.sections, sectionTables, sectionCritical, set.appendTo(nil))
	}
	f.sections = opt.Meta.appendSections(e.source.appendSections(f.sections))
	f.table = make([]tableEntry, e.grid.patches())
	f.patches = make([][]byte, e.grid.patches())
	encodePatches(f, e.grid, e.workers, func() patchAppender { return &appender16{e: e} })
	return f
}

// A count16 counts symbols by context and token.
type count16 struct {
	values  [][maxTokens]uint32
	ids     [maxTokens]uint32
	rawBits int
}

func newCount16(s *tableShape) *count16 {
	return &count16{values: make([][maxTokens]uint32, s.contexts())}
}

// add counts the symbols of a patch.
func (c *count16) add(p *patchSymbols16) {
	if p.constant {
		return
	}
	for i, context := range p.contexts {
		token := uint8(holeToken16)
		if context&holeMark == 0 {
			token = tokens16[p.values[i]]
		}
		c.values[context&^holeMark][token]++
		c.rawBits += int(rawBits16[token])
	}
	for _, id := range p.ids {
		token, rawBits, _ := valueToken(uint32(id))
		c.ids[token]++
		c.rawBits += int(rawBits)
	}
}

// join adds what o has counted.
func (c *count16) join(o *count16) {
	for context := range o.values {
		for token, n := range o.values[context] {
			c.values[context][token] += n
		}
	}
	for token, n := range o.ids {
		c.ids[token] += n
	}
	c.rawBits += o.rawBits
}

// model makes all passes over patches of 2^logEdge pixels, and returns the tables,
// and their number, with which the file is the smallest.
func (e *encoder16) model(logEdge int) (*tableSet, int) {
	e.logEdge, e.grid = logEdge, newGrid(e.source.img.Shape, logEdge)
	e.patches = make([]patchSymbols16, e.grid.patches())
	shape, sets := e.source.shape()
	costs := priorCosts16
	for pass := 1; ; pass++ {
		e.counts = e.pass(costs, pass > 1)
		set, number := e.counts.smallestTables(shape, sets.sets())
		if pass == e.search.passes {
			return set, number
		}
		costs = newCosts16(set)
	}
}

// bits returns about how many bits the symbols take under a table set.
func (c *count16) bits(set *tableSet) float64 {
	return set.symbolBits(c.values, &c.ids) + float64(c.rawBits)
}

// smallestTables returns the set, and its number, under which the symbols and
// the set take the fewest bits.
func (c *count16) smallestTables(shape *tableShape, builtin []*tableSet) (*tableSet, int) {
	best, number := clusterTables(c.values, &c.ids, shape), tableSetOwn
	section := appendSection(nil, sectionTables, sectionCritical, best.appendTo(nil))
	least := best.symbolBits(c.values, &c.ids) + float64(8*len(section))
	for i, set := range builtin {
		if bits := set.symbolBits(c.values, &c.ids); bits <= least && set.covers(c) {
			best, number, least = set, i, bits
		}
	}
	return best, number
}

// covers reports whether t has every token that was counted in its context.
func (t *tableSet) covers(c *count16) bool {
	for context := range c.values {
		f := &t.frequencies[t.contexts[context]]
		for token, n := range c.values[context] {
			if n > 0 && f[token] == 0 {
				return false
			}
		}
	}
	for token, n := range c.ids {
		if n > 0 && t.frequencies[tableOfID][token] == 0 {
			return false
		}
	}
	return true
}

// newCosts16 returns what values cost under a table set.
func newCosts16(set *tableSet) *costs16 {
	c := new(costs16)
	for context, table := range set.contexts {
		for token, f := range set.frequencies[table][:valueTokens16+1] {
			c.tokens[context][token] = uint16((tokenBits(f, dense16Bits) + float64(rawBits16[token])) * costUnit)
		}
	}
	for id := range c.ids {
		token, rawBits, _ := valueToken(uint32(id))
		c.ids[id] = uint16((tokenBits(set.frequencies[tableOfID][token], dense16Bits) + float64(rawBits)) * costUnit)
	}
	return c
}

// pass models all patches by some costs, and counts.
func (e *encoder16) pass(costs *costs16, again bool) *count16 {
	shape, _ := e.source.shape()
	total := newCount16(shape)
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range min(e.workers, e.grid.patches()) {
		wg.Go(func() {
			m := newModeller16(e.source, costs, e.search.joint)
			counts := newCount16(shape)
			for i := int(next.Add(1)) - 1; i < e.grid.patches(); i = int(next.Add(1)) - 1 {
				m.model(&e.patches[i], e.grid.region(i), again)
				counts.add(&e.patches[i])
			}
			mu.Lock()
			defer mu.Unlock()
			total.join(counts)
		})
	}
	wg.Wait()
	return total
}

// chooseSource16 chooses what of an image is coded: samples or ranks, with or
// without a hole value.
func chooseSource16(img raster.Image) *source16 {
	best := &source16{img: img, flip: signFlip(img.DType), hole: noHole}
	candidates := []*source16{best}
	ranks := usefulRanks(img)
	if ranks != nil {
		candidates = append(candidates, best.withRanks(ranks))
	}
	if hole, ok := likelyHole(best); ok {
		for _, s := range candidates {
			with := *s
			with.hole = int(hole)
			if s.rank != nil {
				with.hole = int(s.rank[hole])
			}
			candidates = append(candidates, &with)
		}
	}
	if len(candidates) == 1 {
		return best
	}
	least := math.Inf(1)
	for _, s := range candidates {
		if size := s.estimate(); size < least {
			best, least = s, size
		}
	}
	return best
}

// withRanks returns s with values replaced by their ranks.
func (s source16) withRanks(m *rankMap) *source16 {
	s.ranks, s.rank = m, new([1 << 16]uint16)
	for rank, v := range m.values[:m.count] {
		s.rank[v] = uint16(rank)
	}
	return &s
}

// minHoleShare is the share of samples, 1 of so many, from which a value may be
// worth being a hole.
const minHoleShare = 200

// likelyHole returns the value that is the most frequent one by far, as values
// are without a rank map, if there is one. The mark of pixels that hold nothing
// is mostly the lowest or the highest value; what counts is that it says nothing
// of the pixels around it, and that is for the estimate to find.
func likelyHole(s *source16) (uint16, bool) {
	var counts [1 << 16]uint32
	for at := 0; at < len(s.img.Pix); at += 2 {
		counts[binary.LittleEndian.Uint16(s.img.Pix[at:])^s.flip]++
	}
	best := 0
	for v, n := range counts {
		if n > counts[best] {
			best = v
		}
	}
	n := len(s.img.Pix) / 2
	return uint16(best), int(counts[best]) > n/minHoleShare && int(counts[best]) < n
}

// An estimate looks at about estimatedPatches patches, but at no more than one in
// estimatedShare, of an image with enough of them.
const (
	estimatedPatches = 24
	estimatedShare   = 4
)

// estimate returns about how large the image becomes, the same patches being
// looked at whatever is coded of them.
func (s *source16) estimate() float64 {
	shape, _ := s.shape()
	m, counts := newModeller16(s, priorCosts16, 1), newCount16(shape)
	g := newGrid(s.img.Shape, minLogEdge)
	var p patchSymbols16
	step := 1
	if n := g.patches(); n >= estimatedPatches/2 {
		step = max(estimatedShare, n/estimatedPatches)
	}
	looked := 0
	for i := step / 2; i < g.patches(); i += step {
		m.model(&p, g.region(i), false)
		counts.add(&p)
		looked++
	}
	set := clusterTables(counts.values, &counts.ids, shape)
	perImage := len(set.appendTo(nil)) + len(s.appendSections(nil))
	return counts.bits(set)/8*float64(g.patches())/float64(looked) + float64(perImage)
}
