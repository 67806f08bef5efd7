// Package pcr reads and writes Progressive Compressed Records: files that hold
// many progressive JPEGs, scan by scan, so that a prefix of the file has all of
// its images at a lower fidelity. docs/format-pcr.md describes them byte by
// byte.
//
// A record is its metadata and then L scan groups. Group g holds, for every
// image, the bytes of its scan g with the tables that the scan needs. An image
// at fidelity k is its bytes of the groups 1 to k and an EOI marker (AppendEOI).
// A dataset has an index, which says how long the parts of each record are.
//
// To read an image: ParseIndexPB or ParseIndexSQLite (or RebuildIndexEntry
// where there is no index), then ParseMetadata of the record's first part, then
// for each group the place of the image's bytes in it: from the Extension that
// this package writes, from Index.FullSizes, or by WalkGroup (versions 0, 1 and
// 100), ParseGroup or a Splitter (version 2). To write records: SplitScans,
// AppendRecord and AppendIndex.
//
// Everything that is read may be hostile: sizes are checked before anything is
// allocated for them, no bytes make the package panic, and pickles are data,
// of which a few patterns are understood and nothing is ever called. Offsets
// are 64 bits wide. Errors wrap the sentinels of this package.
//
// The package knows bytes only: nothing of files, folders, caches or pixels.
package pcr
