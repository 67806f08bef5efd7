// Package avx2 decodes patches of L3's fast 8-bit coding, and those of the
// published format, with the AVX2 and BMI2 instructions of x86 processors, in C, several times faster than the plain Go
// decoder of package l3, whose twin it is: it gives the same samples or says
// that it has not decoded a patch, and knows of no errors. Whatever the bytes
// of a file are, nothing outside the file is read and nothing outside a patch's
// pixels is written.
//
// It knows nothing of heads, tables, checksums and kinds of patches, and keeps
// no memory between calls. Programs built without cgo or for other processors
// have it, too, but there Available is false.
package avx2

// MaxEdge is the largest width and height of a patch that Decode takes, in
// pixels: a vector of 32 bytes is the even or the odd columns of a row.
const MaxEdge = 64

// A Patch says where a coded patch is and where its pixels belong. It is laid
// out as struct l3_patch in avx2.h.
type Patch struct {
	Start, End    int64 // of the patch in the file, in bytes
	At            int64 // of its first pixel in the image's samples, in bytes
	Width, Height int32 // pixels
}

// PublishedEdge is the width and height of the patches that DecodePublished
// takes, in pixels.
const PublishedEdge = 64

// A PublishedPatch is a Patch of the published format, which has the parts of a
// patch, its channels R, G and B, in three places.
type PublishedPatch struct {
	Start, End [3]int64
	At         int64
}

// An Image is the layout of an image's samples: rows of interleaved channels
// of 8 bits without gaps.
type Image struct {
	Pix      []byte
	RowBytes int
	Channels int // 1 to 4
}
