// Package l3 reads and writes L3 images: lossless, cut into patches that are
// decoded independently of each other, made to be decoded many times faster
// than PNG.
//
// Two formats are known. The published one (magic "LLL.") holds 8-bit RGB in
// whole patches, without checksums. Version 2 (magic "LLL2") is this project's
// own: 8 and 16 bits, one to four channels, any size, metadata, and checksums
// over everything. docs/format-l3.md specifies both byte by byte.
//
// Codings of version 2 differ in what they are for: the fast ones are decoded at
// gigabytes a second, the dense ones are smaller than other lossless formats,
// the labels coding is for segmentation maps. [Mode] chooses among them.
//
// The decoders in Go are the specification that faster ones are held to. Where
// the processor has AVX2 (see l3/internal/avx2) and the program was built with
// cgo, patches are decoded, and in the fast codings encoded, in C, with the same
// samples, files and errors. [WithoutSIMD] turns it off for one Decoder, the
// environment variable PRISMFS_SIMD=off for the whole program. [WithWorkers]
// makes a Decoder that decodes one image on several processors.
//
// A Decoder promises that samples come out exactly as they went in or that an
// error is returned: no file, however damaged, makes it panic, allocate more
// than its limits and the file's true size allow, or (in version 2) deliver
// wrong samples. Every error about a file wraps exactly one of [ErrNotL3],
// [ErrTruncated], [ErrCorrupt], [ErrUnsupported] and [ErrTooLarge].
//
// A program that only wants pixels needs three calls:
//
//	info, err := l3.ReadInfo(file, size, l3.DefaultLimits)
//	pix := make([]byte, info.Shape.Bytes())
//	_, err = l3.NewDecoder(l3.DefaultLimits).Decode(pix, data)
//
// The package knows nothing of other image formats, directories, caches or
// mounts, and it interprets no metadata: labels, names and colour profiles are
// carried, not used.
package l3
