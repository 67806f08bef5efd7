package l3

import (
	"math/bits"
	"slices"

	"prismfs/raster"
)

// labelTrainingRounds is how often contexts are assigned to tables anew. After
// that hardly any moves.
const labelTrainingRounds = 40

// trainLabels makes a built-in set from label maps, each as it is and mirrored.
func trainLabels(maps []raster.Image, workers int) ([]byte, error) {
	for _, img := range maps {
		if err := checkLabels(img.Shape); err != nil {
			return nil, err
		}
	}
	var total labelCount
	model := new(labelModel)
	model.setBase() // which does not matter for counting
	for _, img := range maps {
		for mirror := range 4 {
			img := mirrored(img, mirror&1 != 0, mirror&2 != 0)
			g := newGrid(img.Shape, maxLabelsLogEdge)
			f := &draft{table: make([]tableEntry, g.patches()), patches: make([][]byte, g.patches())}
			count := countLabels(img, model, f, g, EncodeOptions{Workers: workers})
			for context := range total.tokens {
				for token, n := range count.tokens[context] {
					total.tokens[context][token] += n
				}
			}
		}
	}
	set := new(labelSet)
	set.train(&total)
	return set.appendTo(nil), nil
}

// mirrored returns img with rows or columns in reverse order.
func mirrored(img raster.Image, rows, columns bool) raster.Image {
	to := img
	to.Pix = nil
	for y := range img.Height {
		if rows {
			y = img.Height - 1 - y
		}
		to.Pix = append(to.Pix, img.Pix[y*img.Width:][:img.Width]...)
		if columns {
			slices.Reverse(to.Pix[len(to.Pix)-img.Width:])
		}
	}
	return to
}

// train groups contexts by k-means: each goes to the table that codes it in the
// fewest bits, and each table is made for its contexts, in turn.
func (s *labelSet) train(count *labelCount) {
	seen := s.guess(count)
	for range labelTrainingRounds {
		for i, tokens := range count.byTable(&s.tableOf) {
			// Each token occurs now and then, whatever the maps say.
			for token := range tokens {
				tokens[token] = tokens[token]*16 + 1
			}
			s.tables[i] = newLabelTable(&tokens)
		}
		for _, context := range seen {
			s.tableOf[context] = s.cheapest(&count.tokens[context])
		}
	}
	s.mapUnseen(count)
}

// guess spreads the contexts that occur over the tables by their share of major
// labels, and returns them.
func (s *labelSet) guess(count *labelCount) []int {
	var seen []int
	total, share := 0.0, make([]float64, labelContexts)
	for context, tokens := range count.tokens {
		n := 0.0
		for _, k := range tokens {
			n += float64(k)
		}
		if n > 0 {
			seen = append(seen, context)
			share[context] = float64(tokens[labelMajor]) / n
			total++
		}
	}
	slices.SortStableFunc(seen, func(a, b int) int {
		switch {
		case share[a] < share[b]:
			return -1
		case share[a] > share[b]:
			return 1
		}
		return 0
	})
	for i, context := range seen {
		s.tableOf[context] = uint8(i * labelTableCount / len(seen))
	}
	return seen
}

func (s *labelSet) cheapest(tokens *[labelTokens]uint32) uint8 {
	best, least := 0, s.tables[0].cost(tokens)
	for i := range s.tables {
		if cost := s.tables[i].cost(tokens); cost < least {
			best, least = i, cost
		}
	}
	return uint8(best)
}

// mapUnseen gives a context that does not occur the table of the most similar one
// of its class that does.
func (s *labelSet) mapUnseen(count *labelCount) {
	const group = 2 * labelPatterns
	occurs := func(context int) bool { return count.tokens[context] != [labelTokens]uint32{} }
	for context := range s.tableOf {
		if occurs(context) {
			continue
		}
		least := group
		for other := context / group * group; other < context/group*group+group; other++ {
			if d := bits.OnesCount(uint(context ^ other)); occurs(other) && d < least {
				least, s.tableOf[context] = d, s.tableOf[other]
			}
		}
	}
}
