package avx2

// LabelsMaxEdge is the largest width and height of a patch that DecodeLabels
// takes, in pixels.
const LabelsMaxEdge = 256

// Sizes of what a Labels refers to.
const (
	LabelContexts = 12 * 2 * 256
	LabelTables   = 48
	LabelBounds   = 3
)

// A Labels is what the patches of a label map have in common.
type Labels struct {
	TableOf     *[LabelContexts]uint8            // table of each context
	Tables      [LabelTables][LabelBounds]uint16 // where the slots of tokens 1 to 3 begin, of 4,096
	Palette     [256]uint8                       // labels that may be coded raw
	PaletteSize int                              // how many these are
	RawBits     int                              // bits of such a label's place in the palette, 0 to 8
	LogStreams  int                              // 0 to 5
}

// holds reports whether l is what the C code relies on.
func (l *Labels) holds() bool {
	return l.TableOf != nil && l.PaletteSize >= 1 && l.PaletteSize <= len(l.Palette) &&
		l.RawBits >= 0 && l.RawBits <= 8 && l.LogStreams >= 0 && l.LogStreams <= 5
}

// holdsPatch reports whether p lies within the file and the image m and is small
// enough.
func (l *Labels) holdsPatch(m Image, p *Patch, fileBytes int) bool {
	if m.Channels != 1 || m.RowBytes < 1 || p.Start < 0 || p.Start > p.End || p.End > int64(fileBytes) ||
		p.Width < 1 || p.Width > LabelsMaxEdge || p.Height < 1 || p.Height > LabelsMaxEdge {
		return false
	}
	last := int64(p.Height-1)*int64(m.RowBytes) + int64(p.Width)
	return p.At >= 0 && p.At <= int64(len(m.Pix))-last
}
