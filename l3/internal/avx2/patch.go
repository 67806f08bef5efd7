// Package avx2 decodes patches of L3's codings and of the published format with
// the AVX2 and BMI2 instructions of x86 processors, in C, several times faster
// than the plain Go decoder of package l3, whose twin it is: it gives the same
// samples or says that it has not decoded a patch, and knows of no errors.
// Whatever the bytes of a file are, nothing outside the file is read and nothing
// outside a patch's pixels is written.
//
// It knows nothing of heads, tables and kinds of patches, and keeps no memory
// between calls. Programs built without cgo or for other processors have it, too,
// but there Available is false.
//
// Of the fast codings, fast.h is the decoder and reads top-down from its end;
// residuals.h, predict.h and pixels.h are its three steps, checksum.h the CRC-32C
// of what it reads and writes, vector.h what all of them share. All are written
// once for both sample sizes: fast8.c and fast16.c differ in LANE_BITS.
package avx2

// MaxEdge is the largest width and height of a patch, in pixels.
const MaxEdge = 128

// EncodedEdge is the largest width and height of a patch that is encoded.
const EncodedEdge = 64

// A Patch says where a coded patch is and where its pixels belong. It is laid
// out as struct l3_patch in avx2.h.
type Patch struct {
	Start, End    int64  // of the patch in the file, in bytes
	At            int64  // of its first pixel in the image's samples, in bytes
	Width, Height int32  // pixels
	Checksum      uint32 // CRC-32C of the patch; not every coding checks it
	_             uint32
}

// RowSums are the states of CRC-32C, without the inversions at its beginning and
// end, of rows of pixels: from the left edge of an image to the right edge of the
// last patch. All patches of a row of patches move them on, in their order, and
// the first finds zeros.
type RowSums [MaxEdge]uint32

// PublishedEdge is the width and height of the patches that DecodePublished
// takes, in pixels.
const PublishedEdge = 64

// A PublishedPatch is a Patch of the published format, which has the parts of a
// patch, its channels R, G and B, in three places.
type PublishedPatch struct {
	Start, End [3]int64
	At         int64
}

// An Image is the layout of an image's samples: rows of interleaved channels,
// 16-bit samples little-endian, without gaps.
type Image struct {
	Pix      []byte
	RowBytes int
	Channels int // 1 to 4
}
