package l3

import "encoding/binary"

// A code16 is a table set as an encoder uses it.
type code16 struct {
	set   *tableSet
	first [maxTables + 1][maxTokens]uint16 // slot of each token
}

func newCode16(set *tableSet) *code16 {
	c := &code16{set: set}
	for _, t := range set.shape.numbers(set.count) {
		sum := uint16(0)
		for token, n := range set.frequencies[t][:set.shape.tokens] {
			c.first[t][token] = sum
			sum += n
		}
	}
	return c
}

// symbol returns what the step that decodes a token is given, and the raw bits
// that a second one is given, if any follow.
func (c *code16) symbol(table int, value uint16) (s, second ransSymbol) {
	token, rawBits, raw := valueToken(uint32(value))
	rest := rawBits - min(rawBits, firstRawBits16)
	s = c.token(table, int(token))
	s.rawBits, s.raw = uint8(rawBits-rest), uint16(raw>>rest)
	if rest > 0 {
		second = ransSymbol{frequency: 1 << dense16Bits, rawBits: uint8(rest), raw: uint16(raw & (1<<rest - 1))}
	}
	return s, second
}

func (c *code16) token(table, token int) ransSymbol {
	return ransSymbol{first: c.first[table][token], frequency: c.set.frequencies[table][token]}
}

// An appender16 codes the patches of an image, whose choices have been made.
type appender16 struct {
	e    *encoder16
	rans ransEncoder
	last [maxLanes][]ransSymbol // symbols of the last plane rows, by lane, last one first
}

// appendPatch appends a patch in the shortest of its three kinds.
func (a *appender16) appendPatch(b []byte, i int, r region) ([]byte, uint32) {
	p, img := &a.e.patches[i], a.e.source.img
	if p.constant {
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
func (a *appender16) appendCoded(b []byte, p *patchSymbols16, r region) []byte {
	start, lanes := len(b), laneCount(a.e.logStreams, r.pairs())
	a.rans.reset(dense16Bits, lanes)
	rows := len(p.ids)
	free := a.freeRows(p, r)
	for row := rows - free - 1; row >= 0; row-- {
		a.pushRow(p, r, row)
	}
	for k := rows - 1; k >= 0; k-- {
		s, _ := a.e.code.symbol(tableOfID, uint16(p.ids[k]))
		a.rans.push(k%lanes, s)
	}
	b = append(b, p.transform, p.constants|uint8(free)<<4)
	for _, v := range p.bases[:a.e.source.img.Channels] {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return appendPadding(a.rans.appendTo(b), start)
}

// pushRow pushes the symbols of a plane row.
func (a *appender16) pushRow(p *patchSymbols16, r region, row int) {
	a.eachStep(p, r, row, func(lane int, s ransSymbol) { a.rans.push(lane, s) })
}

// eachStep calls do for the steps of a plane row, last one first.
func (a *appender16) eachStep(p *patchSymbols16, r region, row int, do func(lane int, s ransSymbol)) {
	at := row * r.width
	for _, phase := range [2][2]int{{r.pairs(), r.width / 2}, {0, r.pairs()}} {
		first, count := at+phase[0], phase[1]
		lanes := a.rans.lanes
		for from := (count - 1) / lanes * lanes; count > 0 && from >= 0; from -= lanes {
			var leading [maxLanes]ransSymbol
			n := min(lanes, count-from)
			for lane := n - 1; lane >= 0; lane-- {
				var second ransSymbol
				i := first + from + lane
				leading[lane], second = a.symbol(p.values[i], p.contexts[i])
				if second.rawBits > 0 {
					do(lane, second)
				}
			}
			for lane := n - 1; lane >= 0; lane-- {
				do(lane, leading[lane])
			}
		}
	}
}

// symbol returns the symbols of a value or, if the context says so, a hole.
func (a *appender16) symbol(value, context uint16) (s, second ransSymbol) {
	table := int(a.e.code.set.contexts[context&^holeMark])
	if context&holeMark != 0 {
		return a.e.code.token(table, holeToken16), ransSymbol{}
	}
	return a.e.code.symbol(table, value)
}

// freeRows returns how many plane rows at the end need no renormalisation, and
// sets the states from which they are decoded.
func (a *appender16) freeRows(p *patchSymbols16, r region) int {
	lanes := a.rans.lanes
	var final [maxLanes]uint64 // the states that final ones of 0 come from
	var ends [maxFreeRows + 1][maxLanes]int
	for lane := range lanes {
		a.last[lane] = a.last[lane][:0]
	}
	n, fits := 0, true
	for n < min(maxFreeRows, len(p.ids)) {
		a.eachStep(p, r, len(p.ids)-1-n, func(lane int, s ransSymbol) {
			if fits {
				a.last[lane] = append(a.last[lane], s)
				final[lane] = s.put(final[lane], dense16Bits)
				fits = final[lane]>>32 == 0
			}
		})
		if !fits {
			break
		}
		n++
		for lane := range lanes {
			ends[n][lane] = len(a.last[lane])
		}
	}
	for ; n > 0; n-- {
		if a.startLanes(&ends[n]) {
			return n
		}
	}
	for lane := range lanes {
		a.rans.states[lane] = ransLow
	}
	return 0
}

// startLanes sets all states so that the first symbols of last, as many as ends
// says, need no renormalisation, and reports whether that is possible.
func (a *appender16) startLanes(ends *[maxLanes]int) bool {
	for lane := range a.rans.lanes {
		state, ok := fitsUnrenormalised(a.last[lane][:ends[lane]], dense16Bits)
		if !ok {
			return false
		}
		a.rans.states[lane] = state
	}
	return true
}
