package l3

import (
	"encoding/binary"
	"math/bits"
)

// Residuals are stored in groups of eight, zigzagged, all of a group in the
// same number of bits, so that a whole group of width n is exactly n bytes. The
// last group of a row's phase holds what is left, in as few bytes as it needs.

// groupSize is the number of residuals in a whole group.
const groupSize = 8

// maxGroups is the largest number of groups of a row's phase.
const maxGroups = maxPairs / groupSize

func groups(count int) int { return (count + groupSize - 1) / groupSize }

// groupBytes is the size of a group of count residuals of width bits.
func groupBytes(count, width int) int { return (count*width + 7) / 8 }

// widths maps the code of a group's width to the width in bits. One width is
// left out so that all codes fit widthBits: 7 of 0 to 8, 15 of 0 to 16.
func (d *depth) width(code uint64) uint {
	if d.bits == 8 {
		return widths8[code&7]
	}
	return widths16[code&15]
}

var (
	widths8  = [8]uint{0, 1, 2, 3, 4, 5, 6, 8}
	widths16 = [16]uint{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16}
)

// widthCode returns the code of the smallest width that holds the value v.
func (d *depth) widthCode(v uint64) uint8 {
	return uint8(min(bits.Len64(v), int(1<<d.widthBits)-1))
}

// A packing moves values between a dense run of width-bit fields and lanes,
// in steps that each split (or join) halves of what is left.
type packing struct {
	mask  [3]uint64 // the lower halves, from the coarsest step
	field [3]uint   // how far a step's upper half lies above the lower one, packed
	shift [3]uint   // and how much further up it goes in lanes
}

// newPacking returns the packing of 1<<steps values of width bits into lanes
// of 64>>steps bits.
func newPacking(width uint, steps int) packing {
	var p packing
	span := uint(64)
	for i := range steps {
		span /= 2 // bits of half of what this step splits, in lanes
		fields := width << (steps - 1 - i)
		var mask uint64
		for at := uint(0); at < 64; at += 2 * span {
			mask |= (1<<fields - 1) << at
		}
		p.mask[i], p.field[i], p.shift[i] = mask, fields, span-fields
	}
	return p
}

var (
	packings8  [9]packing  // eight values into 8-bit lanes, by width
	packings16 [17]packing // four values into 16-bit lanes, by width
)

func init() {
	for v := range groupWidths8 {
		groupWidths8[v] = uint8(depth8.width(uint64(depth8.widthCode(uint64(v)))))
	}
	for w := range packings8 {
		packings8[w] = newPacking(uint(w), 3)
	}
	for w := range packings16 {
		packings16[w] = newPacking(uint(w), 2)
	}
}

// unpack8 spreads eight packed values, the bits above them being anything.
func (p *packing) unpack8(v uint64) uint64 {
	v = v&p.mask[0] | (v>>(p.field[0]&63))&p.mask[0]<<32
	v = v&p.mask[1] | (v>>(p.field[1]&63))&p.mask[1]<<16
	return v&p.mask[2] | (v>>(p.field[2]&63))&p.mask[2]<<8
}

// unpack16 spreads four packed values, the bits above them being anything.
func (p *packing) unpack16(v uint64) uint64 {
	v = v&p.mask[0] | (v>>(p.field[0]&63))&p.mask[0]<<32
	return v&p.mask[1] | (v>>(p.field[1]&63))&p.mask[1]<<16
}

// pack is the inverse of unpacking in the given number of steps.
func (p *packing) pack(v uint64, steps int) uint64 {
	for i := steps - 1; i >= 0; i-- {
		v = v&p.mask[i] | v>>p.shift[i]&(p.mask[i]<<p.field[i])
	}
	return v
}

// load64 reads the eight bytes at b[at:], zeros standing for those past b's
// end.
func load64(b []byte, at int) uint64 {
	if at <= len(b)-8 {
		return binary.LittleEndian.Uint64(b[at:])
	}
	return loadTail(b, at)
}

func loadTail(b []byte, at int) uint64 {
	var last [8]byte
	if at < len(b) {
		copy(last[:], b[at:])
	}
	return binary.LittleEndian.Uint64(last[:])
}

// unpackResiduals sets the lanes of r to the count residuals stored from
// b[at:] in groups whose width codes stand in codes, and the lanes after them,
// up to words, to zero. It returns where the next group begins, which lies past
// b's end if b is too short.
func unpackResiduals(r *laneRow, b []byte, at int, codes uint64, count, words int, d *depth) int {
	if d.bits == 8 {
		return unpackResiduals8(r, b, at, codes, count, words)
	}
	return unpackResiduals16(r, b, at, codes, count, words)
}

func unpackResiduals8(r *laneRow, b []byte, at int, codes uint64, count, words int) int {
	const high, low, bits = 0x8080808080808080, 0x0101010101010101, 8
	whole := count / groupSize
	for g := range r[:whole] {
		width := widths8[codes&7]
		codes >>= 3
		r[g] = unzigzag(packings8[width].unpack8(load64(b, at)), high, low, bits)
		at += int(width)
	}
	for k := whole; k < words; k++ {
		r[k] = 0
	}
	if n := count % groupSize; n > 0 {
		width := widths8[codes&7]
		v := load64(b, at) & (1<<(uint(n)*width) - 1)
		r[whole] = unzigzag(packings8[width].unpack8(v), high, low, bits)
		at += groupBytes(n, int(width))
	}
	return at
}

func unpackResiduals16(r *laneRow, b []byte, at int, codes uint64, count, words int) int {
	d := &depth16
	for k := range r[:words] {
		r[k] = 0
	}
	for i := 0; i < count; i += groupSize {
		width := widths16[codes&15]
		codes >>= 4
		n := min(groupSize, count-i)
		for j := 0; j < n; j += d.perWord {
			// Four values begin at a whole or a half byte.
			v := load64(b, at+j*int(width)/8) >> (uint(j) * width % 8)
			k := (i + j) / d.perWord
			v = packings16[width].unpack16(v) & d.laneMask(n-j)
			r[k] = unzigzag(v, d.high, d.low, d.bits)
		}
		at += groupBytes(n, int(width))
	}
	return at
}

// groupBits returns the bitwise or of all lanes of a group of zigzagged
// residuals, whose highest bit tells the group's width.
func groupBits(z *laneRow, group int, d *depth) uint64 {
	if d.bits == 8 {
		return uint64(groupBits8(z[group]))
	}
	m := z[2*group] | z[2*group+1]
	m |= m >> 32
	return (m | m>>16) & 0xffff
}

func groupBits8(m uint64) uint8 {
	m |= m >> 32
	m |= m >> 16
	return uint8(m | m>>8)
}

// groupWidths8 is the width, and so the size, of a whole group of 8-bit
// residuals, by what groupBits8 returns.
var groupWidths8 [256]uint8

// appendGroup appends a group of count zigzagged residuals in width bits each.
func appendGroup(b []byte, z *laneRow, group, count int, width uint, d *depth) []byte {
	end := len(b) + groupBytes(count, int(width))
	if d.bits == 8 {
		return binary.LittleEndian.AppendUint64(b, packings8[width].pack(z[group], 3))[:end]
	}
	lo := packings16[width].pack(z[2*group], 2)
	hi := packings16[width].pack(z[2*group+1], 2)
	b = binary.LittleEndian.AppendUint64(b, lo|hi<<(4*width))
	return binary.LittleEndian.AppendUint64(b, hi>>(64-4*width))[:end]
}
