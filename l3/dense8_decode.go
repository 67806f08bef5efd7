package l3

import "prismfs/raster"

// A dense8Decoder decodes patches of the dense coding of 8 bits. It is all
// scratch memory and may be used for one patch after another.
type dense8Decoder struct {
	denseDecoder

	vector dense8Vector

	// offsets has, for each class and sum, where the slots of the context's
	// table begin.
	offsets [2 * raster.MaxChannels][256]uint16

	tail [maxPhaseBytes]byte // what is left of a file, and zeros
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

// decode decodes the patch at file[start:end] into its region of pix. Errors do
// not name the patch.
func (p *dense8Decoder) decode(pix, file []byte, start, end int, r region) error {
	prelude, err := p.open(file, start, end, r)
	if err != nil {
		return err
	}
	return p.decodeRows(p, pix, prelude, r)
}

func (p *dense8Decoder) decodeIDs(ids []uint8, lanes int) {
	var offsets [256]uint16 // of the one table that ids have
	for i := range offsets {
		offsets[i] = tableOfID << dense8Bits
	}
	p.sums = laneRow{}
	for first := 0; first < len(ids); first += lanes {
		step := ids[first:min(first+lanes, len(ids))]
		p.values(&offsets, len(step), true)
		for i := range step {
			step[i] = uint8(p.residual[i>>3] >> (i & 7 * 8))
		}
	}
}

func (p *dense8Decoder) row(plane, y int, r region, id int, renormalise bool) {
	d, pairs := p.d, r.pairs()
	words := d.words(pairs)

	evenContexts(&p.sums, p.planes[:], plane, y, words, d)
	p.values(&p.offsets[contextClass(plane, false)], pairs, renormalise)
	p.setEven(plane, y, id&evenIDMask, pairs)

	oddContexts(&p.sums, p.planes[:], plane, y, words, d)
	p.residual[words-1] = 0 // of an odd width the last lane
	p.values(&p.offsets[contextClass(plane, true)], r.width/2, renormalise)
	p.setOdd(plane, y, id>>evenIDBits, pairs)
}

// values sets residual to count values, zigzagged still, the tables of which begin
// where offsets says for their sums. Lanes after the last value in its word become
// 0. It may read past the patch's end, if never past the file's; then p.words is
// past the end.
func (p *dense8Decoder) values(offsets *[256]uint16, count int, renormalise bool) {
	words := p.nextWords()
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
		p.residual[k] = packed >> (64 - 8*n)
		count -= 8
	}
	p.words.at += int(at)
}

// maxPhaseBytes is the size of all words that a phase can take, and wordMask
// limits the offset of one of them, which is even.
const (
	maxPhaseBytes = 2 * maxPairs
	wordMask      = maxPhaseBytes - 2
)

// rawMasks has as many bits set as its index says.
var rawMasks = [8]uint64{0, 1, 3, 7, 15, 31, 63, 127}

// nextWords returns as many bytes of words as a phase can need, zeros where the
// file has none.
func (p *dense8Decoder) nextWords() *[maxPhaseBytes]byte {
	words := p.words.file[min(p.words.at, len(p.words.file)):]
	if len(words) < maxPhaseBytes {
		clear(p.tail[copy(p.tail[:], words):])
		return &p.tail
	}
	return (*[maxPhaseBytes]byte)(words)
}

func (p *dense8Decoder) storeRow(pix []byte, y int, r region) bool {
	var rows [raster.MaxChannels]*planeRow
	for i := range p.shape.Channels {
		rows[i] = &p.planes[i].rows[y%3]
	}
	return p.store(r.row(pix, y, p.shape), &rows, r, &p.mixes)
}
