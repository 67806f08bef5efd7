package imagefile

import (
	"encoding/binary"
	"slices"

	"prismfs/raster"
)

// The compressions of BMP.
const (
	bmpRaw       = 0
	bmpRLE8      = 1
	bmpRLE4      = 2
	bmpBitfields = 3
)

// bmpHead is the header of a BMP file, with its palette.
type bmpHead struct {
	width, height int
	topDown       bool
	bits          int // of a pixel
	compression   uint32
	masks         [4]uint32 // of R, G, B, A; only for bmpBitfields
	entries       [][4]byte // palette
	grey          bool      // the palette is a grey ramp
	pixels        []byte    // from the first row on
}

// decodeBMP reads files as PIL does: with 32 bits the fourth byte is alpha
// only if a mask says so, 5- and 6-bit samples are spread over 0 to 255
// rounding down, and a palette in which every entry is its own index (in one
// bit: black, white) is grey. Runs are read by the definition of the format.
// x/image/bmp reads fewer kinds and takes the fourth byte for alpha where PIL
// does not.
func decodeBMP(data []byte, lim Limits) (*Decoded, error) {
	h, err := readBMPHead(data, lim)
	if err != nil {
		return nil, err
	}
	var img raster.Image
	switch {
	case h.compression == bmpRLE8 || h.compression == bmpRLE4:
		img, err = h.readRuns(lim)
	case h.bits <= 8:
		img, err = h.readIndices(lim)
	default:
		img, err = h.readColours(lim)
	}
	if err != nil {
		return nil, err
	}
	return &Decoded{Image: img, Decoder: ownDecoder}, nil
}

const bmpFileHeader = 14 // bytes

func readBMPHead(data []byte, lim Limits) (*bmpHead, error) {
	info := data[bmpFileHeader:]
	size := binary.LittleEndian.Uint32(info)
	if int64(size) > int64(len(info)) {
		return nil, refuse(BMP, ErrTruncated, "the file ends in its header")
	}
	h := &bmpHead{}
	var colours uint32
	entry := 4
	switch size {
	case 12:
		h.width, h.height = int(binary.LittleEndian.Uint16(info[4:])), int(binary.LittleEndian.Uint16(info[6:]))
		h.bits = int(binary.LittleEndian.Uint16(info[10:]))
		entry = 3
	case 40, 52, 56, 64, 108, 124:
		h.width, h.height = int(int32(binary.LittleEndian.Uint32(info[4:]))), int(int32(binary.LittleEndian.Uint32(info[8:])))
		if h.height < 0 {
			h.height, h.topDown = -h.height, true
		}
		h.bits = int(binary.LittleEndian.Uint16(info[14:]))
		h.compression = binary.LittleEndian.Uint32(info[16:])
		colours = binary.LittleEndian.Uint32(info[32:])
	default:
		return nil, refuse(BMP, ErrUnsupported, "headers of %d bytes are not read", size)
	}
	if err := h.check(size, lim); err != nil {
		return nil, err
	}
	after, err := h.readMasks(info, int(size))
	if err != nil {
		return nil, err
	}
	if after, err = h.readPalette(info, after, colours, entry); err != nil {
		return nil, err
	}
	return h, h.findPixels(data, bmpFileHeader+int(size), bmpFileHeader+after)
}

// check refuses sizes and combinations that do not exist.
func (h *bmpHead) check(size uint32, lim Limits) error {
	if h.compression > bmpBitfields || (size == 64 && h.compression == bmpBitfields) {
		return refuse(BMP, ErrUnsupported, "compression %d is not read", h.compression)
	}
	depths := map[uint32][]int{
		bmpRaw:       {1, 4, 8, 16, 24, 32},
		bmpRLE8:      {8},
		bmpRLE4:      {4},
		bmpBitfields: {16, 24, 32},
	}
	if !slices.Contains(depths[h.compression], h.bits) {
		return refuse(BMP, ErrUnsupported, "%d bits a pixel with compression %d are not read", h.bits, h.compression)
	}
	return checkSize(BMP, h.width, h.height, lim)
}

// readMasks reads the masks of bitfields, which stand behind a header of 40
// bytes and within longer ones, and returns the offset in info of what
// follows.
func (h *bmpHead) readMasks(info []byte, size int) (int, error) {
	if h.compression != bmpBitfields {
		return size, nil
	}
	n, after := 3, size
	switch {
	case size == 40:
		after += 12
	case size >= 56:
		n = 4
	}
	if len(info) < 40+4*n {
		return 0, refuse(BMP, ErrTruncated, "the file ends in its header")
	}
	for i := range n {
		h.masks[i] = binary.LittleEndian.Uint32(info[40+4*i:])
	}
	return after, nil
}

// readPalette reads the palette that starts at info[at:], if there is one,
// and returns its end.
func (h *bmpHead) readPalette(info []byte, at int, colours uint32, entry int) (int, error) {
	if h.bits > 8 {
		return at, nil
	}
	most := uint32(1) << h.bits
	if colours == 0 {
		colours = most
	}
	if colours > most {
		return 0, refuse(BMP, ErrDamaged, "%d colours for %d bits a pixel", colours, h.bits)
	}
	end := at + int(colours)*entry
	if end > len(info) {
		return 0, refuse(BMP, ErrTruncated, "the file ends in its palette")
	}
	h.entries = make([][4]byte, colours)
	h.grey = true
	for i := range h.entries {
		bgr := info[at+i*entry:]
		h.entries[i] = [4]byte{bgr[2], bgr[1], bgr[0], 255}
		ramp := byte(i)
		if h.bits == 1 {
			ramp = byte(255 * i)
		}
		h.grey = h.grey && h.entries[i] == [4]byte{ramp, ramp, ramp, 255}
	}
	return end, nil
}

// findPixels sets h.pixels. Some writers give no offset of the pixels, or
// that of the palette.
func (h *bmpHead) findPixels(data []byte, palette, after int) error {
	offset := int64(binary.LittleEndian.Uint32(data[10:]))
	if offset == 0 || offset == int64(palette) {
		offset = int64(after)
	}
	if offset < int64(after) {
		return refuse(BMP, ErrDamaged, "the pixels start at byte %d, within the header", offset)
	}
	if offset > int64(len(data)) {
		return refuse(BMP, ErrTruncated, "image data ends early (line 1 of %d)", h.height)
	}
	h.pixels = data[offset:]
	return nil
}

// row returns where row i of the file lies in the image.
func (h *bmpHead) row(i int) int {
	if h.topDown {
		return i
	}
	return h.height - 1 - i
}

// stride is the size of a row in the file, a multiple of 4 bytes.
func (h *bmpHead) stride() int64 { return (int64(h.width)*int64(h.bits) + 31) / 32 * 4 }

// checkLength refuses a file with too few rows.
func (h *bmpHead) checkLength() error {
	if lines := int64(len(h.pixels)) / h.stride(); lines < int64(h.height) {
		return h.short(int(lines))
	}
	return nil
}

func (h *bmpHead) short(lines int) error {
	return refuse(BMP, ErrTruncated, "image data ends early (line %d of %d)", lines+1, h.height)
}

// readIndices reads pixels of 1, 4 or 8 bits.
func (h *bmpHead) readIndices(lim Limits) (raster.Image, error) {
	if err := h.checkLength(); err != nil {
		return raster.Image{}, err
	}
	indices := make([]byte, h.width*h.height)
	perByte := 8 / h.bits
	for i := range h.height {
		src := h.pixels[int64(i)*h.stride():]
		dst := indices[h.row(i)*h.width:][:h.width]
		for x := range dst {
			shift := 8 - h.bits*(x%perByte+1)
			dst[x] = src[x/perByte] >> shift & (1<<h.bits - 1)
		}
	}
	return h.expand(indices, lim)
}

// expand replaces indices by colours.
func (h *bmpHead) expand(indices []byte, lim Limits) (raster.Image, error) {
	color := raster.RGB
	if h.grey {
		color = raster.Grey
	}
	return lookUp(BMP, indices, h.width, h.height, h.entries, color, lim)
}

// bmpLayout says how the samples of R, G, B and, if there are four, A are got
// from a pixel: shifted right, masked, times 255 / maximum.
type bmpLayout []struct{ shift, max uint32 }

// layout translates masks. With 32 bits every sample has a byte of its own,
// in any order; all masks being 0 stands for BGRA, as for PIL.
func (h *bmpHead) layout() (bmpLayout, error) {
	switch {
	case h.bits == 16 && (h.compression == bmpRaw || h.rgbMasks(0x7c00, 0x3e0, 0x1f)):
		return bmpLayout{{10, 31}, {5, 31}, {0, 31}}, nil
	case h.bits == 16 && h.rgbMasks(0xf800, 0x7e0, 0x1f):
		return bmpLayout{{11, 31}, {5, 63}, {0, 31}}, nil
	case h.bits == 24 && (h.compression == bmpRaw || h.rgbMasks(0xff0000, 0xff00, 0xff)):
		return bmpLayout{{16, 255}, {8, 255}, {0, 255}}, nil
	case h.bits == 32 && h.compression == bmpRaw:
		return bmpLayout{{16, 255}, {8, 255}, {0, 255}}, nil
	case h.bits == 32 && h.masks == [4]uint32{}:
		return bmpLayout{{16, 255}, {8, 255}, {0, 255}, {24, 255}}, nil
	case h.bits == 32:
		return h.byteLayout()
	}
	return nil, h.badMasks()
}

func (h *bmpHead) rgbMasks(r, g, b uint32) bool {
	return h.masks[0] == r && h.masks[1] == g && h.masks[2] == b
}

func (h *bmpHead) badMasks() error {
	return refuse(BMP, ErrUnsupported, "%d-bit pixels with the masks %x are not read", h.bits, h.masks)
}

func (h *bmpHead) byteLayout() (bmpLayout, error) {
	var out bmpLayout
	var seen uint32
	for i, mask := range h.masks {
		shift := slices.Index([]uint32{0xff, 0xff00, 0xff0000, 0xff000000}, mask)
		if i == 3 && mask == 0 {
			break
		}
		if shift < 0 || seen&mask != 0 {
			return nil, h.badMasks()
		}
		seen |= mask
		out = append(out, struct{ shift, max uint32 }{uint32(8 * shift), 255})
	}
	return out, nil
}

// readColours reads pixels of 16, 24 or 32 bits.
func (h *bmpHead) readColours(lim Limits) (raster.Image, error) {
	layout, err := h.layout()
	if err != nil {
		return raster.Image{}, err
	}
	if err := h.checkLength(); err != nil {
		return raster.Image{}, err
	}
	shape := raster.Shape{Height: h.height, Width: h.width, Channels: len(layout), DType: raster.Uint8, Color: raster.Color(len(layout))}
	img, err := newImage(BMP, shape, lim)
	if err != nil {
		return img, err
	}
	bytes := h.bits / 8
	for i := range h.height {
		src := h.pixels[int64(i)*h.stride():]
		dst := img.Pix[h.row(i)*shape.RowBytes():][:shape.RowBytes()]
		for ; len(dst) > 0; src = src[bytes:] {
			var pixel uint32
			for b := range bytes {
				pixel |= uint32(src[b]) << (8 * b)
			}
			for c, s := range layout {
				dst[c] = byte((pixel >> s.shift & s.max) * 255 / s.max)
			}
			dst = dst[len(layout):]
		}
	}
	return img, nil
}

// readRuns reads run-length encoded indices. Pixels that are skipped have
// colour 0; an image that ends before its last row is refused, and so is a run
// that leaves its row.
func (h *bmpHead) readRuns(lim Limits) (raster.Image, error) {
	indices := make([]byte, h.width*h.height)
	r := &bmpRuns{head: h, rest: h.pixels, indices: indices}
	for !r.finished() {
		if err := r.step(); err != nil {
			return raster.Image{}, err
		}
	}
	return h.expand(indices, lim)
}

// bmpRuns is the state of decoding runs.
type bmpRuns struct {
	head    *bmpHead
	rest    []byte
	indices []byte
	x, y    int // y counts rows of the file
}

func (r *bmpRuns) finished() bool {
	return r.y == r.head.height || r.y == r.head.height-1 && r.x == r.head.width
}

// step reads one run or escape.
func (r *bmpRuns) step() error {
	if len(r.rest) < 2 {
		return r.head.short(r.y)
	}
	count, value := int(r.rest[0]), r.rest[1]
	r.rest = r.rest[2:]
	if count > 0 {
		return r.put(count, func(int) byte { return value })
	}
	switch value {
	case 0: // end of the row
		r.x, r.y = 0, r.y+1
	case 1: // end of the image
		return r.head.short(r.y)
	case 2: // skip to the right and up
		if len(r.rest) < 2 {
			return r.head.short(r.y)
		}
		r.x, r.y = r.x+int(r.rest[0]), r.y+int(r.rest[1])
		r.rest = r.rest[2:]
		if r.x > r.head.width || r.y >= r.head.height {
			return r.outside()
		}
	default: // pixels as they are, padded to 16 bits
		n := (int(value)*r.head.bits + 7) / 8
		padded := (n + 1) &^ 1
		if len(r.rest) < n {
			return r.head.short(r.y)
		}
		perByte := 8 / r.head.bits
		literal := r.rest
		r.rest = r.rest[min(padded, len(r.rest)):]
		return r.put(int(value), func(i int) byte { return literal[i/perByte] })
	}
	return nil
}

func (r *bmpRuns) outside() error {
	return refuse(BMP, ErrDamaged, "a run leaves the image in line %d", r.y+1)
}

// put writes a number of pixels; at returns the byte that holds pixel i,
// which with 4 bits holds the even one in its high half.
func (r *bmpRuns) put(count int, at func(i int) byte) error {
	if r.x+count > r.head.width {
		return r.outside()
	}
	dst := r.indices[r.head.row(r.y)*r.head.width+r.x:][:count]
	for i := range dst {
		v := at(i)
		if r.head.bits == 4 {
			v = v >> (4 * (1 - i%2)) & 15
		}
		dst[i] = v
	}
	r.x += count
	return nil
}
