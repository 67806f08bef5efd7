package imagefile

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"prismfs/raster"
)

// pngColorTypes are the colours that PNG has.
var pngColorTypes = map[raster.Color]byte{
	raster.Grey: pngGrey, raster.GreyAlpha: pngGreyAlpha, raster.RGB: pngRGB, raster.RGBA: pngRGBA,
}

// ErrNoPNG says that PNG cannot hold an image: signed samples, or channels
// without a meaning.
var ErrNoPNG = errors.New("PNG cannot hold this image")

// idatBytes is the size of the IDAT chunks.
const idatBytes = 1 << 16

// EncodePNG writes a compressed PNG of 8 or 16 bits a sample with exactly the
// channels of the image. (The encoder of image/png drops alpha that is opaque
// and has no grey with alpha.) Its error wraps ErrNoPNG for signed samples and
// for channels that are neither grey nor RGB.
func EncodePNG(w io.Writer, img raster.Image) error {
	colorType, ok := pngColorTypes[img.Color]
	if !ok || img.DType == raster.Int16 {
		return fmt.Errorf("%w: %v", ErrNoPNG, img.Shape)
	}
	if err := img.Check(); err != nil {
		return fmt.Errorf("encode PNG: %w", err)
	}
	if int64(len(img.Pix)) != img.Bytes() {
		return fmt.Errorf("encode PNG: %d bytes of samples for %v", len(img.Pix), img.Shape)
	}
	ihdr := binary.BigEndian.AppendUint32(nil, uint32(img.Width))
	ihdr = binary.BigEndian.AppendUint32(ihdr, uint32(img.Height))
	ihdr = append(ihdr, byte(8*img.DType.Size()), colorType, 0, 0, 0)

	chunks := &chunkWriter{w: w}
	chunks.raw("\x89PNG\r\n\x1a\n")
	chunks.chunk("IHDR", ihdr)
	data := bufio.NewWriterSize(idatWriter{chunks}, idatBytes)
	if err := deflateRows(data, img); err != nil {
		return fmt.Errorf("encode PNG: %w", err)
	}
	if err := data.Flush(); err != nil {
		return fmt.Errorf("encode PNG: %w", err)
	}
	chunks.chunk("IEND", nil)
	if chunks.err != nil {
		return fmt.Errorf("encode PNG: %w", chunks.err)
	}
	return nil
}

// chunkWriter writes chunks and keeps the first error.
type chunkWriter struct {
	w   io.Writer
	err error
}

func (c *chunkWriter) raw(s string) {
	if c.err == nil {
		_, c.err = io.WriteString(c.w, s)
	}
}

func (c *chunkWriter) chunk(kind string, body []byte) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	head = append(head, kind...)
	crc := crc32.Update(crc32.ChecksumIEEE([]byte(kind)), crc32.IEEETable, body)
	c.raw(string(head))
	if c.err == nil {
		_, c.err = c.w.Write(body)
	}
	c.raw(string(binary.BigEndian.AppendUint32(nil, crc)))
}

// idatWriter makes a chunk of every write.
type idatWriter struct{ chunks *chunkWriter }

func (w idatWriter) Write(p []byte) (int, error) {
	w.chunks.chunk("IDAT", p)
	return len(p), w.chunks.err
}

// deflateRows writes the filtered rows of an image.
func deflateRows(w io.Writer, img raster.Image) error {
	z := zlib.NewWriter(w)
	f := newRowFilter(img.RowBytes(), img.Channels*img.DType.Size())
	row := make([]byte, img.RowBytes())
	for y := range img.Height {
		copy(row, img.Pix[y*len(row):])
		if img.DType == raster.Uint16 {
			swapPairs(row)
		}
		if _, err := z.Write(f.filter(row)); err != nil {
			return err
		}
	}
	return z.Close()
}

// rowFilter applies PNG's filters and keeps the one whose bytes, taken as
// signed, have the smallest sum of magnitudes: the heuristic that the PNG
// specification (section 12.7) recommends.
type rowFilter struct {
	pixel int       // bytes from a sample to the one on its left
	prior []byte    // row above
	tries [5][]byte // each with its filter's number in front
}

func newRowFilter(rowBytes, pixelBytes int) *rowFilter {
	f := &rowFilter{pixel: pixelBytes, prior: make([]byte, rowBytes)}
	for i := range f.tries {
		f.tries[i] = make([]byte, 1+rowBytes)
		f.tries[i][0] = byte(i)
	}
	return f
}

// filter returns the filtered row, which is good until the next call.
func (f *rowFilter) filter(row []byte) []byte {
	none, sub, up, average, paeth := f.tries[0][1:], f.tries[1][1:], f.tries[2][1:], f.tries[3][1:], f.tries[4][1:]
	copy(none, row)
	for i, v := range row {
		var left, corner byte
		if i >= f.pixel {
			left, corner = row[i-f.pixel], f.prior[i-f.pixel]
		}
		above := f.prior[i]
		sub[i] = v - left
		up[i] = v - above
		average[i] = v - byte((int(left)+int(above))/2)
		paeth[i] = v - paethPredictor(left, above, corner)
	}
	copy(f.prior, row)
	return slices.MinFunc(f.tries[:], func(a, b []byte) int { return magnitude(a[1:]) - magnitude(b[1:]) })
}

func magnitude(b []byte) int {
	sum := 0
	for _, v := range b {
		sum += max(int(int8(v)), -int(int8(v)))
	}
	return sum
}

// paethPredictor is that of the PNG specification, section 9.4.
func paethPredictor(a, b, c byte) byte {
	pa, pb := int(b)-int(c), int(a)-int(c)
	pc := max(pa+pb, -(pa + pb))
	pa, pb = max(pa, -pa), max(pb, -pb)
	switch {
	case pa <= pb && pa <= pc:
		return a
	case pb <= pc:
		return b
	}
	return c
}
