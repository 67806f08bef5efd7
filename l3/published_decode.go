package l3

import (
	"fmt"

	"prismfs/l3/internal/avx2"
)

// publishedScratch holds two rows of a patch, and a run of patches for vector
// code.
type publishedScratch struct {
	above, row [publishedMaxEdge]uint8
	run        [runPatches]avx2.PublishedPatch
}

// decodePublished decodes the samples of a published file into pix.
func (s *publishedScratch) decode(pix, file []byte, h publishedHeader) error {
	start := int(h.headBytes())
	for c := range publishedChannels {
		for i := range int(h.patches()) {
			end := start + h.patchBytes(file, c, i)
			if err := s.patch(pix, file[start:end], h, h.region(i), c); err != nil {
				return fmt.Errorf("channel %s, patch %d: %w", channelNames[c], i, err)
			}
			start = end
		}
	}
	return nil
}

// patch decodes a patch of one channel. Its rows must fill it exactly: where
// they do not, a row before was written in fewer bytes than its width takes,
// and everything after it is at the wrong place.
func (s *publishedScratch) patch(pix, b []byte, h publishedHeader, r region, channel int) error {
	above, row := s.above[:h.edge], s.row[:h.edge]
	at := 0
	for y := range h.edge {
		if at+publishedRowBytes(h.edge, 0) > len(b) {
			return corrupt("row %d begins past the patch's %d bytes", y, len(b))
		}
		width := int(b[at] & (1<<publishedWidthBits - 1))
		if width > publishedMaxWidth {
			return corrupt("row %d has a width of %d bits", y, width)
		}
		size := publishedRowBytes(h.edge, width)
		if at+size > len(b) {
			return corrupt("row %d of width %d takes %d bytes, %d are left of the patch", y, width, size, len(b)-at)
		}
		unpackPublished(row, b, at, uint(width))
		if y > 0 {
			predictPublished(row, above)
		}
		dst := r.row(pix, y, h.shape)
		for x, v := range row {
			dst[publishedChannels*x+channel] = v
		}
		above, row = row, above
		at += size
	}
	if at != len(b) {
		return corrupt("row %d ends %d bytes before the patch does", h.edge-1, len(b)-at)
	}
	return nil
}

// unpackPublished sets row to the residuals of the row at b[at:].
func unpackPublished(row []uint8, b []byte, at int, width uint) {
	base := uint8(load64(b, at) >> publishedWidthBits)
	// Four deltas at a time begin at a whole or a half byte.
	for x := 0; x+4 <= len(row); x += 4 {
		bit := uint(at)*8 + publishedRowHeaderBits + uint(x)*width
		v := load64(b, int(bit/8)) >> (bit % 8)
		for i := range row[x : x+4] {
			row[x+i] = base + uint8(v&(1<<width-1))
			v >>= width
		}
	}
}
