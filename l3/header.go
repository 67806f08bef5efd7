package l3

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"prismfs/raster"
)

// The head of a version 2 file: a header of fixed size, sections, and a table
// with one entry for each patch. After it the patches follow without gaps.

const (
	magicSize = 4
	magicV2   = "LLL2"
	version2  = 2

	headerBytes     = 48
	tableEntryBytes = 8
)

// Offsets of the header's fields.
const (
	atVersion       = 4
	atCriticalFlags = 5
	atCoding        = 7
	atWidth         = 8
	atHeight        = 12
	atChannels      = 16
	atStoredBits    = 17
	atSignificant   = 18
	atColour        = 19
	atLogEdge       = 20
	atTableSet      = 21
	atLogStreams    = 22
	atReserved      = 23
	atHeadBytes     = 24
	atSectionBytes  = 28
	atFileBytes     = 32
	atPixelCRC      = 40
	atHeadCRC       = 44
)

// signedBit is set in the byte of significant bits if samples are signed.
const signedBit = 0x80

// Kinds of table entries: the low two bits of a length that is a multiple of 4.
const (
	kindCoded    = 0 // as the file's coding says
	kindRaw      = 1 // the samples of the patch
	kindConstant = 2 // one pixel, which is every pixel
	kindMask     = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// headChecksum covers all of a head but the checksum itself.
func headChecksum(head []byte) uint32 {
	return crc32.Update(checksum(head[:atHeadCRC]), castagnoli, head[headerBytes:])
}

// header is the fixed part of a head.
type header struct {
	coding       Coding
	shape        raster.Shape
	significant  int
	logEdge      int
	tableSet     int // of the entropy coder, see tableSetOwn
	logStreams   int // of the entropy coder
	headBytes    int64
	sectionBytes int64
	fileBytes    int64
	pixelCRC     uint32
	headCRC      uint32
}

// entries returns how many patches, or chunks of a raw image, the table lists.
func (h *header) entries() int64 {
	if h.coding == Raw {
		return (h.shape.Bytes() + rawChunkBytes - 1) / rawChunkBytes
	}
	g := newGrid(h.shape, h.logEdge)
	return int64(g.columns) * int64(g.rows)
}

func (h *header) info() Info {
	i := Info{
		Version: version2, Coding: h.coding, Shape: h.shape, SignificantBits: h.significant,
		Patches: int(h.entries()), HeadBytes: h.headBytes, FileBytes: h.fileBytes,
		PixelCRC: h.pixelCRC, HasPixelCRC: true,
	}
	if h.coding != Raw {
		i.PatchEdge = 1 << h.logEdge
	}
	return i
}

// appendTo appends the header; its checksum is filled in when the head is
// whole.
func (h *header) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, headerBytes)...)
	f := b[start:]
	copy(f, magicV2)
	f[atVersion] = version2
	f[atCoding] = byte(h.coding)
	binary.LittleEndian.PutUint32(f[atWidth:], uint32(h.shape.Width))
	binary.LittleEndian.PutUint32(f[atHeight:], uint32(h.shape.Height))
	f[atChannels] = byte(h.shape.Channels)
	f[atStoredBits] = byte(8 * h.shape.DType.Size())
	f[atSignificant] = byte(h.significant)
	if h.shape.DType == raster.Int16 {
		f[atSignificant] |= signedBit
	}
	f[atColour] = byte(h.shape.Color)
	f[atLogEdge] = byte(h.logEdge)
	f[atTableSet] = byte(h.tableSet)
	f[atLogStreams] = byte(h.logStreams)
	binary.LittleEndian.PutUint32(f[atHeadBytes:], uint32(h.headBytes))
	binary.LittleEndian.PutUint32(f[atSectionBytes:], uint32(h.sectionBytes))
	binary.LittleEndian.PutUint64(f[atFileBytes:], uint64(h.fileBytes))
	binary.LittleEndian.PutUint32(f[atPixelCRC:], h.pixelCRC)
	return b
}

// parseHeader reads the header at the beginning of prefix, of a file of size
// bytes whose magic has been recognised. What it returns fits together and
// fits the size; nothing else of the head has been looked at.
func parseHeader(prefix []byte, size int64, lim Limits) (header, error) {
	if len(prefix) > atVersion && prefix[atVersion] != version2 {
		return header{}, unsupported("version %d", prefix[atVersion])
	}
	if len(prefix) < headerBytes {
		return header{}, truncated("%d bytes of a header of %d", len(prefix), headerBytes)
	}
	h, err := parseFields(prefix)
	if err != nil {
		return header{}, err
	}
	if err := lim.check(h.shape); err != nil {
		return header{}, err
	}
	if size < h.fileBytes {
		return header{}, truncated("%d of %d bytes", size, h.fileBytes)
	}
	if size > h.fileBytes {
		return header{}, corrupt("%d bytes follow the end", size-h.fileBytes)
	}
	return h, h.checkSizes()
}

// parseFields reads the header's fields and checks each by itself.
func parseFields(f []byte) (header, error) {
	if f[atCriticalFlags] != 0 {
		return header{}, unsupported("flags %#02x", f[atCriticalFlags])
	}
	h := header{
		coding: Coding(f[atCoding]),
		shape: raster.Shape{
			Height:   int(binary.LittleEndian.Uint32(f[atHeight:])),
			Width:    int(binary.LittleEndian.Uint32(f[atWidth:])),
			Channels: int(f[atChannels]),
			Color:    raster.Color(f[atColour]),
		},
		significant:  int(f[atSignificant] &^ signedBit),
		logEdge:      int(f[atLogEdge]),
		tableSet:     int(f[atTableSet]),
		logStreams:   int(f[atLogStreams]),
		headBytes:    int64(binary.LittleEndian.Uint32(f[atHeadBytes:])),
		sectionBytes: int64(binary.LittleEndian.Uint32(f[atSectionBytes:])),
		pixelCRC:     binary.LittleEndian.Uint32(f[atPixelCRC:]),
		headCRC:      binary.LittleEndian.Uint32(f[atHeadCRC:]),
	}
	fileBytes := binary.LittleEndian.Uint64(f[atFileBytes:])
	if fileBytes > math.MaxInt64 {
		return header{}, corrupt("a size of %d bytes", fileBytes)
	}
	h.fileBytes = int64(fileBytes)
	var err error
	if h.shape.DType, err = sampleType(f[atStoredBits], f[atSignificant]&signedBit != 0); err != nil {
		return header{}, err
	}
	if h.significant < 1 || h.significant > int(f[atStoredBits]) {
		return header{}, corrupt("%d significant of %d bits", h.significant, f[atStoredBits])
	}
	if err := h.checkCoding(); err != nil {
		return header{}, err
	}
	if f[atReserved] != 0 {
		return header{}, corrupt("a field that is not used is not 0")
	}
	return h, h.checkEntropyCoder()
}

// checkEntropyCoder checks the fields of codings that have an entropy coder.
// Whether a built-in table set exists is for the coding to say.
func (h *header) checkEntropyCoder() error {
	if !h.coding.entropyCoded() {
		if h.tableSet != 0 || h.logStreams != 0 {
			return corrupt("fields that the coding does not use are not 0")
		}
		return nil
	}
	if h.logStreams > maxLogStreams {
		return unsupported("2^%d entropy coder streams", h.logStreams)
	}
	return nil
}

func sampleType(bits byte, signed bool) (raster.DType, error) {
	switch {
	case bits == 8 && !signed:
		return raster.Uint8, nil
	case bits == 16 && !signed:
		return raster.Uint16, nil
	case bits == 16 && signed:
		return raster.Int16, nil
	}
	return 0, unsupported("samples of %d bits, signed %v", bits, signed)
}

// checkCoding checks that the coding is known and suits samples and edge.
func (h *header) checkCoding() error {
	least, most := minLogEdge, maxLogEdge
	sampleBytes := 1
	switch h.coding {
	case Raw:
		if h.logEdge != 0 {
			return corrupt("a raw image with a patch edge of 2^%d", h.logEdge)
		}
		return nil
	case Fast8, Dense8:
	case Fast16, Dense16:
		sampleBytes = 2
	case Labels:
		if h.shape.Channels != 1 {
			return corrupt("%v coding of %d channels", h.coding, h.shape.Channels)
		}
		least, most = minLabelsLogEdge, maxLabelsLogEdge
	default:
		return unsupported("coding %d", uint8(h.coding))
	}
	if h.shape.DType.Size() != sampleBytes {
		return corrupt("%v coding of %v", h.coding, h.shape.DType)
	}
	if h.logEdge < least || h.logEdge > most {
		return unsupported("a patch edge of 2^%d", h.logEdge)
	}
	return nil
}

// checkSizes checks that header, sections and table make up the head and that
// the file has room for it.
func (h *header) checkSizes() error {
	if h.headBytes > h.fileBytes {
		return corrupt("a head of %d bytes in a file of %d", h.headBytes, h.fileBytes)
	}
	if h.sectionBytes > maxSectionBytes {
		return tooLarge("%d bytes of sections, the limit is %d", h.sectionBytes, maxSectionBytes)
	}
	if h.sectionBytes%4 != 0 {
		return corrupt("%d bytes of sections", h.sectionBytes)
	}
	if want := headerBytes + h.sectionBytes + tableEntryBytes*h.entries(); h.headBytes != want {
		return corrupt("a head of %d bytes, its parts take %d", h.headBytes, want)
	}
	return nil
}

// tableEntry is what the table says of one patch.
type tableEntry struct {
	length int // bytes, a multiple of 4
	kind   uint32
	crc    uint32
}

func parseEntry(table []byte, i int) tableEntry {
	word := binary.LittleEndian.Uint32(table[i*tableEntryBytes:])
	return tableEntry{
		length: int(word &^ kindMask),
		kind:   word & kindMask,
		crc:    binary.LittleEndian.Uint32(table[i*tableEntryBytes+4:]),
	}
}

func (e tableEntry) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(e.length)|e.kind)
	return binary.LittleEndian.AppendUint32(b, e.crc)
}

// checkHead checks the checksum of a whole head, that its sections can be
// understood, and that the lengths in its table are right for their kinds and
// add up to the rest of the file.
func (h *header) checkHead(head []byte) error {
	if got := headChecksum(head); got != h.headCRC {
		return corrupt("checksum of the head is %08x, not %08x", got, h.headCRC)
	}
	if err := checkSections(h.sections(head), h.coding); err != nil {
		return err
	}
	if err := h.checkTablesSection(h.sections(head)); err != nil {
		return err
	}
	table := h.table(head)
	total := h.headBytes
	g := newGrid(h.shape, h.logEdge)
	for i := range int(h.entries()) {
		e := parseEntry(table, i)
		total += int64(e.length)
		if err := h.checkEntry(e, i, g); err != nil {
			return err
		}
	}
	if total != h.fileBytes {
		return corrupt("head and patches are %d bytes, the file %d", total, h.fileBytes)
	}
	return nil
}

// checkTablesSection checks that there are entropy tables among the sections
// if and only if no built-in set is used.
func (h *header) checkTablesSection(sections []byte) error {
	own := h.coding.entropyCoded() && h.tableSet == tableSetOwn
	if has := findSection(sections, sectionTables) != nil; has != own {
		return corrupt("entropy tables %v, table set %d in the %v coding", has, h.tableSet, h.coding)
	}
	return nil
}

// checkEntry checks the kind of an entry, and its length where that is known.
func (h *header) checkEntry(e tableEntry, i int, g grid) error {
	want := e.length
	switch {
	case h.coding == Raw && e.kind == kindRaw:
		want = padded(int(min(rawChunkBytes, h.shape.Bytes()-int64(i)*rawChunkBytes)))
	case h.coding != Raw && e.kind == kindRaw:
		want = padded(regionBytes(g.region(i), h.shape))
	case h.coding != Raw && e.kind == kindConstant:
		want = padded(pixelBytes(h.shape))
	case h.coding == Raw || e.kind != kindCoded:
		return corrupt("patch %d: kind %d in the %v coding", i, e.kind, h.coding)
	}
	if e.length != want {
		return corrupt("patch %d: %d bytes instead of %d", i, e.length, want)
	}
	return nil
}

func (h *header) sections(head []byte) []byte {
	return head[headerBytes : headerBytes+h.sectionBytes]
}

func (h *header) table(head []byte) []byte {
	return head[headerBytes+h.sectionBytes : h.headBytes]
}
