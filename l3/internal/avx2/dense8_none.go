//go:build !amd64 || !cgo

package avx2

// DecodeDense8 decodes no patches.
func DecodeDense8(Image, *Dense8, *[Dense8Slots]uint32, []byte, []Patch, *RowSums) int { return 0 }
