package l3

import (
	"sync"
	"sync/atomic"

	"prismfs/raster"
)

// Encoding goes over the image in passes. A pass chooses, patch by patch, the
// transform and the predictors by what the symbols cost under some tables, and
// counts symbols. Tables made from the counts are better ones for the next pass.
// The first pass uses the built-in tables, and in a large image looks at some
// patches only. After the last one the symbols are coded, with the tables made from
// its counts or with the built-in ones.

// dense8Search is how much an effort tries.
type dense8Search struct {
	passes        int  // with tables of the image's own
	stride        int  // patches from one that the first pass looks at to the next
	evens         int  // even predictors for which all odd ones are tried
	transformRows int  // rows apart that decide on a transform
	edges         bool // try both patch edges
}

var dense8Searches = [...]dense8Search{
	1: {passes: 1, stride: 8, evens: 1, transformRows: 8},
	2: {passes: 1, stride: 3, evens: 2, transformRows: 4},
	3: {passes: 3, stride: 1, evens: 4, transformRows: 1, edges: true},
}

// dense8Draft encodes img with the dense coding of 8 bits.
func dense8Draft(img raster.Image, opt EncodeOptions) (*draft, error) {
	search := dense8Searches[opt.effort()]
	best := dense8EdgeDraft(img, opt, dense8LogEdge(img.Shape), search)
	if search.edges && max(img.Height, img.Width) > 1<<minLogEdge {
		other := dense8EdgeDraft(img, opt, minLogEdge+maxLogEdge-best.logEdge, search)
		if other.size() < best.size() {
			best = other
		}
	}
	return best, nil
}

// dense8LogEdge is the edge that is mostly the better one: the states of a patch
// cost more in one channel than in three.
func dense8LogEdge(s raster.Shape) int {
	if s.Channels == 1 {
		return maxLogEdge
	}
	return minLogEdge
}

// dense8LogStreams is how many streams patches of an image get: fewer for small
// ones, which the states would make larger.
func dense8LogStreams(s raster.Shape) int {
	switch n := s.Bytes(); {
	case n <= 1<<12:
		return 3
	case n <= 1<<14:
		return 4
	}
	return maxLogStreams
}

func dense8EdgeDraft(img raster.Image, opt EncodeOptions, logEdge int, search dense8Search) *draft {
	e := newDense8Encoder(img, opt, logEdge, search)
	code, number := e.chooseTables()
	return e.draft(code, number, opt)
}

// draft codes the symbols of the last pass.
func (e *dense8Encoder) draft(code *dense8Code, number int, opt EncodeOptions) *draft {
	f := &draft{coding: Dense8, logEdge: e.logEdge, logStreams: e.logStreams}
	if f.tableSet = number; number == tableSetOwn {
		f.sections = appendSection(f.sections, sectionTables, sectionCritical, code.set.appendTo(nil))
	}
	f.sections = opt.Meta.appendSections(f.sections)
	f.table = make([]tableEntry, e.grid.patches())
	f.patches = make([][]byte, e.grid.patches())
	encodePatches(f, e.grid, e.workers, func() patchAppender { return &dense8Appender{e: e, code: code} })
	return f
}

// A dense8Encoder is what is known of an image while it is encoded.
type dense8Encoder struct {
	img        raster.Image
	grid       grid
	logEdge    int
	search     dense8Search
	workers    int
	logStreams int
	patches    []densePatch
}

func newDense8Encoder(img raster.Image, opt EncodeOptions, logEdge int, search dense8Search) *dense8Encoder {
	g := newGrid(img.Shape, logEdge)
	return &dense8Encoder{
		img: img, grid: g, logEdge: logEdge, search: search, workers: opt.workers(),
		logStreams: dense8LogStreams(img.Shape), patches: make([]densePatch, g.patches()),
	}
}

// A densePatch is a patch as it will be coded.
type densePatch struct {
	transform uint8
	constants uint8
	bases     [raster.MaxChannels]uint8
	ids       []uint8 // one for each row of each plane that is coded

	// values and levels are those of all phases in the order of coding, each
	// phase taking whole words of lanes.
	values, levels []uint8
	uniform        bool // one pixel everywhere; nothing else is set
}

// A dense8Count counts symbols by context and token.
type dense8Count struct {
	values [][maxTokens]uint32
	ids    [maxTokens]uint32
}

// add adds what o has counted.
func (c *dense8Count) add(o *dense8Count) {
	for context := range o.values {
		for token, n := range o.values[context] {
			c.values[context][token] += n
		}
	}
	for token, n := range o.ids {
		c.ids[token] += n
	}
}

// chooseTables makes all passes and returns the tables, and their number, with
// which the file is the smallest.
func (e *dense8Encoder) chooseTables() (*dense8Code, int) {
	builtin := builtinDense8Codes()
	best, number := builtin[0], 0
	stride := e.search.stride
	if e.grid.patches() < 2*stride {
		stride = 1
	}
	for pass := 0; ; pass++ {
		counts := e.pass(best, stride)
		best, number = smallestTables(counts, builtin, stride)
		if stride == 1 && (number != tableSetOwn || pass == e.search.passes) {
			return best, number
		}
		stride = 1
	}
}

// smallestTables returns the code, and its number, under which set and symbols,
// share times as many as were counted, take the fewest bits.
func smallestTables(counts *dense8Count, builtin []*dense8Code, share int) (*dense8Code, int) {
	own := clusterTables(counts.values, &counts.ids, &dense8Shape)
	section := len(appendSection(nil, sectionTables, sectionCritical, own.appendTo(nil)))
	least := own.symbolBits(counts.values, &counts.ids) + float64(8*section)/float64(share)
	number := tableSetOwn
	for i, code := range builtin {
		if bits := code.set.symbolBits(counts.values, &counts.ids); bits <= least {
			number, least = i, bits
		}
	}
	if number != tableSetOwn {
		return builtin[number], number
	}
	return newDense8Code(own), number
}

// pass makes the choices of every stride-th patch by the costs of a code, and
// counts.
func (e *dense8Encoder) pass(code *dense8Code, stride int) *dense8Count {
	total := &dense8Count{values: make([][maxTokens]uint32, dense8Shape.contexts())}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range min(e.workers, e.grid.patches()) {
		wg.Go(func() {
			c := newDense8Chooser(e, code)
			take := func() int { return (int(next.Add(1)) - 1) * stride }
			for i := take(); i < e.grid.patches(); i = take() {
				c.patch(&e.patches[i], e.grid.region(i))
			}
			mu.Lock()
			defer mu.Unlock()
			c.addCounts(total)
		})
	}
	wg.Wait()
	return total
}
