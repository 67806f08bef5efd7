//go:build !amd64 || !cgo

package avx2

// Available reports whether Decode and DecodePublished may be called: never in this build.
func Available() bool { return false }

// Decode decodes no patches.
func Decode(Image, []byte, []Patch) int { return 0 }

// DecodePublished decodes no patches.
func DecodePublished(Image, []byte, []PublishedPatch) int { return 0 }
