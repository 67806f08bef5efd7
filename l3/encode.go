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
)

// EncodeOptions say how Encode stores an image. The zero value is good.
type EncodeOptions struct {
	Mode            Mode
	Meta            Metadata // dropped by ModePublished, which has no place for it
	SignificantBits int      // of a sample; 0 means all of the sample type
	Workers         int      // goroutines that encode patches; 0 means 1
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
	case ModeFast:
		return encodeFast(img, opt)
	}
	return nil, fmt.Errorf("encode: %w", unsupported("mode %d", opt.Mode))
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
	err := opt.Meta.check()
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return unsupported("metadata: %v", err)
	}
	return err
}

// A draft is a version 2 file whose patches are encoded.
type draft struct {
	coding   Coding
	logEdge  int
	sections []byte
	table    []tableEntry
	patches  [][]byte // parts of the file after its head, in order
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

func encodeFast(img raster.Image, opt EncodeOptions) ([]byte, error) {
	f := fastDraft(img, nil, minLogEdge, opt)
	if m := usefulRanks(img); m != nil {
		if ranked := fastDraft(img, m, minLogEdge, opt); ranked.size() < f.size() {
			f = ranked
		}
	}
	if f.size() >= rawFileBytes(img, len(opt.Meta.appendSections(nil))) {
		return encodeRaw(img, opt)
	}
	return f.assemble(img, opt)
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
	encodePatches(f, g, max(1, opt.Workers), func() *patchEncoder { return newPatchEncoder(img, rankOf) })
	return f
}

// encodePatches fills the table and the patches of f. Each worker takes the
// next patch that nobody has and appends it to memory of its own.
func encodePatches(f *draft, g grid, workers int, newEncoder func() *patchEncoder) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, g.patches()) {
		wg.Go(func() {
			e := newEncoder()
			var out []byte
			for i := int(next.Add(1)) - 1; i < g.patches(); i = int(next.Add(1)) - 1 {
				start := len(out)
				var kind uint32
				out, kind = e.appendPatch(out, g.region(i))
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
