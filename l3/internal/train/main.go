// Command train makes a built-in table set of an L3 coding from photographs: it
// scales them down to the sizes of small images, cuts pieces out of them, and
// writes what L3's encoder learns from those.
//
//	go run ./l3/internal/train -o l3/tables/dense8-0.bin PHOTOGRAPH...
//
// The set of a number that files have been written with must never change; a new
// one needs a new number.
package main

import (
	"flag"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"runtime"

	"golang.org/x/image/draw"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

func main() {
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: train -o FILE PHOTOGRAPH...")
		os.Exit(2)
	}
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(out string, paths []string) error {
	var pieces []raster.Image
	rng := rand.New(rand.NewPCG(1, 1)) // the same pieces each time
	for _, path := range paths {
		photo, err := load(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		pieces = append(pieces, photo.cut(rng)...)
	}
	set, err := l3.TrainTables(l3.Dense8, pieces, runtime.NumCPU())
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes from %d pieces of %d photographs\n", len(set), len(pieces), len(paths))
	return os.WriteFile(out, set, 0o644)
}

// A photograph is one to cut pieces out of.
type photograph struct {
	*image.RGBA
	grey bool
}

func load(path string) (*photograph, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := imagefile.Decode(data, imagefile.DefaultLimits)
	if err != nil {
		return nil, err
	}
	s := d.Image.Shape
	if s.Channels != 3 && s.Channels != 1 || s.DType != raster.Uint8 {
		return nil, fmt.Errorf("%v is neither RGB nor grey of 8 bits", s)
	}
	photo := &photograph{RGBA: image.NewRGBA(image.Rect(0, 0, s.Width, s.Height)), grey: s.Channels == 1}
	for i := range s.Width * s.Height {
		from := d.Image.Pix[s.Channels*i:][:s.Channels]
		copy(photo.Pix[4*i:], []byte{from[0], from[len(from)/2], from[len(from)-1], 0xff})
	}
	return photo, nil
}

// sizes are the edges of pieces, and how many of each are cut from a photograph:
// about as many pixels of each size.
var sizes = []struct{ edge, count int }{{32, 40}, {48, 18}, {64, 10}, {96, 5}, {128, 3}, {224, 2}}

// cut returns pieces, some of them showing most of it, others a
// small part.
func (photo *photograph) cut(rng *rand.Rand) []raster.Image {
	var pieces []raster.Image
	size := photo.Bounds().Size()
	shorter := float64(min(size.X, size.Y))
	for _, s := range sizes {
		for i := range s.count {
			var scale float64
			switch i % 3 {
			case 0:
				scale = float64(s.edge) * (1 + 0.6*rng.Float64()) / shorter
			case 1:
				scale = float64(s.edge) * (1.6 + 3.4*rng.Float64()) / shorter
			default:
				scale = 0.5 + 0.2*float64(rng.IntN(2))
			}
			scale = min(1, max(scale, float64(s.edge+1)/shorter))
			if shorter*scale < float64(s.edge) {
				continue
			}
			pieces = append(pieces, photo.cutOne(s.edge, scale, rng))
		}
	}
	return pieces
}

// cutOne scales a part down to a piece; every fourth is grey.
func (photo *photograph) cutOne(edge int, scale float64, rng *rand.Rand) raster.Image {
	size := photo.Bounds().Size()
	part := min(int(float64(edge)/scale), size.X, size.Y)
	at := image.Pt(rng.IntN(size.X-part+1), rng.IntN(size.Y-part+1))
	piece := image.NewRGBA(image.Rect(0, 0, edge, edge))
	draw.CatmullRom.Scale(piece, piece.Bounds(), photo, image.Rectangle{Min: at, Max: at.Add(image.Pt(part, part))}, draw.Src, nil)
	grey := rng.IntN(4) == 0 || photo.grey
	img := raster.Image{Shape: raster.Shape{Height: edge, Width: edge, Channels: 3, DType: raster.Uint8, Color: raster.RGB}}
	if grey {
		img.Channels, img.Color = 1, raster.Grey
	}
	for i := range edge * edge {
		p := piece.Pix[4*i:]
		if grey {
			img.Pix = append(img.Pix, byte((299*int(p[0])+587*int(p[1])+114*int(p[2])+500)/1000))
		} else {
			img.Pix = append(img.Pix, p[:3]...)
		}
	}
	return img
}
