// Package pack turns folders of images into folders of L3 files or of PCR records
// and back, and looks into what is packed.
//
// Pack and PackPCR convert an ImageFolder-like tree, Unpack restores images from
// it, Inspect says what a file or tree is, Verify decodes everything and checks
// every checksum, MeasureQuality says what the fidelities of records are worth.
// What Pack, PackPCR and Unpack promise:
//
//   - The source is never written to. A destination that is the source, lies in
//     it or holds it is refused, and symbolic links inside the destination
//     cannot lead a write out of it.
//   - Every image that is written has been decoded again, and its pixels
//     compared with the source's, before it takes its name.
//   - An output appears whole under its name or not at all. A run that was
//     ended by a signal leaves no partial files. What a killed run left is
//     cleared away by the next, which goes on where the former stopped. From the
//     beginning of a run until one is finished, however they end, the file Marker
//     stands in the destination, and Verify, Inspect and Unpack say so.
//   - Nothing is overwritten or taken away but older outputs of the same source,
//     which are counted (Unpack overwrites other files when told to). An image
//     has one output at a time, packed or as it is.
//   - Every file of the source is packed, passed through or refused with its
//     reason, and Summary counts each exactly once.
//   - Memory is bounded by the number of jobs times one image, of PackPCR by one
//     record besides, and an image's size is checked before anything is allocated
//     for it.
//
// Of records, the index comes last: as long as it is not there, the dataset is
// not finished, and while records change there is none. An image is in one record
// at most at any time, whatever options earlier runs had. The images that are in
// no JPEG are encoded with a loss, which the summary says.
//
// What a file is, is decided by its content; a suffix only tells that a file
// without image content was meant to be an image, which is then refused rather
// than passed on to a loader that would stumble over it. Hidden files and
// folders are treated as any other, because ImageFolder sees them too. Names
// are bytes, not text. The package knows nothing of FUSE.
package pack
