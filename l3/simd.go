package l3

import (
	"hash/crc32"
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
// patches, which for most codings have just been read for their checksums, are
// still in the processor's second cache (some 6 KB a patch of a photograph).
const runPatches = 32

// decodePublishedSIMD decodes a published file by vector code and reports
// whether it could: the patches have the usual edge and nothing is wrong.
func (d *Decoder) decodePublishedSIMD(dst, file []byte, h publishedHeader) bool {
	return d.decodePublishedRun(dst, file, h, 0, int(h.patches()), h.channelStarts(file))
}

// decodePublishedRun does so for the patches from first to end, without the
// latter; next is where the first begins in each channel.
func (d *Decoder) decodePublishedRun(dst, file []byte, h publishedHeader, first, end int, next [publishedChannels]int64) bool {
	if !d.simd || h.edge != avx2.PublishedEdge {
		return false
	}
	img := avx2.Image{Pix: dst, RowBytes: h.shape.RowBytes(), Channels: publishedChannels}
	for ; first < end; first += runPatches {
		run := d.published.run[:min(runPatches, end-first)]
		for k := range run {
			p := &run[k]
			p.Start = next
			for c := range next {
				next[c] += int64(h.patchBytes(file, c, first+k))
			}
			p.End, p.At = next, int64(h.region(first+k).start(0, h.shape))
		}
		if avx2.DecodePublished(img, file, run) != len(run) {
			return false
		}
	}
	return true
}

// A patchRun is a run of patches of one row of patches that wait for vector code.
type patchRun struct {
	n       int
	indexes [runPatches]int
	patches [runPatches]avx2.Patch

	// sums are those of the pixels of the patches of this row so far, as long
	// as summed is true.
	sums   avx2.RowSums
	summed bool
}

// A vectorCoding is a patchCoding for which there is vector code.
type vectorCoding interface {
	patchCoding

	// takes reports whether vector code is for a patch of this size.
	takes(r region) bool

	// decodeRun decodes patches one after another until one of them is bad, or
	// is not for vector code, and returns how many it has decoded.
	decodeRun(img avx2.Image, file []byte, run []avx2.Patch) int
}

// A summingCoding is a vectorCoding whose vector code checks the checksums of
// patches, and sums the pixels, while they are in the processor's first cache.
type summingCoding interface {
	vectorCoding

	// decodeSumming is decodeRun that moves on the sums of the rows as well.
	decodeSumming(img avx2.Image, file []byte, run []avx2.Patch, sums *avx2.RowSums) int
}

func (p *patchDecoder) takes(region) bool { return true }

func (p *patchDecoder) decodeRun(img avx2.Image, file []byte, run []avx2.Patch) int {
	return p.decodeSumming(img, file, run, new(avx2.RowSums))
}

func (p *patchDecoder) decodeSumming(img avx2.Image, file []byte, run []avx2.Patch, sums *avx2.RowSums) int {
	if p.d == &depth8 {
		return avx2.Decode8(img, file, run, sums)
	}
	if p.ranks == nil {
		return avx2.Decode16(img, file, run, sums, nil, 0, p.flip)
	}
	return avx2.Decode16(img, file, run, sums, &p.ranks.values, p.ranks.count, p.flip)
}

// startRow prepares for a row of patches.
func (d *Decoder) startRow() {
	d.run.n, d.run.summed = 0, d.summing != nil
	clear(d.run.sums[:])
}

// appendBand returns the checksum of what has the checksum sum, followed by the
// pixels of the row of patches that has just been decoded.
func (d *Decoder) appendBand(sum uint32, dst []byte, g grid, row int) uint32 {
	band := g.band(row)
	if d.run.summed {
		return avx2.AppendRows(sum, &d.run.sums, band.height, d.shape.RowBytes())
	}
	// Rows of pixels that have just been written are still in the processor's
	// cache, the whole image may not be.
	return crc32.Update(sum, castagnoli, dst[band.start(0, d.shape):band.start(band.height, d.shape)])
}

// takes reports whether vector code takes a patch.
func (d *Decoder) takes(e tableEntry, r region) bool {
	return d.vector != nil && e.kind == kindCoded && d.vector.takes(r)
}

// enqueue appends a patch to the run, which has room for it.
func (d *Decoder) enqueue(index, at int, e tableEntry, r region) {
	s, q := d.shape, &d.run
	q.indexes[q.n] = index
	q.patches[q.n] = avx2.Patch{
		Start: int64(at), End: int64(at + e.length),
		At:    int64(r.start(0, s)),
		Width: int32(r.width), Height: int32(r.height),
		Checksum: e.crc,
	}
	q.n++
}

// flush decodes the run. What vector code leaves is decoded by the plain
// decoder, which knows what is wrong with it.
func (d *Decoder) flush(dst, file []byte, g grid) error {
	s, q := d.shape, &d.run
	img := avx2.Image{Pix: dst, RowBytes: s.RowBytes(), Channels: s.Channels}
	for i := 0; i < q.n; i++ {
		if d.summing != nil {
			i += d.summing.decodeSumming(img, file, q.patches[i:q.n], &q.sums)
		} else {
			i += d.vector.decodeRun(img, file, q.patches[i:q.n])
		}
		if i == q.n {
			break
		}
		q.summed = false
		if err := d.decodeLeft(dst, file, &q.patches[i], g.region(q.indexes[i])); err != nil {
			return patchError(q.indexes[i], err)
		}
	}
	q.n = 0
	return nil
}

// decodeLeft decodes a patch that vector code has left.
func (d *Decoder) decodeLeft(dst, file []byte, p *avx2.Patch, r region) error {
	if d.summing != nil {
		if err := checkPatch(file[p.Start:p.End], p.Checksum); err != nil {
			return err
		}
	}
	return d.coding.decode(dst, file, int(p.Start), int(p.End), r)
}

// checkPatch checks the checksum of an encoded patch.
func checkPatch(b []byte, want uint32) error {
	if got := checksum(b); got != want {
		return corrupt("checksum is %08x, not %08x", got, want)
	}
	return nil
}
