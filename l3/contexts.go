package l3

// In the dense codings a residual's context is how large the residuals around it
// are that are known already, and how much the samples differ there: a weighted
// sum, which a decoder computes for all lanes of a phase at once. docs/format-l3.md
// has the sums sample by sample; here is their one implementation, for 8 and 16
// bits, which the encoders use as well.

// firstMagnitude is the magnitude of all residuals in the two rows above a patch.
const firstMagnitude = 3

// A densePlane is what contexts need of a plane: its last three rows and the
// magnitudes of their residuals, row y at y mod 3. In the rows of a constant
// plane all magnitudes are 0.
type densePlane struct {
	rows, magnitudes [3]planeRow
	constant         bool
}

// start sets the rows above a patch.
func (p *densePlane) start(base uint64, constant bool, d *depth) {
	p.constant = constant
	magnitude := uint64(firstMagnitude)
	if constant {
		magnitude = 0
	}
	for k := range p.rows {
		p.rows[k].fill(base, d)
		p.magnitudes[k].fill(magnitude, d)
	}
}

// A wideSum adds lanes up in lanes of twice the width.
type wideSum struct {
	low, high uint64 // of the first, third, … and the second, fourth, … lane
}

func (s wideSum) add(x, alternate uint64, bits uint) wideSum {
	return wideSum{s.low + x&alternate, s.high + x>>(bits&63)&alternate}
}

// saturated returns the sums in lanes again, limited to what a lane can hold.
func (s wideSum) saturated(alternate uint64, bits uint) uint64 {
	return saturate(s.low, alternate, bits) | saturate(s.high, alternate, bits)<<(bits&63)
}

// saturate limits lanes of twice the width, in which there are small multiples
// of what a lane can hold, to that.
func saturate(x, alternate uint64, bits uint) uint64 {
	bits &= 63
	over := x >> bits & alternate
	over = (over + alternate) >> bits & alternate // 1 where there was more than 0
	return (x | (over<<bits - over)) & alternate
}

// absDifference is |x − y| of unsigned lanes.
func absDifference(x, y, high, low uint64, bits uint) uint64 {
	s := sub(x, y, high)
	return negateWhere(s, ((^x&y)|(^(x^y)&s))&high, low, bits)
}

// magnitude is |x| of signed lanes, as an unsigned number.
func magnitude(x, high, low uint64, bits uint) uint64 {
	return negateWhere(x, x&high, low, bits)
}

// negateWhere negates the lanes of x, none of which is 0, whose top bits are set
// in top.
func negateWhere(x, top, low uint64, bits uint) uint64 {
	all := spread(top, bits)
	return (x ^ all) + all&low
}

// evenContexts sets the first words of sums to the contexts of a plane's even
// columns in row y.
func evenContexts(sums *laneRow, planes []densePlane, plane, y, words int, d *depth) {
	p := &planes[plane]
	above, above2 := (y+2)%3, (y+1)%3
	mE, mO, mE2 := &p.magnitudes[above].even, &p.magnitudes[above].odd, &p.magnitudes[above2].even
	top, top2 := &p.rows[above].even, &p.rows[above2].even
	bits, high, low, alternate := d.bits&63, d.high, d.low, d.alternate
	rest := (64 - bits) & 63
	carryE, carryO := mE[0]&d.laneMask(1), mO[0]&d.laneMask(1) // the left neighbours of the first lane
	first := plane == 0 || plane == 3
	for k := range sums[:words] {
		m, o := mE[k], mO[k]
		var s wideSum
		s = s.add(m, alternate, bits)
		s = s.add(m<<bits|carryE, alternate, bits)
		s = s.add(m>>bits|mE[k+1]<<rest, alternate, bits)
		s = s.add(mE2[k], alternate, bits)
		s = s.add(o, alternate, bits)
		s = s.add(o<<bits|carryO, alternate, bits)
		carryE, carryO = m>>rest, o>>rest
		change := absDifference(top[k], top2[k], high, low, bits)
		if first {
			s = s.add(change, alternate, bits)
		} else {
			s = s.add(half(change, high), alternate, bits)
			s = s.add(half(planes[0].magnitudes[y%3].even[k], high), alternate, bits)
			if plane == 2 {
				s = addOneAndHalf(s, planes[1].magnitudes[y%3].even[k], d)
			}
		}
		sums[k] = s.saturated(alternate, bits)
	}
}

// oddContexts sets the first words of sums to the contexts of a plane's odd
// columns in row y, whose even columns are known and replicated.
func oddContexts(sums *laneRow, planes []densePlane, plane, y, words int, d *depth) {
	p := &planes[plane]
	above, above2 := (y+2)%3, (y+1)%3
	mO, mO2, mE := &p.magnitudes[above].odd, &p.magnitudes[above2].odd, &p.magnitudes[y%3].even
	even, aboveEven, aboveOdd := &p.rows[y%3].even, &p.rows[above].even, &p.rows[above].odd
	bits, high, low, alternate := d.bits&63, d.high, d.low, d.alternate
	rest := (64 - bits) & 63
	carry := mO[0] & d.laneMask(1)
	first := plane == 0 || plane == 3
	for k := range sums[:words] {
		m, e := mO[k], mE[k]
		var s wideSum
		s = s.add(m, alternate, bits)
		s = s.add(m<<bits|carry, alternate, bits)
		s = s.add(m>>bits|mO[k+1]<<rest, alternate, bits)
		s = s.add(mO2[k], alternate, bits)
		s = s.add(e, alternate, bits)
		s = s.add(e>>bits|mE[k+1]<<rest, alternate, bits)
		carry = m >> rest
		l := even[k]
		change := absDifference(l, l>>bits|even[k+1]<<rest, high, low, bits)
		s = s.add(half(change, high), alternate, bits)
		if !first {
			s = s.add(change, alternate, bits)
			a := aboveEven[k]
			between := avg(a, a>>bits|aboveEven[k+1]<<rest, high)
			curve := absDifference(aboveOdd[k], between, high, low, bits)
			s = s.add(curve, alternate, bits)
			s = s.add(curve, alternate, bits)
			if plane == 2 {
				s = addOneAndHalf(s, planes[1].magnitudes[y%3].odd[k], d)
			}
		}
		sums[k] = s.saturated(alternate, bits)
	}
}

// addOneAndHalf adds x + (x >> 1).
func addOneAndHalf(s wideSum, x uint64, d *depth) wideSum {
	return s.add(x, d.alternate, d.bits).add(half(x, d.high), d.alternate, d.bits)
}

// levels8 is how many levels the sums of 8 bits are cut into.
const levels8 = 40

// level8 returns the level of a sum.
func level8(sum int) int {
	switch {
	case sum < 16:
		return sum
	case sum < 64:
		return 12 + sum>>2
	}
	return 24 + sum>>4
}
