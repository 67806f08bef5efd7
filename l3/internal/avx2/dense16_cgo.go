//go:build amd64 && cgo

package avx2

// The C code calls nothing back and keeps no pointers.

// #cgo noescape l3_avx2_dense16
// #cgo nocallback l3_avx2_dense16
// #include "dense16.h"
import "C"

import "unsafe"

// DecodeDense16 is Decode for patches of the dense 16-bit coding, with samples of
// two bytes.
func DecodeDense16(img Image, d *Dense16, file []byte, patches []Patch) int {
	n := 0
	if d.holds(img.Channels) {
		for n < len(patches) && d.holdsPatch(img, &patches[n], len(file)) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	image := C.struct_l3_dense16{
		channels: C.int32_t(img.Channels), log_streams: C.int32_t(d.LogStreams), hole: C.int32_t(d.Hole),
		rank_count: C.int32_t(d.RankCount), flip: C.uint32_t(d.Flip),
	}
	return int(C.l3_avx2_dense16(
		(*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(img.Pix))), C.int64_t(img.RowBytes), &image,
		(*C.uint32_t)(unsafe.SliceData(d.Slots)), (*C.uint8_t)(unsafe.SliceData(d.Tables)),
		(*C.uint16_t)(unsafe.SliceData(d.Ranks)), (*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n)))
}
