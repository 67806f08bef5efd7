//go:build amd64 && cgo

package avx2

// #cgo noescape l3_avx2_dense8
// #cgo nocallback l3_avx2_dense8
// #include "dense8.h"
import "C"

import "unsafe"

// DecodeDense8 is Decode8 for patches of the dense coding of 8 bits.
func DecodeDense8(img Image, d *Dense8, slots *[Dense8Slots]uint32, file []byte, patches []Patch, sums *RowSums) int {
	n := img.prefix(file, patches, 1)
	if n == 0 {
		return 0
	}
	return int(C.l3_avx2_dense8(
		(*C.uint8_t)(unsafe.SliceData(img.Pix)), C.int64_t(img.RowBytes), C.int(img.Channels),
		(*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_dense8)(unsafe.Pointer(d)), (*C.uint32_t)(&slots[0]),
		(*C.struct_l3_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n), (*C.uint32_t)(&sums[0])))
}

// A line fails to compile unless what Go and C have is of one size.
const (
	_ = uint(unsafe.Sizeof(Dense8{}) - C.sizeof_struct_l3_dense8)
	_ = uint(C.sizeof_struct_l3_dense8 - unsafe.Sizeof(Dense8{}))
	_ = uint(dense8Bits - C.DENSE8_BITS)
	_ = uint(C.DENSE8_BITS - dense8Bits)
	_ = uint(dense8Tables - C.DENSE8_TABLES)
	_ = uint(C.DENSE8_TABLES - dense8Tables)
)
