//go:build !amd64 || !cgo

package avx2

// Available reports whether the rest of this package may be called: never in this build.
func Available() bool { return false }

// Decode8 decodes no patches.
func Decode8(Image, []byte, []Patch, *RowSums) int { return 0 }

// Decode16 decodes no patches.
func Decode16(Image, []byte, []Patch, *RowSums, *[1 << 16]uint16, int, uint16) int { return 0 }

// AppendPatch8 appends nothing.
func AppendPatch8(b []byte, _ Image, _ int64, _, _ int) ([]byte, bool) { return b, false }

// AppendPatch16 appends nothing.
func AppendPatch16(b []byte, _ Image, _ int64, _, _ int, _ *[1 << 16]uint16, _ uint16) ([]byte, bool) {
	return b, false
}

// AppendRows returns 0.
func AppendRows(uint32, *RowSums, int, int) uint32 { return 0 }

// Checksum returns 0.
func Checksum([]byte) uint32 { return 0 }

// DecodePublished decodes no patches.
func DecodePublished(Image, []byte, []PublishedPatch) int { return 0 }
