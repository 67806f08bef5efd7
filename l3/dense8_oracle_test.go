package l3

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"prismfs/raster"
)

// This file decodes patches of the dense coding of 8 bits in the words of
// docs/format-l3.md, symbol by symbol, as oracle_test.go does for the fast ones.

// slowTables are a table set as the specification has it.
type slowTables struct {
	maps        [][]int // by class and level
	frequencies [16][]int
}

// number takes a number of a section of entropy tables.
func (s *slowBits) number() int {
	size := s.take(4)
	if size == 0 {
		return 0
	}
	return 1<<(size-1) + s.take(size-1)
}

// slowTableSet reads a section that is good.
func slowTableSet(section []byte, classes, levels, tokens int, ids bool) *slowTables {
	s := &slowBits{b: append(bytes.Clone(section), 0)}
	t := &slowTables{}
	count := s.take(4)
	for range classes {
		var tables []int
		for len(tables) < levels {
			table, run := s.take(4), s.number()
			if run == 0 {
				run = levels - len(tables)
			}
			for range run {
				tables = append(tables, table)
			}
		}
		t.maps = append(t.maps, tables)
	}
	for i := range 16 {
		if i < count || i == 15 && ids {
			for range tokens {
				t.frequencies[i] = append(t.frequencies[i], s.number())
			}
		}
	}
	return t
}

// slowStreams are the lanes of a patch.
type slowStreams struct {
	tables *slowTables
	bits   int // log2 of the sum of frequencies
	states []int
	words  []byte
	at     int
}

func (s *slowStreams) word() int {
	v := int(binary.LittleEndian.Uint16(s.words[s.at:]))
	s.at += 2
	return v
}

// value decodes a value of 8 bits.
func (s *slowStreams) value(lane, table int, renormalise bool) int {
	x, f := s.states[lane], s.tables.frequencies[table]
	offset, token := x%(1<<s.bits), 0
	for offset >= f[token] {
		offset -= f[token]
		token++
	}
	x = f[token]*(x>>s.bits) + offset
	value := token
	if token >= 16 {
		e := 4 + (token-16)/2
		k := e - 1
		value = 1<<e + token%2<<k + x%(1<<k)
		x >>= k
	}
	if renormalise && x < 1<<16 {
		x = (x<<16 | s.word()) % (1 << 32)
	}
	s.states[lane] = x
	return value
}

// slowMagnitudes are those of a plane's residuals.
type slowMagnitudes struct {
	pairs    int
	constant bool
	rows     [][]int
}

func (m *slowMagnitudes) at(y, x int) int {
	switch {
	case m.constant:
		return 0
	case y < 0:
		return 3
	}
	return m.rows[y][x]
}

// even and odd are the magnitudes of a pair, or of the one at the edge.
func (m *slowMagnitudes) even(y, i int) int { return m.at(y, 2*max(0, min(i, m.pairs-1))) }
func (m *slowMagnitudes) odd(y, i int) int  { return m.at(y, 2*max(0, min(i, m.pairs-1))+1) }

// slowContext returns the sum of a context.
func slowContext(planes []*slowPlane, m []*slowMagnitudes, plane, y, i int, odd bool) int {
	p, q := planes[plane], m[plane]
	next := min(i+1, p.pairs-1)
	difference := func(a, b int) int { return max(a-b, b-a) }
	var sum, first int // of plane 1, if plane is 2
	if odd {
		sum = q.odd(y-1, i) + q.odd(y-1, i-1) + q.odd(y-1, i+1) + q.odd(y-2, i) + q.even(y, i) + q.even(y, i+1)
		d := difference(p.at(y, 2*i), p.at(y, 2*next))
		sum += d / 2
		if plane == 1 || plane == 2 {
			j := slowAvg(p.at(y-1, 2*i), p.at(y-1, 2*next))
			sum += d + 2*difference(p.at(y-1, 2*i+1), j)
		}
		if plane == 2 {
			first = m[1].odd(y, i)
		}
	} else {
		sum = q.even(y-1, i) + q.even(y-1, i-1) + q.even(y-1, i+1) + q.even(y-2, i) + q.odd(y-1, i) + q.odd(y-1, i-1)
		d := difference(p.at(y-1, 2*i), p.at(y-2, 2*i))
		if plane == 1 || plane == 2 {
			sum += d/2 + m[0].even(y, i)/2
		} else {
			sum += d
		}
		if plane == 2 {
			first = m[1].even(y, i)
		}
	}
	return min(sum+first+first/2, p.top)
}

// slowDense8Patch decodes the planes of a coded patch. It also returns how many
// bytes of the patch mean something.
func slowDense8Patch(b []byte, width, height, channels, logStreams int, t *slowTables) ([]*slowPlane, int) {
	pairs := (width + 1) / 2
	constants, free := int(b[1]&15), int(b[1]>>4)
	planes, magnitudes := make([]*slowPlane, channels), make([]*slowMagnitudes, channels)
	coded := 0
	for i := range planes {
		constant := constants>>i&1 != 0
		planes[i] = &slowPlane{pairs: pairs, top: 255, base: int(b[2+i])}
		magnitudes[i] = &slowMagnitudes{pairs: pairs, constant: constant}
		if !constant {
			coded++
		}
	}
	s := &slowStreams{tables: t, bits: 9, words: b, at: 2 + channels}
	if s.at%2 != 0 {
		s.at++
	}
	lanes := min(1<<logStreams, pairs)
	var ids []int
	if coded > 0 {
		for range lanes {
			low := s.word()
			s.states = append(s.states, low|s.word()<<16)
		}
		for r := range coded * height {
			ids = append(ids, s.value(r%lanes, 15, true))
		}
	}
	for y := range height {
		for c, p := range planes {
			row, m := make([]int, 2*pairs), make([]int, 2*pairs)
			p.rows, magnitudes[c].rows = append(p.rows, row), append(magnitudes[c].rows, m)
			if magnitudes[c].constant {
				for x := range row {
					row[x] = p.base
				}
				continue
			}
			id := ids[0]
			ids = ids[1:]
			renormalise := len(ids) >= free
			residual := func(i int, odd bool) int {
				class := 2 * c
				if odd {
					class++
				}
				sum := slowContext(planes, magnitudes, c, y, i, odd)
				level := 24 + sum/16
				if sum < 64 {
					level = 12 + sum/4
				}
				if sum < 16 {
					level = sum
				}
				z := s.value(i%lanes, t.maps[class][level], renormalise)
				if z%2 != 0 {
					return -(z + 1) / 2
				}
				return z / 2
			}
			// Contexts of a phase are those before any of it is decoded.
			for i := range pairs {
				r := residual(i, false)
				m[2*i] = max(r, -r)
				row[2*i] = (p.even(id%8, y, i) + r) & 255
			}
			for i := range pairs {
				r := 0
				if 2*i+1 < width {
					r = residual(i, true)
				}
				m[2*i+1] = max(r, -r)
				row[2*i+1] = (p.odd(id/8, y, i) + r) & 255
			}
		}
	}
	slowTransform(planes, int(b[0]), width, height, 8)
	return planes, s.at
}

// slowDense8Tables returns the table set of a file.
func slowDense8Tables(number int, section []byte) *slowTables {
	if number != 255 {
		var err error
		if section, err = os.ReadFile("tables/dense8-0.bin"); err != nil {
			panic(err)
		}
	}
	return slowTableSet(section, 8, 40, 24, true)
}

// dense8File returns img in the dense coding with exactly these choices. If own is
// set the tables are the image's own, however small it is.
func dense8File(t testing.TB, img raster.Image, logEdge, logStreams int, own bool, opt EncodeOptions) []byte {
	t.Helper()
	e := newDense8Encoder(img, opt, logEdge, dense8Searches[opt.effort()])
	e.logStreams = logStreams
	code, number := builtinDense8Codes()[0], 0
	counts := e.pass(code, 1)
	if own {
		code, number = newDense8Code(clusterTables(counts.values, &counts.ids, &dense8Shape)), tableSetOwn
	}
	file, err := e.draft(code, number, opt).assemble(img, opt)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDense8AgreesWithTheSpecification(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 7))
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			for i := range 24 {
				s := shapeOf(1+rng.IntN(90), 1+rng.IntN(200), 1+i%4, raster.Uint8)
				if i < len(edges) {
					s.Width = edges[i]
				}
				img := draw(p, s)
				file := dense8File(t, img, minLogEdge+rng.IntN(2), rng.IntN(maxLogStreams+1), rng.IntN(2) == 0, EncodeOptions{})
				if _, pix := mustDecode(t, file); !bytes.Equal(pix, img.Pix) {
					t.Fatalf("%v: the decoder gives other samples, first at %d", s, firstDifference(pix, img.Pix))
				}
				if pix := slowDecode(file); !bytes.Equal(pix, img.Pix) {
					t.Fatalf("%v: by the specification, sample byte %d differs", s, firstDifference(pix, img.Pix))
				}
			}
		})
	}
}

// randomTableSection returns a section of tables of any frequencies and any map.
func randomTableSection(rng *rand.Rand, s *tableShape) []byte {
	t := &tableSet{shape: *s, count: 1 + rng.IntN(maxTables), contexts: make([]uint8, s.contexts())}
	run := 1 + rng.IntN(s.levels)
	for i := range t.contexts {
		t.contexts[i] = uint8(rng.IntN(t.count))
		if i%s.levels != 0 && rng.IntN(run) > 0 {
			t.contexts[i] = t.contexts[i-1]
		}
	}
	for _, i := range s.numbers(t.count) {
		tokens := s.tokens
		if i == tableOfID {
			tokens = maxIDTokens
		}
		var counts [maxTokens]uint32
		for range 1 + rng.IntN(tokens) { // some of the tokens, a few of them often
			counts[rng.IntN(tokens)] = 1 + rng.Uint32N(1<<rng.IntN(12))
		}
		t.frequencies[i] = normalise(&counts, s)
	}
	return t.appendTo(nil)
}

// randomDense8Patch returns a patch of random states and words, which any patch
// may have, cut off where its last symbol ends.
func randomDense8Patch(rng *rand.Rand, r region, channels, logStreams int, t *slowTables) []byte {
	b := make([]byte, 2+channels+4*maxLanes+2*(channels+1)*r.height*(r.width+2)+4)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	b[0] = byte(rng.IntN(transformLimit(channels)))
	constants := rng.IntN(1<<channels) & rng.IntN(1<<channels)
	coded := codedPlanes(uint8(constants), channels)
	b[1] = byte(constants | rng.IntN(min(maxFreeRows, coded*r.height)+1)<<4)
	_, end := slowDense8Patch(b, r.width, r.height, channels, logStreams, t)
	return appendPadding(b[:end], 0)
}

// randomDense8File returns a file of random tables and patches, and what it holds
// by the specification.
func randomDense8File(t testing.TB, rng *rand.Rand, s raster.Shape, logEdge int) (file, pix []byte) {
	t.Helper()
	f := &draft{coding: Dense8, logEdge: logEdge, logStreams: rng.IntN(maxLogStreams + 1)}
	var section []byte
	if rng.IntN(3) > 0 {
		f.tableSet, section = tableSetOwn, randomTableSection(rng, &dense8Shape)
		f.sections = appendSection(nil, sectionTables, sectionCritical, section)
	}
	tables := slowDense8Tables(f.tableSet, section)
	g := newGrid(s, logEdge)
	patches := make([][]byte, g.patches())
	for i := range patches {
		patches[i] = randomDense8Patch(rng, g.region(i), s.Channels, f.logStreams, tables)
	}
	return goodFile(assembleCoded(t, f, s, patches))
}

// TestAnyDense8Patch holds the decoder to the specification on patches that no
// encoder would write: any states, words and tables.
func TestAnyDense8Patch(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 13))
	for i := range 150 {
		s := shapeOf(1+rng.IntN(80), 1+rng.IntN(140), 1+i%4, raster.Uint8)
		if i < len(edges) {
			s.Width = edges[i]
		}
		file, want := randomDense8File(t, rng, s, minLogEdge+i/12%2)
		if _, got := mustDecode(t, file); !bytes.Equal(got, want) {
			t.Fatalf("%v: byte %d is not what the specification says", s, firstDifference(got, want))
		}
	}
}
