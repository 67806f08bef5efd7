package l3

import (
	"encoding/binary"
	"math"
	"sync"

	"prismfs/l3/internal/avx2"
	"prismfs/raster"
)

const maxEdge = 1 << maxLogEdge

// A phaseCode is the even or the odd columns of a row as they will be stored.
type phaseCode struct {
	id        uint8
	bytes     int // of all groups
	codes     [maxGroups]uint8
	residuals laneRow // zigzagged
}

// A planeCode is a plane of a patch as it will be stored.
type planeCode struct {
	base     uint64
	constant bool
	even     [maxEdge]phaseCode
	odd      [maxEdge]phaseCode
}

// A plane is the samples of one plane of a patch, row by row.
type plane [maxEdge]planeRow

// A patchEncoder encodes patches with the fast codings. For every patch it tries
// all transforms, and for every phase of a row all predictors, and keeps what
// takes the fewest bytes. That is the encoder's choice: a decoder takes any.
//
// Vector code, where there is some, does the same: files are the same with and
// without it.
type patchEncoder struct {
	d     *depth
	img   raster.Image
	ranks *[1 << 16]uint16 // rank of each value of 16-bit samples, nil for none
	flip  uint16           // see signFlip
	simd  bool
	*encoderScratch
}

// encoderScratch is the memory that a patch is encoded in, some 700 KB. It has one
// only while it encodes.
type encoderScratch struct {
	planes [raster.MaxChannels]plane // in the order of planeChannels
	mixed  plane                     // a plane less its shares of others
	best   [raster.MaxChannels]planeCode
	trial  phaseCode

	above      planeRow // what the rows above a patch hold
	prediction laneRow
}

func newPatchEncoder(img raster.Image, ranks *[1 << 16]uint16) *patchEncoder {
	e := &patchEncoder{d: &depth8, img: img, ranks: ranks, flip: signFlip(img.DType), simd: useSIMD}
	if img.DType.Size() == 2 {
		e.d = &depth16
	}
	return e
}

// appendPatch appends the patch of a region in the shortest of its three
// kinds.
func (e *patchEncoder) appendPatch(b []byte, _ int, r region) ([]byte, uint32) {
	if isConstant(e.img, r) {
		return appendConstant(b, e.img, r), kindConstant
	}
	return orRaw(e.appendCoded(b, r), len(b), e.img, r)
}

var encoderScratches = sync.Pool{New: func() any { return new(encoderScratch) }}

// appendCoded appends a patch of kindCoded.
func (e *patchEncoder) appendCoded(b []byte, r region) []byte {
	if e.simd {
		if b, ok := e.appendVectorCoded(b, r); ok {
			return b
		}
	}
	e.encoderScratch = encoderScratches.Get().(*encoderScratch)
	b = e.appendPlainCoded(b, r)
	encoderScratches.Put(e.encoderScratch)
	e.encoderScratch = nil
	return b
}

// appendVectorCoded does so by vector code, if the patch is for it.
func (e *patchEncoder) appendVectorCoded(b []byte, r region) ([]byte, bool) {
	s := e.img.Shape
	img := avx2.Image{Pix: e.img.Pix, RowBytes: s.RowBytes(), Channels: s.Channels}
	at := int64(r.start(0, s))
	if e.d.bits == 8 {
		return avx2.AppendPatch8(b, img, at, r.width, r.height)
	}
	return avx2.AppendPatch16(b, img, at, r.width, r.height, e.ranks, e.flip)
}

// appendPlainCoded does so without.
func (e *patchEncoder) appendPlainCoded(b []byte, r region) []byte {
	channels := e.img.Channels
	for i := range channels {
		e.load(i, r)
	}
	transform := uint8(0)
	e.encodePlane(&e.best[0], &e.planes[0], r)
	if channels >= 2 {
		transform |= e.chooseShares(1, len(plane1Shares), 0, r)
	}
	if channels >= 3 {
		transform |= e.chooseShares(2, len(plane2Shares), 2, r)
	}
	if channels >= 4 {
		e.encodePlane(&e.best[3], &e.planes[3], r)
	}
	start := len(b)
	b = e.appendPrelude(b, transform)
	b = e.appendHeaders(b, r)
	for y := range r.height {
		for i := range channels {
			if c := &e.best[i]; !c.constant {
				b = c.even[y].appendTo(b, r.pairs(), e.d)
				b = c.odd[y].appendTo(b, r.width/2, e.d)
			}
		}
	}
	return appendPadding(b, start)
}

// trialRows is how many rows apart the rows are that decide on a patch's
// transform. Looking at every row makes files smaller by 0.1 % and takes
// more than twice as long.
const trialRows = 4

// chooseShares sets best to a plane less the best of the first n choices of
// shares and returns the choice as the transform byte has it, shift bits up.
func (e *patchEncoder) chooseShares(plane, n, shift int, r region) uint8 {
	least, best := math.MaxInt, uint8(0)
	for k := range n {
		transform := uint8(k) << shift
		e.mix(plane, transform, r)
		if bits := e.estimate(&e.mixed, r); bits < least {
			least, best = bits, transform
		}
	}
	e.mix(plane, best, r)
	e.encodePlane(&e.best[plane], &e.mixed, r)
	return best
}

// mix sets mixed to a plane less its shares of others.
func (e *patchEncoder) mix(plane int, transform uint8, r region) {
	words := e.d.words(r.pairs())
	shares := planeShares(transform, plane)
	for y := range r.height {
		dst, src, first, second := &e.mixed[y], &e.planes[plane][y], &e.planes[0][y], &e.planes[1][y]
		shares.decorrelate(&dst.even, &src.even, &first.even, &second.even, words, e.d)
		shares.decorrelate(&dst.odd, &src.odd, &first.odd, &second.odd, words, e.d)
		dst.even.replicate(r.pairs(), e.d)
	}
}

// estimate returns about how many bits the residuals of a plane take, the same
// share of rows being looked at in each trial. It is 0 for a constant plane.
func (e *patchEncoder) estimate(p *plane, r region) int {
	if isConstantPlane(p, p[0].even[0]&e.d.laneMask(1), r, e.d) {
		return 0
	}
	step := trialRows
	if r.height < 4*trialRows {
		step = 1
	}
	total := 1
	for y := max(step-1, 2); y < r.height; y += step {
		e.chooseEven(&e.trial, &p[y], &p[y-1], &p[y-2], r.pairs())
		total += e.trial.bytes
		e.chooseOdd(&e.trial, &p[y], &p[y-1], r.width/2, e.d.words(r.pairs()))
		total += e.trial.bytes
	}
	return total
}

// load sets a plane to its samples in a region.
func (e *patchEncoder) load(plane int, r region) {
	s := e.img.Shape
	channel, step := planeChannels[s.Channels][plane], s.Channels
	for y := range r.height {
		src := r.row(e.img.Pix, y, s)
		dst := &e.planes[plane][y]
		for k := range e.d.words(r.pairs()) {
			dst.even[k], dst.odd[k] = 0, 0
		}
		for x := range r.width {
			lanes := &dst.even
			if x%2 != 0 {
				lanes = &dst.odd
			}
			k, shift := e.d.place(x / 2)
			lanes[k] |= e.sample(src, x*step+channel) << shift
		}
		if r.width%2 != 0 { // something likely, until setMissing knows
			k, shift := e.d.place(r.width / 2)
			dst.odd[k] |= dst.even[k] & (e.d.laneMask(1) << shift)
		}
	}
}

// sample returns the i-th sample of row as it is coded.
func (e *patchEncoder) sample(row []byte, i int) uint64 {
	if e.d.bits == 8 {
		return uint64(row[i])
	}
	v := binary.LittleEndian.Uint16(row[2*i:]) ^ e.flip
	if e.ranks != nil {
		v = e.ranks[v]
	}
	return uint64(v)
}

// encodePlane sets c to the plane p. It replicates the last lanes of p and, if
// the width is odd, sets the column that is not there.
func (e *patchEncoder) encodePlane(c *planeCode, p *plane, r region) {
	d, pairs := e.d, r.pairs()
	words := d.words(pairs)
	c.base = p[0].even[0] & d.laneMask(1)
	if c.constant = isConstantPlane(p, c.base, r, d); c.constant {
		return
	}
	e.above.fill(c.base, d)
	above, above2 := &e.above, &e.above
	for y := range r.height {
		row := &p[y]
		row.even.replicate(pairs, d)
		e.chooseEven(&c.even[y], row, above, above2, pairs)
		e.chooseOdd(&c.odd[y], row, above, r.width/2, words)
		if r.width%2 != 0 {
			e.setMissing(row, above, int(c.odd[y].id), pairs)
		}
		above, above2 = row, above
	}
}

func isConstantPlane(p *plane, base uint64, r region, d *depth) bool {
	for y := range r.height {
		if !isConstantPhase(&p[y].even, base, r.pairs(), d) || !isConstantPhase(&p[y].odd, base, r.width/2, d) {
			return false
		}
	}
	return true
}

func isConstantPhase(lanes *laneRow, v uint64, count int, d *depth) bool {
	for k := range d.words(count) {
		if (lanes[k]^v*d.low)&d.laneMask(count-k*d.perWord) != 0 {
			return false
		}
	}
	return true
}

// setMissing sets the odd column that a patch of odd width lacks: its residual
// is zero, so it is what was predicted.
func (e *patchEncoder) setMissing(row, above *planeRow, id, pairs int) {
	d := e.d
	predictOdd(&e.prediction, id, row, above, d.words(pairs), d)
	k, shift := d.place(pairs - 1)
	mask := d.laneMask(1) << shift
	row.odd[k] = row.odd[k]&^mask | e.prediction[k]&mask
}

// chooseEven sets c to the shortest code of a row's even columns.
func (e *patchEncoder) chooseEven(c *phaseCode, row, above, above2 *planeRow, pairs int) {
	d := e.d
	words := d.words(pairs)
	least := math.MaxInt
	var residuals [2]laneRow
	now, kept := &residuals[0], &residuals[1]
	for id := range evenPredictors {
		predictEven(&e.prediction, id, above, above2, words, d)
		if sumsLeft(id) {
			subtractFromLeft(now, &row.even, &e.prediction, words, d)
		} else {
			subtract(now, &row.even, &e.prediction, words, d)
		}
		if n := zigzagLanes(now, pairs, d); n < least {
			least, c.id = n, uint8(id)
			now, kept = kept, now
		}
	}
	c.finish(kept, pairs, d)
}

// chooseOdd sets c to the shortest code of a row's count odd columns.
func (e *patchEncoder) chooseOdd(c *phaseCode, row, above *planeRow, count, words int) {
	d := e.d
	least := math.MaxInt
	var residuals [2]laneRow
	now, kept := &residuals[0], &residuals[1]
	for id := range oddPredictors {
		predictOdd(&e.prediction, id, row, above, words, d)
		subtract(now, &row.odd, &e.prediction, words, d)
		if n := zigzagLanes(now, count, d); n < least {
			least, c.id = n, uint8(id)
			now, kept = kept, now
		}
	}
	c.finish(kept, count, d)
}

// subtract sets dst to x − y.
func subtract(dst, x, y *laneRow, words int, d *depth) {
	for k := range dst[:words] {
		dst[k] = sub(x[k], y[k], d.high)
	}
}

// subtractFromLeft sets each lane of dst to x less y less the lane of x before
// it.
func subtractFromLeft(dst, x, y *laneRow, words int, d *depth) {
	var carry uint64
	for k := range dst[:words] {
		left := x[k]<<d.bits | carry
		carry = x[k] >> (64 - d.bits)
		dst[k] = sub(sub(x[k], left, d.high), y[k], d.high)
	}
}

// zigzagLanes zigzags the first count lanes of r, clears the others of the
// last group and returns the bytes that the groups take.
func zigzagLanes(r *laneRow, count int, d *depth) int {
	words := d.words(count)
	for k := range r[:words] {
		r[k] = zigzag(r[k], d.high, d.low, d.bits)
	}
	if words > 0 {
		r[words-1] &= d.laneMask(count - (words-1)*d.perWord)
	}
	r[words] = 0 // of a 16-bit group's two words the second may be empty
	whole, total := count/groupSize, 0
	if d.bits == 8 {
		for g := range r[:whole] {
			total += int(groupWidths8[groupBits8(r[g])])
		}
	} else {
		for g := range whole {
			total += int(d.width(uint64(d.widthCode(groupBits(r, g, d)))))
		}
	}
	if n := count % groupSize; n > 0 {
		width := d.width(uint64(d.widthCode(groupBits(r, whole, d))))
		total += groupBytes(n, int(width))
	}
	return total
}

// finish sets c to residuals that zigzagLanes has seen.
func (c *phaseCode) finish(residuals *laneRow, count int, d *depth) {
	c.residuals = *residuals
	c.bytes = 0
	for g := range groups(count) {
		c.codes[g] = d.widthCode(groupBits(residuals, g, d))
		c.bytes += groupBytes(min(groupSize, count-g*groupSize), int(d.width(uint64(c.codes[g]))))
	}
}

// appendTo appends the groups of c.
func (c *phaseCode) appendTo(b []byte, count int, d *depth) []byte {
	for g := range groups(count) {
		n := min(groupSize, count-g*groupSize)
		b = appendGroup(b, &c.residuals, g, n, d.width(uint64(c.codes[g])), d)
	}
	return b
}

func (e *patchEncoder) appendPrelude(b []byte, transform uint8) []byte {
	constants := uint8(0)
	for i := range e.img.Channels {
		if e.best[i].constant {
			constants |= 1 << i
		}
	}
	b = append(b, transform, constants)
	for i := range e.img.Channels {
		b = binary.LittleEndian.AppendUint16(b, uint16(e.best[i].base))
		b = b[:len(b)-2+int(e.d.bits)/8]
	}
	return b
}

// appendHeaders appends the phase headers of all rows.
func (e *patchEncoder) appendHeaders(b []byte, r region) []byte {
	w := bitWriter{b: b}
	for y := range r.height {
		for i := range e.img.Channels {
			if c := &e.best[i]; !c.constant {
				w.phase(&c.even[y], evenIDBits, r.pairs(), e.d)
				w.phase(&c.odd[y], oddIDBits, r.width/2, e.d)
			}
		}
	}
	return w.finish()
}

// A bitWriter appends bits, least significant first.
type bitWriter struct {
	b      []byte
	acc    uint64
	filled uint
}

func (w *bitWriter) phase(c *phaseCode, idBits uint, count int, d *depth) {
	w.put(uint64(c.id), idBits)
	for _, code := range c.codes[:groups(count)] {
		w.put(uint64(code), d.widthBits)
	}
}

func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << w.filled
	for w.filled += n; w.filled >= 8; w.filled -= 8 {
		w.b = append(w.b, byte(w.acc))
		w.acc >>= 8
	}
}

// finish returns all that was written, the last byte filled with zeros.
func (w *bitWriter) finish() []byte {
	if w.filled > 0 {
		w.b = append(w.b, byte(w.acc))
	}
	return w.b
}
