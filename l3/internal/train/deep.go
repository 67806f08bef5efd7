package main

import (
	"encoding/binary"
	"math/rand/v2"

	"prismfs/raster"
)

// deepPieces cuts pieces out of an image of 16 bits, and out of one of 8 bits that
// is scaled down by several factors, so that it has samples of 16 bits.
func deepPieces(img raster.Image, rng *rand.Rand) ([]raster.Image, error) {
	var pieces []raster.Image
	for k := range 4 {
		deep := img
		if img.DType == raster.Uint8 {
			deep = scaledDown(img, 2+k)
		}
		pieces = append(pieces, cut(deep, rng)...)
	}
	return pieces, nil
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

// sizes are the edges of pieces, and how many of each are cut from an image.
var sizes = []struct{ edge, count int }{{32, 12}, {64, 4}, {128, 1}, {224, 1}}

func cut(img raster.Image, rng *rand.Rand) []raster.Image {
	var pieces []raster.Image
	for _, s := range sizes {
		for range s.count {
			if n := s.edge; n <= img.Height && n <= img.Width {
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
