package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// A dense16Decoder decodes patches of the dense coding of 16 bits. It is all
// scratch memory and may be used for one patch after another.
type dense16Decoder struct {
	rowStore
	planes     [raster.MaxChannels]densePlane
	logStreams int

	hole  int // the coded value of holes, noHole for none
	holes [raster.MaxChannels]holeRows

	set *tableSet
	own tableSet // memory of a set that stands in the file

	states [maxLanes]uint32
	ids    [raster.MaxChannels << maxLogEdge]uint8

	sums, zones, residual, prediction laneRow
	contexts                          [maxPairs]uint16
	filled                            [raster.MaxChannels]planeRow // rows with their holes
}

// holeRows say where the last two rows of a plane have holes, row y at y mod 2.
type holeRows [2]planeRow

// reset prepares for patches of an image.
func (p *dense16Decoder) reset(h *header, sections []byte) error {
	if err := p.rowStore.reset(h, sections); err != nil {
		return err
	}
	p.hole, p.logStreams = noHole, h.logStreams
	sets := dense16Sets
	if data := findSection(sections, sectionHole); data != nil {
		p.hole = int(binary.LittleEndian.Uint16(data))
		sets = dense16HoleSets
	}
	var err error
	p.set, err = sets.choose(h, sections, &p.own)
	return err
}

// decode decodes the patch at file[start:end] into its region of pix. Errors do
// not name the patch.
func (p *dense16Decoder) decode(pix, file []byte, start, end int, r region) error {
	planes := p.planes[:p.shape.Channels]
	prelude, err := readPrelude(planes, file, start, end, r, p.d)
	if err != nil {
		return err
	}
	if p.hole != noHole && prelude.transform != plainTransforms[len(planes)] {
		return corrupt("transform %d of an image with a hole value", prelude.transform)
	}
	var mixes [2]shares
	mixes[0], mixes[1] = planeShares(prelude.transform, 1), planeShares(prelude.transform, 2)
	c := words16{file: file, at: prelude.end, end: end}
	if prelude.coded > 0 {
		if err := p.begin(&c, prelude.coded*r.height, r); err != nil {
			return err
		}
	}
	clear(p.holes[:len(planes)])
	planeRow, whole := 0, prelude.coded*r.height-prelude.freeRows
	for y := range r.height {
		for i := range planes {
			if !planes[i].constant {
				p.row(&c, i, y, r, int(p.ids[planeRow]), planeRow < whole)
				planeRow++
			}
		}
		if c.at > end {
			return corrupt("row %d: words run out", y)
		}
		if !p.storeRow(pix, y, r, &mixes) {
			return corrupt("row %d: a value beyond the rank map", y)
		}
	}
	if prelude.coded > 0 && end-c.at > 2 {
		return corrupt("row %d: %d bytes follow the last word", r.height-1, end-c.at)
	}
	return nil
}

// words16 is where a decoder stands in the words of a patch.
type words16 struct {
	file []byte
	at   int
	end  int // of the patch
}

// next returns the next word. Past the patch's end it is anything, and at is
// past the end then.
func (c *words16) next() uint32 {
	at := c.at
	c.at += 2
	if c.at > len(c.file) {
		return 0
	}
	return uint32(binary.LittleEndian.Uint16(c.file[at:]))
}

// begin reads the states of a patch and the predictors of so many rows of planes.
func (p *dense16Decoder) begin(c *words16, planeRows int, r region) error {
	lanes := laneCount(p.logStreams, r.pairs())
	if c.end-c.at < 4*lanes {
		return corrupt("%d bytes are too few for %d states", c.end-c.at, lanes)
	}
	for i := range lanes {
		p.states[i] = binary.LittleEndian.Uint32(c.file[c.at:])
		c.at += 4
	}
	slots := p.set.slots[tableOfID<<dense16Bits:]
	for first := 0; first < planeRows; first += lanes {
		ids := p.ids[first:min(first+lanes, planeRows)]
		for i := range ids {
			v, _ := p.step(c, i, slots, true)
			ids[i] = uint8(v) // of the tokens that the table may have, at most 31
		}
	}
	if c.at > c.end {
		return corrupt("words run out before row 0")
	}
	return nil
}

// row decodes a row of a plane.
func (p *dense16Decoder) row(c *words16, plane, y int, r region, id int, renormalise bool) {
	d, pairs := p.d, r.pairs()
	words := d.words(pairs)
	rows, magnitudes := &p.planes[plane].rows, &p.planes[plane].magnitudes
	row, above, above2 := &rows[y%3], &rows[(y+2)%3], &rows[(y+1)%3]
	holes, holesAbove := &p.holes[plane][y%2], &p.holes[plane][(y+1)%2]
	even, odd := id&evenIDMask, id>>evenIDBits

	evenContexts(&p.sums, p.planes[:], plane, y, words, d)
	if p.hole != noHole {
		evenZones(&p.zones, holesAbove, words)
	}
	p.setContexts(plane, false, pairs)
	p.values(c, &holes.even, pairs, words, renormalise)
	unzigzagMagnitudes(&p.residual, &magnitudes[y%3].even, words, d)
	predictEven(&p.prediction, even, above, above2, words, d)
	if sumsLeft(even) {
		addRunning(&row.even, &p.prediction, &p.residual, words, d)
	} else {
		addLanes(&row.even, &p.prediction, &p.residual, words, d)
	}
	row.even.replicate(pairs, d)
	magnitudes[y%3].even.replicate(pairs, d)
	holes.even.replicate(pairs, d)

	oddContexts(&p.sums, p.planes[:], plane, y, words, d)
	if p.hole != noHole {
		oddZones(&p.zones, holes, holesAbove, words)
	}
	p.setContexts(plane, true, r.width/2)
	p.values(c, &holes.odd, r.width/2, words, renormalise)
	unzigzagMagnitudes(&p.residual, &magnitudes[y%3].odd, words, d)
	predictOdd(&p.prediction, odd, row, above, words, d)
	addLanes(&row.odd, &p.prediction, &p.residual, words, d)
	magnitudes[y%3].odd.replicate(pairs, d)
}

// setContexts sets the contexts of count columns from sums and zones.
func (p *dense16Decoder) setContexts(plane int, odd bool, count int) {
	first := firstContext16(plane, odd, p.hole != noHole)
	for i := range p.contexts[:count] {
		k, shift := depth16.place(i)
		context := first + level16(uint16(p.sums[k]>>shift))
		if p.hole != noHole {
			context += int(p.zones[k]>>shift&3) * levels16
		}
		p.contexts[i] = uint16(context)
	}
}

// values sets residual to count values, zigzagged still, and zeros up to words,
// and holes to all bits of those that are holes.
func (p *dense16Decoder) values(c *words16, holes *laneRow, count, words int, renormalise bool) {
	clear(p.residual[:words])
	clear(holes[:words])
	lanes := 1 << p.logStreams
	for first := 0; first < count; first += lanes {
		n := min(lanes, count-first)
		p.valuesOfStep(c, holes, first, n, renormalise)
	}
}

// valuesOfStep decodes n values, one a lane: what lies in the step of the token,
// of all of them, then what takes a second one.
func (p *dense16Decoder) valuesOfStep(c *words16, holes *laneRow, first, n int, renormalise bool) {
	var leading, rest [maxLanes]uint32
	second := uint32(0)
	for lane := range n {
		table := int(p.set.contexts[p.contexts[first+lane]])
		v, more := p.step(c, lane, p.set.slots[table<<dense16Bits:], renormalise)
		if more == holeBits {
			k, shift := depth16.place(first + lane)
			holes[k] |= 0xffff << shift
			more = 0
		}
		leading[lane], rest[lane] = v, more
		second |= more
	}
	for lane := range n {
		v := leading[lane]
		if second != 0 && rest[lane] != 0 {
			v = p.secondStep(c, lane, v, rest[lane], renormalise)
		}
		k, shift := depth16.place(first + lane)
		p.residual[k] |= uint64(uint16(v)) << shift
	}
}

// holeBits stands for the raw bits that follow where there is a hole.
const holeBits = 1 << slotHole

// step decodes a value of a lane, and how many raw bits of it follow.
func (p *dense16Decoder) step(c *words16, lane int, slots []uint32, renormalise bool) (v, more uint32) {
	x := p.states[lane]
	slot := slots[x&(1<<dense16Bits-1)]
	x = slot>>slotFrequency16*(x>>dense16Bits) + slot>>slotOffset16&(1<<dense16Bits-1)
	rawBits := slot >> slotRaw16 & 7
	if rawBits == slotHole {
		p.states[lane] = withWord(c, x, renormalise)
		return 0, holeBits
	}
	mask := uint32(1)<<rawBits - 1
	v, more = slot&0xff&^mask|x&mask, slot&mask
	p.states[lane] = withWord(c, x>>rawBits, renormalise)
	return v, more
}

// secondStep decodes the raw bits that a value lacks, fewer than 16.
func (p *dense16Decoder) secondStep(c *words16, lane int, v, more uint32, renormalise bool) uint32 {
	x := p.states[lane]
	v = v<<more | x&(1<<more-1)
	p.states[lane] = withWord(c, x>>more, renormalise)
	return v
}

// withWord returns the state x with a word taken, if it is small enough and the
// step is one that takes words.
func withWord(c *words16, x uint32, renormalise bool) uint32 {
	if renormalise && x < ransLow {
		return x<<16 | c.next()
	}
	return x
}

// storeRow writes row y of all planes. It returns false if a value is not in the
// rank map.
func (p *dense16Decoder) storeRow(pix []byte, y int, r region, mixes *[2]shares) bool {
	var rows [raster.MaxChannels]*planeRow
	words := p.d.words(r.pairs())
	for i := range p.shape.Channels {
		rows[i] = &p.planes[i].rows[y%3]
		if p.hole != noHole {
			p.filled[i].fillHoles(rows[i], &p.holes[i][y%2], uint64(p.hole), words)
			rows[i] = &p.filled[i]
		}
	}
	return p.store(r.row(pix, y, p.shape), &rows, r, mixes)
}

// fillHoles sets r to row with the value hole where holes has all bits.
func (r *planeRow) fillHoles(row, holes *planeRow, hole uint64, words int) {
	hole *= depth16.low
	for k := range words {
		r.even[k] = row.even[k]&^holes.even[k] | hole&holes.even[k]
		r.odd[k] = row.odd[k]&^holes.odd[k] | hole&holes.odd[k]
	}
}
