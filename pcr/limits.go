package pcr

import "errors"

// What errors of the package wrap.
var (
	// ErrDamaged says that bytes contradict themselves or each other.
	ErrDamaged = errors.New("damaged PCR data")
	// ErrTooLarge says that something is over one of the limits below.
	ErrTooLarge = errors.New("PCR data over a limit")
	// ErrUnsupported says that the form is not known, or is one that cannot be
	// read with what was given.
	ErrUnsupported = errors.New("unsupported form of PCR data")
	// ErrExtension says that the extension of a record does not fit the record.
	ErrExtension = errors.New("extension that does not fit its record")
	// ErrImage says that an image cannot be stored in a record.
	ErrImage = errors.New("image that a record cannot hold")
)

// The limits. They are far above what is of use, and bound what a few lying
// bytes can cost.
const (
	// MaxLevels is the largest number of scan groups of a record. A JPEG of 64×64
	// pixels may have 32,768 scans before package jpeg refuses it.
	MaxLevels = 1 << 15
	// MaxMetadataBytes bounds the first part of a record: room for about two
	// million images with names, lengths and checksums.
	MaxMetadataBytes = 256 << 20
	// MaxRecordBytes bounds a record; sums of lengths stay far from overflow.
	MaxRecordBytes = 1 << 50
	// maxClasses bounds the classes that a record names. Those of the largest
	// public dataset are some 20,000.
	maxClasses = 1 << 20
	// maxNameBytes is what file systems allow for one name.
	maxNameBytes = 255
	// maxPathBytes bounds the name of an image with its folders.
	maxPathBytes = 4095
)
