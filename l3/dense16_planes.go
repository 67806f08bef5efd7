package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// A source16 is a 16-bit image and the way from its samples to coded values.
type source16 struct {
	img   raster.Image
	flip  uint16           // see signFlip
	ranks *rankMap         // nil for none
	rank  *[1 << 16]uint16 // of each value, with a rank map
	hole  int              // the coded value of pixels that hold nothing, noHole for none
}

// shape returns what the image's table sets are, and those that are built in.
func (s *source16) shape() (*tableShape, *builtinTables) {
	if s.hole != noHole {
		return &dense16HoleShape, dense16HoleSets
	}
	return &dense16Shape, dense16Sets
}

// appendSections appends the sections of rank map and hole value.
func (s *source16) appendSections(b []byte) []byte {
	if s.ranks != nil {
		b = appendSection(b, sectionRankMap, sectionCritical, s.ranks.appendTo(nil))
	}
	if s.hole != noHole {
		b = appendSection(b, sectionHole, sectionCritical, binary.LittleEndian.AppendUint16(nil, uint16(s.hole)))
	}
	return b
}

// value returns the i-th sample of row as it is coded.
func (s *source16) value(row []byte, i int) uint16 {
	v := binary.LittleEndian.Uint16(row[2*i:]) ^ s.flip
	if s.rank != nil {
		v = s.rank[v]
	}
	return v
}

// patchPlanes16 are the planes of one patch, as coded. Row y of plane p is
// rows[p][y].
type patchPlanes16 struct {
	rows  [raster.MaxChannels]plane
	mixed [2]plane                  // planes 1 and 2 less their shares
	holes [raster.MaxChannels]plane // all bits of lanes that are holes; unused without a hole value
}

// load sets the planes to the samples of a region.
func (p *patchPlanes16) load(s *source16, r region) {
	channels := s.img.Channels
	words := depth16.words(r.pairs())
	for i, channel := range planeChannels[channels] {
		for y := range r.height {
			src, dst := r.row(s.img.Pix, y, s.img.Shape), &p.rows[i][y]
			clear(dst.even[:words])
			clear(dst.odd[:words])
			for x := 0; x < r.width; x += 2 {
				k, shift := x/2/4, uint(x/2%4*16)
				v := uint64(s.value(src, x*channels+channel))
				dst.even[k] |= v << shift
				if x+1 < r.width {
					v = uint64(s.value(src, (x+1)*channels+channel))
				}
				dst.odd[k] |= v << shift // the column that is missing is like its neighbour
			}
			if s.hole != noHole {
				markHoles(&p.holes[i][y], dst, uint64(s.hole), words)
				if r.width%2 != 0 {
					k, shift := depth16.place(r.pairs() - 1)
					p.holes[i][y].odd[k] &^= depth16.laneMask(1) << shift
				}
			}
		}
	}
}

// markHoles sets marks to all bits of the lanes of row that equal hole.
func markHoles(marks, row *planeRow, hole uint64, words int) {
	hole *= depth16.low
	for k := range words {
		marks.even[k] = zeroLanes16(row.even[k] ^ hole)
		marks.odd[k] = zeroLanes16(row.odd[k] ^ hole)
	}
}

// zeroLanes16 returns all bits of the lanes of x that are 0.
func zeroLanes16(x uint64) uint64 {
	high := depth16.high
	return spread(^(x|((x&^high)+^high))&high, depth16.bits)
}

// mix sets mixed to plane 1 or 2 less its shares of others.
func (p *patchPlanes16) mix(plane int, transform uint8, r region) *plane {
	words := depth16.words(r.pairs())
	s, mixed := planeShares(transform, plane), &p.mixed[plane-1]
	for y := range r.height {
		dst, src, first, second := &mixed[y], &p.rows[plane][y], &p.rows[0][y], &p.rows[1][y]
		s.decorrelate(&dst.even, &src.even, &first.even, &second.even, words, &depth16)
		s.decorrelate(&dst.odd, &src.odd, &first.odd, &second.odd, words, &depth16)
	}
	return mixed
}
