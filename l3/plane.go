package l3

// maxPairs is the largest number of lanes of a row: the pairs of columns in a
// patch with the largest edge.
const maxPairs = 1 << (maxLogEdge - 1)

// maxRowWords is the largest number of words of a row's even or odd columns.
const maxRowWords = maxPairs * 16 / 64

// laneRow is one phase of a row: every second column, one a lane. The word
// after the last one is there for the lane that replicate writes.
type laneRow [maxRowWords + 1]uint64

// planeRow is a row of one plane of a patch. Lane i holds columns 2i and
// 2i + 1: a lane is a pair of columns. Lanes past the last pair hold nothing
// that any result depends on.
type planeRow struct {
	even, odd laneRow
}

// fill sets all lanes to v.
func (r *planeRow) fill(v uint64, d *depth) {
	for k := range r.even {
		r.even[k] = v * d.low
		r.odd[k] = v * d.low
	}
}

// replicate copies lane pairs−1 to lane pairs, so that the right neighbour of
// the last lane is that lane itself.
func (r *laneRow) replicate(pairs int, d *depth) {
	k, shift := d.place(pairs - 1)
	v := r[k] >> shift & d.laneMask(1)
	k, shift = d.place(pairs)
	r[k] = r[k]&^(d.laneMask(1)<<shift) | v<<shift
}
