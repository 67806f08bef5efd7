package l3

// The labels coding is for maps of classes or segments: large areas of one
// value with outlines that matter. A patch is decoded from coarse to fine:
// when the pixels on multiples of 2s are known, three phases decode those
// between them on multiples of s, all pixels of a phase from pixels of earlier
// ones and so at once. Where the four nearest of these agree, a pixel is taken
// to be like them and costs nothing; the few that are not are listed. Others
// are coded as one of the neighbours' labels.

// Edges of a label map's patches, in pixels, as powers of two.
const (
	minLabelsLogEdge = 6
	maxLabelsLogEdge = 8
	maxLabelsEdge    = 1 << maxLabelsLogEdge
)

const (
	labelNeighbours = 8
	labelNearest    = 4 // the first neighbours

	// labelSparseStep is the widest step at which pixels whose nearest
	// neighbours agree are not coded. At wider ones there are few pixels, and
	// many of those differ.
	labelSparseStep = 4

	// labelNearWeight is the weight of a nearest neighbour in the choice of
	// the likeliest label; that of the others is 1.
	labelNearWeight = 3
)

// Tokens: which label a coded pixel has. What major, minor and third are says
// labelSite.
const (
	labelMajor = iota
	labelMinor
	labelThird
	labelRaw // the label's rank in the palette follows
	labelTokens
)

// A labelPlace is a place relative to a pixel, in steps.
type labelPlace struct{ y, x int }

// A labelKind is what the phases of one name have in common at all steps s:
// their pixels stand on first + 2·s·(i, j), in units of s.
type labelKind struct {
	first      labelPlace
	neighbours [labelNeighbours]labelPlace
	reach      int // the farthest column among neighbours
}

var labelKinds = [3]labelKind{
	{
		first: labelPlace{1, 1}, reach: 3,
		neighbours: [labelNeighbours]labelPlace{{-1, -1}, {-1, 1}, {1, -1}, {1, 1}, {-1, -3}, {-1, 3}, {1, -3}, {1, 3}},
	},
	{
		first: labelPlace{1, 0}, reach: 2,
		neighbours: [labelNeighbours]labelPlace{{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -2}, {-1, 2}, {1, -2}, {1, 2}},
	},
	{
		first: labelPlace{0, 1}, reach: 1,
		neighbours: [labelNeighbours]labelPlace{{0, -1}, {0, 1}, {-1, 0}, {1, 0}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}},
	},
}

// labelPhases is the number of phases of the largest patch. Smaller ones have
// no pixels in the first ones.
const labelPhases = maxLabelsLogEdge * len(labelKinds)

// A labelPhase is one of the phases, numbered in the order of decoding.
type labelPhase struct {
	kind  *labelKind
	step  int
	class int // of its contexts
}

// labelClasses is the number of classes of contexts: kinds at steps 1, 2, 4 and
// all others.
const labelClasses = 4 * len(labelKinds)

func labelPhaseNumber(i int) labelPhase {
	level, kind := i/len(labelKinds), i%len(labelKinds)
	scale := min(maxLabelsLogEdge-1-level, 3)
	return labelPhase{kind: &labelKinds[kind], step: maxLabelsEdge / 2 >> level, class: scale*len(labelKinds) + kind}
}

// sparse reports whether only pixels are coded whose nearest neighbours differ.
func (p *labelPhase) sparse() bool { return p.step <= labelSparseStep }
