package l3

import (
	_ "embed" // of the sets

	"prismfs/raster"
)

// The sets that are built in, by number, as sections of entropy tables have them.
// In each of them every context can have every token.
//
//	without a hole value  0  pieces of 32×32 to 224×224 pixels of photographs, scans, micrographs
//	with one              0  the same of depth maps and scans
var (
	//go:embed tables/dense16-0.bin
	dense16Set0 []byte
	//go:embed tables/dense16-hole-0.bin
	dense16HoleSet0 []byte

	dense16Sections     = [][]byte{dense16Set0}
	dense16HoleSections = [][]byte{dense16HoleSet0}
)

// dense16Sets are the built-in table sets of images without a hole value, and
// dense16HoleSets of those with one.
var (
	dense16Sets     = newBuiltinTables(&dense16Shape, dense16Sections...)
	dense16HoleSets = newBuiltinTables(&dense16HoleShape, dense16HoleSections...)
)

// TrainDense16 makes a built-in set of the dense coding of 16 bits, as the data of
// a section of entropy tables: from those of the images that are best coded with a
// hole value, or from the others. It serves whoever adds a set to this package; see
// the program l3/internal/train.
func TrainDense16(images []raster.Image, holes bool, workers int) ([]byte, error) {
	var sources []*source16
	for _, img := range images {
		if err := checkImage(img, EncodeOptions{}); err != nil {
			return nil, err
		}
		if img.DType.Size() != 2 {
			return nil, unsupported("training for the %v coding with %v", Dense16, img.DType)
		}
		if s := chooseSource16(img); holes == (s.hole != noHole) {
			sources = append(sources, s)
		}
	}
	if len(sources) == 0 {
		return nil, unsupported("training with no images")
	}
	shape, _ := sources[0].shape()
	costs := priorCosts16
	var set *tableSet
	for range trainingRounds {
		total := newCount16(shape)
		for _, s := range sources {
			e := &encoder16{source: s, search: searches16[MaxEffort], workers: max(1, workers)}
			e.grid = newGrid(s.img.Shape, maxLogEdge)
			e.patches = make([]patchSymbols16, e.grid.patches())
			total.join(e.pass(costs, false))
		}
		set = trainedSet(total.values, &total.ids, shape)
		costs = newCosts16(set)
	}
	return set.appendTo(nil), nil
}
