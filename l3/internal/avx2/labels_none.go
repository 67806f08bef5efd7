//go:build !amd64 || !cgo

package avx2

// DecodeLabels decodes no patches.
func DecodeLabels(Image, *Labels, []byte, []Patch) int { return 0 }
