package kernels

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"prismfs/l3"
	"prismfs/raster"
)

// Where a version 2 file has what damage changes.
const (
	atHeadCRC   = 44
	headerBytes = 48
	entryBytes  = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A damage changes the patches of a file, whose plan is given.
type damage func(rng *rand.Rand, file []byte, p *l3.Plan)

var damages = []damage{
	// single bits
	func(rng *rand.Rand, file []byte, p *l3.Plan) {
		for range 1 + rng.IntN(3) {
			patch := somePatch(rng, file, p)
			patch[rng.IntN(len(patch))] ^= 1 << rng.IntN(8)
		}
	},
	// a byte near the beginning, where the heads of patches are
	func(rng *rand.Rand, file []byte, p *l3.Plan) {
		patch := somePatch(rng, file, p)
		patch[rng.IntN(min(12, len(patch)))] = uint8(rng.Uint32())
	},
	// noise from somewhere on
	func(rng *rand.Rand, file []byte, p *l3.Plan) {
		patch := somePatch(rng, file, p)
		for i := rng.IntN(len(patch)); i < len(patch); i++ {
			patch[i] = uint8(rng.Uint32())
		}
	},
	// all bits set, which are the widest groups
	func(rng *rand.Rand, file []byte, p *l3.Plan) {
		patch := somePatch(rng, file, p)
		for i := min(2+rng.IntN(20), len(patch)); i < len(patch); i++ {
			patch[i] = 0xff
		}
	},
	// zeros, which are the narrowest
	func(rng *rand.Rand, file []byte, p *l3.Plan) {
		patch := somePatch(rng, file, p)
		clear(patch[rng.IntN(len(patch)):])
	},
	// one patch too long, another too short
	func(rng *rand.Rand, file []byte, p *l3.Plan) { shiftLengths(rng, file, p) },
}

func somePatch(rng *rand.Rand, file []byte, p *l3.Plan) []byte {
	patch := p.Patches[rng.IntN(len(p.Patches))]
	return file[patch.Start:patch.End]
}

// shiftLengths takes four bytes from a patch and gives them to another one, where
// the table allows it.
func shiftLengths(rng *rand.Rand, file []byte, p *l3.Plan) {
	from, to := rng.IntN(len(p.Patches)), rng.IntN(len(p.Patches))
	if from == to || p.Patches[from].End-p.Patches[from].Start <= 4 {
		return
	}
	if p.Info.Coding == l3.Published {
		add16(file[13+2*from:], -4)
		add16(file[13+2*to:], 4)
		return
	}
	if p.Patches[from].Kind != l3.PatchCoded || p.Patches[to].Kind != l3.PatchCoded {
		return
	}
	table := tableOf(file, p)
	add32(table[entryBytes*from:], -4)
	add32(table[entryBytes*to:], 4)
}

func add16(b []byte, n int) {
	binary.LittleEndian.PutUint16(b, uint16(int(binary.LittleEndian.Uint16(b))+n))
}

func add32(b []byte, n int) {
	binary.LittleEndian.PutUint32(b, uint32(int(binary.LittleEndian.Uint32(b))+n))
}

func tableOf(file []byte, p *l3.Plan) []byte {
	end := int(p.Info.HeadBytes)
	return file[end-entryBytes*len(p.Patches) : end]
}

// seal makes the checksums of patches and head right again.
func seal(file []byte, p *l3.Plan) {
	if p.Info.Coding == l3.Published {
		return
	}
	table, at := tableOf(file, p), int(p.Info.HeadBytes)
	for i := range p.Patches {
		entry := table[entryBytes*i:]
		n := int(binary.LittleEndian.Uint32(entry) &^ 3)
		binary.LittleEndian.PutUint32(entry[4:], crc32.Checksum(file[at:at+n], castagnoli))
		at += n
	}
	sum := crc32.Update(crc32.Checksum(file[:atHeadCRC], castagnoli), castagnoli, file[headerBytes:p.Info.HeadBytes])
	binary.LittleEndian.PutUint32(file[atHeadCRC:], sum)
}

// damaged returns damaged copies of files whose plans are still good.
func damaged(t testing.TB, rng *rand.Rand, files [][]byte, copies int) [][]byte {
	t.Helper()
	var all [][]byte
	plan := new(l3.Plan)
	for _, file := range files {
		for i := range copies {
			check(t, plan.Parse(file, l3.DefaultLimits))
			bad := slices.Clone(file)
			damages[(i+rng.IntN(2)*copies)%len(damages)](rng, bad, plan)
			seal(bad, plan)
			if plan.Parse(bad, l3.DefaultLimits) == nil {
				all = append(all, bad)
			}
		}
	}
	return all
}

// TestDamaged checks that the device refuses exactly the files that plain Go
// refuses, and decodes the others, whose samples have another checksum now, alike.
// Whatever is read or written outside the buffers ends the kernel, and with it the
// test.
func TestDamaged(t *testing.T) {
	s := newSimulator(t)
	rng := rand.New(rand.NewPCG(5, 6))
	files := smallFiles(t, rng)
	bad := damaged(t, rng, files, 3*len(damages))
	var refused, decoded int
	s.eachOrder(t, func() {
		o := s.decode(t, bad, false)
		for i, file := range bad {
			want, err := plain(file)
			if err == nil || strings.Contains(err.Error(), "checksum of the samples") {
				decoded++
				checkImage(t, codingOf(t, file).String(), o, i, want)
				continue
			}
			refused++
			if o.statuses[i] == StatusOK {
				t.Errorf("%v: the device decodes what plain Go refuses: %v", codingOf(t, file), err)
			}
		}
	})
	if refused < len(bad)/4 || decoded < len(bad)/20 {
		t.Errorf("%d files refused, %d decoded: too few to say anything", refused, decoded)
	}
}

// pageEnd is what the size of an allocation is a multiple of if nothing lies between
// its end and a page that is not there.
const pageEnd = 256

// TestEncodedEnd decodes damaged files that end where the encoded buffer does, right
// before a page that must not be touched.
func TestEncodedEnd(t *testing.T) {
	s := newSimulator(t)
	rng := rand.New(rand.NewPCG(11, 12))
	plan := new(l3.Plan)
	for _, file := range damaged(t, rng, smallFiles(t, rng), len(damages)) {
		check(t, plan.Parse(file, l3.DefaultLimits))
		var b Batch
		encoded := append(make([]byte, pageEnd-len(file)%pageEnd), file...)
		b.Add(plan, uint64(len(encoded)-len(file)), Destination{})
		samples := make([]byte, plan.Info.Shape.Bytes())
		bad := false
		for _, statuses := range s.run(t, &b, encoded, samples) {
			bad = bad || slices.ContainsFunc(statuses, func(status Status) bool { return status != StatusOK })
		}
		want, err := plain(file)
		refused := err != nil && !strings.Contains(err.Error(), "checksum of the samples")
		if bad != refused || !bad && !bytes.Equal(samples, want) {
			t.Errorf("%v: refused %v, or samples differ; plain Go: %v", plan.Info.Coding, bad, err)
		}
	}
}

// TestTwiceListed checks that of two exceptions of a label map with one place the
// last one counts.
func TestTwiceListed(t *testing.T) {
	s := newSimulator(t)
	file := encode(t, drawLabels(rand.New(rand.NewPCG(13, 14)), shapeOf(200, 200, 1, raster.Uint8)), l3.ModeLabels)
	plan := new(l3.Plan)
	check(t, plan.Parse(file, l3.DefaultLimits))
	patch := file[plan.Patches[0].Start:plan.Patches[0].End]
	count := int(binary.LittleEndian.Uint16(patch))
	// Those of the last phase, in even rows and odd columns, are at the end of the
	// list, and nothing depends on their labels. Every second one gets the place of
	// that before it.
	twice := 0
	for e := patch[3 : 3+3*count]; len(e) >= 6; e = e[3:] {
		if e[0]%2 == 0 && e[1]%2 == 1 {
			e[3], e[4], e[5] = e[0], e[1], e[2]+1
			e = e[3:]
			twice++
		}
	}
	if twice < 10 {
		t.Fatalf("only %d exceptions of the last phase", twice)
	}
	seal(file, plan)
	want, err := plain(file)
	if err == nil || !strings.Contains(err.Error(), "checksum of the samples") {
		t.Fatalf("plain Go: %v", err)
	}
	s.eachOrder(t, func() { checkImage(t, "labels", s.decode(t, [][]byte{file}, false), 0, want) })
}

// smallFiles are files of every coding, of two or more patches each.
func smallFiles(t testing.TB, rng *rand.Rand) [][]byte {
	t.Helper()
	edges := pictures["edges"]
	files := [][]byte{
		encode(t, draw(rng, edges, shapeOf(5, 70, 3, raster.Uint8)), l3.ModeFast),
		encode(t, draw(rng, edges, shapeOf(5, 71, 1, raster.Uint16)), l3.ModeFast),
		encode(t, draw(rng, edges, shapeOf(6, 75, 3, raster.Uint8)), l3.ModeDense),
		encode(t, draw(rng, edges, shapeOf(7, 135, 1, raster.Uint8)), l3.ModeDense),
		encode(t, draw(rng, edges, shapeOf(4, 135, 2, raster.Int16)), l3.ModeDense),
		encode(t, drawDepth(rng, shapeOf(8, 140, 1, raster.Uint16)), l3.ModeDense),
		encode(t, drawLabels(rng, shapeOf(40, 290, 1, raster.Uint8)), l3.ModeLabels),
		encode(t, draw(rng, pictures["spikes"], shapeOf(64, 128, 3, raster.Uint8)), l3.ModePublished),
	}
	names, golden := goldenFiles(t)
	for i, name := range names {
		switch name {
		case "fast16-ranks.l3", "labels-tables.l3", "dense8-tables.l3", "fast8-raw-patch.l3":
			files = append(files, golden[i])
		}
	}
	return files
}

// TestChecksums checks that a patch whose checksum is wrong is not decoded, and
// that its neighbours are.
func TestChecksums(t *testing.T) {
	s := newSimulator(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, file := range smallFiles(t, rng) {
		plan := new(l3.Plan)
		check(t, plan.Parse(file, l3.DefaultLimits))
		if plan.Info.Coding == l3.Published {
			continue // which has none
		}
		bad := slices.Clone(file)
		patch := somePatch(rng, bad, plan)
		patch[rng.IntN(len(patch))] ^= 1 << rng.IntN(8)
		o := s.decode(t, [][]byte{bad, file}, false)
		if o.statuses[0] != StatusBadChecksum {
			t.Errorf("%v: %v", plan.Info.Coding, o.statuses[0])
		}
		want, err := plain(file)
		check(t, err)
		checkImage(t, "the good one", o, 1, want)
	}
}

// TestPlaces checks that patches which do not lie where they may are refused, and
// that nothing is written for them.
func TestPlaces(t *testing.T) {
	s := newSimulator(t)
	for _, file := range smallFiles(t, rand.New(rand.NewPCG(9, 10))) {
		plan := new(l3.Plan)
		check(t, plan.Parse(file, l3.DefaultLimits))
		pixels := int(plan.Info.Shape.Bytes())
		encoded := append(slices.Clone(file), make([]byte, -len(file)&(EncodedAlign-1))...)
		for i, misplace := range []func(b *Batch, p *Patch){
			func(b *Batch, p *Patch) { p.Start += uint64(len(encoded)) },
			func(b *Batch, p *Patch) { p.Start = ^uint64(3) },
			func(b *Batch, p *Patch) { p.Length = ^uint32(3) },
			func(b *Batch, p *Patch) { p.X += uint32(plan.Info.Shape.Width) },
			func(b *Batch, p *Patch) { p.Y += uint32(plan.Info.Shape.Height) },
			func(b *Batch, p *Patch) { p.Width += 300 },
			func(b *Batch, p *Patch) { p.Height = 0 },
			func(b *Batch, p *Patch) { b.Images[0].Pixels++ },
			func(b *Batch, p *Patch) { b.Images[0].PixelBytes += 4 },
			func(b *Batch, p *Patch) { b.Images[0].Pixels = ^uint64(0) },
			func(b *Batch, p *Patch) { b.Images[0].Channels = 9 },
		} {
			var b Batch
			b.Add(plan, 0, Destination{})
			for k := range b.Patches {
				for j := range b.Patches[k] {
					misplace(&b, &b.Patches[k][j])
				}
			}
			samples := bytes.Repeat([]byte{untouched}, pixels)
			for _, statuses := range s.run(t, &b, encoded, samples) {
				for _, status := range statuses {
					if status == StatusOK || status == StatusWaiting {
						t.Errorf("%v, misplaced in way %d: %v", plan.Info.Coding, i, status)
					}
				}
			}
			if n := bytes.Count(samples, []byte{untouched}); n != pixels {
				t.Errorf("%v, misplaced in way %d: %d bytes written", plan.Info.Coding, i, pixels-n)
			}
		}
	}
}
