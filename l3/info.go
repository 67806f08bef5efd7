package l3

import (
	"fmt"
	"io"

	"prismfs/raster"
)

// Coding says how the samples of a file are stored. The values are the numbers
// in a version 2 header, but for Published.
type Coding uint8

// The codings.
const (
	Raw       Coding = 0 // the samples as they are, in chunks
	Fast8     Coding = 1 // 8 bits: predicted, in groups of equal bit width
	Dense8    Coding = 2 // 8 bits: predicted, entropy coded
	Fast16    Coding = 3 // 16 bits: predicted, in groups of equal bit width
	Dense16   Coding = 4 // 16 bits: predicted, entropy coded
	Labels    Coding = 5 // 8 bits: label maps, entropy coded
	Published Coding = 255
)

// entropyCoded reports whether the coding has entropy tables and streams.
func (c Coding) entropyCoded() bool { return c == Dense8 || c == Dense16 || c == Labels }

// String returns the name of the coding for people.
func (c Coding) String() string {
	switch c {
	case Raw:
		return "raw"
	case Fast8:
		return "fast 8-bit"
	case Dense8:
		return "dense 8-bit"
	case Fast16:
		return "fast 16-bit"
	case Dense16:
		return "dense 16-bit"
	case Labels:
		return "labels"
	case Published:
		return "published"
	}
	return fmt.Sprintf("Coding(%d)", uint8(c))
}

// Metadata is what a version 2 file carries beside its samples. The zero value
// is no metadata; nothing here changes how samples are decoded.
type Metadata struct {
	Label         *int64 // index of the class, nil for none
	Class         string // name of the class
	OriginalName  string // base name of the source file, suffix included, any bytes but NUL
	SourceDecoder string // what decoded the source, such as "libjpeg-turbo 2.1.5"
	ColourProfile []byte // ICC profile of the source, not applied to the samples
}

// Info describes an L3 file without its samples.
type Info struct {
	Version         int // 1 (published) or 2
	Coding          Coding
	Shape           raster.Shape
	SignificantBits int // of a sample, 1 to 8 or 16
	PatchEdge       int // pixels; 0 for a raw image
	Patches         int // patches, or chunks of a raw image; in a published file for one channel
	HeadBytes       int64
	FileBytes       int64
	PixelCRC        uint32 // CRC-32C of the decoded samples
	HasPixelCRC     bool   // false for published files
	Meta            Metadata
}

// PrefixBytes is what ReadInfo reads first; the heads of most images fit.
const PrefixBytes = 4096

// IsL3 reports whether a file that begins with prefix is an L3 file of either
// format, going by its first four bytes. Whether its version is one that this
// package reads is for ReadInfo to say.
func IsL3(prefix []byte) bool { return hasMagic(prefix, magicPublished) || hasMagic(prefix, magicV2) }

func hasMagic(b []byte, magic string) bool {
	return len(b) >= magicSize && string(b[:magicSize]) == magic
}

// ReadInfo reads the head of an L3 file of size bytes: PrefixBytes of it at
// once, and what is missing by a second read if the head is longer. It checks
// everything that can be checked without reading patches, the file's size
// among it. In version 2, errors of damaged heads come from a checksum; a
// published file has none, and only its patch sizes can be checked.
func ReadInfo(r io.ReaderAt, size int64, lim Limits) (Info, error) {
	prefix := make([]byte, max(0, min(PrefixBytes, size)))
	if err := readAt(r, prefix, 0); err != nil {
		return Info{}, err
	}
	switch {
	case hasMagic(prefix, magicV2):
		return readInfoV2(r, prefix, size, lim)
	case hasMagic(prefix, magicPublished):
		return readInfoPublished(r, prefix, size, lim)
	}
	return Info{}, notL3(prefix)
}

func notL3(prefix []byte) error {
	if len(prefix) == 0 {
		return fmt.Errorf("%w: it is empty", ErrNotL3)
	}
	return fmt.Errorf("%w: it begins with %q", ErrNotL3, prefix[:min(magicSize, len(prefix))])
}

// readAt fills b. A file that ends early has become shorter than it was said
// to be.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF || err == nil:
		return truncated("%d bytes at offset %d, of %d expected", n, off, len(b))
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", len(b), off, err)
}

// readHead returns the first n bytes of the file, of which prefix is known.
func readHead(r io.ReaderAt, prefix []byte, n int64) ([]byte, error) {
	if n <= int64(len(prefix)) {
		return prefix[:n], nil
	}
	head := make([]byte, n)
	copy(head, prefix)
	if err := readAt(r, head[len(prefix):], int64(len(prefix))); err != nil {
		return nil, err
	}
	return head, nil
}

func readInfoV2(r io.ReaderAt, prefix []byte, size int64, lim Limits) (Info, error) {
	h, err := parseHeader(prefix, size, lim)
	if err != nil {
		return Info{}, err
	}
	head, err := readHead(r, prefix, h.headBytes)
	if err != nil {
		return Info{}, err
	}
	if err := h.checkHead(head); err != nil {
		return Info{}, err
	}
	info := h.info()
	info.Meta = parseMetadata(h.sections(head))
	return info, nil
}

func readInfoPublished(r io.ReaderAt, prefix []byte, size int64, lim Limits) (Info, error) {
	h, err := parsePublished(prefix, size, lim)
	if err != nil {
		return Info{}, err
	}
	head, err := readHead(r, prefix, h.headBytes())
	if err != nil {
		return Info{}, err
	}
	if err := h.checkTable(head, size); err != nil {
		return Info{}, err
	}
	return h.info(size), nil
}
