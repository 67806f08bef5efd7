package pcr

import "fmt"

// minScanBytes is less than any scan takes: SOS, its header for one component.
const minScanBytes = 10

// Splitter finds the images' bytes in the groups of a version 2 record, at the
// markers of the JPEGs: one scan an image. It must be given the groups one
// after another, from the first. Images with fewer scans than the record has
// groups have nothing in the last ones; which they are follows from how far
// each image has come.
type Splitter struct {
	images []progress
	groups int // that were split
	broken error
}

// NewSplitter returns a Splitter for a record of n images.
func NewSplitter(n int) *Splitter { return &Splitter{images: make([]progress, max(n, 0))} }

// Next returns where the images are in the next group; images without a scan
// in it have empty spans. After an error the Splitter is of no more use.
func (s *Splitter) Next(group []byte) ([]Span, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	spans, err := s.next(group)
	if err != nil {
		s.broken = fmt.Errorf("splitting scan group %d: %w: %w", s.groups+1, ErrDamaged, err)
		return nil, s.broken
	}
	s.groups++
	return spans, nil
}

func (s *Splitter) next(group []byte) ([]Span, error) {
	scans, err := s.scans(group)
	if err != nil {
		return nil, err
	}
	var open []int // images that this group has a scan of
	for i := range s.images {
		if !s.images[i].complete() {
			open = append(open, i)
		}
	}
	if len(scans) != len(open) {
		return nil, fmt.Errorf("%d scans for %d images that lack some", len(scans), len(open))
	}
	spans := make([]Span, len(s.images))
	var off int64
	image := 0
	for i := range spans {
		spans[i].Off = off
		if image == len(open) || open[image] != i {
			continue
		}
		sc := &scans[image]
		image++
		if err := s.images[i].take(sc); err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		spans[i].Len = int64(sc.end)
		off += spans[i].Len
	}
	return spans, nil
}

// scans cuts a group behind each scan; their ends are counted from where each
// begins.
func (s *Splitter) scans(group []byte) ([]scan, error) {
	if len(group) == 0 {
		return nil, nil
	}
	scans := make([]scan, 0, min(len(s.images), len(group)/minScanBytes))
	for at := 0; at < len(group); {
		if len(scans) == len(s.images) {
			return nil, fmt.Errorf("byte %d: more than %d scans", at, len(s.images))
		}
		sc, err := findScan(group[at:])
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
		if first := s.groups == 0; sc.begins != first || (sc.frame != nil) != first {
			return nil, fmt.Errorf("byte %d: images begin in the first group, and all of them in it", at)
		}
		if sc.next == markerEOI {
			sc.end += 2 // which should not have been stored
		}
		scans = append(scans, sc)
		at += sc.end
	}
	return scans, nil
}
