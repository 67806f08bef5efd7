// Command train makes a built-in table set of an L3 coding from images that are
// like those it is for: what L3's encoder learns from them, or from pieces of them.
//
//	go run ./l3/internal/train -coding dense8 -o l3/tables/dense8-0.bin PHOTOGRAPH...
//	go run ./l3/internal/train -coding dense16 -o l3/tables/dense16-0.bin IMAGE...
//	go run ./l3/internal/train -coding dense16-hole -o l3/tables/dense16-hole-0.bin IMAGE...
//	go run ./l3/internal/train -coding labels -o l3/tables/labels-0.bin MAP...
//
// For dense8, photographs are scaled down to the sizes of small images. For dense16,
// images of 16 bits are cut as they are, and those of 8 bits scaled down first, so
// that they have samples of 16 bits; dense16-hole is for images with a hole value.
// Label maps are taken whole.
//
// The set of a number that files have been written with must never change; a new
// one needs a new number.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

// A coding is how the sets of a coding are made.
type coding struct {
	pieces func(img raster.Image, rng *rand.Rand) ([]raster.Image, error) // of one image
	train  func(pieces []raster.Image, workers int) ([]byte, error)
}

// codings are those that have built-in sets, by the names of their files.
var codings = map[string]coding{
	"dense8":       {photographPieces, trainer(l3.Dense8)},
	"dense16":      {deepPieces, dense16Trainer(false)},
	"dense16-hole": {deepPieces, dense16Trainer(true)},
	"labels":       {whole, trainer(l3.Labels)},
}

func trainer(c l3.Coding) func([]raster.Image, int) ([]byte, error) {
	return func(pieces []raster.Image, workers int) ([]byte, error) { return l3.TrainTables(c, pieces, workers) }
}

func dense16Trainer(holes bool) func([]raster.Image, int) ([]byte, error) {
	return func(pieces []raster.Image, workers int) ([]byte, error) {
		return l3.TrainDense16(pieces, holes, workers)
	}
}

func whole(img raster.Image, _ *rand.Rand) ([]raster.Image, error) { return []raster.Image{img}, nil }

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(codings)), "|")
	name := flag.String("coding", "", names)
	out := flag.String("o", "", "file to write")
	flag.Parse()
	c, known := codings[*name]
	if !known || *out == "" || flag.NArg() == 0 {
		fmt.Fprintf(os.Stderr, "usage: train -coding %s -o FILE IMAGE...\n", names)
		os.Exit(2)
	}
	if err := run(c, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(c coding, out string, paths []string) error {
	var pieces []raster.Image
	rng := rand.New(rand.NewPCG(1, 1)) // the same pieces each time
	for _, path := range paths {
		more, err := load(c, path, rng)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		pieces = append(pieces, more...)
	}
	set, err := c.train(pieces, runtime.NumCPU())
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes from %d pieces of %d images\n", len(set), len(pieces), len(paths))
	return os.WriteFile(out, set, 0o644)
}

// load returns the pieces of an image file.
func load(c coding, path string, rng *rand.Rand) ([]raster.Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := imagefile.Decode(data, imagefile.DefaultLimits)
	if err != nil {
		return nil, err
	}
	return c.pieces(d.Image, rng)
}
