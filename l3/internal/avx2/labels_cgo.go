//go:build amd64 && cgo

package avx2

// The C code calls nothing back and keeps no pointers.

// #cgo noescape l3_avx2_labels
// #cgo nocallback l3_avx2_labels
// #include "labels.h"
import "C"

import "unsafe"

// DecodeLabels is Decode8 for patches of the labels coding, without the sums.
func DecodeLabels(img Image, l *Labels, file []byte, patches []Patch) int {
	n := 0
	if l.holds() {
		for n < len(patches) && l.holdsPatch(img, &patches[n], len(file)) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	image := C.struct_l3_labels{
		log_streams: C.int32_t(l.LogStreams), palette_size: C.int32_t(l.PaletteSize), raw_bits: C.int32_t(l.RawBits),
	}
	return int(C.l3_avx2_labels(
		(*C.uint8_t)(unsafe.SliceData(img.Pix)), C.int64_t(img.RowBytes), &image,
		(*C.uint8_t)(&l.TableOf[0]), (*C.uint16_t)(&l.Tables[0][0]), (*C.uint8_t)(&l.Palette[0]),
		(*C.uint8_t)(unsafe.SliceData(file)), C.int64_t(len(file)),
		(*C.struct_l3_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.int(n)))
}
