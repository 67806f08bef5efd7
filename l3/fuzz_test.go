package l3

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"prismfs/raster"
)

// fuzzLimits keep fuzzing quick.
var fuzzLimits = Limits{MaxPixels: 1 << 20, MaxBytes: 4 << 20}

// seedFiles adds the golden files and those of every small kind.
func seedFiles(f *testing.F) {
	golden, err := filepath.Glob(filepath.Join(goldenFolder, "*.l3"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range golden {
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	for _, small := range smallFiles(f) {
		f.Add(small.file)
	}
}

// checkReading reads a file that may be anything: no panic, errors of one kind,
// and what is decoded survives being encoded again in every mode that can hold
// it.
func checkReading(t *testing.T, file []byte) {
	info, err := ReadInfo(bytes.NewReader(file), int64(len(file)), fuzzLimits)
	if err != nil {
		checkOneKind(t, err)
		if _, err := NewDecoder(fuzzLimits).Decode(nil, file); err == nil {
			t.Errorf("decoded without a head that can be read")
		}
		return
	}
	pix := make([]byte, info.Shape.Bytes())
	if _, err := decodeEach(t, pix, file, fuzzLimits); err != nil {
		checkOneKind(t, err)
		return
	}
	img := raster.Image{Shape: info.Shape, Pix: pix}
	for _, mode := range []Mode{ModeFast, ModeDense, ModeLabels, ModePublished, ModeRaw} {
		opt := EncodeOptions{Mode: mode, Meta: info.Meta, SignificantBits: info.SignificantBits}
		if mode == ModePublished && checkPublished(info.Shape) != nil || mode == ModeLabels && checkLabels(info.Shape) != nil {
			continue
		}
		again, _ := mustDecode(t, checkRoundTrip(t, img, opt))
		if mode != ModePublished {
			checkMetadata(t, again.Meta, info.Meta)
			if again.SignificantBits != info.SignificantBits {
				t.Errorf("%d significant bits became %d", info.SignificantBits, again.SignificantBits)
			}
		}
	}
}

// FuzzRead reads any bytes as either format.
func FuzzRead(f *testing.F) {
	seedFiles(f)
	f.Fuzz(checkReading)
}

// FuzzReadRepaired reads version 2 files whose checksums agree with whatever
// they contain, so that what stands behind the checksums is reached.
func FuzzReadRepaired(f *testing.F) {
	seedFiles(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		if !hasMagic(file, magicV2) {
			return
		}
		file = repair(bytes.Clone(file))
		h, err := parseHeader(file, int64(len(file)), fuzzLimits)
		if err == nil && h.checkHead(file[:h.headBytes]) == nil {
			// The first try fails for the checksum of the samples at the
			// earliest; the second does not.
			pix := make([]byte, h.shape.Bytes())
			if _, err := NewDecoder(fuzzLimits).Decode(pix, file); err != nil {
				checkOneKind(t, err)
			}
			file = repairSamples(file, pix)
		}
		checkReading(t, file)
	})
}

// FuzzReadPublished reads published files whose patch sizes agree with the
// file's size.
func FuzzReadPublished(f *testing.F) {
	seedFiles(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		if !hasMagic(file, magicPublished) {
			return
		}
		file = bytes.Clone(file)
		if h, err := parsePublished(file, int64(len(file)), fuzzLimits); err == nil {
			last := int(h.headBytes()) - publishedSizeBytes
			binary.LittleEndian.PutUint16(file[last:], 0)
			rest := int64(len(file)) - h.headBytes()
			for c := range publishedChannels {
				for i := range int(h.patches()) {
					rest -= int64(h.patchBytes(file, c, i))
				}
			}
			if rest >= 0 && rest < 1<<16 {
				binary.LittleEndian.PutUint16(file[last:], uint16(rest))
			}
		}
		checkReading(t, file)
	})
}

// splitPatches makes n patches of data, of about one size each.
func splitPatches(data []byte, n int) [][]byte {
	data = appendPadding(bytes.Clone(data), 0)
	patches := make([][]byte, n)
	for k := range patches {
		size := len(data) / (n - k) &^ 3
		patches[k], data = data[:size], data[size:]
	}
	return patches
}

// FuzzEncode encodes any samples of any shape in any mode of version 2.
func FuzzEncode(f *testing.F) {
	modes := []Mode{ModeFast, ModeDense, ModeLabels, ModeAuto}
	for i := range uint8(len(modes)) {
		f.Add(uint8(3), uint8(5), 2+12*i, []byte("some samples"))
		f.Add(uint8(129), uint8(0), 9+60*i, []byte{0, 1, 2, 255})
		f.Add(uint8(7), uint8(70), 7+12*i, bytes.Repeat([]byte{1, 200, 3}, 300))
		f.Add(uint8(63), uint8(63), 2+60*i, bytes.Repeat([]byte("gradients "), 900))
		f.Add(uint8(40), uint8(70), 12*i, bytes.Repeat([]byte{5, 5, 5, 5, 9, 9}, 400))
	}
	f.Fuzz(func(t *testing.T, height, width, kind uint8, samples []byte) {
		k := int(kind)
		s := shapeOf(1+int(height)%140, 1+int(width)%140, 1+k%4, sampleTypes[k/4%3])
		img := raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}
		for i := range img.Pix { // what is given, repeated with a drift
			if len(samples) > 0 {
				img.Pix[i] = samples[i%len(samples)] + byte(i/len(samples))
			}
		}
		opt := EncodeOptions{Mode: modes[k/12%len(modes)], Workers: 1 + k%3, Effort: 1 + k/48%MaxEffort}
		if opt.Mode == ModeLabels && checkLabels(s) != nil {
			opt.Mode = ModeDense
		}
		file := checkRoundTrip(t, img, opt)
		checkGrowth(t, s, len(file))
		if !bytes.Equal(slowDecode(file), img.Pix) {
			t.Errorf("%v: the specification gives other samples", s)
		}
		if checkPublished(s) == nil {
			checkRoundTrip(t, img, EncodeOptions{Mode: ModePublished})
		}
	})
}
