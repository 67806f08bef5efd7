package kernels

import (
	"slices"
	"unsafe"

	"prismfs/l3"
	"prismfs/raster"
)

// A Kernel decodes the patches of one coding.
type Kernel uint8

// The kernels, in the order in which a batch has their patches.
const (
	Published Kernel = iota
	Fast8
	Fast16
	Dense8
	Dense16
	Labels
	Raw // raw and constant patches of every coding
	Count
)

// ChecksumName is the kernel that checks the checksums of patches and begins
// their statuses. It takes the patches of any coding but the published one.
const ChecksumName = "l3_crc"

var names = [Count]string{
	Published: "l3_published", Fast8: "l3_fast8", Fast16: "l3_fast16", Dense8: "l3_dense8", Dense16: "l3_dense16",
	Labels: "l3_labels", Raw: "l3_raw",
}

// Name is the kernel's name in the module.
func (k Kernel) Name() string { return names[k] }

// PatchesPerWarp is how many descriptors a warp takes.
func (k Kernel) PatchesPerWarp() int {
	if k == Published {
		return publishedChannels
	}
	return 1
}

// Blocks is how many blocks decode so many patches.
func (k Kernel) Blocks(patches int) int {
	perBlock := BlockWarps * k.PatchesPerWarp()
	return (patches + perBlock - 1) / perBlock
}

const publishedChannels = 3

// EncodedAlign is what the place of a file in the encoded buffer, and the size of
// that buffer, are multiples of. The kernels read it in words of four bytes.
const EncodedAlign = 16

// A Batch collects what kernels need to know of several images, in the layout of
// device memory. It keeps its memory from batch to batch.
type Batch struct {
	Images  []Image
	Patches [Count][]Patch
	Tables  []uint32

	builtin map[builtinKey]uint32
}

// A builtinKey names a built-in table set.
type builtinKey struct {
	coding l3.Coding
	hole   bool
	number int
}

// Reset empties a batch.
func (b *Batch) Reset() {
	b.Images, b.Tables = b.Images[:0], b.Tables[:0]
	for k := range b.Patches {
		b.Patches[k] = b.Patches[k][:0]
	}
	clear(b.builtin)
}

// kernelOf are the codings that kernels decode.
var kernelOf = map[l3.Coding]Kernel{
	l3.Published: Published, l3.Fast8: Fast8, l3.Fast16: Fast16, l3.Dense8: Dense8, l3.Dense16: Dense16, l3.Labels: Labels,
}

// Takes reports whether there is a kernel for a coding. There is none for raw
// images, which need no decoding: bytes that are copied to a device and back
// would only be late.
func Takes(c l3.Coding) bool {
	_, ok := kernelOf[c]
	return ok
}

// A Destination is where the samples of an image go in the pixel buffer.
type Destination struct {
	At     uint64
	Planar bool // one channel after another instead of all channels of each pixel
}

// Add appends the image that p is the plan of, whose coding Takes knows; its file
// begins at file in the encoded buffer, a multiple of EncodedAlign.
func (b *Batch) Add(p *l3.Plan, file uint64, to Destination) {
	kernel, index := kernelOf[p.Info.Coding], uint32(len(b.Images))
	img := newImage(p, to)
	if len(p.Tables.Ranks) > 0 {
		img.Ranks, img.RankCount = uint32(len(b.Tables)), uint32(len(p.Tables.Ranks))
		b.appendRanks(p.Tables.Ranks)
	}
	img.Tables = b.tables(p)
	b.Images = append(b.Images, img)
	if kernel == Published {
		b.addPublished(p, file, index)
		return
	}
	for i := range p.Patches {
		k := kernel
		if p.Patches[i].Kind != l3.PatchCoded {
			k = Raw
		}
		b.Patches[k] = append(b.Patches[k], newPatch(&p.Patches[i], file, index))
	}
}

// addPublished brings the channels of each rectangle together.
func (b *Batch) addPublished(p *l3.Plan, file uint64, index uint32) {
	each := len(p.Patches) / publishedChannels
	for i := range each {
		for c := range publishedChannels {
			b.Patches[Published] = append(b.Patches[Published], newPatch(&p.Patches[c*each+i], file, index))
		}
	}
}

func newPatch(p *l3.Patch, file uint64, index uint32) Patch {
	return Patch{
		Start: file + uint64(p.Start), Length: uint32(p.End - p.Start), CRC: p.CRC, Image: index,
		X: uint32(p.X), Y: uint32(p.Y), Width: uint16(p.Width), Height: uint16(p.Height), Kind: uint32(p.Kind),
	}
}

func newImage(p *l3.Plan, to Destination) Image {
	s, t := p.Info.Shape, &p.Tables
	sample := uint64(s.DType.Size())
	img := Image{
		Pixels: to.At, PixelBytes: uint64(s.Bytes()), Hole: NoHole,
		RowStep: uint64(s.RowBytes()), PixelStep: uint32(sample) * uint32(s.Channels), ChannelStep: sample,
		Channels: uint8(s.Channels), SampleBytes: uint8(sample),
		LogStreams: uint8(t.LogStreams), RawBits: uint8(t.Labels.RawBits), PaletteSize: uint16(len(t.Labels.Palette)),
	}
	if to.Planar {
		img.RowStep, img.PixelStep, img.ChannelStep = uint64(s.Width)*sample, uint32(sample), uint64(s.Pixels())*sample
	}
	if s.DType == raster.Int16 {
		img.Flip = 1 << 15
	}
	if t.HasHole {
		img.Hole = uint32(t.Hole)
	}
	return img
}

func (b *Batch) appendRanks(ranks []uint16) {
	words := (len(ranks) + 1) / 2
	at := len(b.Tables)
	b.Tables = slices.Grow(b.Tables, words)[:at+words]
	b.Tables[at+words-1] = 0
	copy(unsafe.Slice((*uint16)(unsafe.Pointer(&b.Tables[at])), 2*words), ranks)
}

// tables returns where the table set of an image is, in words. Built-in ones are
// there once for all images.
func (b *Batch) tables(p *l3.Plan) uint32 {
	c, t := p.Info.Coding, &p.Tables
	if c != l3.Dense8 && c != l3.Dense16 && c != l3.Labels {
		return 0
	}
	key := builtinKey{coding: c, hole: t.HasHole, number: t.Set}
	if at, ok := b.builtin[key]; ok && t.Set != l3.OwnTables {
		return at
	}
	at := uint32(len(b.Tables))
	switch c {
	case l3.Dense8:
		set := appendTables[Dense8Tables](b)
		copy(set.Contexts[:], t.Contexts)
		for i := range set.Slots {
			copy(set.Slots[i][:], t.Slots[i*len(set.Slots[i]):])
		}
	case l3.Dense16:
		set := appendTables[Dense16Tables](b)
		copy(set.Contexts[:], t.Contexts)
		for i := range set.Slots {
			copy(set.Slots[i][:], t.Slots[i*len(set.Slots[i]):])
		}
	case l3.Labels:
		appendTables[LabelsTables](b).set(&t.Labels)
	}
	if t.Set != l3.OwnTables {
		if b.builtin == nil {
			b.builtin = make(map[builtinKey]uint32)
		}
		b.builtin[key] = at
	}
	return at
}

func (t *LabelsTables) set(from *l3.LabelTables) {
	copy(t.TableOf[:], from.TableOf)
	copy(t.Palette[:], from.Palette)
	for i, bounds := range from.Bounds {
		t.Bounds[i] = [4]uint16{bounds[0], bounds[1], bounds[2], labelSlots}
	}
}

// labelSlots is how many slots a table of the labels coding has.
const labelSlots = 4096

// appendTables appends a cleared table set, whose memory is good until the next
// one is appended. The sizes of all sets are multiples of a word.
func appendTables[T any](b *Batch) *T {
	var set T
	words := int(unsafe.Sizeof(set) / 4)
	at := len(b.Tables)
	b.Tables = slices.Grow(b.Tables, words)[:at+words]
	clear(b.Tables[at:])
	return (*T)(unsafe.Pointer(&b.Tables[at]))
}
