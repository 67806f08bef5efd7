package l3

import "encoding/binary"

// A patch of the dense codings, as bytes:
//
//	transform      1 byte
//	constants      bits 0 to 3, as in the fast codings; bits 4 to 7: how many
//	               plane rows at the end do not renormalise
//	base values    one sample a plane
//	any            1 byte if that is needed for an even offset
//	states         4 bytes a lane
//	words          2 bytes each
//	any            to a multiple of 4
//
// The symbols are the numbers of all predictors, then the residuals, in the
// order in which they are decoded.

// maxFreeRows is the largest number of plane rows that do not renormalise.
const maxFreeRows = 15

// idOf puts the two predictors of a row of a plane together.
func idOf(even, odd int) int { return odd<<evenIDBits | even }

const evenIDMask = 1<<evenIDBits - 1

// laneCount returns how many lanes a patch of so many pairs of columns has.
func laneCount(logStreams, pairs int) int { return min(1<<logStreams, pairs) }

// evenPadded rounds a size up to a multiple of 2.
func evenPadded(n int) int { return (n + 1) &^ 1 }

// A densePrelude is what precedes the states of a patch.
type densePrelude struct {
	transform uint8
	coded     int // planes that are not constant
	freeRows  int // plane rows at the end that do not renormalise
	end       int // of the prelude, in the file
}

// readPrelude reads what precedes the states of the patch at file[start:end], and
// starts the planes with it.
func readPrelude(planes []densePlane, file []byte, start, end int, r region, d *depth) (densePrelude, error) {
	channels, sampleBytes := len(planes), int(d.bits/8)
	size := preludeBytes(channels, d)
	if end-start < size {
		return densePrelude{}, corrupt("%d bytes are too few for its head", end-start)
	}
	constants := file[start+1] & 0xf
	p := densePrelude{transform: file[start], freeRows: int(file[start+1] >> 4), end: start + evenPadded(size)}
	if int(p.transform) >= transformLimit(channels) {
		return p, corrupt("transform %d of %d channels", p.transform, channels)
	}
	if constants>>channels != 0 {
		return p, corrupt("constant planes %#x of %d channels", constants, channels)
	}
	for i := range planes {
		at := start + 2 + i*sampleBytes
		base := uint64(file[at])
		if sampleBytes == 2 {
			base = uint64(binary.LittleEndian.Uint16(file[at:]))
		}
		constant := constants>>i&1 != 0
		planes[i].start(base, constant, d)
		if !constant {
			p.coded++
		}
	}
	if p.freeRows > p.coded*r.height {
		return p, corrupt("%d of %d plane rows do not renormalise", p.freeRows, p.coded*r.height)
	}
	if p.coded == 0 && end-start != padded(size) {
		return p, corrupt("%d bytes for constant planes", end-start)
	}
	return p, nil
}
