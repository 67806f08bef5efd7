package l3

// A denseStreams makes the streams of patches of the dense codings, whose last
// rows of planes need no words.
type denseStreams struct {
	ransEncoder
	last [maxLanes][]ransSymbol // symbols of the last plane rows, by lane, last one first
	zero [maxLanes]uint64       // the states that final ones of 0 come from
}

// freeRows returns how many of the plane rows of a patch, at its end, need no
// renormalisation, and sets the states from which they are decoded. hold calls
// holds with each symbol of a row, last one first, as long as that returns true,
// and returns what it returned.
func (s *denseStreams) freeRows(rows int, hold func(row int) bool) int {
	for lane := range s.lanes {
		s.last[lane], s.zero[lane] = s.last[lane][:0], 0
	}
	var ends [maxFreeRows + 1][maxLanes]int // of last, by how many rows are in it
	n := 0
	for n < min(maxFreeRows, rows) && hold(rows-1-n) {
		n++
		for lane := range s.lanes {
			ends[n][lane] = len(s.last[lane])
		}
	}
	for ; n > 0; n-- {
		if s.startLanes(&ends[n]) {
			return n
		}
	}
	for lane := range s.lanes {
		s.states[lane] = ransLow
	}
	return 0
}

// holds adds a symbol to last, and reports whether its lane could still hold all
// of them.
func (s *denseStreams) holds(lane int, symbol ransSymbol) bool {
	s.last[lane] = append(s.last[lane], symbol)
	s.zero[lane] = symbol.put(s.zero[lane], s.bits)
	return s.zero[lane]>>32 == 0
}

// startLanes sets all states so that the first symbols of last, as many as ends
// says, need no renormalisation, and reports whether that is possible.
func (s *denseStreams) startLanes(ends *[maxLanes]int) bool {
	for lane := range s.lanes {
		state, ok := fitsUnrenormalised(s.last[lane][:ends[lane]], s.bits)
		if !ok {
			return false
		}
		s.states[lane] = state
	}
	return true
}
