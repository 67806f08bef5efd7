package l3

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"prismfs/raster"
)

// Mode is a choice of how to store an image.
type Mode uint8

// The modes. ModeFast is the default.
const (
	ModeFast      Mode = iota // version 2, Fast8 or Fast16; Raw where that is not larger
	ModePublished             // the published format: 8-bit RGB in whole patches of 64×64
	ModeRaw                   // version 2, Raw
	ModeDense                 // version 2, Dense8 or Dense16; Raw where that is not larger
	ModeLabels                // version 2, Labels, of one 8-bit channel; Raw where that is not larger
	ModeAuto                  // version 2, the smallest, but fast if that is not larger by more than autoFastPermille
)

// autoFastPermille is by how much a fast file may be larger than the smallest
// one, in thousandths, for ModeAuto to prefer it.
const autoFastPermille = 5

// DefaultEffort is the Effort of EncodeOptions that leave it 0, and MaxEffort
// the largest.
const (
	DefaultEffort = 2
	MaxEffort     = 3
)

// EncodeOptions say how Encode stores an image. The zero value is good.
type EncodeOptions struct {
	Mode            Mode
	Meta            Metadata // dropped by ModePublished, which has no place for it
	SignificantBits int      // of a sample; 0 means all of the sample type
	Workers         int      // goroutines that encode patches; 0 means 1
	Effort          int      // 1 to 3: time spent on a smaller file in the dense and label codings; 0 means 2
}

func (o *EncodeOptions) workers() int { return max(1, o.Workers) }

func (o *EncodeOptions) effort() int {
	if o.Effort == 0 {
		return DefaultEffort
	}
	return o.Effort
}

// Encode returns img as an L3 file, which Decoder.Decode turns back into the
// same samples. The file is the same for any number of workers, but may differ
// between versions of this package. In version 2 it is never more than 1 % and
// 128 bytes larger than the samples, metadata not counted.
//
// An image or metadata that the format cannot hold is an error that wraps
// ErrUnsupported or ErrTooLarge.
func Encode(img raster.Image, opt EncodeOptions) ([]byte, error) {
	if err := checkImage(img, opt); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	switch opt.Mode {
	case ModePublished:
		if err := checkPublished(img.Shape); err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
		return encodePublished(img), nil
	case ModeRaw:
		return encodeRaw(img, opt)
	}
	f, err := smallestDraft(img, opt)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if f.size() >= rawFileBytes(img, len(opt.Meta.appendSections(nil))) {
		return encodeRaw(img, opt)
	}
	return f.assemble(img, opt)
}

// smallestDraft returns the smallest of what the mode allows, but for raw and
// published files.
func smallestDraft(img raster.Image, opt EncodeOptions) (*draft, error) {
	switch opt.Mode {
	case ModeFast:
		return fastestDraft(img, opt), nil
	case ModeDense:
		return denseDraft(img, opt)
	case ModeLabels:
		if err := checkLabels(img.Shape); err != nil {
			return nil, err
		}
		return labelsDraft(img, opt)
	case ModeAuto:
		return autoDraft(img, opt)
	}
	return nil, unsupported("mode %d", opt.Mode)
}

// denseDraft encodes img with the dense coding for its sample type.
func denseDraft(img raster.Image, opt EncodeOptions) (*draft, error) {
	if img.DType.Size() == 2 {
		return dense16Draft(img, opt)
	}
	return dense8Draft(img, opt)
}

// checkLabels returns an error unless an image of this shape can be a label
// map.
func checkLabels(s raster.Shape) error {
	if s.Channels != 1 || s.DType != raster.Uint8 {
		return unsupported("the labels coding of %v", s)
	}
	return nil
}

// autoDraft tries every coding that can hold img.
func autoDraft(img raster.Image, opt EncodeOptions) (*draft, error) {
	best, err := denseDraft(img, opt)
	if err != nil {
		return nil, err
	}
	if checkLabels(img.Shape) == nil && seemsLabels(img) {
		labels, err := labelsDraft(img, opt)
		if err != nil {
			return nil, err
		}
		if labels.size() < best.size() {
			best = labels
		}
	}
	if fast := fastestDraft(img, opt); fast.size() <= best.size()+best.size()*autoFastPermille/1000 {
		best = fast
	}
	return best, nil
}

func checkImage(img raster.Image, opt EncodeOptions) error {
	if err := img.Check(); err != nil {
		return unsupported("%v", err)
	}
	if int64(len(img.Pix)) != img.Bytes() {
		return unsupported("%d bytes of samples for %v, which takes %d", len(img.Pix), img.Shape, img.Bytes())
	}
	if n := opt.SignificantBits; n < 0 || n > 8*img.DType.Size() {
		return unsupported("%d significant bits of %v", n, img.DType)
	}
	if opt.Effort < 0 || opt.Effort > MaxEffort {
		return unsupported("effort %d of 1 to %d", opt.Effort, MaxEffort)
	}
	err := opt.Meta.check()
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return unsupported("metadata: %v", err)
	}
	return err
}

// A draft is a version 2 file whose patches are encoded.
type draft struct {
	coding     Coding
	logEdge    int
	tableSet   int // 0 but for codings with an entropy coder, as logStreams
	logStreams int
	sections   []byte
	table      []tableEntry
	patches    [][]byte // parts of the file after its head, in order
}

// size is the size of the whole file.
func (f *draft) size() int64 {
	n := f.headBytes()
	for _, e := range f.table {
		n += int64(e.length)
	}
	return n
}

func (f *draft) headBytes() int64 {
	return int64(headerBytes + len(f.sections) + tableEntryBytes*len(f.table))
}

// assemble returns the file.
func (f *draft) assemble(img raster.Image, opt EncodeOptions) ([]byte, error) {
	if f.headBytes() > math.MaxUint32 {
		return nil, fmt.Errorf("encode: %w", tooLarge("a head of %d bytes", f.headBytes()))
	}
	significant := opt.SignificantBits
	if significant == 0 {
		significant = 8 * img.DType.Size()
	}
	h := header{
		coding: f.coding, shape: img.Shape, significant: significant, logEdge: f.logEdge,
		tableSet: f.tableSet, logStreams: f.logStreams,
		headBytes: f.headBytes(), sectionBytes: int64(len(f.sections)), fileBytes: f.size(),
		pixelCRC: checksum(img.Pix),
	}
	file := h.appendTo(make([]byte, 0, f.size()))
	file = append(file, f.sections...)
	for _, e := range f.table {
		file = e.appendTo(file)
	}
	binary.LittleEndian.PutUint32(file[atHeadCRC:], headChecksum(file))
	for _, p := range f.patches {
		file = append(file, p...)
	}
	return file, nil
}

func encodeRaw(img raster.Image, opt EncodeOptions) ([]byte, error) {
	f := draft{coding: Raw, sections: opt.Meta.appendSections(nil)}
	for at := 0; at < len(img.Pix); at += rawChunkBytes {
		chunk := img.Pix[at:min(at+rawChunkBytes, len(img.Pix))]
		if len(chunk)%4 != 0 {
			chunk = appendPadding(append([]byte(nil), chunk...), 0)
		}
		f.table = append(f.table, tableEntry{length: len(chunk), kind: kindRaw, crc: checksum(chunk)})
		f.patches = append(f.patches, chunk)
	}
	return f.assemble(img, opt)
}

// rawFileBytes is the size of img as encodeRaw writes it.
func rawFileBytes(img raster.Image, sections int) int64 {
	chunks := (img.Bytes() + rawChunkBytes - 1) / rawChunkBytes
	return headerBytes + int64(sections) + tableEntryBytes*chunks + (img.Bytes()+3)&^3
}

// fastestDraft encodes img with the fast coding for its sample type, with a rank
// map where that is smaller.
func fastestDraft(img raster.Image, opt EncodeOptions) *draft {
	f := fastDraft(img, nil, minLogEdge, opt)
	if m := usefulRanks(img); m != nil {
		if ranked := fastDraft(img, m, minLogEdge, opt); ranked.size() < f.size() {
			f = ranked
		}
	}
	return f
}

// usefulRanks returns the rank map of a 16-bit image if its values leave gaps
// that make a map worth trying, else nil.
func usefulRanks(img raster.Image) *rankMap {
	if img.DType.Size() != 2 {
		return nil
	}
	var occurs [1 << 16]bool
	for at := 0; at < len(img.Pix); at += 2 {
		occurs[binary.LittleEndian.Uint16(img.Pix[at:])^signFlip(img.DType)] = true
	}
	m := new(rankMap)
	m.set(&occurs)
	span := int(m.values[m.count-1]) - int(m.values[0]) + 1
	// A map of more than 7/8 of the span saves less than a fifth of a bit a
	// sample.
	if m.count > span*7/8 {
		return nil
	}
	return m
}

// fastDraft encodes img in patches of 2^logEdge pixels, with ranks if a map is
// given.
func fastDraft(img raster.Image, ranks *rankMap, logEdge int, opt EncodeOptions) *draft {
	f := &draft{coding: Fast8, logEdge: logEdge}
	if img.DType.Size() == 2 {
		f.coding = Fast16
	}
	var rankOf *[1 << 16]uint16
	if ranks != nil {
		f.sections = appendSection(f.sections, sectionRankMap, sectionCritical, ranks.appendTo(nil))
		rankOf = new([1 << 16]uint16)
		for rank, v := range ranks.values[:ranks.count] {
			rankOf[v] = uint16(rank)
		}
	}
	f.sections = opt.Meta.appendSections(f.sections)
	g := newGrid(img.Shape, f.logEdge)
	f.table = make([]tableEntry, g.patches())
	f.patches = make([][]byte, g.patches())
	encodePatches(f, g, opt.workers(), func() patchAppender { return newPatchEncoder(img, rankOf) })
	return f
}

// A patchAppender encodes patches of one image. It is used by one goroutine.
type patchAppender interface {
	// appendPatch appends patch number i, which covers r, padded to a multiple
	// of 4, and returns its kind.
	appendPatch(b []byte, i int, r region) ([]byte, uint32)
}

// encodePatches fills the table and the patches of f. Each worker takes the
// next patch that nobody has and appends it to memory of its own.
func encodePatches(f *draft, g grid, workers int, newEncoder func() patchAppender) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, g.patches()) {
		wg.Go(func() {
			e := newEncoder()
			var out []byte
			for i := int(next.Add(1)) - 1; i < g.patches(); i = int(next.Add(1)) - 1 {
				start := len(out)
				var kind uint32
				out, kind = e.appendPatch(out, i, g.region(i))
				// Growing out moves later patches only: this one stays
				// where it is, and is never written again.
				patch := out[start:len(out):len(out)]
				f.patches[i] = patch
				f.table[i] = tableEntry{length: len(patch), kind: kind, crc: checksum(patch)}
			}
		})
	}
	wg.Wait()
}

// isConstant reports whether all pixels of a region are the same.
func isConstant(img raster.Image, r region) bool {
	pixel := r.row(img.Pix, 0, img.Shape)[:pixelBytes(img.Shape)]
	for y := range r.height {
		row := r.row(img.Pix, y, img.Shape)
		// Every pixel equals the first, and so the one before it.
		if string(row[:len(pixel)]) != string(pixel) || string(row[len(pixel):]) != string(row[:len(row)-len(pixel)]) {
			return false
		}
	}
	return true
}

// appendConstant appends a patch of kindConstant.
func appendConstant(b []byte, img raster.Image, r region) []byte {
	start := len(b)
	b = append(b, r.row(img.Pix, 0, img.Shape)[:pixelBytes(img.Shape)]...)
	return appendPadding(b, start)
}

// orRaw returns b, which has the coded patch of a region from start on, and its
// kind: that, or the samples in its place if they are not larger.
func orRaw(b []byte, start int, img raster.Image, r region) ([]byte, uint32) {
	if len(b)-start < padded(regionBytes(r, img.Shape)) {
		return b, kindCoded
	}
	return appendRaw(b[:start], img, r), kindRaw
}

// appendRaw appends a patch of kindRaw.
func appendRaw(b []byte, img raster.Image, r region) []byte {
	start := len(b)
	for y := range r.height {
		b = append(b, r.row(img.Pix, y, img.Shape)...)
	}
	return appendPadding(b, start)
}

// appendPadding pads b[start:] with zeros to a multiple of 4.
func appendPadding(b []byte, start int) []byte {
	n := len(b) - start
	return append(b, make([]byte, padded(n)-n)...)
}
