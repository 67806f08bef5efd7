package l3

import "prismfs/l3/internal/avx2"

// takes reports whether vector code is for a patch of this size.
func (p *dense16Decoder) takes(r region) bool {
	return r.width <= avx2.Dense16MaxEdge && r.height <= avx2.Dense16MaxEdge
}

// decodeRun decodes patches by vector code until one of them is bad, or not for
// vector code, and returns how many it has decoded.
func (p *dense16Decoder) decodeRun(img avx2.Image, file []byte, run []avx2.Patch) int {
	d := avx2.Dense16{
		Slots: p.set.slots, Tables: p.set.contexts, LogStreams: p.logStreams, Hole: p.hole, Flip: p.flip,
	}
	if p.ranks != nil {
		d.Ranks, d.RankCount = p.ranks.values[:], p.ranks.count
	}
	return avx2.DecodeDense16(img, &d, file, run)
}
