// Command trainlabels makes a built-in table set of L3's labels coding from label
// maps: images of one channel of 8 bits.
//
//	go run ./l3/internal/trainlabels -o l3/tables/labels-0.bin MAP...
//
// The set of a number that files have been written with must never change; a new
// one needs a new number.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

func main() {
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: trainlabels -o FILE MAP...")
		os.Exit(2)
	}
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "trainlabels:", err)
		os.Exit(1)
	}
}

func run(out string, paths []string) error {
	var maps []raster.Image
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		d, err := imagefile.Decode(data, imagefile.DefaultLimits)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		maps = append(maps, d.Image)
	}
	set, err := l3.TrainTables(l3.Labels, maps, runtime.NumCPU())
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes from %d maps\n", len(set), len(maps))
	return os.WriteFile(out, set, 0o644)
}
