package main

import (
	"fmt"
	"image"
	"math/rand/v2"

	"golang.org/x/image/draw"

	"prismfs/raster"
)

// A photograph is one to cut pieces out of.
type photograph struct {
	*image.RGBA
	grey bool
}

func newPhotograph(img raster.Image) (*photograph, error) {
	s := img.Shape
	if s.Channels != 3 && s.Channels != 1 || s.DType != raster.Uint8 {
		return nil, fmt.Errorf("%v is neither RGB nor grey of 8 bits", s)
	}
	photo := &photograph{RGBA: image.NewRGBA(image.Rect(0, 0, s.Width, s.Height)), grey: s.Channels == 1}
	for i := range s.Width * s.Height {
		from := img.Pix[s.Channels*i:][:s.Channels]
		copy(photo.Pix[4*i:], []byte{from[0], from[len(from)/2], from[len(from)-1], 0xff})
	}
	return photo, nil
}

// photographPieces scales a photograph down to the sizes of small images and cuts
// pieces out of it.
func photographPieces(img raster.Image, rng *rand.Rand) ([]raster.Image, error) {
	photo, err := newPhotograph(img)
	if err != nil {
		return nil, err
	}
	return photo.cut(rng), nil
}

// scaledSizes are the edges of pieces, and how many of each are cut from a
// photograph: about as many pixels of each size.
var scaledSizes = []struct{ edge, count int }{{32, 40}, {48, 18}, {64, 10}, {96, 5}, {128, 3}, {224, 2}}

// cut returns pieces, some of them showing most of it, others a
// small part.
func (photo *photograph) cut(rng *rand.Rand) []raster.Image {
	var pieces []raster.Image
	size := photo.Bounds().Size()
	shorter := float64(min(size.X, size.Y))
	for _, s := range scaledSizes {
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
