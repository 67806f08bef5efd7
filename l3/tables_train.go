package l3

import (
	"math"

	"prismfs/raster"
)

// trainingRounds is how often choices and tables are made from each other.
const trainingRounds = 4

// TrainTables makes a built-in table set of a coding from images that are like
// those it is for, as the data of a section of entropy tables. It serves whoever
// adds a set to this package; see the program l3/internal/train.
func TrainTables(coding Coding, images []raster.Image, workers int) ([]byte, error) {
	if coding != Dense8 && coding != Labels {
		return nil, unsupported("training for the %v coding", coding)
	}
	opt := EncodeOptions{Workers: workers}
	for _, img := range images {
		if err := checkImage(img, opt); err != nil {
			return nil, err
		}
		if img.DType != raster.Uint8 {
			return nil, unsupported("training for the %v coding with %v", coding, img.DType)
		}
	}
	if coding == Labels {
		return trainLabels(images, workers)
	}
	set := guessedDense8Set()
	for range trainingRounds {
		total := dense8Count{values: make([][maxTokens]uint32, dense8Shape.contexts())}
		for _, img := range images {
			e := newDense8Encoder(img, opt, dense8LogEdge(img.Shape), dense8Searches[MaxEffort])
			total.add(e.pass(newDense8Code(set), 1))
		}
		set = trainedSet(total.values, &total.ids, &dense8Shape)
	}
	return set.appendTo(nil), nil
}

// guessedDense8Set is a set to begin with: residuals as large as the sum of their
// context lets one expect.
func guessedDense8Set() *tableSet {
	var count dense8Count
	count.values = make([][maxTokens]uint32, dense8Shape.contexts())
	for class := range dense8Shape.classes {
		for sum := range 256 {
			counts := &count.values[class*levels8+level8(sum)]
			for v := range 256 {
				decay := 1 + float64(sum)/8
				counts[token8Of[v]] += uint32(1e4 / decay * math.Exp(-float64(v+1)/2/decay))
			}
		}
	}
	return trainedSet(count.values, &count.ids, &dense8Shape)
}

// trainedSet makes a set in which every symbol can be coded. It changes the counts
// of values, by context, and of ids.
func trainedSet(values [][maxTokens]uint32, ids *[maxTokens]uint32, shape *tableShape) *tableSet {
	// Alpha is too rare to train with. It has the tables of plane 0.
	perPlane := shape.contexts() / raster.MaxChannels
	copy(values[3*perPlane:], values[:perPlane])
	for context := range values {
		// A context of which nothing is known, but for its class, gets what
		// occurs at the level below, one symbol of it.
		if context%shape.levels > 0 {
			for token, n := range values[context-1] {
				values[context][token] += min(n, 1)
			}
		}
	}
	for token := range ids[:maxIDTokens] {
		ids[token]++
	}
	set := clusterTables(values, ids, shape)
	for table := range set.frequencies[:set.count] {
		fillFrequencies(set.frequencies[table][:shape.tokens])
	}
	return set
}

// fillFrequencies gives tokens that do not occur a frequency of 1, at the cost of
// the largest.
func fillFrequencies(frequencies []uint16) {
	for token := range frequencies {
		if frequencies[token] == 0 {
			largest := 0
			for i, n := range frequencies {
				if n > frequencies[largest] {
					largest = i
				}
			}
			frequencies[largest]--
			frequencies[token] = 1
		}
	}
}
