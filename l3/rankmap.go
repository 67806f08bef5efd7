package l3

import (
	"encoding/binary"
)

// A rank map lists the values that occur in a 16-bit image. Where few do, or
// where they lie apart (a depth map, a 14-bit sensor scaled to 16 bits), their
// ranks are coded instead of them. Values of int16 images are ordered by the
// sample with its top bit inverted.
type rankMap struct {
	count  int // values that occur, 1 to 65,536
	values [1 << 16]uint16
}

// rankMemory keeps a rank map from image to image.
type rankMemory struct {
	m *rankMap // 128 KiB, made when the first image needs it
}

// parse returns the rank map among the sections, nil if there is none.
func (r *rankMemory) parse(sections []byte) (*rankMap, error) {
	data := findSection(sections, sectionRankMap)
	if data == nil {
		return nil, nil
	}
	if r.m == nil {
		r.m = new(rankMap)
	}
	return r.m, r.m.parse(data)
}

// The section begins with a byte that says which of two forms follows.
const (
	rankBitmap = 0 // 8,192 bytes: bit v&7 of byte v>>3 says whether v occurs
	rankRuns   = 1 // runs of evenly spaced values
)

const rankBitmapBytes = 1 << 16 / 8

// maxRankMapBytes is the size of the larger form: runs are written only where
// they are shorter than the bitmap.
const maxRankMapBytes = 1 + rankBitmapBytes

// set sets m from which values occur.
func (m *rankMap) set(occurs *[1 << 16]bool) {
	m.count = 0
	for v, yes := range occurs {
		if yes {
			m.values[m.count] = uint16(v)
			m.count++
		}
	}
}

// appendTo appends the shorter form of m.
func (m *rankMap) appendTo(b []byte) []byte {
	start := len(b)
	b = m.appendRuns(append(b, rankRuns))
	if len(b)-start <= maxRankMapBytes {
		return b
	}
	b = append(b[:start], rankBitmap)
	b = append(b, make([]byte, rankBitmapBytes)...)
	bitmap := b[start+1:]
	for _, v := range m.values[:m.count] {
		bitmap[v>>3] |= 1 << (v & 7)
	}
	return b
}

// appendRuns appends m as pairs of varints: a gap of at least 1 to the value
// before (which is −1 before the first), and how many values follow each other
// at that gap.
func (m *rankMap) appendRuns(b []byte) []byte {
	previous := -1
	for i := 0; i < m.count; {
		gap, run := int(m.values[i])-previous, 0
		for i < m.count && int(m.values[i])-previous == gap {
			previous = int(m.values[i])
			i++
			run++
		}
		b = binary.AppendUvarint(b, uint64(gap))
		b = binary.AppendUvarint(b, uint64(run))
	}
	return b
}

// parse sets m from a section.
func (m *rankMap) parse(b []byte) error {
	m.count = 0
	if len(b) == 0 {
		return corrupt("rank map: empty")
	}
	form, b := b[0], b[1:]
	switch form {
	case rankBitmap:
		return m.parseBitmap(b)
	case rankRuns:
		return m.parseRuns(b)
	}
	return corrupt("rank map: form %d", form)
}

func (m *rankMap) parseBitmap(b []byte) error {
	if len(b) != rankBitmapBytes {
		return corrupt("rank map: a bitmap of %d bytes", len(b))
	}
	for v := range 1 << 16 {
		if b[v>>3]>>(v&7)&1 != 0 {
			m.values[m.count] = uint16(v)
			m.count++
		}
	}
	if m.count == 0 {
		return corrupt("rank map: no values")
	}
	return nil
}

func (m *rankMap) parseRuns(b []byte) error {
	value := -1
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return corrupt("rank map: a gap breaks off")
		}
		run, k := binary.Uvarint(b[n:])
		if k <= 0 {
			return corrupt("rank map: a run breaks off")
		}
		b = b[n+k:]
		// Both are bounded before they are multiplied.
		if gap < 1 || gap > 1<<16 || run < 1 || run > 1<<16 || uint64(value+1)+gap*run > 1<<16 {
			return corrupt("rank map: %d values at a gap of %d after %d", run, gap, value)
		}
		for range run {
			value += int(gap)
			m.values[m.count] = uint16(value)
			m.count++
		}
	}
	if m.count == 0 {
		return corrupt("rank map: no values")
	}
	return nil
}
