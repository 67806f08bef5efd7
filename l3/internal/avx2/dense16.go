package avx2

// Dense16MaxEdge is the largest width and height of a patch that DecodeDense16
// takes, in pixels.
const Dense16MaxEdge = 128

// Sizes of what a Dense16 refers to.
const (
	dense16Tables = 16
	dense16Slots  = dense16Tables << 10
	dense16Levels = 32
	dense16Zones  = 4
	dense16Ranks  = 1 << 16
	dense16Lanes  = 8 // of a vector of entropy coder states
)

// A Dense16 is what the patches of an image of the dense 16-bit coding have in
// common.
type Dense16 struct {
	// Slots are those of sixteen tables of 1,024, the last being that of ids; a
	// slot is value (8 bits) | raw bits (3) | offset (10) | frequency (11), as
	// package l3 has them.
	Slots []uint32

	// Tables is the table, 0 to 15, of each context: planes, even and odd
	// columns, four zones if Hole is not negative, 32 levels.
	Tables []uint8

	LogStreams int      // 0 to 5
	Hole       int      // the coded value of holes, −1 for none
	Flip       uint16   // what samples are xored with before they are coded
	Ranks      []uint16 // 65,536 values, the first RankCount by their rank; nil for none
	RankCount  int
}

// holds reports whether what d refers to is what the C code relies on, for an
// image of so many channels.
func (d *Dense16) holds(channels int) bool {
	contexts := 2 * channels * dense16Levels
	if d.Hole >= 0 {
		contexts *= dense16Zones
	}
	ranks := d.Ranks == nil && d.RankCount == 0 ||
		len(d.Ranks) == dense16Ranks && d.RankCount > 0 && d.RankCount <= dense16Ranks
	for _, table := range d.Tables {
		if table >= dense16Tables {
			return false
		}
	}
	return channels >= 1 && channels <= 4 && len(d.Slots) == dense16Slots && len(d.Tables) >= contexts && ranks &&
		d.LogStreams >= 0 && d.LogStreams <= 5 && d.Hole >= -1 && d.Hole < 1<<16
}

// holdsPatch reports whether p lies within the file and the image m, whose
// samples take two bytes each, is small enough, and has as many lanes as the C
// code can take.
func (d *Dense16) holdsPatch(m Image, p *Patch, fileBytes int) bool {
	if m.RowBytes < 1 || p.Start < 0 || p.Start > p.End || p.End > int64(fileBytes) ||
		p.Width < 1 || p.Width > Dense16MaxEdge || p.Height < 1 || p.Height > Dense16MaxEdge {
		return false
	}
	if lanes := int32(1) << d.LogStreams; lanes < dense16Lanes && lanes < (p.Width+1)/2 {
		return false
	}
	last := int64(p.Height-1)*int64(m.RowBytes) + 2*int64(p.Width)*int64(m.Channels)
	return p.At >= 0 && p.At <= int64(len(m.Pix))-last
}
