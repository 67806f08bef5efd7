//go:build amd64 && cgo

package avx2

// The C code calls nothing back and keeps no pointers.

// #cgo noescape l3_avx2_fast8
// #cgo nocallback l3_avx2_fast8
// #cgo noescape l3_avx2_published
// #cgo nocallback l3_avx2_published
// #include "avx2.h"
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var available = cpu.X86.HasAVX2 && cpu.X86.HasBMI2 && C.l3_avx2_is_fast() != 0

// Available reports whether the processor has the instructions and is fast at
// them. Without it neither Decode nor DecodePublished must be called.
func Available() bool { return available }

// Decode decodes patches of file into img, in their order, up to the first that
// is wrong or that it does not take, and returns how many it has decoded. The
// pixels of that one, and no others, mean nothing then.
func Decode(img Image, file []byte, patches []Patch) int {
	n := 0
	for n < len(patches) && img.holds(&patches[n], len(file)) {
		n++
	}
	if n == 0 {
		return 0
	}
	return int(C.l3_avx2_fast8(
		(*C.uint8_t)(unsafe.SliceData(img.Pix)), C.int64_t(img.RowBytes), C.int(img.Channels),
		(*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n)))
}

// DecodePublished is Decode for patches of the published format.
func DecodePublished(img Image, file []byte, patches []PublishedPatch) int {
	n := 0
	for n < len(patches) && img.holdsPublished(&patches[n], len(file)) {
		n++
	}
	if n == 0 {
		return 0
	}
	return int(C.l3_avx2_published(
		(*C.uint8_t)(unsafe.SliceData(img.Pix)), C.int64_t(img.RowBytes),
		(*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_published_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n)))
}

// holds reports whether p lies within a file and the image and is small enough,
// which is what the C code relies on.
func (m Image) holds(p *Patch, fileBytes int) bool {
	if m.Channels < 1 || m.Channels > 4 || m.RowBytes < 1 ||
		p.Start < 0 || p.Start > p.End || p.End > int64(fileBytes) ||
		p.Width < 1 || p.Width > MaxEdge || p.Height < 1 || p.Height > MaxEdge {
		return false
	}
	last := int64(p.Height-1)*int64(m.RowBytes) + int64(p.Width)*int64(m.Channels)
	return p.At >= 0 && p.At <= int64(len(m.Pix))-last
}

// holdsPublished is holds for a patch of the published format.
func (m Image) holdsPublished(p *PublishedPatch, fileBytes int) bool {
	for c := range p.Start {
		part := Patch{Start: p.Start[c], End: p.End[c], At: p.At, Width: PublishedEdge, Height: PublishedEdge}
		if m.Channels != len(p.Start) || !m.holds(&part, fileBytes) {
			return false
		}
	}
	return true
}

// A line fails to compile unless both layouts of a patch are of one size.
const (
	_ = uint(unsafe.Sizeof(Patch{}) - C.sizeof_struct_l3_patch)
	_ = uint(C.sizeof_struct_l3_patch - unsafe.Sizeof(Patch{}))
	_ = uint(unsafe.Sizeof(PublishedPatch{}) - C.sizeof_struct_l3_published_patch)
	_ = uint(C.sizeof_struct_l3_published_patch - unsafe.Sizeof(PublishedPatch{}))
)
