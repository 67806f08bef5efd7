// Command train16 makes a built-in table set of L3's dense 16-bit coding from
// images: it cuts pieces out of them and writes what L3's encoder learns from
// those. 16-bit images are cut as they are; 8-bit ones are scaled down first, so
// that they have samples of 16 bits.
//
//	go run ./l3/internal/train16 -o l3/tables/dense16-0.bin IMAGE...
//	go run ./l3/internal/train16 -holes -o l3/tables/dense16-hole-0.bin IMAGE...
//
// With -holes the set is one for images with a hole value. The set of a number
// that files have been written with must never change; a new one needs a new
// number.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

func main() {
	out := flag.String("o", "", "file to write")
	holes := flag.Bool("holes", false, "for images with a hole value")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: train16 [-holes] -o FILE IMAGE...")
		os.Exit(2)
	}
	if err := run(*out, *holes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "train16:", err)
		os.Exit(1)
	}
}

func run(out string, holes bool, paths []string) error {
	var pieces []raster.Image
	rng := rand.New(rand.NewPCG(1, 1)) // the same pieces each time
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		d, err := imagefile.Decode(data, imagefile.DefaultLimits)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		img := d.Image
		for k := range 4 {
			if d.DType == raster.Uint8 {
				img = scaledDown(d.Image, 2+k)
			}
			pieces = append(pieces, cut(img, rng)...)
		}
	}
	set, err := l3.TrainDense16(pieces, holes, runtime.NumCPU())
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes from %d pieces of %d images\n", len(set), len(pieces), len(paths))
	return os.WriteFile(out, set, 0o644)
}

// scaledDown returns the means of squares of factor × factor pixels of an 8-bit
// image, as samples of the whole range of 16 bits.
func scaledDown(img raster.Image, factor int) raster.Image {
	s := img.Shape
	s.Height, s.Width, s.DType = s.Height/factor, s.Width/factor, raster.Uint16
	out := raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}
	for i := range len(out.Pix) / 2 {
		c, x, y := i%s.Channels, i/s.Channels%s.Width, i/s.Channels/s.Width
		sum := 0
		for dy := range factor {
			row := img.Pix[(y*factor+dy)*img.RowBytes():]
			for dx := range factor {
				sum += int(row[(x*factor+dx)*s.Channels+c])
			}
		}
		binary.LittleEndian.PutUint16(out.Pix[2*i:], uint16(sum*257/(factor*factor)))
	}
	return out
}

// edges are those of pieces, of each of which there are as many as counts says.
var edges = []struct{ pixels, count int }{{32, 12}, {64, 4}, {128, 1}, {224, 1}}

func cut(img raster.Image, rng *rand.Rand) []raster.Image {
	var pieces []raster.Image
	for _, edge := range edges {
		for range edge.count {
			if n := edge.pixels; n <= img.Height && n <= img.Width {
				pieces = append(pieces, piece(img, rng.IntN(img.Width-n+1), rng.IntN(img.Height-n+1), n))
			}
		}
	}
	return pieces
}

// piece is a square of img.
func piece(img raster.Image, x, y, edge int) raster.Image {
	s := img.Shape
	s.Height, s.Width = edge, edge
	out := raster.Image{Shape: s}
	pixel := s.Channels * s.DType.Size()
	for dy := range edge {
		at := (y+dy)*img.RowBytes() + x*pixel
		out.Pix = append(out.Pix, img.Pix[at:at+edge*pixel]...)
	}
	return out
}
