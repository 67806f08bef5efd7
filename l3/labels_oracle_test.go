package l3

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"prismfs/raster"
)

// A slowLabels is what the patches of a label map have in common.
type slowLabels struct {
	tableOf []byte
	bounds  [][3]int
	palette []int
	rawBits int
	lanes   int
}

// slowLabelsModel reads table set 0 and, if there is one, the section of tables.
func slowLabelsModel(t []byte, logStreams int, section []byte) *slowLabels {
	m := &slowLabels{tableOf: t[:6144], lanes: 1 << logStreams, rawBits: 8}
	for i := range 48 {
		var bounds [3]int
		for k := range bounds {
			bounds[k] = int(binary.LittleEndian.Uint16(t[6144+6*i+2*k:]))
		}
		m.bounds = append(m.bounds, bounds)
	}
	for label := range 256 {
		m.palette = append(m.palette, label)
	}
	if section == nil {
		return m
	}
	runs := int(section[1])
	if runs > 0 {
		m.palette = nil
	}
	for i := range runs {
		for label := int(section[2+2*i]); label <= int(section[3+2*i]); label++ {
			m.palette = append(m.palette, label)
		}
	}
	for m.rawBits = 0; 1<<m.rawBits < len(m.palette); m.rawBits++ {
	}
	rest := &slowBits{b: section[2+2*runs:]}
	var changed []int
	for i := range 48 {
		if rest.take(1) == 1 {
			changed = append(changed, i)
		}
	}
	for _, i := range changed {
		m.bounds[i] = [3]int{rest.take(12), rest.take(12), rest.take(12)}
	}
	return m
}

// slowLabelsPatch decodes a coded patch.
func slowLabelsPatch(b []byte, width, height int, m *slowLabels) [][]int {
	exceptions := int(binary.LittleEndian.Uint16(b))
	at := (3 + 3*exceptions + 1) / 2 * 2
	states := make([]uint32, m.lanes)
	for i := range states {
		states[i] = binary.LittleEndian.Uint32(b[at:])
		at += 4
	}
	renormalise := func(lane int) {
		if states[lane] < 1<<16 {
			states[lane] = states[lane]<<16 | uint32(binary.LittleEndian.Uint16(b[at:]))
			at += 2
		}
	}
	labels := make([][]int, height)
	for y := range labels {
		labels[y] = make([]int, width)
	}
	labels[0][0] = int(b[2])
	exception := 0
	for step := 128; step >= 1; step /= 2 {
		for kind := range 3 {
			count := 0
			firstY, firstX := []int{step, step, 0}[kind], []int{step, 0, step}[kind]
			for y := firstY; y < height; y += 2 * step {
				for x := firstX; x < width; x += 2 * step {
					n := slowNeighbours(labels, y, x, step, kind)
					if step <= 4 && n[0] == n[1] && n[0] == n[2] && n[0] == n[3] {
						labels[y][x] = n[0]
						continue
					}
					lane := count % m.lanes
					count++
					labels[y][x] = m.pixel(states, lane, n, step, kind, renormalise)
				}
			}
			for ; exception < exceptions; exception++ {
				e := b[3+3*exception:]
				y, x := int(e[0]), int(e[1])
				if y%step != 0 || x%step != 0 || y%(2*step) != firstY || x%(2*step) != firstX {
					break
				}
				labels[y][x] = int(e[2])
			}
		}
	}
	return labels
}

// slowNeighbours returns the eight neighbours of a pixel.
func slowNeighbours(labels [][]int, y, x, step, kind int) (n [8]int) {
	places := [3][8][2]int{
		{{-1, -1}, {-1, 1}, {1, -1}, {1, 1}, {-1, -3}, {-1, 3}, {1, -3}, {1, 3}},
		{{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -2}, {-1, 2}, {1, -2}, {1, 2}},
		{{0, -1}, {0, 1}, {-1, 0}, {1, 0}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}},
	}
	inside := func(v, size int) int {
		if v < 0 {
			v += 2 * step
		}
		for v >= size {
			v -= 2 * step
		}
		return v
	}
	for i, place := range places[kind] {
		n[i] = n[0]
		ny, nx := inside(y+place[0]*step, len(labels)), inside(x+place[1]*step, len(labels[0]))
		if ny >= 0 && nx >= 0 {
			n[i] = labels[ny][nx]
		}
	}
	return n
}

// pixel decodes a coded pixel.
func (m *slowLabels) pixel(states []uint32, lane int, n [8]int, step, kind int, renormalise func(int)) int {
	a := n[0]
	b, c := a, a
	for _, v := range slices.Backward(n[:]) {
		if v != a {
			b = v
		}
	}
	for _, v := range slices.Backward(n[:]) {
		if v != a && v != b {
			c = v
		}
	}
	weight := func(label int) (sum int) {
		for i, v := range n {
			if v == label {
				sum += []int{3, 1}[i/4]
			}
		}
		return sum
	}
	major, minor := a, b
	if weight(b) > weight(a) {
		major, minor = b, a
	}
	context := []int{3, 2, 1, 0}[min(3, max(0, 3-bits.TrailingZeros(uint(step))))]*3 + kind
	context *= 512
	for i, v := range n {
		if v == major {
			context += 1 << i
		}
	}
	if c != a {
		context += 256
	}
	bounds := m.bounds[m.tableOf[context]]
	x := int(states[lane])
	slot, token := x%4096, 0
	for token < 3 && slot >= bounds[token] {
		token++
	}
	first, end := 0, 4096
	if token > 0 {
		first = bounds[token-1]
	}
	if token < 3 {
		end = bounds[token]
	}
	states[lane] = uint32((end-first)*(x/4096) + slot - first)
	renormalise(lane)
	if token < 3 {
		return []int{major, minor, c}[token]
	}
	rank := int(states[lane]) % (1 << m.rawBits)
	states[lane] >>= m.rawBits
	renormalise(lane)
	return m.palette[rank]
}

// A labelForm is how a file of labels is made.
type labelForm struct {
	logEdge, logStreams int
	section             []byte // of tables, nil for the built-in set
}

// randomLabelForm returns any form, with a palette of a power of two of labels, so
// that all ranks are good.
func randomLabelForm(rng *rand.Rand) labelForm {
	f := labelForm{logEdge: minLabelsLogEdge + rng.IntN(3), logStreams: rng.IntN(maxLogStreams + 1)}
	if rng.IntN(3) == 0 {
		return f
	}
	m := new(labelModel)
	m.setBase()
	var occurs [256]bool
	for range 1 << rng.IntN(9) {
		for label := rng.IntN(256); ; label = (label + 1) % 256 {
			if !occurs[label] {
				occurs[label] = true
				break
			}
		}
	}
	m.setPalette(&occurs)
	var changed [labelTableCount]bool
	for i := range changed {
		if changed[i] = rng.IntN(2) == 0; changed[i] {
			var counts [labelTokens]uint32
			for token := range counts {
				counts[token] = uint32(rng.IntN(1 << rng.IntN(20)))
			}
			m.tables[i] = newLabelTable(&counts)
		}
	}
	f.section = m.appendTo(nil, &changed)
	return f
}

// file returns a file whose coded patches are the given bytes.
func (f labelForm) file(t testing.TB, s raster.Shape, patches [][]byte) []byte {
	t.Helper()
	d := &draft{coding: Labels, logEdge: f.logEdge, logStreams: f.logStreams}
	if f.section != nil {
		d.tableSet = tableSetOwn
		d.sections = appendSection(nil, sectionTables, sectionCritical, f.section)
	}
	return assembleCoded(t, d, s, patches)
}

// decoder returns the plain decoder.
func (f labelForm) decoder(t testing.TB, s raster.Shape) *labelsDecoder {
	t.Helper()
	h := header{shape: s, coding: Labels, logEdge: f.logEdge, logStreams: f.logStreams}
	var sections []byte
	if f.section != nil {
		h.tableSet = tableSetOwn
		sections = appendSection(nil, sectionTables, sectionCritical, f.section)
	}
	p := new(labelsDecoder)
	if err := p.reset(&h, sections); err != nil {
		t.Fatal(err)
	}
	return p
}

// randomLabelsPatch returns a patch of random exceptions, states and words, as
// long as its pixels make it.
func randomLabelsPatch(t testing.TB, rng *rand.Rand, p *labelsDecoder, r region) []byte {
	t.Helper()
	count := rng.IntN(12) * rng.IntN(2)
	var places [][2]uint8
	for range count {
		y, x := uint8(rng.IntN(r.height)), uint8(rng.IntN(r.width))
		if y|x != 0 {
			places = append(places, [2]uint8{y, x})
		}
	}
	slices.SortFunc(places, func(a, b [2]uint8) int { return phaseOf(a[0], a[1]) - phaseOf(b[0], b[1]) })
	patch := binary.LittleEndian.AppendUint16(nil, uint16(len(places)))
	patch = append(patch, byte(rng.Uint32()))
	for _, place := range places {
		patch = append(patch, place[0], place[1], byte(rng.Uint32()))
	}
	start := len(patch)
	patch = append(patch, make([]byte, 4*maxLanes+8+4*r.width*r.height)...)
	for i := range patch[start:] {
		patch[start+i] = byte(rng.Uint32())
	}
	left, err := p.decodeLabels(patch[:len(patch)&^1], r)
	if err != nil {
		t.Fatal(err)
	}
	return patch[:padded(len(patch)&^1-left)]
}

// randomLabelsPatches returns patches for a whole image.
func randomLabelsPatches(t testing.TB, rng *rand.Rand, f labelForm, s raster.Shape) [][]byte {
	t.Helper()
	p, g := f.decoder(t, s), newGrid(s, f.logEdge)
	patches := make([][]byte, g.patches())
	for k := range patches {
		patches[k] = randomLabelsPatch(t, rng, p, g.region(k))
	}
	return patches
}

// randomLabelsFile returns a file of random patches and its samples.
func randomLabelsFile(t testing.TB, rng *rand.Rand, f labelForm, s raster.Shape) (file, pix []byte) {
	t.Helper()
	file = f.file(t, s, randomLabelsPatches(t, rng, f, s))
	pix, err := decodeRepaired(t, file, s, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return repairSamples(file, pix), pix
}

// checkSlowLabels decodes the patches of a file of labels that are all coded by
// the specification.
func checkSlowLabels(t testing.TB, f labelForm, s raster.Shape, patches [][]byte, pix []byte) {
	t.Helper()
	m, g := slowLabelsModel(labelSet0Data, f.logStreams, f.section), newGrid(s, f.logEdge)
	for k, patch := range patches {
		r := g.region(k)
		labels := slowLabelsPatch(patch, r.width, r.height, m)
		for y := range r.height {
			for x, label := range r.row(pix, y, s) {
				if int(label) != labels[y][x] {
					t.Fatalf("%v, edge 2^%d, patch %d, row %d, column %d: %d, by the specification %d",
						s, f.logEdge, k, y, x, label, labels[y][x])
				}
			}
		}
	}
}

// TestLabelsAgreeWithTheSpecification decodes random patches of all sizes.
func TestLabelsAgreeWithTheSpecification(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	for i := range 110 {
		s := shapeOf(1+rng.IntN(80), 1+i, 1, raster.Uint8)
		if i%10 == 9 {
			s.Height, s.Width = 1+rng.IntN(300), 1+rng.IntN(300)
		}
		f := randomLabelForm(rng)
		patches := randomLabelsPatches(t, rng, f, s)
		pix, err := decodeRepaired(t, f.file(t, s, patches), s, DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		checkSlowLabels(t, f, s, patches, pix)
	}
}

// TestLabelsSlowFile decodes files that the encoder has made by the specification,
// kinds of patches included.
func TestLabelsSlowFile(t *testing.T) {
	for i, p := range labelPictures {
		img := p.draw(shapeOf(70+i*40, 300-i*30, 1, raster.Uint8))
		file := labelsFile(t, img, labelForm{logEdge: minLabelsLogEdge + i%3, logStreams: i % 4}, 1+i%3)
		if pix := slowDecode(file); !bytes.Equal(pix, img.Pix) {
			t.Errorf("%s: by the specification, sample %d differs", p.name, firstDifference(pix, img.Pix))
		}
	}
}
