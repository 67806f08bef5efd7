package l3

import (
	"fmt"

	"prismfs/raster"
)

// A Decoder decodes L3 files one after another. It keeps scratch memory
// between them, so that in steady state an image is decoded without any
// allocation. One goroutine may use it at a time.
type Decoder struct {
	limits    Limits
	simd      bool   // vector code takes what it can
	header    header // of the file that is being decoded, as is all that follows
	shape     raster.Shape
	coding    patchCoding
	vector    vectorCoding  // the same, nil if no vector code is for it
	summing   summingCoding // the same, nil if that does not sum
	fast      patchDecoder
	dense8    *dense8Decoder  // these are made when the first file needs
	dense16   *dense16Decoder // them
	labels    *labelsDecoder
	run       patchRun
	published publishedScratch
	crew      Crew // nil for none
	bands     bands
}

// A patchCoding decodes patches of kindCoded of one coding. It keeps its memory
// from image to image.
type patchCoding interface {
	// reset prepares for the patches of an image. The sections have been
	// checked, but for the inside of entropy tables and of a rank map.
	reset(h *header, sections []byte) error

	// decode decodes the patch at file[start:end] into its region of pix,
	// the H×W×C samples of the image. Errors do not name the patch.
	decode(pix, file []byte, start, end int, r region) error
}

// patchCoding returns the decoder of a coding other than Raw.
func (d *Decoder) patchCoding(c Coding) patchCoding {
	switch c {
	case Dense8:
		if d.dense8 == nil {
			d.dense8 = new(dense8Decoder)
		}
		return d.dense8
	case Dense16:
		if d.dense16 == nil {
			d.dense16 = new(dense16Decoder)
		}
		return d.dense16
	case Labels:
		if d.labels == nil {
			d.labels = new(labelsDecoder)
		}
		return d.labels
	}
	return &d.fast
}

// NewDecoder returns a Decoder that refuses files beyond lim.
func NewDecoder(lim Limits, options ...DecoderOption) *Decoder {
	d := &Decoder{limits: lim.withDefaults(), simd: useSIMD}
	for _, option := range options {
		option(d)
	}
	return d
}

// Decode decodes a whole file into dst: H×W×C samples, little-endian, as
// [raster.Image] has them. len(dst) must be what Info.Shape.Bytes says, else the
// error wraps ErrDestination. All checksums are checked. After an error the
// contents of dst mean nothing.
//
// The Info is as ReadInfo returns it but without Meta, whose strings would be
// allocated for every image.
func (d *Decoder) Decode(dst, file []byte) (Info, error) {
	switch {
	case hasMagic(file, magicV2):
		return d.decodeV2(dst, file)
	case hasMagic(file, magicPublished):
		return d.decodePublished(dst, file)
	}
	return Info{}, notL3(file)
}

func (d *Decoder) decodePublished(dst, file []byte) (Info, error) {
	size := int64(len(file))
	h, err := parsePublished(file, size, d.limits)
	if err != nil {
		return Info{}, err
	}
	if err := h.checkTable(file, size); err != nil {
		return Info{}, err
	}
	info := h.info(size)
	if err := checkDestination(dst, info); err != nil {
		return info, err
	}
	if d.helped(dst) && d.decodePublishedBands(dst, file, h) || d.decodePublishedSIMD(dst, file, h) {
		return info, nil
	}
	return info, d.published.decode(dst, file, h)
}

func checkDestination(dst []byte, info Info) error {
	if int64(len(dst)) != info.Shape.Bytes() {
		return fmt.Errorf("%w: %d bytes for %v, which takes %d", ErrDestination, len(dst), info.Shape, info.Shape.Bytes())
	}
	return nil
}

func (d *Decoder) decodeV2(dst, file []byte) (Info, error) {
	var err error
	if d.header, err = parseHeader(file, int64(len(file)), d.limits); err != nil {
		return Info{}, err
	}
	h := &d.header
	head := file[:h.headBytes]
	if err := h.checkHead(head); err != nil {
		return Info{}, err
	}
	info := h.info()
	if err := checkDestination(dst, info); err != nil {
		return info, err
	}
	if d.helped(dst) && d.decodeBands(dst, file) {
		return info, nil
	}
	var got uint32 // checksum of the samples
	if h.coding == Raw {
		got, err = decodeRaw(dst, file, h)
	} else {
		got, err = d.decodePatches(dst, file, h)
	}
	if err != nil {
		return info, err
	}
	if got != h.pixelCRC {
		return info, corrupt("checksum of the samples is %08x, not %08x", got, h.pixelCRC)
	}
	return info, nil
}

// decodeRaw copies the chunks of a raw image and returns the samples' checksum.
func decodeRaw(dst, file []byte, h *header) (uint32, error) {
	table := h.table(file[:h.headBytes])
	at, sum, whole := int(h.headBytes), uint32(0), zeros(rawChunkBytes)
	for i := range int(h.entries()) {
		e := parseEntry(table, i)
		next, err := copyChunk(dst, file[at:], i, e)
		if err != nil {
			return 0, err
		}
		if left := h.shape.Bytes() - int64(i)*rawChunkBytes; left < rawChunkBytes {
			whole = zeros(left)
		}
		sum = multiply(sum, whole) ^ next
		at += e.length
	}
	return sum, nil
}

// copyChunk copies chunk i of a raw image from the beginning of b to its place
// and returns the checksum of its samples, which is the one that it has.
func copyChunk(dst, b []byte, i int, e tableEntry) (uint32, error) {
	got := checksum(b[:e.length])
	if got != e.crc {
		return 0, corrupt("chunk %d: checksum is %08x, not %08x", i, got, e.crc)
	}
	if n := copy(dst[i*rawChunkBytes:], b[:e.length]); n < e.length { // zeros follow the last sample
		return checksum(b[:n]), nil
	}
	return got, nil
}

// decodePatches decodes all patches and returns the samples' checksum.
func (d *Decoder) decodePatches(dst, file []byte, h *header) (uint32, error) {
	head := file[:h.headBytes]
	if err := d.begin(h, h.sections(head)); err != nil {
		return 0, err
	}
	var err error
	g, table := newGrid(h.shape, h.logEdge), h.table(head)
	at, sum := int(h.headBytes), uint32(0)
	for row := range g.rows {
		if at, err = d.decodePatchRow(dst, file, at, row, table, g); err != nil {
			return 0, err
		}
		sum = d.appendBand(sum, dst, g, row)
	}
	return sum, nil
}

// begin prepares for the patches of a file.
func (d *Decoder) begin(h *header, sections []byte) error {
	d.shape, d.coding, d.vector, d.summing = h.shape, d.patchCoding(h.coding), nil, nil
	if d.simd {
		d.vector, _ = d.coding.(vectorCoding)
		d.summing, _ = d.coding.(summingCoding)
	}
	return d.coding.reset(h, sections)
}

// decodePatchRow decodes a row of patches, the first of which begins at
// file[at:], and returns where the next row begins.
func (d *Decoder) decodePatchRow(dst, file []byte, at, row int, table []byte, g grid) (int, error) {
	d.startRow()
	for i := row * g.columns; i < (row+1)*g.columns; i++ {
		e := parseEntry(table, i)
		if err := d.takePatch(dst, file, at, i, e, g); err != nil {
			// Errors of patches before this one, which may still
			// wait, come first.
			if earlier := d.flush(dst, file, g); earlier != nil {
				return 0, earlier
			}
			return 0, patchError(i, err)
		}
		at += e.length
		if d.run.n == runPatches {
			if err := d.flush(dst, file, g); err != nil {
				return 0, err
			}
		}
	}
	return at, d.flush(dst, file, g)
}

func patchError(patch int, err error) error { return fmt.Errorf("patch %d: %w", patch, err) }

// takePatch decodes patch i, which begins at file[at:], or leaves it to the run
// of patches that vector code decodes.
func (d *Decoder) takePatch(dst, file []byte, at, i int, e tableEntry, g grid) error {
	b, r, s := file[at:at+e.length], g.region(i), d.shape
	takes := d.takes(e, r)
	if !takes || d.summing == nil {
		if err := checkPatch(b, e.crc); err != nil {
			return err
		}
	}
	if takes {
		d.enqueue(i, at, e, r)
		return nil
	}
	d.run.summed = false
	switch e.kind {
	case kindRaw:
		rowBytes := r.width * pixelBytes(s)
		for y := range r.height {
			copy(r.row(dst, y, s), b[y*rowBytes:])
		}
	case kindConstant:
		for y := range r.height {
			fillPixels(r.row(dst, y, s), b[:pixelBytes(s)])
		}
	default:
		return d.coding.decode(dst, file, at, at+e.length, r)
	}
	return nil
}

// fillPixels repeats pixel over row.
func fillPixels(row, pixel []byte) {
	n := copy(row, pixel)
	for n < len(row) {
		n += copy(row[n:], row[:n])
	}
}
