//go:build amd64 && cgo

package avx2

// The C code calls nothing back and keeps no pointers.

// #cgo noescape l3_avx2_fast8
// #cgo nocallback l3_avx2_fast8
// #cgo noescape l3_avx2_fast16
// #cgo nocallback l3_avx2_fast16
// #cgo noescape l3_avx2_encode8
// #cgo nocallback l3_avx2_encode8
// #cgo noescape l3_avx2_encode16
// #cgo nocallback l3_avx2_encode16
// #cgo noescape l3_avx2_published
// #cgo nocallback l3_avx2_published
// #cgo noescape l3_avx2_checksum
// #cgo nocallback l3_avx2_checksum
// #cgo noescape l3_avx2_join_rows
// #cgo nocallback l3_avx2_join_rows
// #include "avx2.h"
import "C"

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

var available = cpu.X86.HasAVX2 && cpu.X86.HasBMI2 && cpu.X86.HasPCLMULQDQ && C.l3_avx2_is_fast() != 0

// Available reports whether the processor has the instructions and is fast at
// them. Without it nothing else of this package must be called.
func Available() bool { return available }

// Decode8 decodes patches of the fast 8-bit coding into img, in their order, up
// to the first that is wrong, its checksum included, or that it does not take,
// and returns how many it has decoded. If that is not all, the pixels of the next
// one, and all of sums, mean nothing.
func Decode8(img Image, file []byte, patches []Patch, sums *RowSums) int {
	n := img.prefix(file, patches, 1)
	if n == 0 {
		return 0
	}
	return int(C.l3_avx2_fast8(
		(*C.uint8_t)(unsafe.SliceData(img.Pix)), C.int64_t(img.RowBytes), C.int(img.Channels),
		(*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n), (*C.uint32_t)(&sums[0])))
}

// Decode16 is Decode8 for the fast 16-bit coding. If there are ranks, what is
// coded are indexes of their first count elements. All samples are xored with
// flip.
func Decode16(img Image, file []byte, patches []Patch, sums *RowSums, ranks *[1 << 16]uint16, count int, flip uint16) int {
	n := img.prefix(file, patches, 2)
	if n == 0 {
		return 0
	}
	return int(C.l3_avx2_fast16(
		(*C.uint8_t)(unsafe.SliceData(img.Pix)), C.int64_t(img.RowBytes), C.int(img.Channels),
		(*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n), (*C.uint32_t)(&sums[0]),
		(*C.uint16_t)(unsafe.Pointer(ranks)), C.int(count), C.uint16_t(flip)))
}

// AppendPatch8 appends the patch of width × height pixels, 1 to EncodedEdge each,
// whose first pixel is at img.Pix[at:], in the fast 8-bit coding: what the plain
// Go encoder appends, byte for byte. It reports whether there is such a patch.
func AppendPatch8(b []byte, img Image, at int64, width, height int) ([]byte, bool) {
	if !img.holdsEncoded(at, width, height, 1) {
		return b, false
	}
	b = slices.Grow(b, encodedRoom(width, height, img.Channels, 1))
	n := C.l3_avx2_encode8((*C.uint8_t)(unsafe.SliceData(b[len(b):cap(b)])), (*C.uint8_t)(&img.Pix[at]),
		C.int64_t(img.RowBytes), C.int(img.Channels), C.int(width), C.int(height))
	return b[:len(b)+int(n)], true
}

// AppendPatch16 is AppendPatch8 for the fast 16-bit coding. Samples are xored with
// flip; what is coded is then their elements of ranks, unless that is nil.
func AppendPatch16(b []byte, img Image, at int64, width, height int, ranks *[1 << 16]uint16, flip uint16) ([]byte, bool) {
	if !img.holdsEncoded(at, width, height, 2) {
		return b, false
	}
	b = slices.Grow(b, encodedRoom(width, height, img.Channels, 2))
	n := C.l3_avx2_encode16((*C.uint8_t)(unsafe.SliceData(b[len(b):cap(b)])), (*C.uint8_t)(&img.Pix[at]),
		C.int64_t(img.RowBytes), C.int(img.Channels), C.int(width), C.int(height),
		(*C.uint16_t)(unsafe.Pointer(ranks)), C.uint16_t(flip))
	return b[:len(b)+int(n)], true
}

// holdsEncoded reports whether a patch lies within the image and is small enough
// to be encoded.
func (m Image) holdsEncoded(at int64, width, height, size int) bool {
	if width < 1 || width > EncodedEdge || height < 1 || height > EncodedEdge {
		return false
	}
	return m.holds(&Patch{At: at, Width: int32(width), Height: int32(height)}, 0, size)
}

// encodedRoom is more than an encoded patch takes, in bytes, and what the C code
// writes behind its end for a moment: prelude, less than 8 bytes of headers for a
// row of a channel, samples as wide as they can be.
func encodedRoom(width, height, channels, size int) int {
	return 64 + height*channels*(8+width*size)
}

// AppendRows returns the CRC-32C of what has the CRC-32C sum, followed by the
// first rows that sums are of, each of rowBytes bytes.
func AppendRows(sum uint32, sums *RowSums, rows, rowBytes int) uint32 {
	return uint32(C.l3_avx2_join_rows(C.uint32_t(sum), (*C.uint32_t)(&sums[0]), C.int(min(rows, len(sums))), C.int64_t(rowBytes)))
}

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 {
	return uint32(C.l3_avx2_checksum((*C.uint8_t)(unsafe.SliceData(b)), C.int64_t(len(b))))
}

// DecodePublished is Decode8 for patches of the published format.
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

// prefix returns how many patches at the beginning of some, of samples of size
// bytes, lie within a file and the image and are small enough, which is what the
// C code relies on.
func (m Image) prefix(file []byte, patches []Patch, size int) int {
	n := 0
	for n < len(patches) && m.holds(&patches[n], len(file), size) {
		n++
	}
	return n
}

func (m Image) holds(p *Patch, fileBytes, size int) bool {
	if m.Channels < 1 || m.Channels > 4 || m.RowBytes < 1 ||
		p.Start < 0 || p.Start > p.End || p.End > int64(fileBytes) ||
		p.Width < 1 || p.Width > MaxEdge || p.Height < 1 || p.Height > MaxEdge {
		return false
	}
	last := int64(p.Height-1)*int64(m.RowBytes) + int64(p.Width)*int64(m.Channels*size)
	return p.At >= 0 && p.At <= int64(len(m.Pix))-last
}

// holdsPublished is holds for a patch of the published format.
func (m Image) holdsPublished(p *PublishedPatch, fileBytes int) bool {
	for c := range p.Start {
		part := Patch{Start: p.Start[c], End: p.End[c], At: p.At, Width: PublishedEdge, Height: PublishedEdge}
		if m.Channels != len(p.Start) || !m.holds(&part, fileBytes, 1) {
			return false
		}
	}
	return true
}

// A line fails to compile unless both languages mean the same edge and lay out
// patches in the same size.
const (
	_ = uint(C.L3_ENCODED_EDGE - EncodedEdge)
	_ = uint(EncodedEdge - C.L3_ENCODED_EDGE)
	_ = uint(unsafe.Sizeof(Patch{}) - C.sizeof_struct_l3_patch)
	_ = uint(C.sizeof_struct_l3_patch - unsafe.Sizeof(Patch{}))
	_ = uint(unsafe.Sizeof(PublishedPatch{}) - C.sizeof_struct_l3_published_patch)
	_ = uint(C.sizeof_struct_l3_published_patch - unsafe.Sizeof(PublishedPatch{}))
)
