package l3

import (
	"fmt"
)

// A Decoder decodes L3 files one after another. It keeps scratch memory
// between them, so that in steady state an image is decoded without any
// allocation. One goroutine may use it at a time.
type Decoder struct {
	limits    Limits
	patches   patchDecoder
	published publishedScratch
	ranks     *rankMap // 128 KiB, made when the first file needs it
}

// NewDecoder returns a Decoder that refuses files beyond lim.
func NewDecoder(lim Limits) *Decoder { return &Decoder{limits: lim.withDefaults()} }

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
	if h.coding == Raw {
		err = decodeRaw(dst, file, &h)
	} else {
		err = d.decodePatches(dst, file, &h)
	}
	if err != nil {
		return info, err
	}
	if got := checksum(dst); got != h.pixelCRC {
		return info, corrupt("checksum of the samples is %08x, not %08x", got, h.pixelCRC)
	}
	return info, nil
}

// decodeRaw copies the chunks of a raw image.
func decodeRaw(dst, file []byte, h *header) error {
	table := h.table(file[:h.headBytes])
	at := int(h.headBytes)
	for i := range int(h.entries()) {
		e := parseEntry(table, i)
		chunk := file[at : at+e.length]
		if got := checksum(chunk); got != e.crc {
			return corrupt("chunk %d: checksum is %08x, not %08x", i, got, e.crc)
		}
		copy(dst[i*rawChunkBytes:], chunk)
		at += e.length
	}
	return nil
}

func (d *Decoder) decodePatches(dst, file []byte, h *header) error {
	head := file[:h.headBytes]
	ranks, err := d.rankMap(h.sections(head))
	if err != nil {
		return err
	}
	d.patches.reset(h.shape, ranks)
	g, table := newGrid(h.shape, h.logEdge), h.table(head)
	at := int(h.headBytes)
	for i := range g.patches() {
		e := parseEntry(table, i)
		if err := d.decodePatch(dst, file, at, e, g.region(i)); err != nil {
			return fmt.Errorf("patch %d: %w", i, err)
		}
		at += e.length
	}
	return nil
}

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

func (d *Decoder) decodePatch(dst, file []byte, at int, e tableEntry, r region) error {
	b := file[at : at+e.length]
	if got := checksum(b); got != e.crc {
		return corrupt("checksum is %08x, not %08x", got, e.crc)
	}
	s := d.patches.shape
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
