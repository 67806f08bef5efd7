package l3

import (
	"encoding/binary"
	"hash/crc32"
)

// A Plan is what a file says before its patches: what they are, where they are,
// and the tables that they are decoded with. It is for decoders that do not live
// in this package, such as one on a graphics card, which do the patches alone
// and leave everything else, and every file that is not as it should be, to this
// package. A Plan keeps its memory from file to file, so that in steady state
// one is parsed without any allocation. One goroutine may use it at a time.
//
// A raw image has no patches: who decodes it copies.
type Plan struct {
	Info    Info // without Meta, as of Decoder.Decode
	Patches []Patch
	Tables  PlanTables

	dense8         tableSet // memory of sets that stand in files, as all that follows
	dense16, holes tableSet
	model          labelModel
	bounds         [labelTableCount][labelBounds]uint16
	ranks          rankMemory
}

// A PatchKind says what a patch holds. The values are those of the table of a
// version 2 file.
type PatchKind uint8

// The kinds of patches.
const (
	PatchCoded    PatchKind = kindCoded    // what the coding says
	PatchRaw      PatchKind = kindRaw      // its samples, row by row
	PatchConstant PatchKind = kindConstant // one pixel, which is every pixel
)

// A Patch is a rectangle of an image that is decoded by itself.
type Patch struct {
	Start, End          int // in the file
	X, Y, Width, Height int // in the image
	Kind                PatchKind
	Channel             int    // of a published file, in which each channel has its own patches; else 0
	CRC                 uint32 // CRC-32C of the bytes; published files have none
}

// PlanTables are what the patches of an image are decoded with beside their own
// bytes. They are not to be changed: built-in ones are shared.
type PlanTables struct {
	// Set is the number of the built-in table set, or OwnTables. Two images of
	// one coding that have the same built-in set, and both or neither a hole
	// value, have the same tables, but for ranks.
	Set        int
	LogStreams int // log2 of the entropy coder's streams

	Contexts []uint8  // of the dense codings: the table of each context
	Slots    []uint32 // of the dense codings: all slots of the table 0, of table 1, …

	HasHole bool
	Hole    uint16 // the coded value of holes

	// Ranks are the values of a rank map, nil if there is none.
	Ranks []uint16

	Labels LabelTables // of the labels coding
}

// OwnTables is the number of a table set that stands in the file itself.
const OwnTables = tableSetOwn

// LabelTables are the tables of a label map.
type LabelTables struct {
	TableOf []uint8     // the table of each context
	Bounds  [][3]uint16 // of each table, where the slots of tokens 1, 2 and 3 begin
	Palette []uint8     // the labels that RawBits bits say
	RawBits int
}

// Parse sets p to what a whole file says. It checks all that a Decoder checks
// before it begins with patches; their own bytes, and whether these go with their
// checksums, are for CheckPatches. What it returns an error for, a Decoder
// refuses with the same error.
//
// p refers to the file only in Patches, by offsets.
func (p *Plan) Parse(file []byte, lim Limits) error {
	p.Info, p.Patches, p.Tables = Info{}, p.Patches[:0], PlanTables{}
	switch {
	case hasMagic(file, magicV2):
		return p.parseV2(file, lim)
	case hasMagic(file, magicPublished):
		return p.parsePublished(file, lim)
	}
	return notL3(file)
}

func (p *Plan) parsePublished(file []byte, lim Limits) error {
	size := int64(len(file))
	h, err := parsePublished(file, size, lim)
	if err != nil {
		return err
	}
	if err := h.checkTable(file, size); err != nil {
		return err
	}
	p.Info = h.info(size)
	at := int(h.headBytes())
	for c := range publishedChannels {
		for i := range int(h.patches()) {
			r, n := h.region(i), h.patchBytes(file, c, i)
			p.Patches = append(p.Patches, Patch{
				Start: at, End: at + n, X: r.x, Y: r.y, Width: r.width, Height: r.height, Channel: c,
			})
			at += n
		}
	}
	return nil
}

func (p *Plan) parseV2(file []byte, lim Limits) error {
	h, err := parseHeader(file, int64(len(file)), lim)
	if err != nil {
		return err
	}
	head := file[:h.headBytes]
	if err := h.checkHead(head); err != nil {
		return err
	}
	p.Info = h.info()
	if h.coding == Raw {
		return nil
	}
	if err := p.parseTables(&h, h.sections(head)); err != nil {
		return err
	}
	g, table, at := newGrid(h.shape, h.logEdge), h.table(head), int(h.headBytes)
	for i := range g.patches() {
		e, r := parseEntry(table, i), g.region(i)
		p.Patches = append(p.Patches, Patch{
			Start: at, End: at + e.length, X: r.x, Y: r.y, Width: r.width, Height: r.height,
			Kind: PatchKind(e.kind), CRC: e.crc,
		})
		at += e.length
	}
	return nil
}

// parseTables sets the tables of a version 2 file.
func (p *Plan) parseTables(h *header, sections []byte) error {
	t := &p.Tables
	t.Set, t.LogStreams = h.tableSet, h.logStreams
	ranks, err := p.ranks.parse(sections)
	if err != nil {
		return err
	}
	if ranks != nil {
		t.Ranks = ranks.values[:ranks.count]
	}
	if data := findSection(sections, sectionHole); data != nil {
		t.HasHole, t.Hole = true, binary.LittleEndian.Uint16(data)
	}
	switch h.coding {
	case Dense8:
		return p.chooseTables(dense8Sets, &p.dense8, h, sections)
	case Dense16:
		if t.HasHole {
			return p.chooseTables(dense16HoleSets, &p.holes, h, sections)
		}
		return p.chooseTables(dense16Sets, &p.dense16, h, sections)
	case Labels:
		return p.parseLabels(h, sections)
	}
	return nil
}

func (p *Plan) chooseTables(sets *builtinTables, own *tableSet, h *header, sections []byte) error {
	set, err := sets.choose(h, sections, own)
	if err != nil {
		return err
	}
	p.Tables.Contexts, p.Tables.Slots = set.contexts, set.slots
	return nil
}

func (p *Plan) parseLabels(h *header, sections []byte) error {
	m := &p.model
	if err := m.reset(h, sections); err != nil {
		return err
	}
	for i, t := range m.tables {
		p.bounds[i] = t
	}
	p.Tables.Labels = LabelTables{
		TableOf: m.tableOf[:], Bounds: p.bounds[:], Palette: m.palette[:m.paletteSize], RawBits: int(m.rawBits),
	}
	return nil
}

// CheckPatches checks the checksums of all patches of the file that p was parsed
// from. A published file has none.
func (p *Plan) CheckPatches(file []byte) error {
	if !p.Info.HasPixelCRC {
		return nil
	}
	for i := range p.Patches {
		q := &p.Patches[i]
		if err := checkPatch(file[q.Start:q.End], q.CRC); err != nil {
			return patchError(i, err)
		}
	}
	return nil
}

// CheckSum compares the CRC-32C of an image's decoded samples with the one that it
// has. A published file has none.
func (i *Info) CheckSum(got uint32) error {
	if i.HasPixelCRC && got != i.PixelCRC {
		return corrupt("checksum of the samples is %08x, not %08x", got, i.PixelCRC)
	}
	return nil
}

// AppendChecksum returns the CRC-32C of what has the checksum sum, followed by
// b. The checksum of nothing is 0.
func AppendChecksum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
