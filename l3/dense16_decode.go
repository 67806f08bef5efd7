package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// A dense16Decoder decodes patches of the dense coding of 16 bits. It is all
// scratch memory and may be used for one patch after another.
type dense16Decoder struct {
	denseDecoder

	hole  int // the coded value of holes, noHole for none
	holes [raster.MaxChannels]holeRows

	zones    laneRow
	contexts [maxPairs]uint16
	filled   [raster.MaxChannels]planeRow // rows with their holes
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
	prelude, err := p.open(file, start, end, r)
	if err != nil {
		return err
	}
	if p.hole != noHole && prelude.transform != plainTransforms[p.shape.Channels] {
		return corrupt("transform %d of an image with a hole value", prelude.transform)
	}
	clear(p.holes[:p.shape.Channels])
	return p.decodeRows(p, pix, prelude, r)
}

// next returns the next word. Past the patch's end it is anything, and at is
// past the end then.
func (c *wordCursor) next() uint32 {
	at := c.at
	c.at += 2
	if c.at > len(c.file) {
		return 0
	}
	return uint32(binary.LittleEndian.Uint16(c.file[at:]))
}

func (p *dense16Decoder) decodeIDs(ids []uint8, lanes int) {
	slots := p.set.slots[tableOfID<<dense16Bits:]
	for i := range ids {
		v, _ := p.step(i%lanes, slots, true)
		ids[i] = uint8(v) // of the tokens that the table may have, at most 31
	}
}

func (p *dense16Decoder) row(plane, y int, r region, id int, renormalise bool) {
	d, pairs := p.d, r.pairs()
	words := d.words(pairs)
	holes, holesAbove := &p.holes[plane][y%2], &p.holes[plane][(y+1)%2]

	evenContexts(&p.sums, p.planes[:], plane, y, words, d)
	if p.hole != noHole {
		evenZones(&p.zones, holesAbove, words)
	}
	p.setContexts(plane, false, pairs)
	p.values(&holes.even, pairs, words, renormalise)
	p.setEven(plane, y, id&evenIDMask, pairs)
	holes.even.replicate(pairs, d)

	oddContexts(&p.sums, p.planes[:], plane, y, words, d)
	if p.hole != noHole {
		oddZones(&p.zones, holes, holesAbove, words)
	}
	p.setContexts(plane, true, r.width/2)
	p.values(&holes.odd, r.width/2, words, renormalise)
	p.setOdd(plane, y, id>>evenIDBits, pairs)
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
func (p *dense16Decoder) values(holes *laneRow, count, words int, renormalise bool) {
	clear(p.residual[:words])
	clear(holes[:words])
	lanes := 1 << p.logStreams
	for first := 0; first < count; first += lanes {
		n := min(lanes, count-first)
		p.valuesOfStep(holes, first, n, renormalise)
	}
}

// valuesOfStep decodes n values, one a lane: what lies in the step of the token,
// of all of them, then what takes a second one.
func (p *dense16Decoder) valuesOfStep(holes *laneRow, first, n int, renormalise bool) {
	var leading, rest [maxLanes]uint32
	second := uint32(0)
	for lane := range n {
		table := int(p.set.contexts[p.contexts[first+lane]])
		v, more := p.step(lane, p.set.slots[table<<dense16Bits:], renormalise)
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
			v = p.secondStep(lane, v, rest[lane], renormalise)
		}
		k, shift := depth16.place(first + lane)
		p.residual[k] |= uint64(uint16(v)) << shift
	}
}

// holeBits stands for the raw bits that follow where there is a hole.
const holeBits = 1 << slotHole

// step decodes a value of a lane, and how many raw bits of it follow.
func (p *dense16Decoder) step(lane int, slots []uint32, renormalise bool) (v, more uint32) {
	x := p.states[lane]
	slot := slots[x&(1<<dense16Bits-1)]
	x = slot>>slotFrequency16*(x>>dense16Bits) + slot>>slotOffset16&(1<<dense16Bits-1)
	rawBits := slot >> slotRaw16 & 7
	if rawBits == slotHole {
		p.states[lane] = p.withWord(x, renormalise)
		return 0, holeBits
	}
	mask := uint32(1)<<rawBits - 1
	v, more = slot&0xff&^mask|x&mask, slot&mask
	p.states[lane] = p.withWord(x>>rawBits, renormalise)
	return v, more
}

// secondStep decodes the raw bits that a value lacks, fewer than 16.
func (p *dense16Decoder) secondStep(lane int, v, more uint32, renormalise bool) uint32 {
	x := p.states[lane]
	v = v<<more | x&(1<<more-1)
	p.states[lane] = p.withWord(x>>more, renormalise)
	return v
}

// withWord returns the state x with a word taken, if it is small enough and the
// step is one that takes words.
func (p *dense16Decoder) withWord(x uint32, renormalise bool) uint32 {
	if renormalise && x < ransLow {
		return x<<16 | p.words.next()
	}
	return x
}

func (p *dense16Decoder) storeRow(pix []byte, y int, r region) bool {
	var rows [raster.MaxChannels]*planeRow
	words := p.d.words(r.pairs())
	for i := range p.shape.Channels {
		rows[i] = &p.planes[i].rows[y%3]
		if p.hole != noHole {
			p.filled[i].fillHoles(rows[i], &p.holes[i][y%2], uint64(p.hole), words)
			rows[i] = &p.filled[i]
		}
	}
	return p.store(r.row(pix, y, p.shape), &rows, r, &p.mixes)
}

// fillHoles sets r to row with the value hole where holes has all bits.
func (r *planeRow) fillHoles(row, holes *planeRow, hole uint64, words int) {
	hole *= depth16.low
	for k := range words {
		r.even[k] = row.even[k]&^holes.even[k] | hole&holes.even[k]
		r.odd[k] = row.odd[k]&^holes.odd[k] | hole&holes.odd[k]
	}
}
