// Package kernels holds the kernels that decode L3 on a GPU: their sources, the
// PTX that they are compiled to, and the layout of what they are given.
//
// l3.cu is the list of the kernels; each header beside it is one coding. A kernel
// takes a batch of patches of any images, a warp a patch, and says of each patch
// whether it is good. simt.h is all that they need of a machine, so that the same
// sources run on a GPU and in package cudasim.
//
// What is promised: a patch comes out as package l3 decodes it, byte for byte, or
// has a status other than StatusOK, exactly if l3 refuses it; whatever the encoded
// bytes are, nothing is read or written outside the patch's own bytes (rounded to
// whole words) and its own pixels. Offsets in the descriptors are the caller's, who
// has parsed the file: kernels check that patches lie within the buffers, but
// not that images and tables do.
//
// What is not here: checksums of samples, which whoever has the samples computes;
// raw images; drivers, memory and streams.
//
// `go generate ./gpudecode/kernels` compiles l3.ptx again, which is needed after
// every change of a source; a test compares. docs/gpu-kernels.md says what the
// kernels cost.
package kernels

import _ "embed" // the PTX

//go:generate ./compile

// PTX is the module with all kernels, for devices of compute capability 7.0 and
// newer.
//
//go:embed l3.ptx
var PTX string
