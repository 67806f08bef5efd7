package l3

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"

	"prismfs/raster"
)

// labelsDraft encodes img, one channel of 8 bits, as a label map.
func labelsDraft(img raster.Image, opt EncodeOptions) (*draft, error) {
	f := labelsDraftEdge(img, maxLabelsLogEdge, labelsLogStreams(img.Shape, maxLabelsLogEdge), opt)
	if opt.effort() == MaxEffort {
		// Smaller patches repeat coarse pixels and have more states, but
		// more of them may be of one label.
		const logEdge = maxLabelsLogEdge - 1
		other := labelsDraftEdge(img, logEdge, labelsLogStreams(img.Shape, logEdge), opt)
		if other.size() < f.size() {
			f = other
		}
	}
	return f, nil
}

// labelsDraftEdge encodes img in patches of 2^logEdge pixels with 2^logStreams
// lanes.
func labelsDraftEdge(img raster.Image, logEdge, logStreams int, opt EncodeOptions) *draft {
	g := newGrid(img.Shape, logEdge)
	f := &draft{
		coding: Labels, logEdge: logEdge, logStreams: logStreams, tableSet: labelBaseSet,
		table: make([]tableEntry, g.patches()), patches: make([][]byte, g.patches()),
	}
	model := new(labelModel)
	model.setBase()
	if opt.effort() > 1 {
		if section := countLabels(img, model, f, g, opt).fit(model); section != nil {
			f.tableSet = tableSetOwn
			f.sections = appendSection(f.sections, sectionTables, sectionCritical, section)
		}
	}
	f.sections = opt.Meta.appendSections(f.sections)
	encodePatches(f, g, opt.workers(), func() patchAppender { return newLabelsEncoder(img, model, f.logStreams) })
	return f
}

// labelsLogStreams is log2 of the number of lanes. Four keep a processor busy; a
// small map cannot pay for so many states.
func labelsLogStreams(s raster.Shape, logEdge int) int {
	edge := 1 << logEdge
	switch pixels := min(s.Height, edge) * min(s.Width, edge); {
	case pixels <= 48*48:
		return 0
	case pixels <= 96*96:
		return 1
	}
	return 2
}

// seemsLabels reports whether an image may be a label map: most pixels are like
// those to their left. Of a photograph that is one in ten.
func seemsLabels(img raster.Image) bool {
	same := 0
	for y := range img.Height {
		row := img.Pix[y*img.Width:][:img.Width]
		for x, label := range row[1:] {
			if label == row[x] {
				same++
			}
		}
	}
	return same >= img.Height*(img.Width-1)/2
}

// A labelsEncoder encodes patches of a label map. It is scratch memory, but for
// its model.
type labelsEncoder struct {
	img   raster.Image
	model *labelModel
	ranks [256]uint8 // of labels in the palette
	grid  labelGrid

	symbols    []labelSymbol
	phaseEnds  [labelPhases]int // in symbols
	exceptions []byte
	rans       ransEncoder
	logStreams int
}

// A labelSymbol is a coded pixel.
type labelSymbol struct {
	context      uint16
	token, label uint8
}

func newLabelsEncoder(img raster.Image, model *labelModel, logStreams int) *labelsEncoder {
	e := &labelsEncoder{img: img, model: model, logStreams: logStreams}
	for rank, label := range model.palette[:model.paletteSize] {
		e.ranks[label] = uint8(rank)
	}
	return e
}

// appendPatch appends the patch of a region in the shortest of its three kinds.
func (e *labelsEncoder) appendPatch(b []byte, _ int, r region) ([]byte, uint32) {
	if isConstant(e.img, r) {
		return appendConstant(b, e.img, r), kindConstant
	}
	e.analyse(r)
	if len(e.exceptions) > exceptionBytes*math.MaxUint16 {
		return appendRaw(b, e.img, r), kindRaw
	}
	return orRaw(e.appendCoded(b, r), len(b), e.img, r)
}

// analyse finds the coded pixels and the exceptions of a patch.
func (e *labelsEncoder) analyse(r region) {
	e.symbols, e.exceptions = e.symbols[:0], e.exceptions[:0]
	e.grid.begin(r.width, r.height, r.row(e.img.Pix, 0, e.img.Shape)[0])
	for i := range labelPhases {
		phase := labelPhaseNumber(i)
		for _, site := range e.grid.scan(&phase) {
			y, x := int(site.at)/maxLabelsEdge, int(site.at)%maxLabelsEdge
			label := r.row(e.img.Pix, y, e.img.Shape)[x]
			e.symbols = append(e.symbols, labelSymbol{context: site.context, token: site.token(label), label: label})
			e.grid.labels[site.at] = label
		}
		e.phaseEnds[i] = len(e.symbols)
		if phase.sparse() {
			e.findExceptions(&phase, r)
		}
	}
}

// token returns the first token that stands for a label.
func (s *labelSite) token(label uint8) uint8 {
	switch label {
	case s.major:
		return labelMajor
	case s.minor:
		return labelMinor
	case s.third:
		return labelThird
	}
	return labelRaw
}

// findExceptions corrects pixels of a phase that are not like their neighbours.
func (e *labelsEncoder) findExceptions(p *labelPhase, r region) {
	for y := p.kind.first.y * p.step; y < r.height; y += 2 * p.step {
		row := r.row(e.img.Pix, y, e.img.Shape)
		known := e.grid.labels[y*maxLabelsEdge:][:r.width]
		for x := p.kind.first.x * p.step; x < r.width; x += 2 * p.step {
			if known[x] != row[x] {
				known[x] = row[x]
				e.exceptions = append(e.exceptions, byte(y), byte(x), row[x])
			}
		}
	}
}

// appendCoded appends what analyse has found.
func (e *labelsEncoder) appendCoded(b []byte, r region) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.exceptions)/exceptionBytes))
	b = append(b, r.row(e.img.Pix, 0, e.img.Shape)[0])
	b = append(b, e.exceptions...)
	if (len(b)-start)%2 != 0 {
		b = append(b, 0)
	}
	lanes := 1 << e.logStreams
	e.rans.reset(labelSlotBits, lanes)
	for phase := labelPhases - 1; phase >= 0; phase-- {
		first := 0
		if phase > 0 {
			first = e.phaseEnds[phase-1]
		}
		for i := e.phaseEnds[phase] - 1; i >= first; i-- {
			e.push((i-first)&(lanes-1), &e.symbols[i])
		}
	}
	return appendPadding(e.rans.appendTo(b), start)
}

func (e *labelsEncoder) push(lane int, s *labelSymbol) {
	if s.token == labelRaw {
		// A symbol of all slots leaves the state as it is.
		e.rans.push(lane, ransSymbol{frequency: labelSlots, raw: uint16(e.ranks[s.label]), rawBits: uint8(e.model.rawBits)})
	}
	e.rans.push(lane, e.model.tables[e.model.tableOf[s.context]].symbol(int(s.token)))
}

// A labelCount is what occurs in the patches of a map.
type labelCount struct {
	tokens [labelContexts][labelTokens]uint32
	occurs [256]bool // as a label that is coded raw
}

func (c *labelCount) add(e *labelsEncoder) {
	for _, s := range e.symbols {
		c.tokens[s.context][s.token]++
		if s.token == labelRaw {
			c.occurs[s.label] = true
		}
	}
}

// A labelCounter is a patchAppender that counts instead.
type labelCounter struct {
	labelsEncoder
	labelCount
}

func (c *labelCounter) appendPatch(b []byte, _ int, r region) ([]byte, uint32) {
	if !isConstant(c.img, r) {
		c.analyse(r)
		c.add(&c.labelsEncoder)
	}
	return b, kindCoded
}

// countLabels counts what occurs in all patches of f, of which nothing is kept.
func countLabels(img raster.Image, model *labelModel, f *draft, g grid, opt EncodeOptions) *labelCount {
	var mu sync.Mutex
	var counters []*labelCounter
	encodePatches(f, g, opt.workers(), func() patchAppender {
		c := &labelCounter{labelsEncoder: *newLabelsEncoder(img, model, f.logStreams)}
		mu.Lock()
		defer mu.Unlock()
		counters = append(counters, c)
		return c
	})
	total := &counters[0].labelCount
	for _, c := range counters[1:] {
		for context := range total.tokens {
			for token, n := range c.tokens[context] {
				total.tokens[context][token] += n
			}
		}
		for label, occurs := range c.occurs {
			total.occurs[label] = total.occurs[label] || occurs
		}
	}
	return total
}

// fit changes a built-in model to what has been counted and returns the section
// that says how, or leaves the model and returns nil where that is not smaller.
func (c *labelCount) fit(m *labelModel) []byte {
	own := *m
	var changed [labelTableCount]bool
	gain, raw := 0.0, 0.0
	for i, tokens := range c.byTable(m.tableOf) {
		raw += float64(tokens[labelRaw])
		table := newLabelTable(&tokens)
		if g := m.tables[i].cost(&tokens) - table.cost(&tokens) - labelTableBits; g > 0 {
			own.tables[i], changed[i] = table, true
			gain += g
		}
	}
	own.setPalette(&c.occurs)
	gain += raw * float64(m.rawBits-own.rawBits)
	section := own.appendTo(nil, &changed)
	if gain <= float64(8*(sectionHeaderBytes+padded(len(section)))) {
		return nil
	}
	*m = own
	return section
}

// byTable adds up the contexts of each table.
func (c *labelCount) byTable(tableOf *[labelContexts]uint8) (tables [labelTableCount][labelTokens]uint32) {
	for context, table := range tableOf {
		for token, n := range c.tokens[context] {
			tables[table][token] += n
		}
	}
	return tables
}

// setPalette sets the palette to some labels, or all if there are none.
func (m *labelModel) setPalette(occurs *[256]bool) {
	m.paletteSize = 0
	for label, o := range occurs {
		if o {
			m.palette[m.paletteSize] = uint8(label)
			m.paletteSize++
		}
	}
	if m.paletteSize == 0 {
		m.setAllLabels()
		return
	}
	m.rawBits = uint(bits.Len(uint(m.paletteSize - 1)))
}

// newLabelTable returns the table for tokens that occur so often.
func newLabelTable(counts *[labelTokens]uint32) labelTable {
	total := 0.0
	for _, n := range counts {
		total += float64(n)
	}
	var frequencies [labelTokens]int
	left := labelSlots
	for token, n := range counts {
		frequencies[token] = 1
		if total > 0 {
			frequencies[token] = max(1, int(math.Round(float64(n)/total*labelSlots)))
		}
		left -= frequencies[token]
	}
	// What rounding has left goes to the most frequent one.
	most := 0
	for token := range frequencies {
		if frequencies[token] > frequencies[most] {
			most = token
		}
	}
	frequencies[most] += left
	var t labelTable
	first := 0
	for i := range t {
		first += frequencies[i]
		t[i] = uint16(first)
	}
	return t
}

// cost returns how many bits tokens that occur so often take.
func (t *labelTable) cost(counts *[labelTokens]uint32) float64 {
	cost := 0.0
	for token, n := range counts {
		cost += float64(n) * (labelSlotBits - math.Log2(float64(t.symbol(token).frequency)))
	}
	return cost
}
