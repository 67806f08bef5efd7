package l3

import (
	"os"

	"prismfs/l3/internal/avx2"
)

// simdVariable is the environment variable that turns vector instructions off
// for a whole program.
const simdVariable = "PRISMFS_SIMD"

// useSIMD is whether decoders use vector instructions if nothing else is asked
// for.
var useSIMD = avx2.Available() && os.Getenv(simdVariable) != "off"

// A DecoderOption changes how a Decoder works, never what it returns.
type DecoderOption func(*Decoder)

// WithoutSIMD makes a Decoder that runs the plain Go code alone.
func WithoutSIMD() DecoderOption { return func(d *Decoder) { d.simd = false } }

// Backend names what this Decoder decodes with: "avx2" if it has vector
// instructions for some codings, else "go".
func (d *Decoder) Backend() string {
	if d.simd {
		return "avx2"
	}
	return "go"
}

// runPatches is the largest number of patches that are decoded by one call of
// vector code: enough that the call costs nothing, few enough that encoded
// patches, which have just been read for their checksums, are still in the
// processor's second cache (some 6 KB a patch of a photograph).
const runPatches = 32

// decodePublishedSIMD decodes a published file by vector code and reports
// whether it could: the patches have the usual edge and nothing is wrong.
func (d *Decoder) decodePublishedSIMD(dst, file []byte, h publishedHeader) bool {
	if !d.simd || h.edge != avx2.PublishedEdge {
		return false
	}
	img := avx2.Image{Pix: dst, RowBytes: h.shape.RowBytes(), Channels: publishedChannels}
	g := newGrid(h.shape, minLogEdge)
	next := h.channelStarts(file)
	for first := 0; first < g.patches(); first += runPatches {
		run := d.published.run[:min(runPatches, g.patches()-first)]
		for k := range run {
			p := &run[k]
			p.Start = next
			for c := range next {
				next[c] += int64(h.patchBytes(file, c, first+k))
			}
			p.End, p.At = next, int64(g.region(first+k).start(0, h.shape))
		}
		if avx2.DecodePublished(img, file, run) != len(run) {
			return false
		}
	}
	return true
}

// A patchRun is a run of patches that wait for vector code. Their checksums
// have been checked.
type patchRun struct {
	n       int
	indexes [runPatches]int
	patches [runPatches]avx2.Patch
}

// takes reports whether vector code takes a patch.
func (d *Decoder) takes(e tableEntry, r region) bool {
	return d.simd && e.kind == kindCoded && d.patches.d == &depth8 &&
		r.width <= avx2.MaxEdge && r.height <= avx2.MaxEdge
}

// enqueue appends a patch to the run, which has room for it.
func (d *Decoder) enqueue(index, at int, e tableEntry, r region) {
	s, q := d.patches.shape, &d.run
	q.indexes[q.n] = index
	q.patches[q.n] = avx2.Patch{
		Start: int64(at), End: int64(at + e.length),
		At:    int64(r.start(0, s)),
		Width: int32(r.width), Height: int32(r.height),
	}
	q.n++
}

// flush decodes the run. What vector code leaves is decoded by the plain
// decoder, which knows what is wrong with it.
func (d *Decoder) flush(dst, file []byte, g grid) error {
	s, q := d.patches.shape, &d.run
	img := avx2.Image{Pix: dst, RowBytes: s.RowBytes(), Channels: s.Channels}
	for i := 0; i < q.n; i++ {
		i += avx2.Decode(img, file, q.patches[i:q.n])
		if i == q.n {
			break
		}
		p := &q.patches[i]
		if err := d.patches.decode(dst, file, int(p.Start), int(p.End), g.region(q.indexes[i])); err != nil {
			return patchError(q.indexes[i], err)
		}
	}
	q.n = 0
	return nil
}
