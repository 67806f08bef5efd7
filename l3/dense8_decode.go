package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// A dense8Decoder decodes patches of the dense coding of 8 bits. It is all
// scratch memory and may be used for one patch after another.
type dense8Decoder struct {
	rowStore
	planes     [raster.MaxChannels]densePlane
	logStreams int

	set *tableSet
	own tableSet // memory of a set that stands in the file

	vector dense8Vector

	// offsets has, for each class and sum, where the slots of the context's
	// table begin.
	offsets [2 * raster.MaxChannels][256]uint16

	states [maxLanes]uint32
	ids    [raster.MaxChannels << maxLogEdge]uint8

	sums, residual, prediction laneRow
	tail                       [maxPhaseBytes]byte // what is left of a file, and zeros
}

// reset prepares for patches of an image.
func (p *dense8Decoder) reset(h *header, sections []byte) error {
	if err := p.rowStore.reset(h, sections); err != nil {
		return err
	}
	set, err := dense8Sets.choose(h, sections, &p.own)
	if err != nil {
		return err
	}
	p.logStreams = h.logStreams
	if set == p.set && set != &p.own {
		return nil
	}
	p.set = set
	p.vector.setTables(set)
	for class := range p.offsets {
		for sum := range p.offsets[class] {
			table := set.contexts[class*levels8+level8(sum)]
			p.offsets[class][sum] = uint16(table) << dense8Bits
		}
	}
	return nil
}

// A wordCursor is where a decoder stands in the words of a patch.
type wordCursor struct {
	file []byte
	at   int
	end  int // of the patch
}

// decode decodes the patch at file[start:end] into its region of pix. Errors do
// not name the patch.
func (p *dense8Decoder) decode(pix, file []byte, start, end int, r region) error {
	planes := p.planes[:p.shape.Channels]
	prelude, err := readPrelude(planes, file, start, end, r, p.d)
	if err != nil {
		return err
	}
	var mixes [2]shares
	mixes[0], mixes[1] = planeShares(prelude.transform, 1), planeShares(prelude.transform, 2)
	c := wordCursor{file: file, at: prelude.end, end: end}
	if prelude.coded > 0 {
		if err := p.begin(&c, prelude.coded*r.height, r); err != nil {
			return err
		}
	}
	planeRow, renormalised := 0, prelude.coded*r.height-prelude.freeRows
	for y := range r.height {
		for i := range planes {
			if !planes[i].constant {
				p.row(&c, i, y, r, int(p.ids[planeRow]), planeRow < renormalised)
				planeRow++
			}
		}
		if c.at > end {
			return corrupt("row %d: words run out", y)
		}
		p.storeRow(pix, y, r, &mixes)
	}
	if prelude.coded > 0 && end-c.at > 2 {
		return corrupt("row %d: %d bytes follow the last word", r.height-1, end-c.at)
	}
	return nil
}

// begin reads the states of a patch and the predictors of so many rows of planes.
func (p *dense8Decoder) begin(c *wordCursor, planeRows int, r region) error {
	lanes := laneCount(p.logStreams, r.pairs())
	if c.end-c.at < 4*lanes {
		return corrupt("%d bytes are too few for %d states", c.end-c.at, lanes)
	}
	for i := range lanes {
		p.states[i] = binary.LittleEndian.Uint32(c.file[c.at:])
		c.at += 4
	}
	var offsets [256]uint16 // of the one table that ids have
	for i := range offsets {
		offsets[i] = tableOfID << dense8Bits
	}
	p.sums = laneRow{}
	for first := 0; first < planeRows; first += lanes {
		ids := p.ids[first:min(first+lanes, planeRows)]
		p.values(c, &p.residual, &offsets, len(ids), true)
		for i := range ids {
			ids[i] = uint8(p.residual[i>>3] >> (i & 7 * 8))
		}
	}
	if c.at > c.end {
		return corrupt("words run out before row 0")
	}
	return nil
}

// row decodes a row of a plane.
func (p *dense8Decoder) row(c *wordCursor, plane, y int, r region, id int, renormalise bool) {
	d, pairs := p.d, r.pairs()
	words := d.words(pairs)
	rows, magnitudes := &p.planes[plane].rows, &p.planes[plane].magnitudes
	row, above, above2 := &rows[y%3], &rows[(y+2)%3], &rows[(y+1)%3]
	even, odd := id&evenIDMask, id>>evenIDBits

	evenContexts(&p.sums, p.planes[:], plane, y, words, d)
	p.values(c, &p.residual, &p.offsets[contextClass(plane, false)], pairs, renormalise)
	unzigzagMagnitudes(&p.residual, &magnitudes[y%3].even, words, d)
	predictEven(&p.prediction, even, above, above2, words, d)
	if sumsLeft(even) {
		addRunning(&row.even, &p.prediction, &p.residual, words, d)
	} else {
		addLanes(&row.even, &p.prediction, &p.residual, words, d)
	}
	row.even.replicate(pairs, d)
	magnitudes[y%3].even.replicate(pairs, d)

	oddContexts(&p.sums, p.planes[:], plane, y, words, d)
	p.residual[words-1] = 0 // of an odd width the last lane
	p.values(c, &p.residual, &p.offsets[contextClass(plane, true)], r.width/2, renormalise)
	unzigzagMagnitudes(&p.residual, &magnitudes[y%3].odd, words, d)
	predictOdd(&p.prediction, odd, row, above, words, d)
	addLanes(&row.odd, &p.prediction, &p.residual, words, d)
	magnitudes[y%3].odd.replicate(pairs, d)
}

// unzigzagMagnitudes replaces values by the residuals that they stand for, and
// sets magnitudes to theirs.
func unzigzagMagnitudes(values, magnitudes *laneRow, words int, d *depth) {
	for k, v := range values[:words] {
		v = unzigzag(v, d.high, d.low, d.bits)
		values[k], magnitudes[k] = v, magnitude(v, d.high, d.low, d.bits)
	}
}

// values decodes count values, the tables of which begin where offsets says for
// their sums. Lanes after the last value in its word become 0. It may read past
// the patch's end, if never past the file's; then c.at is past the end.
func (p *dense8Decoder) values(c *wordCursor, values *laneRow, offsets *[256]uint16, count int, renormalise bool) {
	words := p.nextWords(c)
	slots := (*[(maxTables + 1) << dense8Bits]uint32)(p.set.slots)
	takes := uint64(0) // all ones if words may be taken
	if renormalise {
		takes--
	}
	lane, lanes := uint(0), uint(1)<<p.logStreams-1
	at := uint(0)
	for k := 0; count > 0; k++ {
		sums, packed := p.sums[k], uint64(0)
		n := min(8, count)
		for range n {
			state := &p.states[lane&(maxLanes-1)]
			x := uint64(*state)
			slot := slots[(uint64(offsets[byte(sums)])|x&(1<<dense8Bits-1))&(uint64(len(slots))-1)]
			x = uint64(slot>>slotFrequency&0x7ff)*(x>>dense8Bits) + uint64(slot>>slotOffset&0x3ff)
			rawBits := slot >> slotRawBits & 7
			v := uint64(slot&0xff) + x&rawMasks[rawBits]
			x >>= rawBits
			// Without a branch, which would go either way too often.
			take := uint64(int64(x-ransLow)>>63) & takes
			word := uint64(words[at&wordMask]) | uint64(words[at&wordMask|1])<<8
			*state = uint32(x ^ (x^(x<<16|word))&take)
			at += uint(take & 2)
			packed = packed>>8 | v<<56
			sums >>= 8
			lane = (lane + 1) & lanes
		}
		values[k] = packed >> (64 - 8*n)
		count -= 8
	}
	c.at += int(at)
}

// maxPhaseBytes is the size of all words that a phase can take, and wordMask
// limits the offset of one of them, which is even.
const (
	maxPhaseBytes = 2 * maxPairs
	wordMask      = maxPhaseBytes - 2
)

// rawMasks has as many bits set as its index says.
var rawMasks = [8]uint64{0, 1, 3, 7, 15, 31, 63, 127}

// nextWords returns as many bytes from c on as a phase can need, zeros where the
// file has none.
func (p *dense8Decoder) nextWords(c *wordCursor) *[maxPhaseBytes]byte {
	words := c.file[min(c.at, len(c.file)):]
	if len(words) < maxPhaseBytes {
		clear(p.tail[copy(p.tail[:], words):])
		return &p.tail
	}
	return (*[maxPhaseBytes]byte)(words)
}

// storeRow writes row y of all planes.
func (p *dense8Decoder) storeRow(pix []byte, y int, r region, mixes *[2]shares) {
	var rows [raster.MaxChannels]*planeRow
	for i := range p.shape.Channels {
		rows[i] = &p.planes[i].rows[y%3]
	}
	p.store(r.row(pix, y, p.shape), &rows, r, mixes)
}
