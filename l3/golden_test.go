package l3

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prismfs/raster"
)

// Files that this package wrote once and must read for ever stand in
// testdata/golden, with what they hold in golden.tsv: name, coding, shape, and
// the SHA-256 of the samples. Nothing is ever changed there. What a new version
// writes in another way is added.

var writeGolden = flag.Bool("write-golden", false, "add the golden files that do not exist yet")

const goldenFolder = "testdata/golden"

// goldenLine is what golden.tsv says of a file.
func goldenLine(name string, info Info, pix []byte) string {
	return fmt.Sprintf("%s\t%v\t%v\t%x", name, info.Coding, info.Shape, sha256.Sum256(pix))
}

func TestGolden(t *testing.T) {
	if *writeGolden {
		addGolden(t)
	}
	table, err := os.ReadFile(filepath.Join(goldenFolder, "golden.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	codings := make(map[Coding]int)
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "\t")
		file, err := os.ReadFile(filepath.Join(goldenFolder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		info, pix := mustDecode(t, file)
		if got := goldenLine(name, info, pix); got != line {
			t.Errorf("%s\nholds now %s", line, got)
		}
		if info.Version == version2 && !bytes.Equal(slowDecode(file), pix) {
			t.Errorf("%s: the specification gives other samples", name)
		}
		codings[info.Coding]++
	}
	for _, c := range []Coding{Raw, Fast8, Dense8, Fast16, Dense16, Labels, Published} {
		if codings[c] == 0 {
			t.Errorf("no golden file of the %v coding", c)
		}
	}
	files, err := filepath.Glob(filepath.Join(goldenFolder, "*.l3"))
	if err != nil || len(files) != len(lines) {
		t.Errorf("%d files, %d lines in golden.tsv, %v", len(files), len(lines), err)
	}
}

// TestGoldenMetadata reads the metadata of the golden file that has all of it.
func TestGoldenMetadata(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(goldenFolder, "metadata.l3"))
	if err != nil {
		t.Fatal(err)
	}
	info, _ := mustDecode(t, file)
	want := goldenMetadata()
	checkMetadata(t, info.Meta, want)
	if info.SignificantBits != 7 {
		t.Errorf("%d significant bits", info.SignificantBits)
	}
}

func goldenMetadata() Metadata {
	label := int64(-1234567890123)
	return Metadata{
		Label: &label, Class: "n01440764 tench, \xff", OriginalName: "ILSVRC2012_val_00000293.JPEG",
		SourceDecoder: "libjpeg-turbo 2.1.5", ColourProfile: []byte("no profile, but bytes\x00\x01"),
	}
}

// goldenFiles makes the files, by name.
func goldenFiles(t testing.TB) map[string][]byte {
	files := make(map[string][]byte)
	add := func(name string, img raster.Image, opt EncodeOptions) {
		files[name] = checkRoundTrip(t, img, opt)
	}
	rng := rand.New(rand.NewPCG(2, 0))
	photo, smooth, noise, sparse, opaque, constant := pictures[3], pictures[2], pictures[4], pictures[8], pictures[9], pictures[0]
	for channels := 1; channels <= 4; channels++ {
		add(fmt.Sprintf("fast8-%d.l3", channels), draw(photo, shapeOf(70, 67, channels, raster.Uint8)), EncodeOptions{})
		for _, dtype := range sampleTypes {
			name := fmt.Sprintf("any-%v-%d.l3", dtype, channels)
			files[name], _ = randomFile(t, rng, shapeOf(33, 41+channels, channels, dtype), minLogEdge)
		}
	}
	files["any-uint8-1-edge128.l3"], _ = randomFile(t, rng, shapeOf(66, 130, 1, raster.Uint8), maxLogEdge)
	files["any-uint16-1-edge128.l3"], _ = randomFile(t, rng, shapeOf(3, 128, 1, raster.Uint16), maxLogEdge)
	add("raw-1x1.l3", draw(photo, shapeOf(1, 1, 3, raster.Uint8)), EncodeOptions{})
	files["fast8-column.l3"] = encodeEdge(t, draw(smooth, shapeOf(90, 1, 3, raster.Uint8)), minLogEdge)
	files["fast8-row.l3"] = encodeEdge(t, draw(smooth, shapeOf(1, 90, 3, raster.Uint8)), minLogEdge)
	add("fast8-opaque.l3", draw(opaque, shapeOf(32, 32, 4, raster.Uint8)), EncodeOptions{})
	add("fast8-constant.l3", draw(constant, shapeOf(65, 129, 3, raster.Uint8)), EncodeOptions{})
	mixed := draw(photo, shapeOf(40, 100, 1, raster.Uint8)) // its right patch is raw
	for y := range 40 {
		for x := 64; x < 100; x++ {
			mixed.Pix[y*100+x] = byte(rng.Uint32())
		}
	}
	add("fast8-raw-patch.l3", mixed, EncodeOptions{})
	add("fast16-rgb.l3", draw(photo, shapeOf(65, 30, 3, raster.Uint16)), EncodeOptions{})
	add("fast16-signed.l3", draw(photo, shapeOf(30, 31, 1, raster.Int16)), EncodeOptions{})
	add("fast16-ranks.l3", draw(sparse, shapeOf(50, 60, 1, raster.Uint16)), EncodeOptions{})
	add("fast16-ranks-signed.l3", draw(sparse, shapeOf(50, 60, 1, raster.Int16)), EncodeOptions{})
	files["fast16-ranks-bitmap.l3"] = encodeEdge(t, unevenRamp(), minLogEdge)
	add("raw.l3", draw(noise, shapeOf(11, 13, 3, raster.Uint8)), EncodeOptions{})
	add("raw-signed.l3", draw(photo, shapeOf(7, 9, 1, raster.Int16)), EncodeOptions{Mode: ModeRaw})
	add("published.l3", draw(photo, shapeOf(64, 128, 3, raster.Uint8)), EncodeOptions{Mode: ModePublished})
	add("metadata.l3", draw(photo, shapeOf(8, 8, 3, raster.Uint8)), EncodeOptions{Meta: goldenMetadata(), SignificantBits: 7})
	addGoldenDense8(t, files)
	addGoldenDense16(t, files)
	addGoldenLabels(t, files)
	return files
}

// addGoldenDense8 adds files of the dense coding of 8 bits.
func addGoldenDense8(t testing.TB, files map[string][]byte) {
	rng := rand.New(rand.NewPCG(2, 8))
	photo, opaque := pictures[3], pictures[9]
	for channels := 1; channels <= 4; channels++ {
		img := draw(photo, shapeOf(40, 67, channels, raster.Uint8))
		files[fmt.Sprintf("dense8-%d.l3", channels)] = checkRoundTrip(t, img, EncodeOptions{Mode: ModeDense})
		for edge := minLogEdge; edge <= maxLogEdge; edge++ {
			name := fmt.Sprintf("any-dense8-%d-edge%d.l3", channels, 1<<edge)
			files[name], _ = randomDense8File(t, rng, shapeOf(17, 50*edge-200+channels, channels, raster.Uint8), edge)
		}
	}
	files["dense8-tables.l3"] = dense8File(t, draw(photo, shapeOf(30, 70, 3, raster.Uint8)), minLogEdge, maxLogStreams, true, EncodeOptions{})
	files["dense8-opaque.l3"] = checkRoundTrip(t, draw(opaque, shapeOf(16, 33, 4, raster.Uint8)), EncodeOptions{Mode: ModeDense})
}

// unevenRamp is an image of ever larger values with gaps that no runs describe
// well.
func unevenRamp() raster.Image {
	rng := rand.New(rand.NewPCG(8, 8))
	img := raster.Image{Shape: shapeOf(70, 70, 1, raster.Uint16)}
	v := 0
	for range 70 * 70 {
		img.Pix = append(img.Pix, byte(v), byte(v>>8))
		v += 1 + rng.IntN(25)
	}
	return img
}

// addGolden writes what is not there.
func addGolden(t *testing.T) {
	if err := os.MkdirAll(goldenFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	table, err := os.OpenFile(filepath.Join(goldenFolder, "golden.tsv"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	files := goldenFiles(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, path := files[name], filepath.Join(goldenFolder, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		info, pix := mustDecode(t, file)
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(table, goldenLine(name, info, pix)); err != nil {
			t.Fatal(err)
		}
	}
}
