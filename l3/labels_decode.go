package l3

import (
	"encoding/binary"
	"math/bits"

	"prismfs/l3/internal/avx2"
	"prismfs/raster"
)

// A labelsDecoder decodes patches of label maps.
type labelsDecoder struct {
	labelModel
	shape raster.Shape
	lanes int
	grid  labelGrid

	vector avx2.Labels // the same for vector code
}

// labelPrelude is what a patch begins with: the number of exceptions and the
// label of its first pixel. Then come the exceptions: row, column and label.
const (
	labelPrelude   = 3
	exceptionBytes = 3
)

// labelStatesAt is where the states of a patch begin, counted from its start.
func labelStatesAt(exceptions int) int { return (labelPrelude + exceptions*exceptionBytes + 1) &^ 1 }

func (p *labelsDecoder) reset(h *header, sections []byte) error {
	p.shape, p.lanes = h.shape, 1<<h.logStreams
	if err := p.labelModel.reset(h, sections); err != nil {
		return err
	}
	p.setVector(h.logStreams)
	return nil
}

func (p *labelsDecoder) decode(pix, file []byte, start, end int, r region) error {
	left, err := p.decodeLabels(file[start:end], r)
	if err != nil {
		return err
	}
	if left > 2 {
		return corrupt("%d bytes follow the last pixel", left)
	}
	for y := range r.height {
		copy(r.row(pix, y, p.shape), p.grid.labels[y*maxLabelsEdge:])
	}
	return nil
}

// decodeLabels decodes a patch into the grid and returns how many bytes are left.
func (p *labelsDecoder) decodeLabels(b []byte, r region) (left int, err error) {
	s := labelStream{lanes: p.lanes}
	exceptions, err := s.open(b)
	if err != nil {
		return 0, err
	}
	p.grid.begin(r.width, r.height, b[2])
	for i := range labelPhases {
		phase := labelPhaseNumber(i)
		if err := p.decodePhase(&s, &phase); err != nil {
			return 0, err
		}
		if exceptions, err = p.grid.apply(exceptions, i); err != nil {
			return 0, err
		}
	}
	if len(exceptions) > 0 {
		return 0, corrupt("the first pixel is an exception")
	}
	return len(s.words), nil
}

// apply sets the exceptions of a phase and returns those that follow.
func (g *labelGrid) apply(exceptions []byte, phase int) ([]byte, error) {
	for len(exceptions) > 0 {
		y, x := exceptions[0], exceptions[1]
		number := phaseOf(y, x)
		if number < 0 || number > phase {
			break
		}
		if number < phase {
			return nil, corrupt("row %d, column %d is an exception of an earlier phase", y, x)
		}
		if int(y) >= g.height || int(x) >= g.width {
			return nil, corrupt("row %d, column %d is an exception beyond the patch", y, x)
		}
		g.labels[int(y)*maxLabelsEdge+int(x)] = exceptions[2]
		exceptions = exceptions[exceptionBytes:]
	}
	return exceptions, nil
}

// phaseOf returns the number of the phase in which a pixel is decoded, −1 for the
// first pixel.
func phaseOf(y, x uint8) int {
	if y|x == 0 {
		return -1
	}
	step := bits.TrailingZeros8(y | x)
	level := maxLabelsLogEdge - 1 - step
	switch {
	case y>>step&1 == 0:
		return 3*level + 2
	case x>>step&1 == 0:
		return 3*level + 1
	}
	return 3 * level
}

// decodePhase decodes the coded pixels of a phase.
func (p *labelsDecoder) decodePhase(s *labelStream, phase *labelPhase) error {
	sites := p.grid.scan(phase)
	for i := range sites {
		site := &sites[i]
		lane := i & (s.lanes - 1)
		token, ok := s.token(lane, &p.tables[p.tableOf[site.context]])
		label := site.major
		switch token {
		case labelMinor:
			label = site.minor
		case labelThird:
			label = site.third
		case labelRaw:
			var rank int
			rank, ok = s.raw(lane, p.rawBits)
			if rank >= p.paletteSize {
				return corrupt("label %d of a palette of %d", rank, p.paletteSize)
			}
			label = p.palette[rank]
		}
		if !ok {
			return corrupt("row %d: there are too few words", site.at/maxLabelsEdge)
		}
		p.grid.labels[site.at] = label
	}
	return nil
}

// A labelStream is what the coded pixels of a patch are read from. Pixel i of a
// phase is lane i mod lanes.
type labelStream struct {
	lanes  int
	states [maxLanes]uint32
	words  []byte
}

// open reads what precedes the words of a patch and returns the exceptions.
func (s *labelStream) open(b []byte) ([]byte, error) {
	if len(b) < labelPrelude {
		return nil, corrupt("%d bytes are too few for its head", len(b))
	}
	count := int(binary.LittleEndian.Uint16(b))
	at := labelStatesAt(count)
	if at+4*s.lanes > len(b) {
		return nil, corrupt("%d bytes are too few for %d exceptions and %d states", len(b), count, s.lanes)
	}
	for i := range s.states[:s.lanes] {
		s.states[i] = binary.LittleEndian.Uint32(b[at+4*i:])
	}
	s.words = b[at+4*s.lanes:]
	return b[labelPrelude : labelPrelude+count*exceptionBytes], nil
}

// token decodes a token. It returns false if there is no word left.
func (s *labelStream) token(lane int, t *labelTable) (token int, ok bool) {
	x := s.states[lane]
	slot := x % labelSlots
	first, end := uint32(0), uint32(t[0])
	switch {
	case slot < uint32(t[0]):
	case slot < uint32(t[1]):
		token, first, end = labelMinor, uint32(t[0]), uint32(t[1])
	case slot < uint32(t[2]):
		token, first, end = labelThird, uint32(t[1]), uint32(t[2])
	default:
		token, first, end = labelRaw, uint32(t[2]), labelSlots
	}
	s.states[lane] = (end-first)*(x>>labelSlotBits) + slot - first
	return token, s.renormalise(lane)
}

// raw decodes n bits.
func (s *labelStream) raw(lane int, n uint) (v int, ok bool) {
	x := s.states[lane]
	s.states[lane] = x >> n
	return int(x & (1<<n - 1)), s.renormalise(lane)
}

// renormalise takes a word if the state needs one. It returns false if there is
// none.
func (s *labelStream) renormalise(lane int) bool {
	if s.states[lane] >= ransLow {
		return true
	}
	if len(s.words) < 2 {
		return false
	}
	s.states[lane] = s.states[lane]<<16 | uint32(binary.LittleEndian.Uint16(s.words))
	s.words = s.words[2:]
	return true
}
