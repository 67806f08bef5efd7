package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// A patchDecoder decodes patches of the fast codings. It is all scratch memory
// and may be used for one patch after another.
type patchDecoder struct {
	rowStore
	planes [raster.MaxChannels]planeDecoder

	residual, prediction laneRow
}

// A rowStore turns decoded rows of planes into samples of an image.
type rowStore struct {
	d      *depth
	shape  raster.Shape
	ranks  *rankMap // of 16-bit samples, nil for none
	memory rankMemory
	flip   uint16      // see signFlip
	mixed  [2]planeRow // planes 1 and 2 with their shares added back
}

// A planeDecoder holds the last three rows of a plane: row y at y mod 3.
type planeDecoder struct {
	rows     [3]planeRow
	constant bool
}

// patchCursor is where the decoder stands in a patch.
type patchCursor struct {
	file       []byte
	end        int // of the patch
	headerBit  int // of the next phase header, from the file's first bit
	residualAt int // of the next group
}

// reset prepares for rows of an image.
func (p *rowStore) reset(h *header, sections []byte) error {
	p.d, p.shape, p.flip = &depth8, h.shape, signFlip(h.shape.DType)
	if h.shape.DType.Size() == 2 {
		p.d = &depth16
	}
	var err error
	p.ranks, err = p.memory.parse(sections)
	return err
}

// decode decodes the patch at file[start:end] into its region of pix. Errors do
// not name the patch.
func (p *patchDecoder) decode(pix, file []byte, start, end int, r region) error {
	cursor, transform, err := p.open(file, start, end, r)
	if err != nil {
		return err
	}
	var mixes [2]shares
	mixes[0], mixes[1] = planeShares(transform, 1), planeShares(transform, 2)
	for y := range r.height {
		for i := range p.shape.Channels {
			if !p.planes[i].constant {
				p.row(&cursor, i, y, r)
			}
		}
		if cursor.residualAt > end {
			return corrupt("row %d: residuals run past the patch's end", y)
		}
		if !p.storeRow(pix, y, r, &mixes) {
			return corrupt("row %d: a value beyond the rank map", y)
		}
	}
	if padded(cursor.residualAt-start) != end-start {
		return corrupt("row %d: %d bytes follow the last residual", r.height-1, end-cursor.residualAt)
	}
	return nil
}

// open reads what precedes a patch's residuals and fills the rows above it.
func (p *patchDecoder) open(file []byte, start, end int, r region) (patchCursor, uint8, error) {
	d, channels := p.d, p.shape.Channels
	prelude := preludeBytes(channels, d)
	if end-start < prelude {
		return patchCursor{}, 0, corrupt("%d bytes are too few for its head", end-start)
	}
	transform, constants := file[start], file[start+1]
	if int(transform) >= transformLimit(channels) {
		return patchCursor{}, 0, corrupt("transform %d of %d channels", transform, channels)
	}
	if constants>>channels != 0 {
		return patchCursor{}, 0, corrupt("constant planes %#x of %d channels", constants, channels)
	}
	coded := 0
	for i := range channels {
		base := uint64(file[start+2+i*int(d.bits)/8])
		if d.bits == 16 {
			base = uint64(binary.LittleEndian.Uint16(file[start+2+2*i:]))
		}
		plane := &p.planes[i]
		for k := range plane.rows {
			plane.rows[k].fill(base, d)
		}
		plane.constant = constants>>i&1 != 0
		if !plane.constant {
			coded++
		}
	}
	headers := (coded*r.height*rowBits(r.width, d) + 7) / 8
	c := patchCursor{file: file, end: end, headerBit: (start + prelude) * 8, residualAt: start + prelude + headers}
	if c.residualAt > end {
		return c, 0, corrupt("%d bytes are too few for its row headers", end-start)
	}
	return c, transform, nil
}

// header returns the next n bits of phase headers.
func (c *patchCursor) header(n int) uint64 {
	v := load64(c.file, c.headerBit>>3) >> (uint(c.headerBit) & 7)
	c.headerBit += n
	return v & (1<<uint(n) - 1)
}

// row decodes a row of a plane.
func (p *patchDecoder) row(c *patchCursor, plane, y int, r region) {
	d, pairs := p.d, r.pairs()
	words := d.words(pairs)
	rows := &p.planes[plane].rows
	row, above, above2 := &rows[y%3], &rows[(y+2)%3], &rows[(y+1)%3]

	h := c.header(phaseBits(evenIDBits, pairs, d))
	id := int(h & (1<<evenIDBits - 1))
	c.residualAt = unpackResiduals(&p.residual, c.file, c.residualAt, h>>evenIDBits, pairs, words, d)
	predictEven(&p.prediction, id, above, above2, words, d)
	if sumsLeft(id) {
		addRunning(&row.even, &p.prediction, &p.residual, words, d)
	} else {
		addLanes(&row.even, &p.prediction, &p.residual, words, d)
	}
	row.even.replicate(pairs, d)

	h = c.header(phaseBits(oddIDBits, r.width/2, d))
	id = int(h & (1<<oddIDBits - 1))
	c.residualAt = unpackResiduals(&p.residual, c.file, c.residualAt, h>>oddIDBits, r.width/2, words, d)
	predictOdd(&p.prediction, id, row, above, words, d)
	addLanes(&row.odd, &p.prediction, &p.residual, words, d)
}

// storeRow writes row y of all planes. It returns false if a value is not in the
// rank map.
func (p *patchDecoder) storeRow(pix []byte, y int, r region, mixes *[2]shares) bool {
	var rows [raster.MaxChannels]*planeRow
	for i := range p.shape.Channels {
		rows[i] = &p.planes[i].rows[y%3]
	}
	return p.store(r.row(pix, y, p.shape), &rows, r, mixes)
}

// addLanes sets dst to x + y.
func addLanes(dst, x, y *laneRow, words int, d *depth) {
	for k := range dst[:words] {
		dst[k] = add(x[k], y[k], d.high)
	}
}

// addRunning sets each lane of dst to the sum of x + y over it and all lanes
// before it.
func addRunning(dst, x, y *laneRow, words int, d *depth) {
	var carry uint64
	for k := range dst[:words] {
		sum := prefixSum(add(x[k], y[k], d.high), d.high, d.bits)
		sum = add(sum, carry, d.high)
		carry = sum >> (64 - d.bits) * d.low
		dst[k] = sum
	}
}

// store writes a row of all planes, as channels, into dst; it changes rows. It
// returns false if a value is not in the rank map.
func (p *rowStore) store(dst []byte, rows *[raster.MaxChannels]*planeRow, r region, mixes *[2]shares) bool {
	channels := p.shape.Channels
	words := p.d.words(r.pairs())
	for i := 1; i < min(channels, 3); i++ {
		src, mixed := rows[i], &p.mixed[i-1]
		second := rows[1] // for plane 1, whose second share is 0, itself
		mixes[i-1].correlate(&mixed.even, &src.even, &rows[0].even, &second.even, words, p.d)
		mixes[i-1].correlate(&mixed.odd, &src.odd, &rows[0].odd, &second.odd, words, p.d)
		rows[i] = mixed
	}
	if p.d.bits == 8 && channels == 3 {
		storeRGB8(dst, rows[1], rows[0], rows[2], r.width)
		return true
	}
	if p.d.bits == 8 && channels == 1 {
		storeGrey8(dst, rows[0])
		return true
	}
	ok := true
	for i, channel := range planeChannels[channels] {
		if p.d.bits == 8 {
			store8(dst[channel:], rows[i], r.width, channels)
		} else if !p.store16(dst[2*channel:], rows[i], r.width, channels) {
			ok = false
		}
	}
	return ok
}

// store8 writes the width samples of a row, step bytes apart.
func store8(dst []byte, row *planeRow, width, step int) {
	at := 0
	pairs := width / 2
	for k := 0; k*8 < pairs; k++ {
		even, odd := row.even[k], row.odd[k]
		for range min(8, pairs-k*8) {
			dst[at] = byte(even)
			dst[at+step] = byte(odd)
			even >>= 8
			odd >>= 8
			at += 2 * step
		}
	}
	if width%2 != 0 {
		dst[at] = byte(row.even[pairs/8] >> (pairs % 8 * 8))
	}
}

// storeGrey8 is store8 for a single channel, len(dst) being the width.
func storeGrey8(dst []byte, row *planeRow) {
	for k := 0; len(dst) > 0; k++ {
		var samples [16]byte
		even, odd := row.even[k], row.odd[k]
		lo := wide8.unpack16(even) | wide8.unpack16(odd)<<8
		hi := wide8.unpack16(even>>32) | wide8.unpack16(odd>>32)<<8
		binary.LittleEndian.PutUint64(samples[:], lo)
		binary.LittleEndian.PutUint64(samples[8:], hi)
		dst = dst[copy(dst, samples[:]):]
	}
}

// wide8 moves four bytes into lanes of 16 bits.
var wide8 = newPacking(8, 2)

// storeRGB8 is store8 for three channels at once.
func storeRGB8(dst []byte, c0, c1, c2 *planeRow, width int) {
	for k := 0; k*16 < width; k++ {
		e0, e1, e2 := c0.even[k], c1.even[k], c2.even[k]
		o0, o1, o2 := c0.odd[k], c1.odd[k], c2.odd[k]
		pairs := min(8, width/2-k*8)
		for range pairs {
			p := (*[6]byte)(dst)
			p[0], p[1], p[2] = byte(e0), byte(e1), byte(e2)
			p[3], p[4], p[5] = byte(o0), byte(o1), byte(o2)
			e0, e1, e2 = e0>>8, e1>>8, e2>>8
			o0, o1, o2 = o0>>8, o1>>8, o2>>8
			dst = dst[6:]
		}
		if len(dst) == 3 { // the last column of an odd width
			dst[0], dst[1], dst[2] = byte(e0), byte(e1), byte(e2)
		}
	}
}

// store16 writes the width samples of a row, step samples apart.
func (p *rowStore) store16(dst []byte, row *planeRow, width, step int) bool {
	ok := true
	put := func(x int, v uint64) {
		s := uint16(v)
		if p.ranks != nil {
			if int(s) >= p.ranks.count {
				ok = false
			}
			s = p.ranks.values[s]
		}
		binary.LittleEndian.PutUint16(dst[2*x*step:], s^p.flip)
	}
	for x := 0; x < width; x += 2 {
		k, shift := x/2/4, uint(x/2%4*16)
		put(x, row.even[k]>>shift)
		if x+1 < width {
			put(x+1, row.odd[k]>>shift)
		}
	}
	return ok
}
