package l3

import (
	"encoding/binary"
	"math/bits"
)

// A labelGrid is a patch of labels that becomes known phase by phase.
type labelGrid struct {
	width, height int
	labels        [maxLabelsEdge * maxLabelsEdge]uint8 // row y begins at y·maxLabelsEdge
	sites         []labelSite                          // of the last phase
}

// A labelSite is a coded pixel: where it is and what its neighbours say.
type labelSite struct {
	at      uint16 // in labelGrid.labels
	context uint16 // before it is mapped, less than labelContexts

	// Of the labels of neighbour 0 and of the first neighbour with another
	// one, major is that with the greater weight, the former if both have the
	// same. Third is the first label that is neither. What does not exist is
	// equal to neighbour 0.
	major, minor, third uint8
}

// Contexts before they are mapped: class, whether there are more than two
// labels, and which neighbours have the major one.
const (
	labelPatterns = 1 << labelNeighbours
	labelContexts = labelClasses * 2 * labelPatterns
)

// begin makes a patch of which one pixel is known.
func (g *labelGrid) begin(width, height int, first uint8) {
	g.width, g.height = width, height
	g.labels[0] = first
}

// scan sets the pixels of a phase that are not coded to the label that their
// neighbours have, and returns the others, in raster order.
func (g *labelGrid) scan(p *labelPhase) []labelSite {
	g.sites = g.sites[:0]
	for y := p.kind.first.y * p.step; y < g.height; y += 2 * p.step {
		g.scanRow(p, y)
	}
	return g.sites
}

func (g *labelGrid) scanRow(p *labelPhase, y int) {
	var offsets [labelNeighbours]int
	for i, place := range p.kind.neighbours {
		offsets[i] = offsets[0]
		if row := nearestInside(y+place.y*p.step, p.step, g.height); row >= 0 {
			offsets[i] = (row-y)*maxLabelsEdge + place.x*p.step
		}
	}
	inner, sparse := p.kind.reach*p.step, p.sparse()
	for x := p.kind.first.x * p.step; x < g.width; x += 2 * p.step {
		at := y*maxLabelsEdge + x
		var labels uint64
		if x >= inner && x < g.width-inner {
			labels = g.load4(at, offsets[:4])
			if sparse && agree(labels) {
				g.labels[at] = uint8(labels)
				continue
			}
			labels |= g.load4(at, offsets[4:]) << 32
		} else {
			labels = g.neighbours(p, y, x)
			if sparse && agree(labels) {
				g.labels[at] = uint8(labels)
				continue
			}
		}
		g.sites = append(g.sites, newLabelSite(at, labels, p.class))
	}
}

// load4 returns four labels, the first one in the lowest byte.
func (g *labelGrid) load4(at int, offsets []int) uint64 {
	_ = offsets[3]
	return uint64(g.labels[uint16(at+offsets[0])]) | uint64(g.labels[uint16(at+offsets[1])])<<8 |
		uint64(g.labels[uint16(at+offsets[2])])<<16 | uint64(g.labels[uint16(at+offsets[3])])<<24
}

// agree reports whether the nearest neighbours have one label.
func agree(labels uint64) bool { return uint32(labels) == uint32(uint8(labels))*0x01010101 }

// neighbours returns the labels of the neighbours of any pixel, that of neighbour
// i in byte i.
func (g *labelGrid) neighbours(p *labelPhase, y, x int) uint64 {
	var n [labelNeighbours]uint8
	for i, place := range p.kind.neighbours {
		n[i] = n[0]
		row := nearestInside(y+place.y*p.step, p.step, g.height)
		column := nearestInside(x+place.x*p.step, p.step, g.width)
		if row >= 0 && column >= 0 {
			n[i] = g.labels[row*maxLabelsEdge+column]
		}
	}
	return binary.LittleEndian.Uint64(n[:])
}

// nearestInside returns the place nearest to v that is a multiple of two steps
// away from it and in 0 to size−1, or a negative number if there is none.
func nearestInside(v, step, size int) int {
	if v < 0 {
		v += 2 * step
	}
	for v >= size {
		v -= 2 * step
	}
	return v
}

// newLabelSite returns the site of a pixel whose neighbour i has the label in byte
// i of labels.
func newLabelSite(at int, labels uint64, class int) labelSite {
	first := uint8(labels)
	second, third := first, first
	firstPattern, secondPattern, more := sameAs(labels, first), uint(0), 0
	if others := labelPatterns - 1 - firstPattern; others != 0 {
		second = uint8(labels >> (8 * bits.TrailingZeros(others)))
		secondPattern = sameAs(labels, second)
		if others -= secondPattern; others != 0 {
			third, more = uint8(labels>>(8*bits.TrailingZeros(others))), 1
		}
	}
	s := labelSite{at: uint16(at), major: first, minor: second, third: third}
	pattern := firstPattern
	if labelWeight(secondPattern) > labelWeight(firstPattern) {
		s.major, s.minor, pattern = second, first, secondPattern
	}
	s.context = uint16((class*2+more)*labelPatterns) + uint16(pattern)
	return s
}

// sameAs returns a number with bit i set if byte i of labels is label.
func sameAs(labels uint64, label uint8) uint {
	const low, high = 0x0101010101010101, 0x8080808080808080
	x := labels ^ uint64(label)*low
	same := ^((x&^high + (high - low)) | x) & high // top bits of bytes of x that are 0
	return uint(same >> 7 * 0x0102040810204080 >> 56)
}

// labelWeight returns the weight of the neighbours whose bits are set.
func labelWeight(pattern uint) int {
	const nearest = 1<<labelNearest - 1
	return labelNearWeight*bits.OnesCount(pattern&nearest) + bits.OnesCount(pattern&^nearest)
}
