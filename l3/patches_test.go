package l3

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// planDecode decodes a file by what a Plan of it says alone: the tables are the
// Plan's, and each patch is decoded by itself where the Plan has it.
func planDecode(p *Plan, file []byte) ([]byte, error) {
	info := p.Info
	pix := make([]byte, info.Shape.Bytes())
	if info.Coding == Raw {
		return pix[:copy(pix, file[info.HeadBytes:])], nil
	}
	coding, err := planCoding(p)
	if err != nil {
		return nil, err
	}
	for i := range p.Patches {
		q := &p.Patches[i]
		r := region{x: q.X, y: q.Y, width: q.Width, height: q.Height}
		b := file[q.Start:q.End]
		switch {
		case info.Coding == Published:
			h := publishedHeader{shape: info.Shape, edge: info.PatchEdge}
			if err := new(publishedScratch).patch(pix, b, h, r, q.Channel); err != nil {
				return nil, err
			}
		case q.Kind == PatchCoded:
			if err := coding.decode(pix, file, q.Start, q.End, r); err != nil {
				return nil, err
			}
		default:
			for y := range r.height {
				row := r.row(pix, y, info.Shape)
				if q.Kind == PatchRaw {
					copy(row, b[y*len(row):])
				} else {
					fillPixels(row, b[:pixelBytes(info.Shape)])
				}
			}
		}
	}
	return pix, nil
}

// planCoding returns a decoder of patches that knows what the Plan says.
func planCoding(p *Plan) (patchCoding, error) {
	h := &header{shape: p.Info.Shape, coding: p.Info.Coding}
	t := &p.Tables
	store := rowStore{}
	if err := store.reset(h, nil); err != nil {
		return nil, err
	}
	if t.Ranks != nil {
		store.ranks = &rankMap{count: len(t.Ranks)}
		copy(store.ranks.values[:], t.Ranks)
	}
	set := &tableSet{contexts: t.Contexts, slots: t.Slots}
	dense := denseDecoder{rowStore: store, set: set, logStreams: t.LogStreams}
	switch p.Info.Coding {
	case Dense8:
		d := &dense8Decoder{denseDecoder: dense}
		for class := range d.offsets {
			for sum := range d.offsets[class] {
				d.offsets[class][sum] = uint16(t.Contexts[class*levels8+level8(sum)]) << dense8Bits
			}
		}
		return d, nil
	case Dense16:
		d := &dense16Decoder{denseDecoder: dense, hole: noHole}
		if t.HasHole {
			d.hole = int(t.Hole)
		}
		return d, nil
	case Labels:
		d := &labelsDecoder{shape: h.shape, lanes: 1 << t.LogStreams}
		d.tableOf = (*[labelContexts]uint8)(t.Labels.TableOf)
		for i, bounds := range t.Labels.Bounds {
			d.tables[i] = bounds
		}
		d.paletteSize, d.rawBits = copy(d.palette[:], t.Labels.Palette), uint(t.Labels.RawBits)
		return d, nil
	}
	return &patchDecoder{rowStore: store}, nil
}

// eachGolden calls f with every golden file.
func eachGolden(t *testing.T, f func(name string, file []byte)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(goldenFolder, "*.l3"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d golden files, error %v", len(names), err)
	}
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f(filepath.Base(name), file)
	}
}

// TestPlanSuffices: what a Plan says is all that decoding takes, also when it was
// used for other files before.
func TestPlanSuffices(t *testing.T) {
	var p Plan
	eachGolden(t, func(name string, file []byte) {
		info, want := mustDecode(t, file)
		info.Meta = Metadata{}
		if err := p.Parse(file, Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if !reflect.DeepEqual(p.Info, info) {
			t.Errorf("%s: %+v, a Decoder says %+v", name, p.Info, info)
		}
		if err := p.CheckPatches(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		pix, err := planDecode(&p, file)
		if err != nil || !bytes.Equal(pix, want) {
			t.Errorf("%s: other samples, error %v", name, err)
		}
		if err := p.Info.CheckSum(AppendChecksum(0, pix)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// TestPlanRefuses: of damaged heads a Plan says what a Decoder says.
func TestPlanRefuses(t *testing.T) {
	var p Plan
	refused := 0
	eachGolden(t, func(name string, file []byte) {
		info, pix := mustDecode(t, file)
		for at := range int(min(info.HeadBytes, 300)) {
			bad := bytes.Clone(file)
			bad[at] ^= 1 << (at % 8)
			if info.Version == version2 && at >= headerBytes {
				fixHeadChecksum(bad, info.HeadBytes) // so that what lies behind it is looked at
			}
			err := p.Parse(bad, Limits{})
			if err == nil {
				continue
			}
			refused++
			_, want := NewDecoder(Limits{}, WithoutSIMD()).Decode(pix, bad)
			if want == nil || want.Error() != err.Error() {
				t.Fatalf("%s, byte %d: %q, a Decoder says %q", name, at, err, want)
			}
		}
		for _, cut := range []int{0, 3, 12, 47, len(file) - 1} {
			if err := p.Parse(file[:cut], Limits{}); err == nil {
				t.Errorf("%s: %d of %d bytes were taken", name, cut, len(file))
			}
		}
	})
	if refused == 0 {
		t.Error("no damaged head was refused")
	}
}

// fixHeadChecksum sets the checksum of a head.
func fixHeadChecksum(file []byte, headBytes int64) {
	sum := headChecksum(file[:headBytes])
	for i := range 4 {
		file[atHeadCRC+i] = byte(sum >> (8 * i))
	}
}

// TestPlanChecksPatches: any changed byte of a patch is found.
func TestPlanChecksPatches(t *testing.T) {
	var p Plan
	eachGolden(t, func(name string, file []byte) {
		if err := p.Parse(file, Limits{}); err != nil {
			t.Fatal(err)
		}
		if len(p.Patches) == 0 || !p.Info.HasPixelCRC {
			return
		}
		for at := int(p.Info.HeadBytes); at < len(file); at += 1 + len(file)/50 {
			bad := bytes.Clone(file)
			bad[at] ^= 0x10
			if err := p.CheckPatches(bad); err == nil {
				t.Errorf("%s: a changed byte at %d was not found", name, at)
			}
		}
		if err := p.Info.CheckSum(p.Info.PixelCRC ^ 1); err == nil {
			t.Errorf("%s: a wrong checksum of samples was taken", name)
		}
	})
}

// TestPlanAllocatesNothing: in steady state, whatever came before.
func TestPlanAllocatesNothing(t *testing.T) {
	var p Plan
	var files [][]byte
	eachGolden(t, func(_ string, file []byte) { files = append(files, file) })
	parse := func() {
		for _, file := range files {
			if err := p.Parse(file, Limits{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(5, parse); n > 0 {
		t.Errorf("%v allocations for %d files", n, len(files))
	}
}
