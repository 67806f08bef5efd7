package l3

// A dense8Appender codes the patches of an image, whose choices have been made.
type dense8Appender struct {
	e    *dense8Encoder
	code *dense8Code
	rans ransEncoder

	// symbols of the last plane rows, by lane, last one first.
	last [maxLanes][]ransSymbol
}

// appendPatch appends a patch in the shortest of its three kinds.
func (a *dense8Appender) appendPatch(b []byte, i int, r region) ([]byte, uint32) {
	p, img := &a.e.patches[i], a.e.img
	if p.uniform {
		return appendConstant(b, img, r), kindConstant
	}
	start := len(b)
	b = a.appendCoded(b, p, r)
	if len(b)-start < padded(regionBytes(r, img.Shape)) {
		return b, kindCoded
	}
	return appendRaw(b[:start], img, r), kindRaw
}

// appendCoded appends a patch of kindCoded.
func (a *dense8Appender) appendCoded(b []byte, p *densePatch, r region) []byte {
	start := len(b)
	lanes := laneCount(a.e.logStreams, r.pairs())
	a.rans.reset(dense8Bits, lanes)
	rows := len(p.ids)
	free := a.freeRows(p, r)
	for row := rows - free - 1; row >= 0; row-- {
		a.pushPhase(p, r, row, true)
		a.pushPhase(p, r, row, false)
	}
	for k := rows - 1; k >= 0; k-- {
		a.rans.push(k%lanes, a.code.symbols[tableOfID][p.ids[k]])
	}
	b = append(b, p.transform, p.constants|uint8(free)<<4)
	b = append(b, p.bases[:a.e.img.Channels]...)
	if (len(b)-start)%2 != 0 {
		b = append(b, 0)
	}
	return appendPadding(a.rans.appendTo(b), start)
}

// phase returns values and symbols of a phase of a plane row.
func (a *dense8Appender) phase(p *densePatch, r region, row int, odd bool) (values []uint8, levels []uint8, tables []uint8) {
	size := 8 * depth8.words(r.pairs())
	at, count := 2*row*size, r.pairs()
	if odd {
		at, count = at+size, r.width/2
	}
	class := contextClass(codedPlane(p.constants, row%codedPlanes(p.constants, a.e.img.Channels)), odd)
	return p.values[at:][:count], p.levels[at:][:count], a.code.set.contexts[class*levels8:][:levels8]
}

// codedPlanes is how many of an image's planes are not constant.
func codedPlanes(constants uint8, channels int) int {
	n := 0
	for i := range channels {
		if constants>>i&1 == 0 {
			n++
		}
	}
	return n
}

// codedPlane returns the k-th of the planes that are not constant.
func codedPlane(constants uint8, k int) int {
	for i := 0; ; i++ {
		if constants>>i&1 == 0 {
			if k == 0 {
				return i
			}
			k--
		}
	}
}

// pushPhase pushes the symbols of a phase.
func (a *dense8Appender) pushPhase(p *densePatch, r region, row int, odd bool) {
	values, levels, tables := a.phase(p, r, row, odd)
	mask := 1<<a.e.logStreams - 1
	for i := len(values) - 1; i >= 0; i-- {
		a.rans.push(i&mask, a.code.symbols[tables[levels[i]]][values[i]])
	}
}

// freeRows returns how many plane rows at the end need no renormalisation, and
// sets the states from which they are decoded.
func (a *dense8Appender) freeRows(p *densePatch, r region) int {
	var zero [maxLanes]uint64 // the states that final ones of 0 come from
	for lane := range a.rans.lanes {
		a.last[lane] = a.last[lane][:0]
	}
	var ends [maxFreeRows + 1][maxLanes]int // of last, by how many rows are in it
	n := 0
	for n < min(maxFreeRows, len(p.ids)) && a.collectRow(p, r, len(p.ids)-1-n, &zero) {
		n++
		for lane := range a.rans.lanes {
			ends[n][lane] = len(a.last[lane])
		}
	}
	for ; n > 0; n-- {
		if a.startLanes(&ends[n]) {
			return n
		}
	}
	for lane := range a.rans.lanes {
		a.rans.states[lane] = ransLow
	}
	return 0
}

// collectRow adds the symbols of a plane row to last, and reports whether the
// lanes could still hold them.
func (a *dense8Appender) collectRow(p *densePatch, r region, row int, zero *[maxLanes]uint64) bool {
	mask := 1<<a.e.logStreams - 1
	for _, odd := range []bool{true, false} {
		values, levels, tables := a.phase(p, r, row, odd)
		for i := len(values) - 1; i >= 0; i-- {
			s, lane := a.code.symbols[tables[levels[i]]][values[i]], i&mask
			a.last[lane] = append(a.last[lane], s)
			if zero[lane] = s.put(zero[lane], dense8Bits); zero[lane]>>32 != 0 {
				return false
			}
		}
	}
	return true
}

// startLanes sets all states so that the first symbols of last, as many as ends
// says, need no renormalisation, and reports whether that is possible.
func (a *dense8Appender) startLanes(ends *[maxLanes]int) bool {
	for lane := range a.rans.lanes {
		state, ok := fitsUnrenormalised(a.last[lane][:ends[lane]], dense8Bits)
		if !ok {
			return false
		}
		a.rans.states[lane] = state
	}
	return true
}
