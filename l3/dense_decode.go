package l3

import (
	"encoding/binary"

	"prismfs/raster"
)

// A denseDecoder is what the decoders of both dense codings have in common. It is
// all scratch memory and may be used for one patch after another.
type denseDecoder struct {
	rowStore
	planes     [raster.MaxChannels]densePlane
	mixes      [2]shares
	logStreams int

	set *tableSet
	own tableSet // memory of a set that stands in the file

	words  wordCursor
	states [maxLanes]uint32
	ids    [raster.MaxChannels << maxLogEdge]uint8

	sums, residual, prediction laneRow
}

// A wordCursor is where a decoder stands in the words of a patch.
type wordCursor struct {
	file []byte
	at   int
	end  int // of the patch
}

// A denseRows decodes what differs between the dense codings.
type denseRows interface {
	// decodeIDs decodes the predictors of rows of planes by so many lanes.
	decodeIDs(ids []uint8, lanes int)

	// row decodes a row of a plane, the predictors of which id has.
	row(plane, y int, r region, id int, renormalise bool)

	// storeRow writes row y of all planes. It returns false if a value is not in
	// the rank map.
	storeRow(pix []byte, y int, r region) bool
}

// open reads what precedes the states of the patch at file[start:end].
func (p *denseDecoder) open(file []byte, start, end int, r region) (densePrelude, error) {
	prelude, err := readPrelude(p.planes[:p.shape.Channels], file, start, end, r, p.d)
	if err != nil {
		return prelude, err
	}
	p.mixes = [2]shares{planeShares(prelude.transform, 1), planeShares(prelude.transform, 2)}
	p.words = wordCursor{file: file, at: prelude.end, end: end}
	return prelude, nil
}

// decodeRows decodes a patch that is open into its region of pix. Errors do not
// name the patch.
func (p *denseDecoder) decodeRows(rows denseRows, pix []byte, prelude densePrelude, r region) error {
	planeRows, c := prelude.coded*r.height, &p.words
	if planeRows > 0 {
		if err := p.begin(rows, planeRows, r); err != nil {
			return err
		}
	}
	planeRow, renormalised := 0, planeRows-prelude.freeRows
	for y := range r.height {
		for i := range p.planes[:p.shape.Channels] {
			if !p.planes[i].constant {
				rows.row(i, y, r, int(p.ids[planeRow]), planeRow < renormalised)
				planeRow++
			}
		}
		if c.at > c.end {
			return corrupt("row %d: words run out", y)
		}
		if !rows.storeRow(pix, y, r) {
			return corrupt("row %d: a value beyond the rank map", y)
		}
	}
	if planeRows > 0 && c.end-c.at > 2 {
		return corrupt("row %d: %d bytes follow the last word", r.height-1, c.end-c.at)
	}
	return nil
}

// begin reads the states of a patch and the predictors of so many rows of planes.
func (p *denseDecoder) begin(rows denseRows, planeRows int, r region) error {
	lanes, c := laneCount(p.logStreams, r.pairs()), &p.words
	if c.end-c.at < 4*lanes {
		return corrupt("%d bytes are too few for %d states", c.end-c.at, lanes)
	}
	for i := range lanes {
		p.states[i] = binary.LittleEndian.Uint32(c.file[c.at:])
		c.at += 4
	}
	rows.decodeIDs(p.ids[:planeRows], lanes)
	if c.at > c.end {
		return corrupt("words run out before row 0")
	}
	return nil
}

// setEven sets the even columns of row y of a plane from residuals, which are
// zigzagged, and their predictor.
func (p *denseDecoder) setEven(plane, y, predictor, pairs int) {
	d, words := p.d, p.d.words(pairs)
	rows, magnitudes := &p.planes[plane].rows, &p.planes[plane].magnitudes[y%3].even
	row := &rows[y%3].even
	unzigzagMagnitudes(&p.residual, magnitudes, words, d)
	predictEven(&p.prediction, predictor, &rows[(y+2)%3], &rows[(y+1)%3], words, d)
	if sumsLeft(predictor) {
		addRunning(row, &p.prediction, &p.residual, words, d)
	} else {
		addLanes(row, &p.prediction, &p.residual, words, d)
	}
	row.replicate(pairs, d)
	magnitudes.replicate(pairs, d)
}

// setOdd is setEven for the odd columns.
func (p *denseDecoder) setOdd(plane, y, predictor, pairs int) {
	d, words := p.d, p.d.words(pairs)
	rows, magnitudes := &p.planes[plane].rows, &p.planes[plane].magnitudes[y%3].odd
	row := &rows[y%3]
	unzigzagMagnitudes(&p.residual, magnitudes, words, d)
	predictOdd(&p.prediction, predictor, row, &rows[(y+2)%3], words, d)
	addLanes(&row.odd, &p.prediction, &p.residual, words, d)
	magnitudes.replicate(pairs, d)
}

// unzigzagMagnitudes replaces values by the residuals that they stand for, and
// sets magnitudes to theirs.
func unzigzagMagnitudes(values, magnitudes *laneRow, words int, d *depth) {
	for k, v := range values[:words] {
		v = unzigzag(v, d.high, d.low, d.bits)
		values[k], magnitudes[k] = v, magnitude(v, d.high, d.low, d.bits)
	}
}
