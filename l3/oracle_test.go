package l3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"prismfs/raster"
)

// This file decodes a version 2 file in the words of docs/format-l3.md, sample
// by sample and bit by bit, sharing no arithmetic with the package. The tests
// hold the package to it.

// A slowPlane is the samples of a plane of one patch; what lies outside has
// the values that the specification gives it.
type slowPlane struct {
	pairs, top int
	base       int
	rows       [][]int // of 2 × pairs columns
}

func (p *slowPlane) at(y, x int) int {
	if y < 0 {
		return p.base
	}
	return p.rows[y][x]
}

func (p *slowPlane) clamp(v int) int { return max(0, min(p.top, v)) }

func slowAvg(a, b int) int { return (a + b + 1) >> 1 }

// even returns the prediction of even column i of row y.
func (p *slowPlane) even(id, y, i int) int {
	t, tt := p.at(y-1, 2*i), p.at(y-2, 2*i)
	tr := p.at(y-1, 2*i+1)
	tl := tr
	if i > 0 {
		tl = p.at(y-1, 2*i-1)
	}
	switch id {
	case 0:
		return t
	case 1:
		return slowAvg(slowAvg(tl, tr), t)
	case 2:
		return slowAvg(tl, tr)
	case 6:
		return p.clamp(t + (t-tt)>>1)
	}
	if i == 0 {
		return t
	}
	left, t2 := p.rows[y][2*i-2], p.at(y-1, 2*i-2)
	h := (t - t2) >> 1
	switch id {
	case 3:
		return left
	case 4:
		return left + t - t2
	case 5:
		return left + h
	}
	return left + h + (h+1)>>1
}

// odd returns the prediction of odd column i of row y.
func (p *slowPlane) odd(id, y, i int) int {
	next := min(i+1, p.pairs-1)
	q := slowAvg(p.rows[y][2*i], p.rows[y][2*next])
	a := p.at(y-1, 2*i+1)
	j := slowAvg(p.at(y-1, 2*i), p.at(y-1, 2*next))
	halved := func(v int) int { // towards zero
		if v < 0 {
			return -(-v / 2)
		}
		return v / 2
	}
	switch id {
	case 0:
		return q
	case 1:
		return p.clamp(q + halved(a-j))
	case 2:
		return p.clamp(q + a - j)
	}
	return slowAvg(q, a)
}

// slowBits reads bits, least significant first.
type slowBits struct {
	b   []byte
	bit int
}

func (s *slowBits) take(n int) int {
	v := 0
	for i := range n {
		v |= int(s.b[s.bit>>3]>>(s.bit&7)&1) << i
		s.bit++
	}
	return v
}

// slowPatch decodes the planes of a coded patch.
func slowPatch(b []byte, width, height, channels, bits int) []*slowPlane {
	sampleBytes := bits / 8
	widthBits, widest := 3, 8
	if bits == 16 {
		widthBits, widest = 4, 16
	}
	pairs := (width + 1) / 2
	transform, constants := int(b[0]), int(b[1])
	planes := make([]*slowPlane, channels)
	headerBits := 0
	for i := range planes {
		p := &slowPlane{pairs: pairs, top: 1<<bits - 1, base: int(b[2+i*sampleBytes])}
		if bits == 16 {
			p.base |= int(b[3+2*i]) << 8
		}
		planes[i] = p
		if constants>>i&1 == 0 {
			headerBits += height * (3 + 2 + widthBits*((pairs+7)/8+(width/2+7)/8))
		}
	}
	headers := &slowBits{b: b[2+channels*sampleBytes:]}
	data := &slowBits{b: headers.b[(headerBits+7)/8:]}
	phase := func(idBits, count int) (id int, residuals []int) {
		id = headers.take(idBits)
		residuals = make([]int, pairs)
		for i := 0; i < count; i += 8 {
			w := headers.take(widthBits)
			if w == widest-1 {
				w = widest
			}
			for j := i; j < min(i+8, count); j++ {
				z := data.take(w)
				residuals[j] = z >> 1
				if z&1 != 0 {
					residuals[j] = -(z + 1) / 2
				}
			}
			data.bit = (data.bit + 7) &^ 7
		}
		return id, residuals
	}
	for y := range height {
		for i, p := range planes {
			row := make([]int, 2*pairs)
			p.rows = append(p.rows, row)
			if constants>>i&1 != 0 {
				for x := range row {
					row[x] = p.base
				}
				continue
			}
			id, residuals := phase(3, pairs)
			for k := range pairs {
				row[2*k] = (p.even(id, y, k) + residuals[k]) & p.top
			}
			id, residuals = phase(2, width/2)
			for k := range pairs {
				row[2*k+1] = (p.odd(id, y, k) + residuals[k]) & p.top
			}
		}
	}
	slowTransform(planes, transform, width, height, bits)
	return planes
}

// slowTransform adds the shares of planes 0 and 1 back.
func slowTransform(planes []*slowPlane, transform, width, height, bits int) {
	shares1 := [][2]int{{8, 0}, {0, 0}, {4, 0}, {6, 0}}
	shares2 := [][2]int{{8, 0}, {0, 0}, {4, 4}, {4, 0}, {6, 0}, {2, 6}, {0, 8}, {6, 2}}
	for i := 1; i < min(len(planes), 3); i++ {
		s := shares1[transform&3]
		if i == 2 {
			s = shares2[transform>>2]
		}
		for y := range height {
			for x := range width {
				sum := s[0]*planes[0].rows[y][x] + s[1]*planes[1].rows[y][x]
				offset := (s[0] + s[1]) << (bits - 4)
				planes[i].rows[y][x] = (planes[i].rows[y][x] + sum>>3 - offset) & planes[i].top
			}
		}
	}
}

// slowRanks reads a rank map section, nil standing for no section.
func slowRanks(section []byte) []int {
	if section == nil {
		return nil
	}
	var values []int
	if section[0] == 0 {
		for v := range 1 << 16 {
			if section[1+v/8]>>(v%8)&1 != 0 {
				values = append(values, v)
			}
		}
		return values
	}
	v := -1
	for b := section[1:]; len(b) > 0; {
		gap, n := binary.Uvarint(b)
		run, k := binary.Uvarint(b[n:])
		for range run {
			v += int(gap)
			values = append(values, v)
		}
		b = b[n+k:]
	}
	return values
}

// slowDecode decodes a version 2 file that is good.
func slowDecode(file []byte) []byte {
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(file[at:])) }
	width, height := u32(8), u32(12)
	channels, bits, edge := int(file[16]), int(file[17]), 1<<file[20]
	size := channels * bits / 8
	pix := make([]byte, width*height*size)
	at, table := u32(24), 48+u32(28)
	if file[7] == 0 {
		copy(pix, file[at:])
		return pix
	}
	sections := make(map[int][]byte) // by type
	for s := 48; s < table; {
		length := u32(s + 4)
		sections[int(binary.LittleEndian.Uint16(file[s:]))] = file[s+8 : s+8+length]
		s += 8 + (length+3)/4*4
	}
	ranks := slowRanks(sections[2])
	decode := func(patch []byte, w, h int) []*slowPlane { return slowPatch(patch, w, h, channels, bits) }
	if file[7] == 2 {
		tables := slowDense8Tables(int(file[21]), sections[1])
		decode = func(patch []byte, w, h int) []*slowPlane {
			planes, _ := slowDense8Patch(patch, w, h, channels, int(file[22]), tables)
			return planes
		}
	}
	if file[7] == 4 {
		hole := slowHole(sections[3])
		tables := slowDense16Tables(int(file[21]), sections[1], hole)
		decode = func(patch []byte, w, h int) []*slowPlane {
			planes, _ := slowDense16Patch(patch, w, h, channels, int(file[22]), hole, tables)
			return planes
		}
	}
	for y0 := 0; y0 < height; y0 += edge {
		for x0 := 0; x0 < width; x0 += edge {
			w, h := min(edge, width-x0), min(edge, height-y0)
			length, kind := u32(table)&^3, u32(table)&3
			table += 8
			patch := file[at : at+length]
			at += length
			var planes []*slowPlane
			if kind == 0 && file[7] == 5 {
				labels := slowLabelsPatch(patch, w, h, slowLabelsModel(labelSet0Data, int(file[22]), sections[1]))
				planes = []*slowPlane{{rows: labels}}
			} else if kind == 0 {
				planes = decode(patch, w, h)
			}
			for y := range h {
				for x := range w {
					out := pix[((y0+y)*width+x0+x)*size:][:size]
					switch kind {
					case 0:
						slowPixel(out, planes, y, x, bits, ranks, file[18]&0x80 != 0)
					case 1:
						copy(out, patch[(y*w+x)*size:])
					case 2:
						copy(out, patch)
					}
				}
			}
		}
	}
	return pix
}

func slowPixel(out []byte, planes []*slowPlane, y, x, bits int, ranks []int, signed bool) {
	channel := [][]int{{0}, {0, 1}, {1, 0, 2}, {1, 0, 2, 3}}[len(planes)-1]
	for i, p := range planes {
		v := p.rows[y][x]
		if bits == 8 {
			out[channel[i]] = byte(v)
			continue
		}
		if ranks != nil {
			v = ranks[v]
		}
		if signed {
			v ^= 0x8000
		}
		binary.LittleEndian.PutUint16(out[2*channel[i]:], uint16(v))
	}
}

// encodeEdge encodes with the patch edge 2^logEdge, with a rank map if one can
// be of use.
func encodeEdge(t testing.TB, img raster.Image, logEdge int) []byte {
	t.Helper()
	file, err := fastDraft(img, usefulRanks(img), logEdge, EncodeOptions{}).assemble(img, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDecoderAgreesWithTheSpecification(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			for i := range 36 {
				s := shapeOf(1+rng.IntN(90), 1+rng.IntN(200), 1+i%4, sampleTypes[i/4%3])
				if i < len(edges) {
					s.Width = edges[i]
				}
				img := draw(p, s)
				file := encodeEdge(t, img, minLogEdge+i/12%2)
				if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
					t.Fatalf("%v: the decoder gives other samples", s)
				}
				if pix := slowDecode(file); !bytes.Equal(pix, img.Pix) {
					t.Fatalf("%v: by the specification, sample byte %d differs", s, firstDifference(pix, img.Pix))
				}
			}
		})
	}
}

// randomPatch returns a coded patch of random predictors, widths, residuals and
// base values: any such patch means something.
func randomPatch(rng *rand.Rand, r region, channels int, d *depth) []byte {
	constants := rng.IntN(1<<channels) & rng.IntN(1<<channels)
	if channels == 1 {
		constants = 0
	}
	b := []byte{byte(rng.IntN(transformLimit(channels))), byte(constants)}
	for range preludeBytes(channels, d) - 2 {
		b = append(b, byte(rng.Uint32()))
	}
	w := bitWriter{b: b}
	total := 0
	for range r.height {
		for i := range channels {
			if b[1]>>i&1 != 0 {
				continue
			}
			for _, phase := range [][2]int{{evenIDBits, r.pairs()}, {oddIDBits, r.width / 2}} {
				w.put(rng.Uint64N(1<<phase[0]), uint(phase[0]))
				for left := phase[1]; left > 0; left -= groupSize {
					code := rng.Uint64N(1 << d.widthBits)
					w.put(code, d.widthBits)
					total += groupBytes(min(left, groupSize), int(d.width(code)))
				}
			}
		}
	}
	b = w.finish()
	for range total {
		b = append(b, byte(rng.Uint32()))
	}
	return appendPadding(b, 0)
}

// randomFile returns a file of random patches, and what it holds by the
// specification.
func randomFile(t testing.TB, rng *rand.Rand, s raster.Shape, logEdge int) (file, pix []byte) {
	t.Helper()
	f := &draft{coding: Fast8, logEdge: logEdge}
	d := &depth8
	if s.DType.Size() == 2 {
		f.coding, d = Fast16, &depth16
	}
	g := newGrid(s, logEdge)
	patches := make([][]byte, g.patches())
	for i := range patches {
		patches[i] = randomPatch(rng, g.region(i), s.Channels, d)
	}
	return goodFile(assembleCoded(t, f, s, patches))
}

// assembleCoded returns the file of a draft all of whose patches are coded, and are
// the given bytes. The checksums agree with them, but for that of the samples.
func assembleCoded(t testing.TB, f *draft, s raster.Shape, patches [][]byte) []byte {
	t.Helper()
	for _, patch := range patches {
		f.table = append(f.table, tableEntry{length: len(patch), kind: kindCoded, crc: checksum(patch)})
	}
	f.patches = patches
	file, err := f.assemble(raster.Image{Shape: s}, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// goodFile returns a file with the checksum of the samples that it has by the
// specification, and these.
func goodFile(file []byte) (repaired, pix []byte) {
	pix = slowDecode(file)
	return repairSamples(file, pix), pix
}

// TestAnyPatch holds the decoder to the specification on patches that no
// encoder would write: every transform, predictor and width, in any order.
func TestAnyPatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 13))
	for i := range 150 {
		s := shapeOf(1+rng.IntN(80), 1+rng.IntN(140), 1+i%4, sampleTypes[i/4%3])
		if i < len(edges) {
			s.Width = edges[i]
		}
		file, want := randomFile(t, rng, s, minLogEdge+i/12%2)
		if _, got := mustDecode(t, file); !bytes.Equal(got, want) {
			t.Fatalf("%v: byte %d is not what the specification says", s, firstDifference(got, want))
		}
	}
}

// TestPredictors drives every predictor over rows of any content and width,
// which an encoder that chooses the best one would rarely do.
func TestPredictors(t *testing.T) {
	depths(t, func(t *testing.T, d *depth) {
		rng := rand.New(rand.NewPCG(3, uint64(d.bits)))
		top := int(d.laneMask(1))
		for range 400 {
			pairs := 1 + rng.IntN(maxPairs)
			slow := &slowPlane{pairs: pairs, top: top}
			var rows [3]planeRow // the third is the one to predict
			narrow := rng.IntN(2) * rng.IntN(top)
			for y := range rows {
				values := make([]int, 2*pairs)
				for i := range pairs {
					k, shift := d.place(i)
					for phase, lanes := range []*laneRow{&rows[y].even, &rows[y].odd} {
						v := rng.IntN(top+1-narrow) + rng.IntN(narrow+1)
						values[2*i+phase] = v
						lanes[k] |= uint64(v) << shift
					}
				}
				slow.rows = append(slow.rows, values)
				rows[y].even.replicate(pairs, d)
			}
			checkPredictions(t, d, slow, &rows)
		}
	})
}

func checkPredictions(t *testing.T, d *depth, slow *slowPlane, rows *[3]planeRow) {
	t.Helper()
	words := d.words(slow.pairs)
	var f laneRow
	check := func(name string, i, want int) {
		t.Helper()
		k, shift := d.place(i)
		if got := int(f[k] >> shift & d.laneMask(1)); got != want&slow.top {
			t.Fatalf("%s, lane %d of %d: %d, want %d", name, i, slow.pairs, got, want&slow.top)
		}
	}
	for id := range evenPredictors {
		predictEven(&f, id, &rows[1], &rows[0], words, d)
		for i := range slow.pairs {
			want := slow.even(id, 2, i)
			if sumsLeft(id) && i > 0 {
				want -= slow.rows[2][2*i-2]
			}
			check(fmt.Sprint("even ", id), i, want)
		}
	}
	for id := range oddPredictors {
		predictOdd(&f, id, &rows[2], &rows[1], words, d)
		for i := range slow.pairs {
			check(fmt.Sprint("odd ", id), i, slow.odd(id, 2, i))
		}
	}
}
