package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
	"unsafe"

	"prismfs/pcr"
	"prismfs/raster"
)

// cell is what is known of an image: its shape, and whether its last bytes are
// an EOI marker. It is read and written as one word, and has a check of its own,
// so that it is right or nothing.
//
//	bits 0 to 15, 16 to 31   width, height
//	bits 32 to 39            components
//	bits 40 to 47            flags
//	bits 48 to 63            check
type cell uint64

const (
	cellShape      = 1 << iota // the shape is known
	cellUnreadable             // the JPEG has none that could be read
	cellTail                   // the end is known
	cellEOI                    // and is EOI
)

func (c cell) flags() byte     { return byte(c >> 40) }
func (c cell) has(f byte) bool { return c.flags()&f != 0 }

func (c cell) with(flags byte) cell { return c | cell(flags)<<40 }

func shapeCell(width, height, components uint32) cell {
	return cell(width) | cell(height)<<16 | cell(components)<<32
}

// sealed returns the cell with its check, which depends on whose it is.
func (c cell) sealed(image int) cell {
	c &= 1<<48 - 1
	var b [12]byte
	binary.LittleEndian.PutUint64(b[:], uint64(c))
	binary.LittleEndian.PutUint32(b[8:], uint32(image)+1)
	return c | cell(crc32.Checksum(b[:], castagnoli)&0xffff)<<48
}

// cellAt returns what is known of an image, 0 if it is nothing.
func (r *record) cellAt(image int) cell {
	var known cell
	for _, b := range [...]*block{r.mappedBlock(), r.memory.Load()} {
		if b == nil {
			continue
		}
		c := cell((*atomic.Uint64)(unsafe.Pointer(&b.data[cellBytes*image])).Load())
		if c == c.sealed(image) {
			known |= c & (1<<48 - 1)
		}
	}
	return known
}

// addCell adds to what is known of an image.
func (r *record) addCell(image int, c cell) {
	c = (r.cellAt(image) | c).sealed(image)
	if t := r.folder.table; !t.noBlocks.Load() {
		var word [cellBytes]byte
		binary.LittleEndian.PutUint64(word[:], uint64(c))
		err := t.write(r.Block+int64(cellBytes*image), word[:])
		if err == nil {
			return
		}
		r.folder.toMemory(err)
	}
	b := r.memoryBlock()
	(*atomic.Uint64)(unsafe.Pointer(&b.data[cellBytes*image])).Store(uint64(c))
}

// shape returns the shape of an image as it will be decoded: grey or RGB.
func (r *record) shape(ctx context.Context, image int) (raster.Shape, error) {
	c := r.cellAt(image)
	if !c.has(cellShape | cellUnreadable) {
		var err error
		if c, err = r.findShape(ctx, image); err != nil {
			return raster.Shape{}, err
		}
	}
	if c.has(cellUnreadable) {
		return raster.Shape{}, fmt.Errorf("%w: image %d of the record has no JPEG header that could be read", pcr.ErrDamaged, image)
	}
	s := raster.Shape{Width: int(c & 0xffff), Height: int(c >> 16 & 0xffff), DType: raster.Uint8, Channels: 3, Color: raster.RGB}
	if c>>32&0xff == 1 {
		s.Channels, s.Color = 1, raster.Grey
	}
	return s, s.Check()
}

// findShape reads the shape out of the JPEG's header.
func (r *record) findShape(ctx context.Context, image int) (cell, error) {
	var space [1]column
	columns, err := r.columns(ctx, 1, space[:0])
	if err != nil {
		return 0, err
	}
	f, err := r.open(ctx)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	reader := countingReader{f, &r.folder.d.bytesIndex}
	if r.folder.d.remoteReads {
		ahead := newChunkReader(reader, r.starts[0], min(r.starts[1], r.info.Size))
		if err := r.keepShapes(ahead, 0); err != nil {
			return 0, err
		}
	}
	c := r.cellAt(image)
	if !c.has(cellShape | cellUnreadable) {
		c, err = r.readShape(reader, &columns[0], image)
	}
	if changed := checkSame(f, r.info.ID); changed != nil {
		r.folder.stale.Store(true)
		return 0, changed
	}
	if err != nil {
		return 0, err
	}
	r.addCell(image, c)
	return c, nil
}

// readShape returns a cell with the shape of an image; that it has none is one,
// too.
func (r *record) readShape(f io.ReaderAt, c *column, image int) (cell, error) {
	from := io.NewSectionReader(f, c.at(image), c.length(image))
	width, height, components, err := jpegShape(from, c.length(image))
	switch {
	case errors.Is(err, pcr.ErrDamaged):
		return cell(0).with(cellUnreadable), nil
	case err != nil:
		return 0, err
	}
	return shapeCell(width, height, components).with(cellShape), nil
}

// keepShapes finds the shapes of all images of the record, whose first column is
// known, in bytes of the file from base on.
func (r *record) keepShapes(f io.ReaderAt, base int64) error {
	c, ok := r.known(1)
	if !ok {
		return nil // they will be found one by one
	}
	c.start -= base
	for i := range r.Images {
		if r.cellAt(i).has(cellShape | cellUnreadable) {
			continue
		}
		found, err := r.readShape(f, &c, i)
		if err != nil {
			return err
		}
		r.addCell(i, found)
	}
	return nil
}

const (
	// headBytes is read of a JPEG at first. The tables of most programs take less.
	headBytes = 256
	// hopBytes is read of a segment that lies further on.
	hopBytes = 16
	// maxSegments is the number of segments of a header that are passed over.
	maxSegments = 4096
)

// The markers that matter here (ITU-T T.81, table B.1).
const (
	markerTEM   = 0x01
	markerSOF0  = 0xc0
	markerDHT   = 0xc4
	markerJPG   = 0xc8
	markerDAC   = 0xcc
	markerSOF15 = 0xcf
	markerRST0  = 0xd0
	markerSOI   = 0xd8
	markerEOI   = 0xd9
	markerSOS   = 0xda
)

// jpegShape reads the frame header of a JPEG of size bytes. It passes over what
// lies before it without reading more than its lengths. What is no JPEG that
// could be decoded gives an error that wraps pcr.ErrDamaged.
func jpegShape(r io.ReaderAt, size int64) (width, height, components uint32, err error) {
	h := header{r: r, size: size}
	if b, err := h.bytes(0, 2); err != nil || b[0] != 0xff || b[1] != markerSOI {
		return 0, 0, 0, h.failed(err, "it does not begin as a JPEG does")
	}
	at := int64(2)
	for range maxSegments {
		b, err := h.bytes(at, 2)
		if err != nil || b[0] != 0xff {
			return 0, 0, 0, h.failed(err, "no marker where one should be")
		}
		marker := b[1]
		switch {
		case marker == 0xff: // a fill byte
			at++
			continue
		case marker == markerTEM || marker >= markerRST0 && marker <= markerSOI:
			at += 2
			continue
		case marker == markerSOS || marker == markerEOI || marker == 0:
			return 0, 0, 0, h.failed(nil, "no frame header before the first scan")
		case marker >= markerSOF0 && marker <= markerSOF15 && marker != markerDHT && marker != markerJPG && marker != markerDAC:
			return h.frame(at)
		}
		if b, err = h.bytes(at+2, 2); err != nil {
			return 0, 0, 0, h.failed(err, "it ends in the header")
		}
		at += 2 + int64(binary.BigEndian.Uint16(b))
	}
	return 0, 0, 0, h.failed(nil, "too many segments before the frame header")
}

// frame reads a frame header: length, precision, height, width, components.
func (h *header) frame(at int64) (width, height, components uint32, err error) {
	b, err := h.bytes(at+2, 8)
	if err != nil {
		return 0, 0, 0, h.failed(err, "it ends in the frame header")
	}
	height, width = uint32(binary.BigEndian.Uint16(b[3:])), uint32(binary.BigEndian.Uint16(b[5:]))
	components = uint32(b[7])
	if b[2] != 8 || width == 0 || height == 0 || components != 1 && components != 3 && components != 4 {
		return 0, 0, 0, h.failed(nil, fmt.Sprintf("%d×%d pixels of %d components with %d bits", height, width, components, b[2]))
	}
	return width, height, components, nil
}

// header reads parts of a JPEG's header.
type header struct {
	r    io.ReaderAt
	size int64
	from int64
	buf  [headBytes]byte
	have int
}

// bytes returns n bytes, at most hopBytes.
func (h *header) bytes(off int64, n int) ([]byte, error) {
	if off+int64(n) > h.size {
		return nil, io.ErrUnexpectedEOF
	}
	if off < h.from || off+int64(n) > h.from+int64(h.have) {
		want := hopBytes
		if off == 0 {
			want = headBytes
		}
		want = int(min(int64(want), h.size-off))
		got, err := h.r.ReadAt(h.buf[:want], off)
		h.from, h.have = off, got
		if got < n {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return h.buf[off-h.from:][:n], nil
}

// failed tells what is wrong with the JPEG from what is wrong with reading it.
func (h *header) failed(err error, what string) error {
	if err != nil && err != io.ErrUnexpectedEOF {
		return err
	}
	return fmt.Errorf("%w: %s", pcr.ErrDamaged, what)
}
