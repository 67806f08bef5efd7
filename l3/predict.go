package l3

// A row of a plane is predicted in two phases: first its even columns from the
// rows above, then its odd columns, which by then have a known neighbour on
// either side. Lane i of a phase is the pair of columns 2i and 2i + 1. Within
// a phase no lane waits for another, but for the prefix sum of some even
// predictors, so a vector unit or a GPU decodes all lanes of a phase at once.
//
// Names, for lane i of the row y:
//
//	T   even column i of row y−1        TT  even column i of row y−2
//	TL  odd column i−1 of row y−1 (of lane 0: its own odd column)
//	TR  odd column i of row y−1
//	T2  even column i−1 of row y−1 (of lane 0: T)
//	L   even column i of row y          R   even column i+1 of row y (of the last lane: L)
//	A   odd column i of row y−1
//	J   avg(even column i, even column i+1 of row y−1), the last lane's i+1 being i
//
// Rows −1 and −2 hold the plane's base value in every column. A patch of odd
// width has one more odd column, whose residuals are all zero and not stored.
// docs/format-l3.md has the formulas sample by sample.

// The predictors of even columns, by their number in a phase header. From
// evenLeft on, but for evenTrend, the left neighbour takes part.
const (
	evenAbove        = iota // T
	evenWeighted            // avg(avg(TL, TR), T)
	evenBetween             // avg(TL, TR)
	evenLeft                // left
	evenGradient            // left + T − T2
	evenHalfGradient        // left + (T − T2) >> 1
	evenTrend               // T + (T − TT) >> 1, clamped
	evenThreeQuarter        // left + h + (h + 1) >> 1, h = (T − T2) >> 1
	evenPredictors
)

// The predictors of odd columns, by their number in a phase header.
const (
	oddBetween   = iota // q = avg(L, R)
	oddHalfCurve        // q + half of (A − J), clamped
	oddCurve            // q + (A − J), clamped
	oddWeighted         // avg(q, A)
	oddPredictors
)

// Bits of a predictor's number in a phase header.
const (
	evenIDBits = 3
	oddIDBits  = 2
)

// sumsLeft reports whether the even predictor id adds the left neighbour: the
// sample is then the sum of prediction and residual over its own lane and all
// lanes before it.
func sumsLeft(id int) bool { return id >= evenLeft && id != evenTrend }

// predictEven sets the first words of f to the predictions of a row's even
// columns. For predictors that add the left neighbour it is the part without
// it; the first lane, which has no left neighbour, is predicted by T.
func predictEven(f *laneRow, id int, above, above2 *planeRow, words int, d *depth) {
	high, bits := d.high, d.bits&63
	top := &above.even
	switch id {
	case evenAbove:
		copy(f[:words], top[:words])
	case evenWeighted, evenBetween:
		carry := above.odd[0] & d.laneMask(1)
		for k := range f[:words] {
			right := above.odd[k]
			left := right<<bits | carry
			carry = right >> ((64 - bits) & 63)
			f[k] = avg(left, right, high)
			if id == evenWeighted {
				f[k] = avg(f[k], top[k], high)
			}
		}
	case evenTrend:
		for k := range f[:words] {
			t, tt := top[k], above2.even[k]
			up := subSaturated(t, tt, high, bits)
			down := subSaturated(tt, t, high, bits)
			t = addSaturated(t, half(up, high), high, bits)
			f[k] = subSaturated(t, down-half(down, high), high, bits)
		}
	default:
		predictFromLeft(f, id, top, words, d)
	}
}

// predictFromLeft is predictEven for the predictors that add the left
// neighbour.
func predictFromLeft(f *laneRow, id int, top *laneRow, words int, d *depth) {
	high, bits := d.high, d.bits&63
	carry := top[0] & d.laneMask(1)
	for k := range f[:words] {
		t := top[k]
		t2 := t<<bits | carry
		carry = t >> ((64 - bits) & 63)
		switch id {
		case evenLeft:
			f[k] = 0
		case evenGradient:
			f[k] = sub(t, t2, high)
		case evenHalfGradient:
			f[k] = halfDifference(t, t2, high)
		case evenThreeQuarter:
			h := halfDifference(t, t2, high)
			f[k] = add(h, avg(h^high, high, high)^high, high)
		}
	}
	f[0] = f[0]&^d.laneMask(1) | top[0]&d.laneMask(1)
}

// predictOdd sets the first words of f to the predictions of the odd columns
// of row, whose even columns are known and replicated, as above's are.
func predictOdd(f *laneRow, id int, row, above *planeRow, words int, d *depth) {
	high, bits := d.high, d.bits&63
	rest := (64 - bits) & 63
	for k := range f[:words] {
		l := row.even[k]
		q := avg(l, l>>bits|row.even[k+1]<<rest, high)
		switch id {
		case oddWeighted:
			q = avg(q, above.odd[k], high)
		case oddHalfCurve, oddCurve:
			e := above.even[k]
			j := avg(e, e>>bits|above.even[k+1]<<rest, high)
			up := subSaturated(above.odd[k], j, high, bits)
			down := subSaturated(j, above.odd[k], high, bits)
			if id == oddHalfCurve {
				up, down = half(up, high), half(down, high)
			}
			q = subSaturated(addSaturated(q, up, high, bits), down, high, bits)
		}
		f[k] = q
	}
}
