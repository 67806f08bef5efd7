package l3

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"os"
	"testing"

	"prismfs/raster"
)

// This file decodes patches of the dense coding of 16 bits in the words of
// docs/format-l3.md, symbol by symbol, as dense8_oracle_test.go does for 8 bits.

// A slowStreams16 decodes values of 16 bits, some of which take two steps.
type slowStreams16 struct {
	slowStreams
}

// take takes a word if the state of a lane is small.
func (s *slowStreams16) take(lane int, renormalise bool) {
	if renormalise && s.states[lane] < 1<<16 {
		s.states[lane] = (s.states[lane]<<16 | s.word()) % (1 << 32)
	}
}

// first decodes a token and its first raw bits; rest is how many follow.
func (s *slowStreams16) first(lane, table int, renormalise bool) (value, rest int, hole bool) {
	x, f := s.states[lane], s.tables.frequencies[table]
	offset, token := x%1024, 0
	for offset >= f[token] {
		offset -= f[token]
		token++
	}
	x = (f[token]*(x>>10) + offset) % (1 << 32)
	value = token
	if hole = token == 40; hole {
		value = 0
	} else if token >= 16 {
		rawBits := 3 + (token-16)/2
		now := min(rawBits, 6)
		rest = rawBits - now
		value = (2+token%2)<<now + x%(1<<now)
		x >>= now
	}
	s.states[lane] = x
	s.take(lane, renormalise)
	return value, rest, hole
}

// second decodes the other raw bits of a value.
func (s *slowStreams16) second(lane, value, rest int, renormalise bool) int {
	value = value<<rest + s.states[lane]%(1<<rest)
	s.states[lane] >>= rest
	s.take(lane, renormalise)
	return value
}

// values decodes count values, as many as there are lanes in a step.
func (s *slowStreams16) values(count int, table func(i int) int, renormalise bool) (values []int, holes []bool) {
	lanes := len(s.states)
	for from := 0; from < count; from += lanes {
		var rests []int
		for lane := range min(lanes, count-from) {
			value, rest, hole := s.first(lane, table(from+lane), renormalise)
			values, holes, rests = append(values, value), append(holes, hole), append(rests, rest)
		}
		for lane, rest := range rests {
			if rest > 0 {
				values[from+lane] = s.second(lane, values[from+lane], rest, renormalise)
			}
		}
	}
	return values, holes
}

// slowHoles are 1 where a plane has a hole.
type slowHoles struct {
	pairs int
	rows  [][]int
}

func (h *slowHoles) at(y, i, odd int) int {
	if y < 0 {
		return 0
	}
	return h.rows[y][2*max(0, min(i, h.pairs-1))+odd]
}

func (h *slowHoles) evenZone(y, i int) int {
	t, tl, tr := h.at(y-1, i, 0), h.at(y-1, i-1, 1), h.at(y-1, i, 1)
	switch {
	case t == 0:
		return max(tl, tr)
	case tl+tr+h.at(y-1, i-1, 0)+h.at(y-1, i+1, 0) == 4:
		return 3
	}
	return 2
}

func (h *slowHoles) oddZone(y, i int) int {
	return h.at(y, i, 0) + h.at(y, i+1, 0) + h.at(y-1, i, 1)
}

func slowLevel16(sum int) int {
	if sum < 8 {
		return sum
	}
	e := bits.Len(uint(sum)) - 1
	return min(31, 8+2*(e-3)+sum>>(e-1)%2)
}

// slowDense16Patch decodes the planes of a coded patch, holes filled in, hole being
// −1 if there are none. It also returns how many bytes of the patch mean
// something.
func slowDense16Patch(b []byte, width, height, channels, logStreams, hole int, t *slowTables) ([]*slowPlane, int) {
	pairs := (width + 1) / 2
	constants, free := int(b[1]&15), int(b[1]>>4)
	planes, magnitudes, holes := make([]*slowPlane, channels), make([]*slowMagnitudes, channels), make([]*slowHoles, channels)
	coded := 0
	for i := range planes {
		constant := constants>>i&1 != 0
		planes[i] = &slowPlane{pairs: pairs, top: 65535, base: int(binary.LittleEndian.Uint16(b[2+2*i:]))}
		magnitudes[i], holes[i] = &slowMagnitudes{pairs: pairs, constant: constant}, &slowHoles{pairs: pairs}
		if !constant {
			coded++
		}
	}
	s := &slowStreams16{slowStreams{tables: t, words: b, at: 2 + 2*channels}}
	var ids []int
	if coded > 0 {
		for range min(1<<logStreams, pairs) {
			low := s.word()
			s.states = append(s.states, low|s.word()<<16)
		}
		ids, _ = s.values(coded*height, func(int) int { return 15 }, true)
	}
	for y := range height {
		for c, p := range planes {
			row, m, h := make([]int, 2*pairs), make([]int, 2*pairs), make([]int, 2*pairs)
			p.rows, magnitudes[c].rows, holes[c].rows = append(p.rows, row), append(magnitudes[c].rows, m), append(holes[c].rows, h)
			if magnitudes[c].constant {
				for x := range row {
					row[x] = p.base
				}
				continue
			}
			id := ids[0]
			ids = ids[1:]
			phase := func(odd, count int, zone func(y, i int) int, predict func(i int) int) {
				// Contexts of a phase are those before any of it is decoded.
				table := func(i int) int {
					class := 2*c + odd
					if hole >= 0 {
						class = 4*class + zone(y, i)
					}
					return t.maps[class][slowLevel16(slowContext(planes, magnitudes, c, y, i, odd == 1))]
				}
				values, marks := s.values(count, table, len(ids) >= free)
				for i := range pairs {
					r := 0
					if i < count {
						if r = values[i] / 2; values[i]%2 != 0 {
							r = -(values[i] + 1) / 2
						}
					}
					m[2*i+odd] = max(r, -r)
					row[2*i+odd] = (predict(i) + r) & 65535
				}
				for i, is := range marks {
					if is {
						h[2*i+odd] = 1
					}
				}
			}
			phase(0, pairs, holes[c].evenZone, func(i int) int { return p.even(id%8, y, i) })
			phase(1, width/2, holes[c].oddZone, func(i int) int { return p.odd(id/8, y, i) })
		}
	}
	for c, p := range planes {
		for y, row := range holes[c].rows {
			for x, is := range row {
				if is != 0 {
					p.rows[y][x] = hole
				}
			}
		}
	}
	slowTransform(planes, int(b[0]), width, height, 16)
	return planes, s.at
}

// slowHole returns the hole value of a file that has a section for it, else −1.
func slowHole(section []byte) int {
	if section == nil {
		return -1
	}
	return int(binary.LittleEndian.Uint16(section))
}

// slowDense16Tables returns the table set of a file.
func slowDense16Tables(number int, section []byte, hole int) *slowTables {
	name, classes, tokens := "tables/dense16-0.bin", 8, 40
	if hole >= 0 {
		name, classes, tokens = "tables/dense16-hole-0.bin", 32, 41
	}
	if number != 255 {
		var err error
		if section, err = os.ReadFile(name); err != nil {
			panic(err)
		}
	}
	return slowTableSet(section, classes, 32, tokens, true)
}

// A choice16 is how dense16File encodes, where an encoder would choose for itself.
type choice16 struct {
	logEdge, logStreams int
	own                 bool // tables of the image's own, however small it is
	hole                int  // value, as samples have it, or noHole
	ranks               bool
}

// dense16File returns img in the dense coding with exactly these choices.
func dense16File(t testing.TB, img raster.Image, c choice16, opt EncodeOptions) []byte {
	t.Helper()
	s := &source16{img: img, flip: signFlip(img.DType), hole: noHole}
	if c.ranks {
		var occurs [1 << 16]bool
		for at := 0; at < len(img.Pix); at += 2 {
			occurs[s.value(img.Pix[at:], 0)] = true
		}
		m := new(rankMap)
		m.set(&occurs)
		s = s.withRanks(m)
	}
	if c.hole != noHole {
		s.hole = int(s.value(binary.LittleEndian.AppendUint16(nil, uint16(c.hole)), 0))
	}
	e := &encoder16{source: s, search: searches16[opt.effort()], workers: 1}
	e.model(c.logEdge)
	shape, sets := s.shape()
	set, number := sets.sets()[0], 0
	if c.own {
		set, number = clusterTables(e.counts.values, &e.counts.ids, shape), tableSetOwn
	}
	e.logStreams = c.logStreams
	file, err := e.draft(set, number, opt).assemble(img, opt)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// depthPicture is a scene of few distances, with holes of value hole, as a depth
// camera gives it.
func depthPicture(s raster.Shape, hole int) raster.Image {
	img := raster.Image{Shape: s}
	for y := range s.Height {
		for x := range s.Width {
			for c := range s.Channels {
				v := 43500 * 8 / (400 + 3*y + 100*(x/37) + 40*c) * 16
				if (x*x+y*y/2)%1000 < 130 || x < 3 {
					v = hole
				}
				img.Pix = append(img.Pix, byte(v), byte(v>>8))
			}
		}
	}
	return img
}

// types16 are the sample types of 16 bits.
var types16 = []raster.DType{raster.Uint16, raster.Int16}

func TestDense16AgreesWithTheSpecification(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 16))
	for k := range len(pictures) + 2 {
		for i := range 18 {
			s := shapeOf(1+rng.IntN(60), 1+rng.IntN(150), 1+i%4, types16[i/4%2])
			if i < len(edges) {
				s.Width = edges[i]
			}
			c := choice16{
				logEdge: minLogEdge + rng.IntN(2), logStreams: rng.IntN(maxLogStreams + 1),
				own: rng.IntN(2) == 0, hole: noHole, ranks: rng.IntN(2) == 0,
			}
			var img raster.Image
			if k < len(pictures) {
				img = draw(pictures[k], s)
				if rng.IntN(3) == 0 {
					c.hole = int(binary.LittleEndian.Uint16(img.Pix)) // of this picture nothing is known to be a hole
				}
			} else {
				c.hole = 65535 * (k - len(pictures))
				img = depthPicture(s, c.hole)
			}
			file := dense16File(t, img, c, EncodeOptions{})
			if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
				t.Fatalf("%v, %+v: the decoder gives other samples, first at %d", s, c, firstDifference(pix, img.Pix))
			}
			if pix := slowDecode(file); !bytes.Equal(pix, img.Pix) {
				t.Fatalf("%v, %+v: by the specification, sample byte %d differs", s, c, firstDifference(pix, img.Pix))
			}
		}
	}
}

// randomDense16Patch returns a patch of random states and words, which any patch
// may have, cut off where its last symbol ends.
func randomDense16Patch(rng *rand.Rand, r region, channels, logStreams, hole int, t *slowTables) []byte {
	b := make([]byte, 2+2*channels+4*maxLanes+4*(channels+1)*r.height*(r.width+2)+4)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	b[0] = byte(rng.IntN(transformLimit(channels)))
	if hole >= 0 {
		b[0] = plainTransforms[channels]
	}
	constants := rng.IntN(1<<channels) & rng.IntN(1<<channels)
	coded := codedPlanes(uint8(constants), channels)
	b[1] = byte(constants | rng.IntN(min(maxFreeRows, coded*r.height)+1)<<4)
	_, end := slowDense16Patch(b, r.width, r.height, channels, logStreams, hole, t)
	return appendPadding(b[:end], 0)
}

// randomDense16File returns a file of random tables and patches, and what it holds
// by the specification.
func randomDense16File(t testing.TB, rng *rand.Rand, s raster.Shape, logEdge int) (file, pix []byte) {
	t.Helper()
	f := &draft{coding: Dense16, logEdge: logEdge, logStreams: rng.IntN(maxLogStreams + 1)}
	shape, hole := &dense16Shape, -1
	if rng.IntN(2) == 0 {
		shape, hole = &dense16HoleShape, rng.IntN(1<<16)
	}
	var section []byte
	if rng.IntN(3) > 0 {
		f.tableSet, section = tableSetOwn, randomTableSection(rng, shape)
		f.sections = appendSection(nil, sectionTables, sectionCritical, section)
	}
	if hole >= 0 {
		f.sections = appendSection(f.sections, sectionHole, sectionCritical, []byte{byte(hole), byte(hole >> 8)})
	}
	tables := slowDense16Tables(f.tableSet, section, hole)
	g := newGrid(s, logEdge)
	patches := make([][]byte, g.patches())
	for i := range patches {
		patches[i] = randomDense16Patch(rng, g.region(i), s.Channels, f.logStreams, hole, tables)
	}
	return goodFile(assembleCoded(t, f, s, patches))
}

// TestAnyDense16Patch holds the decoders to the specification on patches that no
// encoder would write.
func TestAnyDense16Patch(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 16))
	for i := range 160 {
		s := shapeOf(1+rng.IntN(50), 1+rng.IntN(140), 1+i%4, types16[i/4%2])
		if i < len(edges) {
			s.Width = edges[i]
		}
		file, want := randomDense16File(t, rng, s, minLogEdge+i/12%2)
		if _, got := mustDecode(t, file); !bytes.Equal(got, want) {
			t.Fatalf("%v: byte %d is not what the specification says", s, firstDifference(got, want))
		}
	}
}
