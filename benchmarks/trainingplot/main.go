// Command trainingplot draws what `benchmarks/training --json FILE` has kept: accuracy
// over fresh samples with its spread over the seeds, and how many fresh samples each way
// to echo needed.
//
// It knows that file alone: neither mounts nor training. benchmarks/training runs it for
// --plot.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: trainingplot FIGURES.json PLOT.png")
		os.Exit(2)
	}
	if err := convert(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "trainingplot:", err)
		os.Exit(1)
	}
}

// convert reads figures and writes their plot.
func convert(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := readFigures(in)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	return f.writePlot(out)
}
