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
	rans denseStreams
}

// appendPatch appends a patch in the shortest of its three kinds.
func (a *appender16) appendPatch(b []byte, i int, r region) ([]byte, uint32) {
	p, img := &a.e.patches[i], a.e.source.img
	if p.constant {
		return appendConstant(b, img, r), kindConstant
	}
	return orRaw(a.appendCoded(b, p, r), len(b), img, r)
}

// appendCoded appends a patch of kindCoded.
func (a *appender16) appendCoded(b []byte, p *patchSymbols16, r region) []byte {
	start, lanes := len(b), laneCount(a.e.logStreams, r.pairs())
	a.rans.reset(dense16Bits, lanes)
	rows := len(p.ids)
	free := a.rans.freeRows(rows, func(row int) bool { return a.holdRow(p, r, row) })
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

// holdRow reports whether the lanes could still hold the symbols of a plane row.
func (a *appender16) holdRow(p *patchSymbols16, r region, row int) bool {
	fits := true
	a.eachStep(p, r, row, func(lane int, s ransSymbol) { fits = fits && a.rans.holds(lane, s) })
	return fits
}
