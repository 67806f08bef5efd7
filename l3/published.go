package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// The published format: a header of 13 bytes, the size of every patch of
// every channel, and the patches, channel by channel. It has no version and no
// checksum.

const (
	magicPublished          = "LLL."
	publishedHeaderBytes    = 13
	publishedChannels       = 3
	publishedSizeBytes      = 2
	publishedWidthBits      = 4
	publishedRowHeaderBits  = 12 // width and base
	publishedMaxWidth       = 8
	publishedEdge           = 64 // of what is written
	publishedMinEdge        = 8
	publishedMaxEdge        = 248
	publishedEdgeMultipleOf = 8
)

// channelNames are the channels of a published file, for errors.
var channelNames = [publishedChannels]string{"R", "G", "B"}

// publishedHeader is the fixed part of a published file.
type publishedHeader struct {
	shape raster.Shape
	edge  int
}

// parsePublished reads the header at the beginning of prefix, of a file of
// size bytes whose magic has been recognised.
func parsePublished(prefix []byte, size int64, lim Limits) (publishedHeader, error) {
	if len(prefix) < publishedHeaderBytes {
		return publishedHeader{}, truncated("%d bytes of a header of %d", len(prefix), publishedHeaderBytes)
	}
	h := publishedHeader{
		shape: raster.Shape{
			Width:    int(int32(binary.LittleEndian.Uint32(prefix[4:]))),
			Height:   int(int32(binary.LittleEndian.Uint32(prefix[8:]))),
			Channels: publishedChannels,
			DType:    raster.Uint8,
			Color:    raster.RGB,
		},
		edge: int(prefix[12]),
	}
	if err := lim.check(h.shape); err != nil {
		return h, err
	}
	if h.edge < publishedMinEdge || h.edge > publishedMaxEdge || h.edge%publishedEdgeMultipleOf != 0 {
		return h, unsupported("a patch edge of %d; it is 64, or another multiple of %d from %d to %d",
			h.edge, publishedEdgeMultipleOf, publishedMinEdge, publishedMaxEdge)
	}
	if h.shape.Width%h.edge != 0 || h.shape.Height%h.edge != 0 {
		return h, truncated("height %d, width %d are not whole patches of %d: what lies right of or below the last whole patch is not in the file",
			h.shape.Height, h.shape.Width, h.edge)
	}
	if size < h.headBytes() {
		return h, truncated("%d bytes, header and patch sizes alone take %d", size, h.headBytes())
	}
	return h, nil
}

// patches returns the number of patches of one channel.
func (h publishedHeader) patches() int64 {
	return h.shape.Pixels() / int64(h.edge*h.edge)
}

// region is what a patch covers.
func (h publishedHeader) region(patch int) region {
	columns := h.shape.Width / h.edge
	return region{x: patch % columns * h.edge, y: patch / columns * h.edge, width: h.edge, height: h.edge}
}

func (h publishedHeader) headBytes() int64 {
	return publishedHeaderBytes + publishedChannels*publishedSizeBytes*h.patches()
}

// patchBytes returns the size that the table in head gives for a patch.
func (h publishedHeader) patchBytes(head []byte, channel, patch int) int {
	at := publishedHeaderBytes + publishedSizeBytes*(channel*int(h.patches())+patch)
	return int(binary.LittleEndian.Uint16(head[at:]))
}

// channelStarts returns where the patches of each channel begin.
func (h publishedHeader) channelStarts(head []byte) [publishedChannels]int64 {
	var starts [publishedChannels]int64
	at := h.headBytes()
	for c := range starts {
		starts[c] = at
		for i := range int(h.patches()) {
			at += int64(h.patchBytes(head, c, i))
		}
	}
	return starts
}

// checkTable checks that the patches are as large as the rest of the file.
func (h publishedHeader) checkTable(head []byte, size int64) error {
	total := h.headBytes()
	for c := range publishedChannels {
		for i := range int(h.patches()) {
			total += int64(h.patchBytes(head, c, i))
		}
	}
	if total > size {
		return truncated("%d bytes, its patch sizes add up to %d", size, total)
	}
	if total < size {
		return corrupt("%d bytes follow the last patch", size-total)
	}
	return nil
}

func (h publishedHeader) info(size int64) Info {
	return Info{
		Version: 1, Coding: Published, Shape: h.shape, SignificantBits: 8,
		PatchEdge: h.edge, Patches: int(h.patches()), HeadBytes: h.headBytes(), FileBytes: size,
	}
}

// publishedRowBytes is the size of a row of edge residuals in width bits each.
func publishedRowBytes(edge, width int) int {
	return (publishedRowHeaderBits + edge*width + 7) / 8
}

// predictPublished adds the published prediction to a row of residuals (or of
// zeros), from the samples of the row above: for each sample a to the left of
// it, b above it and c to the right; a is 0 in the first column of a patch and
// c in the last. Of a, b and c it is the one next to a + c − b; zero values take
// branches of their own, wherever they stand, and the last comparison is as the
// programs have it.
func predictPublished(row, above []uint8) {
	above = above[:len(row)]
	var a, b uint8 = 0, above[0]
	for x := range row {
		c := uint8(0)
		if x+1 < len(above) {
			c = above[x+1]
		}
		// The distances of a + c − b. They are as good as random, so masks
		// choose rather than branches, which would mostly be mispredicted.
		right, left := int32(c)-int32(b), int32(a)-int32(b)
		toA, toB, toC := max(right, -right), max(right+left, -right-left), max(left, -left)
		if a != 0 && c != 0 {
			notA := uint8((toB - toA) >> 31) // all ones if a is farther than b
			notB := uint8((toC - toA) >> 31) // all ones if a is farther than c
			prediction := a ^ (a^b)&notA
			prediction ^= (prediction ^ c) & notB
			row[x] += prediction
		} else {
			row[x] += predictPublishedZero(a, b, c, toA <= toB, toB <= toC)
		}
		a, b = b, c
	}
}

func predictPublishedZero(a, b, c uint8, aBeforeB, bBeforeC bool) uint8 {
	switch {
	case a == 0 && bBeforeC:
		return b
	case a == 0:
		return c
	case aBeforeB:
		return a
	}
	return b
}
