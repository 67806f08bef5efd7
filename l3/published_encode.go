package l3

import (
	"encoding/binary"
	"math/bits"

	"prismfs/raster"
)

// checkPublished returns an error unless the published format can hold s.
func checkPublished(s raster.Shape) error {
	if s.Channels != publishedChannels || s.DType != raster.Uint8 || s.Color != raster.RGB {
		return unsupported("the published format holds 8-bit RGB, not %v", s)
	}
	if s.Width%publishedEdge != 0 || s.Height%publishedEdge != 0 {
		return unsupported("the published format holds whole patches of %d×%d pixels, not height %d, width %d",
			publishedEdge, publishedEdge, s.Height, s.Width)
	}
	return nil
}

// encodePublished returns img, which checkPublished has passed, as a published
// file.
func encodePublished(img raster.Image) []byte {
	h := publishedHeader{shape: img.Shape, edge: publishedEdge}
	file := make([]byte, h.headBytes(), h.headBytes()+img.Bytes())
	copy(file, magicPublished)
	binary.LittleEndian.PutUint32(file[4:], uint32(img.Width))
	binary.LittleEndian.PutUint32(file[8:], uint32(img.Height))
	file[12] = publishedEdge
	columns := img.Width / publishedEdge
	entry := publishedHeaderBytes
	for c := range publishedChannels {
		for i := range int(h.patches()) {
			start := len(file)
			r := region{x: i % columns * h.edge, y: i / columns * h.edge, width: h.edge, height: h.edge}
			file = appendPublishedPatch(file, img, r, c)
			// At most 64 rows of 66 bytes: it fits.
			binary.LittleEndian.PutUint16(file[entry:], uint16(len(file)-start))
			entry += publishedSizeBytes
		}
	}
	return file
}

func appendPublishedPatch(file []byte, img raster.Image, r region, channel int) []byte {
	var above, row, residuals [publishedEdge]uint8
	for y := range publishedEdge {
		src := r.row(img.Pix, y, img.Shape)
		for x := range row {
			row[x] = src[publishedChannels*x+channel]
		}
		var predictions [publishedEdge]uint8
		if y > 0 {
			predictPublished(predictions[:], above[:])
		}
		for x := range residuals {
			residuals[x] = row[x] - predictions[x]
		}
		file = appendPublishedRow(file, residuals[:])
		above = row
	}
	return file
}

// appendPublishedRow packs a row: the width and the base, then each residual's
// distance from the base.
func appendPublishedRow(file []byte, residuals []uint8) []byte {
	base, width := publishedRange(residuals)
	end := len(file) + publishedRowBytes(len(residuals), int(width))
	acc := uint64(width) | uint64(base)<<publishedWidthBits
	filled := uint(publishedRowHeaderBits)
	for _, v := range residuals {
		acc |= uint64(v-base) << filled
		for filled += width; filled >= 8; filled -= 8 {
			file = append(file, uint8(acc))
			acc >>= 8
		}
	}
	if len(file) < end {
		file = append(file, uint8(acc))
	}
	return file
}

// publishedRange returns the base from which all residuals are reached with
// the fewest bits, either as unsigned or as signed numbers.
func publishedRange(residuals []uint8) (base uint8, width uint) {
	lo, hi := uint8(255), uint8(0)
	lowest, highest := int8(127), int8(-128)
	for _, v := range residuals {
		lo, hi = min(lo, v), max(hi, v)
		lowest, highest = min(lowest, int8(v)), max(highest, int8(v))
	}
	if spread := uint8(highest) - uint8(lowest); spread < hi-lo {
		return uint8(lowest), uint(bits.Len8(spread))
	}
	return lo, uint(bits.Len8(hi - lo))
}
