package l3

// A dense8Appender codes the patches of an image, whose choices have been made.
type dense8Appender struct {
	e    *dense8Encoder
	code *dense8Code
	rans denseStreams
}

// appendPatch appends a patch in the shortest of its three kinds.
func (a *dense8Appender) appendPatch(b []byte, i int, r region) ([]byte, uint32) {
	p, img := &a.e.patches[i], a.e.img
	if p.uniform {
		return appendConstant(b, img, r), kindConstant
	}
	return orRaw(a.appendCoded(b, p, r), len(b), img, r)
}

// appendCoded appends a patch of kindCoded.
func (a *dense8Appender) appendCoded(b []byte, p *densePatch, r region) []byte {
	start := len(b)
	lanes := laneCount(a.e.logStreams, r.pairs())
	a.rans.reset(dense8Bits, lanes)
	rows := len(p.ids)
	free := a.rans.freeRows(rows, func(row int) bool { return a.holdRow(p, r, row) })
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

// holdRow reports whether the lanes could still hold the symbols of a plane row.
func (a *dense8Appender) holdRow(p *densePatch, r region, row int) bool {
	mask := 1<<a.e.logStreams - 1
	for _, odd := range []bool{true, false} {
		values, levels, tables := a.phase(p, r, row, odd)
		for i := len(values) - 1; i >= 0; i-- {
			if !a.rans.holds(i&mask, a.code.symbols[tables[levels[i]]][values[i]]) {
				return false
			}
		}
	}
	return true
}
