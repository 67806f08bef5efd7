package pcr

import (
	"bytes"
	"errors"
	"fmt"
)

// The markers of a JPEG that matter here; each follows a byte 0xff.
const (
	markerTEM  = 0x01
	markerSOF0 = 0xc0
	markerSOFF = 0xcf
	markerDHT  = 0xc4
	markerJPG  = 0xc8
	markerDAC  = 0xcc
	markerRST0 = 0xd0
	markerRST7 = 0xd7
	markerSOI  = 0xd8
	markerEOI  = 0xd9
	markerSOS  = 0xda
)

// maxComponents is what libjpeg takes.
const maxComponents = 10

// allCoefficients has a bit for each of the 64 of a block.
const allCoefficients = ^uint64(0)

// progress is how far the scans of a JPEG have come.
type progress struct {
	components []component // of the frame
}

// component is one of a frame; bit k of whole says that coefficient k (in
// zigzag order) has all of its bits.
type component struct {
	id    byte
	whole uint64
}

// complete says whether every coefficient has all of its bits, so that no
// further scan can follow.
func (p *progress) complete() bool {
	for _, c := range p.components {
		if c.whole != allCoefficients {
			return false
		}
	}
	return len(p.components) > 0
}

var (
	errNoScan = errors.New("no scan before EOI")
	errCut    = errors.New("it ends before a scan")
)

// scan is what lies up to the end of a scan's entropy-coded data.
type scan struct {
	end    int         // in the bytes that were looked at
	frame  []component // of the frame header that stands before the scan; nil: none does
	covers []byte      // identifiers of the components in the scan
	mask   uint64      // the coefficients that it ends
	begins bool        // an SOI stands first
	next   byte        // the marker that stands at end; 0: none does
}

// findScan finds the first scan in b, which begins with the markers before it.
// Lengths of segments are used, so that a picture within an APP segment is not
// looked into. An EOI before any scan is errNoScan, and end says where it is.
func findScan(b []byte) (scan, error) {
	var s scan
	for at := 0; ; {
		code, next, err := marker(b, at)
		if err != nil {
			return scan{}, err
		}
		if code == markerEOI {
			return scan{end: next - 2}, errNoScan // fill bytes are none of the marker
		}
		if standsAlone(code) {
			s.begins = s.begins || code == markerSOI && at == 0
			at = next
			continue
		}
		body, end, err := segment(b, next)
		if err != nil {
			return scan{}, err
		}
		at = end
		switch {
		case code == markerSOS:
			if err := s.header(body); err != nil {
				return scan{}, err
			}
			s.finish(b, at)
			return s, nil
		case isFrame(code):
			if s.frame, err = frame(body); err != nil {
				return scan{}, err
			}
		}
	}
}

// marker returns the code of the marker at a place, and what follows it. Any
// number of 0xff may precede it.
func marker(b []byte, at int) (code byte, next int, err error) {
	if at >= len(b) {
		return 0, 0, errCut
	}
	if b[at] != 0xff {
		return 0, 0, fmt.Errorf("0x%02x at byte %d, where a marker should be", b[at], at)
	}
	for at < len(b) && b[at] == 0xff {
		at++
	}
	if at == len(b) {
		return 0, 0, errCut
	}
	if b[at] == 0 {
		return 0, 0, fmt.Errorf("byte %d: no marker", at)
	}
	return b[at], at + 1, nil
}

// standsAlone says whether a marker has no segment.
func standsAlone(code byte) bool {
	return code == markerTEM || code >= markerRST0 && code <= markerEOI
}

// isFrame says whether a marker is one of the frame headers.
func isFrame(code byte) bool {
	return code >= markerSOF0 && code <= markerSOFF &&
		code != markerDHT && code != markerJPG && code != markerDAC
}

// segment returns the body of the segment whose length stands at a place, and
// its end.
func segment(b []byte, at int) (body []byte, end int, err error) {
	if len(b)-at < 2 {
		return nil, 0, errCut
	}
	n := int(b[at])<<8 | int(b[at+1])
	if n < 2 {
		return nil, 0, fmt.Errorf("byte %d: a segment of %d bytes", at, n)
	}
	if n > len(b)-at {
		return nil, 0, errCut
	}
	return b[at+2 : at+n], at + n, nil
}

// frame reads the components of a frame header.
func frame(body []byte) ([]component, error) {
	const fixed, each = 6, 3 // precision, height, width, number; then each component
	if len(body) < fixed {
		return nil, errors.New("a frame header without components")
	}
	n := int(body[fixed-1])
	if n < 1 || n > maxComponents || len(body) != fixed+n*each {
		return nil, fmt.Errorf("a frame header of %d components in %d bytes", n, len(body))
	}
	components := make([]component, n)
	for i := range components {
		components[i].id = body[fixed+i*each]
	}
	return components, nil
}

// header reads a scan header.
func (s *scan) header(body []byte) error {
	if len(body) < 1 {
		return errors.New("an empty scan header")
	}
	n := int(body[0])
	if n < 1 || n > 4 || len(body) != 1+2*n+3 {
		return fmt.Errorf("a scan header of %d components in %d bytes", n, len(body))
	}
	for i := range n {
		s.covers = append(s.covers, body[1+2*i])
	}
	from, to, low := body[1+2*n], body[2+2*n], body[3+2*n]&0x0f
	if from > to || to > 63 {
		return fmt.Errorf("a scan of the coefficients %d to %d", from, to)
	}
	if low == 0 {
		s.mask = allCoefficients << from & (allCoefficients >> (63 - to))
	}
	return nil
}

// finish finds the end of the entropy-coded data that begins at a place: the
// next marker, but for restarts.
func (s *scan) finish(b []byte, at int) {
	for {
		n := bytes.IndexByte(b[at:], 0xff)
		if n < 0 || at+n+1 == len(b) {
			s.end = len(b)
			return
		}
		at += n
		switch next := b[at+1]; {
		case next == 0 || next >= markerRST0 && next <= markerRST7:
			at += 2
		case next == 0xff:
			at++
		default:
			s.end, s.next = at, next
			return
		}
	}
}

// take notes a scan of the image; without a frame nothing can be said of it.
func (p *progress) take(s *scan) error {
	if s.frame != nil {
		if p.components != nil {
			return errors.New("a second frame header")
		}
		p.components = s.frame
	}
	for _, id := range s.covers {
		known := false
		for i := range p.components {
			if c := &p.components[i]; c.id == id {
				c.whole |= s.mask
				known = true
			}
		}
		if !known {
			return fmt.Errorf("a scan of component %d, which the image does not have", id)
		}
	}
	return nil
}
