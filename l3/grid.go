package l3

import "prismfs/raster"

// Edges of patches, in pixels, as powers of two. Readers know both. The fast
// codings are written with 64, which is the smaller for most pictures, if
// rarely by a percent, and makes 32 lanes; codings that pay for each patch's
// state will want 128.
const (
	minLogEdge = 6
	maxLogEdge = 7
)

// rawChunkBytes is the size of the pieces into which a raw image is cut. It
// is not cut into patches, whose table would cost 4 % of an image one pixel
// high.
const rawChunkBytes = 1 << 20

// A region is the part of an image that a patch covers, in pixels.
type region struct {
	x, y, width, height int
}

func (r region) pairs() int { return (r.width + 1) / 2 }

// A grid cuts an image into patches, numbered row by row. Patches at the right
// and lower edge are as small as what is left of the image.
type grid struct {
	shape         raster.Shape
	edge          int
	columns, rows int
}

func newGrid(s raster.Shape, logEdge int) grid {
	edge := 1 << logEdge
	return grid{
		shape: s, edge: edge,
		columns: (s.Width + edge - 1) / edge,
		rows:    (s.Height + edge - 1) / edge,
	}
}

func (g grid) patches() int { return g.columns * g.rows }

func (g grid) region(patch int) region {
	x, y := patch%g.columns*g.edge, patch/g.columns*g.edge
	return region{
		x: x, y: y,
		width:  min(g.edge, g.shape.Width-x),
		height: min(g.edge, g.shape.Height-y),
	}
}

// band is what a row of patches covers.
func (g grid) band(row int) region {
	r := g.region(row * g.columns)
	r.width = g.shape.Width
	return r
}

// pixelBytes is the size of one pixel, all channels together.
func pixelBytes(s raster.Shape) int { return s.Channels * s.DType.Size() }

// regionBytes is the size of a region's samples.
func regionBytes(r region, s raster.Shape) int { return r.width * r.height * pixelBytes(s) }

// start is where row y of a region begins in an image's samples, y counting from
// the region's first row.
func (r region) start(y int, s raster.Shape) int {
	return (r.y+y)*s.RowBytes() + r.x*pixelBytes(s)
}

// row returns the samples of row y of a region in an image's samples.
func (r region) row(pix []byte, y int, s raster.Shape) []byte {
	start := r.start(y, s)
	return pix[start : start+r.width*pixelBytes(s)]
}
