package l3

import "prismfs/l3/internal/avx2"

// takes reports whether vector code is for a patch of this size: all of them.
func (p *labelsDecoder) takes(region) bool { return true }

// decodeRun decodes patches by vector code until one of them is bad, and returns
// how many it has decoded.
func (p *labelsDecoder) decodeRun(img avx2.Image, file []byte, run []avx2.Patch) int {
	return avx2.DecodeLabels(img, &p.vector, file, run)
}

// setVector tells the vector code of a file's model.
func (p *labelsDecoder) setVector(logStreams int) {
	v := &p.vector
	v.TableOf, v.Palette, v.LogStreams = p.tableOf, p.palette, logStreams
	v.PaletteSize, v.RawBits = p.paletteSize, int(p.rawBits)
	for i, bounds := range p.tables {
		v.Tables[i] = bounds
	}
}
