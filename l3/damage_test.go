package l3

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"prismfs/raster"
)

var errorKinds = []error{ErrNotL3, ErrTruncated, ErrCorrupt, ErrUnsupported, ErrTooLarge}

// checkOneKind checks that an error about a file is of exactly one kind.
func checkOneKind(t testing.TB, err error) {
	t.Helper()
	n := 0
	for _, kind := range errorKinds {
		if errors.Is(err, kind) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("error of %d kinds: %v", n, err)
	}
}

// readBoth reads a file as Info and as samples, and returns the errors. Both
// must be of one kind each, or none.
func readBoth(t testing.TB, file []byte, pix []byte) (infoErr, pixErr error) {
	t.Helper()
	_, infoErr = ReadInfo(bytes.NewReader(file), int64(len(file)), DefaultLimits)
	if infoErr != nil {
		checkOneKind(t, infoErr)
	}
	_, pixErr = decodeEach(t, pix, file, DefaultLimits)
	if pixErr != nil && !errors.Is(pixErr, ErrDestination) {
		checkOneKind(t, pixErr)
	}
	if infoErr != nil && pixErr == nil {
		t.Errorf("decoded in spite of %v", infoErr)
	}
	return infoErr, pixErr
}

// smallFiles are files of every coding, with metadata.
func smallFiles(t testing.TB) map[string]struct {
	file []byte
	pix  []byte
} {
	t.Helper()
	label := int64(-7)
	meta := Metadata{Label: &label, Class: "cat", OriginalName: "x.png", SourceDecoder: "test 1", ColourProfile: []byte{1, 2, 3}}
	files := make(map[string]struct{ file, pix []byte })
	add := func(name string, img raster.Image, opt EncodeOptions, want Coding) {
		file := checkRoundTrip(t, img, opt)
		if info, _ := mustDecode(t, file); info.Coding != want {
			t.Fatalf("%s: %v coding, want %v", name, info.Coding, want)
		}
		files[name] = struct{ file, pix []byte }{file, img.Pix}
	}
	photo, noise, sparse, opaque := pictures[3], pictures[4], pictures[8], pictures[9]
	add("fast 8-bit", draw(photo, shapeOf(20, 90, 3, raster.Uint8)), EncodeOptions{Meta: meta}, Fast8)
	add("fast 8-bit RGBA", draw(opaque, shapeOf(9, 9, 4, raster.Uint8)), EncodeOptions{}, Fast8)
	add("dense 8-bit", draw(photo, shapeOf(7, 20, 3, raster.Uint8)), EncodeOptions{Mode: ModeDense, Meta: meta}, Dense8)
	add("dense 8-bit grey", draw(photo, shapeOf(3, 35, 1, raster.Uint8)), EncodeOptions{Mode: ModeDense}, Dense8)
	tables := draw(pictures[6], shapeOf(3, 12, 1, raster.Uint8))
	files["dense 8-bit, tables"] = struct{ file, pix []byte }{dense8File(t, tables, minLogEdge, 2, true, EncodeOptions{}), tables.Pix}
	add("dense 16-bit", draw(photo, shapeOf(12, 15, 2, raster.Int16)), EncodeOptions{Mode: ModeDense, Meta: meta}, Dense16)
	depth := depthPicture(shapeOf(16, 24, 1, raster.Uint16), 0)
	files["dense 16-bit, holes"] = struct{ file, pix []byte }{dense16File(t, depth, choice16{logEdge: maxLogEdge, logStreams: 3, own: true, hole: 0, ranks: true}, EncodeOptions{}), depth.Pix}
	add("fast 16-bit", draw(photo, shapeOf(15, 21, 2, raster.Uint16)), EncodeOptions{Meta: meta}, Fast16)
	add("labels", labelPictures[1].draw(shapeOf(20, 33, 1, raster.Uint8)), EncodeOptions{Mode: ModeLabels, Meta: meta}, Labels)
	labels := labelPictures[3].draw(shapeOf(66, 70, 1, raster.Uint8))
	files["labels, tables"] = struct{ file, pix []byte }{labelsFile(t, labels, labelForm{logEdge: minLabelsLogEdge, logStreams: 1}, 2), labels.Pix}
	add("rank map", draw(sparse, shapeOf(40, 40, 1, raster.Int16)), EncodeOptions{}, Fast16)
	add("raw", draw(noise, shapeOf(5, 7, 3, raster.Uint8)), EncodeOptions{Meta: meta}, Raw)
	add("published", draw(pictures[2], shapeOf(64, 64, 3, raster.Uint8)), EncodeOptions{Mode: ModePublished}, Published)
	return files
}

func TestTruncation(t *testing.T) {
	for name, f := range smallFiles(t) {
		t.Run(name, func(t *testing.T) {
			pix := make([]byte, len(f.pix))
			for n := range f.file {
				infoErr, pixErr := readBoth(t, f.file[:n], pix)
				want := ErrTruncated
				if n < magicSize {
					want = ErrNotL3
				}
				if !errors.Is(infoErr, want) || !errors.Is(pixErr, want) {
					t.Fatalf("%d of %d bytes: ReadInfo: %v; Decode: %v", n, len(f.file), infoErr, pixErr)
				}
			}
			for _, tail := range []string{"\x00", "\x00\x00\x00\x00", "more"} {
				if infoErr, pixErr := readBoth(t, append(bytes.Clone(f.file), tail...), pix); !errors.Is(infoErr, ErrCorrupt) || !errors.Is(pixErr, ErrCorrupt) {
					t.Errorf("%q at the end: ReadInfo: %v; Decode: %v", tail, infoErr, pixErr)
				}
			}
		})
	}
}

// TestBitFlips flips every bit of a version 2 file: all of them are covered by
// a checksum.
func TestBitFlips(t *testing.T) {
	for name, f := range smallFiles(t) {
		if name == "published" {
			continue // has no checksum
		}
		t.Run(name, func(t *testing.T) {
			pix := make([]byte, len(f.pix))
			for bit := range len(f.file) * 8 {
				file := bytes.Clone(f.file)
				file[bit/8] ^= 1 << (bit % 8)
				if _, err := readBoth(t, file, pix); err == nil {
					t.Fatalf("bit %d of byte %d changes nothing", bit%8, bit/8)
				}
			}
		})
	}
}

// repair gives a version 2 file the size and the checksums of its head and
// patches that its contents ask for, where its table allows that, so that what
// they would hide is reached.
func repair(file []byte) []byte {
	if len(file) < headerBytes {
		return file
	}
	binary.LittleEndian.PutUint64(file[atFileBytes:], uint64(len(file)))
	head := int64(binary.LittleEndian.Uint32(file[atHeadBytes:]))
	sections := int64(binary.LittleEndian.Uint32(file[atSectionBytes:]))
	if head < headerBytes+sections || head > int64(len(file)) {
		return file
	}
	at := head
	for entry := headerBytes + sections; entry+tableEntryBytes <= head; entry += tableEntryBytes {
		e := parseEntry(file[entry:], 0)
		if at+int64(e.length) > int64(len(file)) {
			break
		}
		binary.LittleEndian.PutUint32(file[entry+4:], checksum(file[at:at+int64(e.length)]))
		at += int64(e.length)
	}
	binary.LittleEndian.PutUint32(file[atHeadCRC:], headChecksum(file[:head]))
	return file
}

// repairSamples sets the checksum of the samples.
func repairSamples(file, pix []byte) []byte {
	binary.LittleEndian.PutUint32(file[atPixelCRC:], checksum(pix))
	return repair(file)
}

// TestRepairedBitFlips is TestBitFlips with checksums that agree with the
// damage: what is left are contradictions, or other samples, which the
// checksum of the samples catches.
func TestRepairedBitFlips(t *testing.T) {
	for name, f := range smallFiles(t) {
		if name == "published" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			pix := make([]byte, len(f.pix))
			for bit := range len(f.file) * 8 {
				file := bytes.Clone(f.file)
				file[bit/8] ^= 1 << (bit % 8)
				_, err := readBoth(t, repair(file), pix)
				if err == nil && !bytes.Equal(pix, f.pix) {
					t.Fatalf("bit %d of byte %d: other samples without an error", bit%8, bit/8)
				}
			}
		})
	}
}

func TestLyingHeads(t *testing.T) {
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	put8 := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	fast := smallFiles(t)["fast 8-bit"]
	table := int(binary.LittleEndian.Uint32(fast.file[atHeadBytes:])) - 2*tableEntryBytes
	firstPatch := table + 2*tableEntryBytes
	tests := []struct {
		name   string
		change func([]byte) []byte
		want   error
		says   string
	}{
		{"version 3", put8(atVersion, 3), ErrUnsupported, "version 3"},
		{"critical flag", put8(atCriticalFlags, 0x40), ErrUnsupported, "flags 0x40"},
		{"dense", put8(atCoding, byte(Dense8)), ErrCorrupt, "words run out"},
		{"coding 77", put8(atCoding, 77), ErrUnsupported, "coding 77"},
		{"fast16 of 8 bits", put8(atCoding, byte(Fast16)), ErrCorrupt, "fast 16-bit coding of uint8"},
		{"width 0", put32(atWidth, 0), ErrCorrupt, "20×0 pixels"},
		{"width 2^32-1", put32(atWidth, 1<<32-1), ErrCorrupt, "pixels"},
		{"width 2^30", put32(atWidth, 1<<30), ErrTooLarge, "the limit is"},
		{"width 10^7", put32(atWidth, 10_000_000), ErrCorrupt, "its parts take"},
		{"5 channels", put8(atChannels, 5), ErrCorrupt, "5 channels"},
		{"0 channels", put8(atChannels, 0), ErrCorrupt, "0 channels"},
		{"RGB of 4 channels", put8(atChannels, 4), ErrCorrupt, "RGB in 4 channels"},
		{"12 bits", put8(atStoredBits, 12), ErrUnsupported, "12 bits"},
		{"signed 8 bits", put8(atSignificant, 0x88), ErrUnsupported, "signed"},
		{"9 significant bits", put8(atSignificant, 9), ErrCorrupt, "9 significant of 8 bits"},
		{"0 significant bits", put8(atSignificant, 0), ErrCorrupt, "0 significant"},
		{"colour 9", put8(atColour, 9), ErrCorrupt, "colour 9"},
		{"edge 2^5", put8(atLogEdge, 5), ErrUnsupported, "2^5"},
		{"edge 2^200", put8(atLogEdge, 200), ErrUnsupported, "2^200"},
		{"other edge", put8(atLogEdge, 7), ErrCorrupt, "its parts take"},
		{"table set", put8(atTableSet, 1), ErrCorrupt, "not 0"},
		{"streams", put8(atLogStreams, 5), ErrCorrupt, "not 0"},
		{"reserved byte", put8(atReserved, 1), ErrCorrupt, "not 0"},
		{"huge head", put32(atHeadBytes, 1<<32-4), ErrCorrupt, "a head of"},
		{"huge sections", put32(atSectionBytes, 1<<32-4), ErrTooLarge, "sections"},
		{"odd sections", put32(atSectionBytes, 5), ErrCorrupt, "5 bytes of sections"},
		{"section breaks off", put32(headerBytes+4, 1<<31), ErrCorrupt, "section 16: 2147483648 bytes"},
		{"unknown critical section", func(b []byte) []byte { b[headerBytes], b[headerBytes+2] = 4, 1; return b }, ErrUnsupported, "section 4, which must be understood"},
		{"section flags", put8(headerBytes+2, 2), ErrUnsupported, "flags 0x0002"},
		{"sections out of order", put8(headerBytes, 200), ErrCorrupt, "section 17 after section 200"},
		{"rank map of 8 bits", put8(headerBytes, 2), ErrCorrupt, "rank map in the fast 8-bit coding"},
		{"patch of kind 3", func(b []byte) []byte { b[table] |= 3; return b }, ErrCorrupt, "patch 0: kind 3"},
		{"patch said to be raw", func(b []byte) []byte { b[table] |= 1; return b }, ErrCorrupt, "patch 0: "},
		{"huge patch", put32(table, 1<<32-4), ErrCorrupt, "head and patches are"},
		{"no patch", put32(table, 0), ErrCorrupt, "head and patches are"},
		{"sizes moved", func(b []byte) []byte { b[table] -= 4; b[table+8] += 4; return b }, ErrCorrupt, "patch 0: corrupt L3 file: row 19"},
		{"sizes moved on", func(b []byte) []byte { b[table] += 4; b[table+8] -= 4; return b }, ErrCorrupt, "patch 0: corrupt L3 file: row 19"},
		{"transform 32", put8(firstPatch, 32), ErrCorrupt, "patch 0: corrupt L3 file: transform 32"},
		{"constant alpha", put8(firstPatch+1, 8), ErrCorrupt, "patch 0: corrupt L3 file: constant planes 0x8"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := repair(test.change(bytes.Clone(fast.file)))
			_, err := readBoth(t, file, make([]byte, len(fast.pix)))
			if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v\nwant %v, saying %q", err, test.want, test.says)
			}
		})
	}
	t.Run("ignorable flags", func(t *testing.T) {
		file := repair(put8(atCriticalFlags+1, 0xff)(bytes.Clone(fast.file)))
		if _, err := readBoth(t, file, make([]byte, len(fast.pix))); err != nil {
			t.Errorf("flags that may be ignored: %v", err)
		}
	})
	t.Run("unknown section", func(t *testing.T) {
		// The label's section becomes one of a type that nobody knows yet.
		file := repair(put8(headerBytes, 9)(bytes.Clone(fast.file)))
		if _, err := readBoth(t, file, make([]byte, len(fast.pix))); err != nil {
			t.Errorf("a section that may be ignored: %v", err)
		}
	})
}

// TestLiesAllocateNothing reads heads that claim as much as they may.
func TestLiesAllocateNothing(t *testing.T) {
	claim := func(magic string, fill func(b []byte)) []byte {
		b := make([]byte, headerBytes)
		copy(b, magic)
		fill(b)
		return repair(b)
	}
	v2 := func(width, height, head, sections uint32) []byte {
		return claim(magicV2, func(b []byte) {
			b[atVersion], b[atCoding] = version2, byte(Fast8)
			b[atChannels], b[atStoredBits], b[atSignificant], b[atColour], b[atLogEdge] = 1, 8, 8, 1, minLogEdge
			binary.LittleEndian.PutUint32(b[atWidth:], width)
			binary.LittleEndian.PutUint32(b[atHeight:], height)
			binary.LittleEndian.PutUint32(b[atHeadBytes:], head)
			binary.LittleEndian.PutUint32(b[atSectionBytes:], sections)
			binary.LittleEndian.PutUint64(b[atFileBytes:], 1<<40)
		})
	}
	files := [][]byte{
		v2(1<<14, 1<<14, headerBytes+8<<16, 0),
		v2(1<<28, 1, headerBytes+8<<22, 0),
		v2(1, 1, headerBytes+8+maxSectionBytes, maxSectionBytes),
		claim(magicPublished, func(b []byte) {
			binary.LittleEndian.PutUint32(b[4:], 1<<14)
			binary.LittleEndian.PutUint32(b[8:], 1<<14)
			b[12] = 8
		}),
	}
	d := NewDecoder(DefaultLimits)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i, file := range files {
		if _, err := ReadInfo(bytes.NewReader(file), int64(len(file)), DefaultLimits); err == nil {
			t.Errorf("file %d: ReadInfo believes it", i)
		}
		if _, err := d.Decode(nil, file); err == nil || errors.Is(err, ErrDestination) {
			t.Errorf("file %d: Decode: %v", i, err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated for files of %d", n, headerBytes)
	}
}

// TestShrunkFile reads a file that has become shorter than stat said.
func TestShrunkFile(t *testing.T) {
	label := int64(1)
	img := draw(pictures[3], shapeOf(10, 10, 1, raster.Uint8))
	file := checkRoundTrip(t, img, EncodeOptions{Meta: Metadata{Label: &label, ColourProfile: make([]byte, 2*PrefixBytes)}})
	for _, n := range []int{0, 10, 100, PrefixBytes, PrefixBytes + 10} {
		_, err := ReadInfo(bytes.NewReader(file[:n]), int64(len(file)), DefaultLimits)
		if !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes are left: %v", n, err)
		}
	}
}

func TestRankMapDamage(t *testing.T) {
	tests := []struct {
		name    string
		section []byte
		says    string
	}{
		{"empty", nil, "empty"},
		{"form 2", []byte{2, 1, 1}, "form 2"},
		{"short bitmap", make([]byte, 100), "bitmap of 99 bytes"},
		{"empty bitmap", make([]byte, maxRankMapBytes), "no values"},
		{"no runs", []byte{rankRuns}, "no values"},
		{"half a run", []byte{rankRuns, 1}, "a run breaks off"},
		{"half a gap", []byte{rankRuns, 0x80}, "a gap breaks off"},
		{"gap 0", []byte{rankRuns, 0, 1}, "at a gap of 0"},
		{"run 0", []byte{rankRuns, 1, 0}, "0 values"},
		{"past the end", []byte{rankRuns, 0x81, 0x80, 4, 1}, "1 values at a gap of 65537"},
		{"too long", []byte{rankRuns, 2, 0x81, 0x80, 2}, "32769 values at a gap of 2"},
		{"overflow", append(bytes.Repeat([]byte{0xff}, 9), 1), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := new(rankMap).parse(test.section)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want one that says %q", err, test.says)
			}
		})
	}
	full := []byte{rankRuns, 1, 0x80, 0x80, 4}
	m := new(rankMap)
	if err := m.parse(full); err != nil || m.count != 1<<16 || m.values[65535] != 65535 {
		t.Errorf("all values: %d of them, %v", m.count, err)
	}
}

// TestValueBeyondTheRankMap gives a file a shorter map than its samples need.
func TestValueBeyondTheRankMap(t *testing.T) {
	f := smallFiles(t)["rank map"]
	section := f.file[headerBytes+sectionHeaderBytes:]
	section = section[:binary.LittleEndian.Uint32(f.file[headerBytes+4:])]
	m := new(rankMap)
	if err := m.parse(section); err != nil {
		t.Fatal(err)
	}
	short := append([]byte{rankRuns}, 1, 2) // the values 0 and 1
	if len(section)%2 == 0 {
		short = append(short, 0x81, 0, 1) // a gap of 1, spelt longer
	}
	for len(short) < len(section) {
		short = append(short, 1, 1)
	}
	if len(short) != len(section) {
		t.Fatalf("%d bytes do not fit into %d", len(short), len(section))
	}
	copy(section, short)
	_, err := readBoth(t, repair(f.file), make([]byte, len(f.pix)))
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "beyond the rank map") {
		t.Errorf("%v", err)
	}
}
