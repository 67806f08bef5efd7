package l3

// Zones tell whether holes are around. They are computed from rows whose lanes
// have all bits set where the pixel is a hole, and none where it is not; the row
// above a patch has none. The even lanes of such rows are replicated.

// evenZones sets z to the zones of the even columns of a row, from the row
// above: 0 no hole at TL, T or TR; 1 one at TL or TR; 2 one at T; 3 at these
// three, and at the even columns of the pairs on either side as well.
func evenZones(z *laneRow, above *planeRow, words int) {
	d := &depth16
	first := d.laneMask(1)
	carryE, carryO := above.even[0]&first, above.odd[0]&first
	for k := range z[:words] {
		t, tr := above.even[k], above.odd[k]
		tl := tr<<d.bits | carryO
		left, right := t<<d.bits|carryE, t>>d.bits|above.even[k+1]<<(64-d.bits)
		carryE, carryO = t>>(64-d.bits), tr>>(64-d.bits)
		all := t & tl & tr & left & right
		z[k] = t&(2*d.low) | (all|^t&(tl|tr))&d.low
	}
}

// oddZones sets z to the zones of the odd columns of a row: the number of holes
// among the even columns on either side and the odd one above.
func oddZones(z *laneRow, row, above *planeRow, words int) {
	d := &depth16
	for k := range z[:words] {
		left := row.even[k]
		right := left>>d.bits | row.even[k+1]<<(64-d.bits)
		z[k] = left&d.low + right&d.low + above.odd[k]&d.low
	}
}
