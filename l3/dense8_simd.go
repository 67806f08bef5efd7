package l3

import "prismfs/l3/internal/avx2"

// A dense8Vector is what vector code needs to know of an image.
type dense8Vector struct {
	coding avx2.Dense8
}

// setTables prepares for images with these tables, whose slots are looked up where
// they are.
func (v *dense8Vector) setTables(set *tableSet) { v.coding.SetTables(set.contexts) }

func (p *dense8Decoder) takes(region) bool { return true }

func (p *dense8Decoder) decodeRun(img avx2.Image, file []byte, run []avx2.Patch) int {
	return p.decodeSumming(img, file, run, new(avx2.RowSums))
}

func (p *dense8Decoder) decodeSumming(img avx2.Image, file []byte, run []avx2.Patch, sums *avx2.RowSums) int {
	p.vector.coding.SetStreams(p.logStreams)
	return avx2.DecodeDense8(img, &p.vector.coding, (*[avx2.Dense8Slots]uint32)(p.set.slots), file, run, sums)
}
