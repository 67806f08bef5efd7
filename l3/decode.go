package l3

import (
	"fmt"
	"hash/crc32"
)

// A Decoder decodes L3 files one after another. It keeps scratch memory
// between them, so that in steady state an image is decoded without any
// allocation. One goroutine may use it at a time.
type Decoder struct {
	limits    Limits
	simd      bool // vector code takes what it can
	patches   patchDecoder
	run       patchRun
	published publishedScratch
	ranks     *rankMap // 128 KiB, made when the first file needs it
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
	if d.decodePublishedSIMD(dst, file, h) {
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
	h, err := parseHeader(file, int64(len(file)), d.limits)
	if err != nil {
		return Info{}, err
	}
	head := file[:h.headBytes]
	if err := h.checkHead(head); err != nil {
		return Info{}, err
	}
	info := h.info()
	if err := checkDestination(dst, info); err != nil {
		return info, err
	}
	var got uint32 // checksum of the samples
	if h.coding == Raw {
		got, err = decodeRaw(dst, file, &h)
	} else {
		got, err = d.decodePatches(dst, file, &h)
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
	at := int(h.headBytes)
	for i := range int(h.entries()) {
		e := parseEntry(table, i)
		chunk := file[at : at+e.length]
		if got := checksum(chunk); got != e.crc {
			return 0, corrupt("chunk %d: checksum is %08x, not %08x", i, got, e.crc)
		}
		copy(dst[i*rawChunkBytes:], chunk)
		at += e.length
	}
	return checksum(dst), nil
}

// decodePatches decodes all patches and returns the samples' checksum.
func (d *Decoder) decodePatches(dst, file []byte, h *header) (uint32, error) {
	head := file[:h.headBytes]
	ranks, err := d.rankMap(h.sections(head))
	if err != nil {
		return 0, err
	}
	d.patches.reset(h.shape, ranks)
	g, table := newGrid(h.shape, h.logEdge), h.table(head)
	at, sum := int(h.headBytes), uint32(0)
	for row := range g.rows {
		if at, err = d.decodePatchRow(dst, file, at, row, table, g); err != nil {
			return 0, err
		}
		// Rows of pixels that have just been written are still in the
		// processor's cache, the whole image may not be.
		band := g.band(row)
		sum = crc32.Update(sum, castagnoli, dst[band.start(0, h.shape):band.start(band.height, h.shape)])
	}
	return sum, nil
}

// decodePatchRow decodes a row of patches, the first of which begins at
// file[at:], and returns where the next row begins.
func (d *Decoder) decodePatchRow(dst, file []byte, at, row int, table []byte, g grid) (int, error) {
	d.run.n = 0
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

// rankMap returns the rank map among the sections, nil if there is none.
func (d *Decoder) rankMap(sections []byte) (*rankMap, error) {
	data := findSection(sections, sectionRankMap)
	if data == nil {
		return nil, nil
	}
	if d.ranks == nil {
		d.ranks = new(rankMap)
	}
	return d.ranks, d.ranks.parse(data)
}

// takePatch decodes patch i, which begins at file[at:], or leaves it to the run
// of patches that vector code decodes.
func (d *Decoder) takePatch(dst, file []byte, at, i int, e tableEntry, g grid) error {
	b, r, s := file[at:at+e.length], g.region(i), d.patches.shape
	if got := checksum(b); got != e.crc {
		return corrupt("checksum is %08x, not %08x", got, e.crc)
	}
	if d.takes(e, r) {
		d.enqueue(i, at, e, r)
		return nil
	}
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
		return d.patches.decode(dst, file, at, at+e.length, r)
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
