package pcr

import (
	"errors"
	"fmt"
)

// SplitScans cuts a JPEG after each scan: the element g holds what lies between
// the end of scan g and that of scan g+1 (from 0), so that tables stand with
// the scan that follows them. What stands between the last scan and EOI is kept
// with that scan; EOI and what follows it are left out. A file without scan or
// without EOI is an error that wraps ErrImage. The elements are parts of jpeg.
func SplitScans(jpeg []byte) ([][]byte, error) {
	if len(jpeg) < 2 || jpeg[0] != 0xff || jpeg[1] != markerSOI {
		return nil, fmt.Errorf("%w: no JPEG", ErrImage)
	}
	var ends []int
	for at := 0; ; {
		s, err := findScan(jpeg[at:])
		if errors.Is(err, errNoScan) && len(ends) > 0 {
			ends[len(ends)-1] += s.end
			return cut(jpeg, ends), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: scan %d: %w", ErrImage, len(ends)+1, err)
		}
		if s.next == 0 {
			return nil, fmt.Errorf("%w: it ends without EOI, in scan %d", ErrImage, len(ends)+1)
		}
		if len(ends) == MaxLevels {
			return nil, fmt.Errorf("%w: more than %d scans", ErrImage, MaxLevels)
		}
		at += s.end
		ends = append(ends, at)
	}
}

// cut returns the parts of b up to each of the ends.
func cut(b []byte, ends []int) [][]byte {
	parts := make([][]byte, len(ends))
	from := 0
	for i, end := range ends {
		parts[i] = b[from:end:end]
		from = end
	}
	return parts
}
