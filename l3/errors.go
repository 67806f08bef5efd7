package l3

import (
	"errors"
	"fmt"
)

// The kinds of errors. Every error that this package returns about a file or
// an image wraps exactly one of the first five. ErrDestination is the caller's
// own mistake, and what an io.ReaderAt reports comes wrapped as it is.
var (
	// ErrNotL3: the bytes do not begin as an L3 file does.
	ErrNotL3 = errors.New("not an L3 file")
	// ErrTruncated: the file is shorter than it says, or lacks a part of the
	// image (a published file whose size is no multiple of its patch edge).
	ErrTruncated = errors.New("incomplete L3 file")
	// ErrCorrupt: the file contradicts itself or a checksum.
	ErrCorrupt = errors.New("corrupt L3 file")
	// ErrUnsupported: a version, coding, flag or section that this program
	// does not know, or an image that the chosen format cannot hold.
	ErrUnsupported = errors.New("unsupported by L3")
	// ErrTooLarge: over a limit.
	ErrTooLarge = errors.New("L3 limit exceeded")
	// ErrDestination: the buffer to decode into has not the image's size.
	ErrDestination = errors.New("destination of the wrong size")
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func truncated(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTruncated, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
}
