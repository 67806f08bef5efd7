package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/internal/jpeg"
	"prismfs/internal/testfiles"
	"prismfs/pcr"
	"prismfs/raster"
)

// readerRecord and readerImage are what testdata/pcr_reader.py prints.
type readerRecord struct {
	Labels  []int32 `json:"labels"`
	Levels  int     `json:"levels"`
	Version int     `json:"version"`
	Lengths []int64 `json:"lengths"`
	Images  []struct {
		Bytes  []int    `json:"bytes"`
		SHA256 []string `json:"sha256"`
		Pixels []struct {
			Mode   string `json:"mode"`
			Size   []int  `json:"size"`
			SHA256 string `json:"sha256"`
		} `json:"pixels"`
	} `json:"images"`
}

type readerOutput struct {
	Index   []string                `json:"index"`
	Records map[string]readerRecord `json:"records"`
}

// python is the interpreter of the tests that need one with PIL.
func python() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	return "/usr/bin/python3"
}

// readIndependently reads a dataset by the reader that shares nothing with the
// writer. Pixels are those of full fidelity.
func readIndependently(t testing.TB, dir, pixels string) readerOutput {
	t.Helper()
	if pixels != "none" {
		if err := exec.Command(python(), "-c", "import PIL").Run(); err != nil {
			t.Skipf("%s has no PIL: %v", python(), err)
		}
	}
	var stderr bytes.Buffer
	cmd := exec.Command(python(), "-B", "testdata/pcr_reader.py", "--pixels", pixels, dir)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the independent reader: %v\n%s", err, stderr.String())
	}
	var r readerOutput
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// mustPackPCR packs and checks that the summary adds up.
func mustPackPCR(t testing.TB, src, dst string, opt PCROptions) *Summary {
	t.Helper()
	before := listing(t, src)
	s, err := PackPCR(context.Background(), src, dst, opt)
	if err != nil {
		t.Fatalf("PackPCR: %v", err)
	}
	checkSum(t, s)
	if !s.Finished {
		t.Error("the summary of a finished run says it is not")
	}
	if diff := cmp.Diff(before, listing(t, src)); diff != "" {
		t.Errorf("the source was touched:\n%s", diff)
	}
	return s
}

// recordImages returns class/name of the images of a dataset, by record, as the
// extension has them.
func recordImages(t testing.TB, dst string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dst, pcr.IndexNamePB))
	if err != nil {
		t.Fatal(err)
	}
	index, err := pcr.ParseIndexPB(data)
	if err != nil || len(index.Bad) > 0 {
		t.Fatalf("index: %v %v", err, index)
	}
	out := map[string][]string{}
	for _, e := range index.Entries {
		record, err := os.ReadFile(filepath.Join(dst, e.Name))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := pcr.ParseMetadata(record[:e.Lengths[0]])
		if err != nil || meta.Extension == nil {
			t.Fatalf("%s: %v %v", e.Name, err, meta)
		}
		classes := map[int32]string{}
		for _, c := range meta.Extension.Classes {
			classes[c.Label] = c.Name
		}
		for i, name := range meta.Extension.Names {
			out[e.Name] = append(out[e.Name], classes[meta.Labels[i]]+"/"+name)
		}
	}
	return out
}

// pcrTree is a source of n JPEGs in each of the classes a, b and Z, with files
// that do not go into records.
func pcrTree(t testing.TB, n int) string {
	src := filepath.Join(t.TempDir(), "src")
	files := map[string][]byte{"README": []byte("read me")}
	for c, class := range []string{"a", "b", "Z"} {
		for i := range n {
			files[fmt.Sprintf("%s/%02d.jpg", class, i)] = jpegBytes(t, 10*c+i+1)
		}
	}
	writeTree(t, src, files)
	return src
}

func TestPackPCRReadByAnIndependentReader(t *testing.T) {
	src, dst := pcrTree(t, 4), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"b/sub/deep.JPEG": jpegBytes(t, 77), "b/drawn.png": pngBytes(t, 5), "empty/": nil})
	s := mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 5, Jobs: 3})
	if s.Converted.Files != 14 || s.Passed.Files != 1 || len(s.Refused) != 0 || s.PCR.Encoded != 1 || s.PCR.Records != 3 || s.Classes != 4 {
		t.Errorf("summary %v, %+v", s, s.PCR)
	}
	if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "1 image was no JPEG and was encoded at quality 90") {
		t.Errorf("notes %q", notes)
	}
	names := recordImages(t, dst)
	want := map[string][]string{
		"PCR_0.pcr": {"Z/00.jpg", "Z/01.jpg", "Z/02.jpg", "Z/03.jpg", "a/00.jpg"},
		"PCR_1.pcr": {"a/01.jpg", "a/02.jpg", "a/03.jpg", "b/00.jpg", "b/01.jpg"},
		"PCR_2.pcr": {"b/02.jpg", "b/03.jpg", "b/drawn.png", "b/sub/deep.JPEG"},
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("images by record:\n%s", diff)
	}
	read := readIndependently(t, dst, "full")
	if diff := cmp.Diff(repeated(map[string]int{"PCR_0.pcr": 10, "PCR_1.pcr": 10, "PCR_2.pcr": 10}), read.Index); diff != "" {
		t.Errorf("names in the index:\n%s", diff)
	}
	labels := map[string]int32{"Z": 0, "a": 1, "b": 2, "empty": 3}
	for record, images := range names {
		for i, image := range images {
			class, _, _ := strings.Cut(image, "/")
			if got := read.Records[record].Labels[i]; got != labels[class] {
				t.Errorf("%s has label %d", image, got)
			}
			if strings.HasSuffix(image, ".png") {
				continue
			}
			if got, want := read.Records[record].Images[i].Pixels[0].SHA256, pilPixels(t, filepath.Join(src, image)); got != want {
				t.Errorf("%s has other pixels at full fidelity than its source has", image)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(dst, "empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty class: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(dst, "README")); err != nil || string(data) != "read me" {
		t.Errorf("the file beside the classes: %v", err)
	}
}

// repeated returns every name as often as it says, in order.
func repeated(counts map[string]int) []string {
	var out []string
	for name, n := range counts {
		out = append(out, slices.Repeat([]string{name}, n)...)
	}
	slices.Sort(out)
	return out
}

// pilPixels is the SHA-256 of a file's pixels as PIL converts them to RGB.
func pilPixels(t testing.TB, path string) string {
	t.Helper()
	const program = `import sys, hashlib
from PIL import Image
print(hashlib.sha256(Image.open(sys.argv[1]).convert("RGB").tobytes()).hexdigest())`
	out, err := exec.Command(python(), "-c", program, path).Output()
	if err != nil {
		t.Fatalf("PIL, %s: %v", path, err)
	}
	return strings.TrimSpace(string(out))
}

// What of the hard images is a JPEG has PIL's pixels of its source; the others are
// encoded, or refused with a reason.
func TestPackPCRHardImages(t *testing.T) {
	dir, cases := imageCases(t)
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	sha := map[string]string{}
	for _, c := range cases {
		data, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		writeTree(t, src, map[string][]byte{"hard/" + c.file: data})
		sha[c.file] = c.sha
	}
	s := mustPackPCR(t, src, dst, PCROptions{Jobs: 2})
	refused := map[string]string{}
	for _, r := range s.Refused {
		refused[strings.TrimPrefix(r.Path, "hard/")] = r.Reason
	}
	for file, part := range map[string]string{
		"c22_trunc_idat.png": "ends early", "c23_trunc_baseline.jpg": "ends early", "c51_bomb_20000x20000.png": "limit",
		"c53_zero_bytes.jpg": "empty", "c15_gray16.png": "8 bits", "c60_gray16_be_comment.pgm": "8 bits",
	} {
		if reason, ok := refused[file]; !ok || !strings.Contains(reason, part) {
			t.Errorf("%s: refused: %v, %q", file, ok, reason)
		}
		delete(refused, file)
	}
	if len(refused) > 0 {
		t.Errorf("refused as well: %v", refused)
	}
	names, read := recordImages(t, dst), readIndependently(t, dst, "full")
	jpegs := 0
	for i, name := range names["PCR_0.pcr"] {
		file := strings.TrimPrefix(name, "hard/")
		data, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte{0xff, 0xd8}) {
			continue
		}
		jpegs++
		if got := read.Records["PCR_0.pcr"].Images[i].Pixels[0].SHA256; got != sha[file] {
			t.Errorf("%s: pixels %s, PIL's of the source %s", file, got, sha[file])
		}
	}
	if jpegs < 19 || s.Converted.Files != len(names["PCR_0.pcr"]) {
		t.Errorf("%d JPEGs, %v", jpegs, s)
	}
}

func TestPackPCRPhotos(t *testing.T) {
	if testing.Short() {
		t.Skip("many images")
	}
	src, dst := testfiles.Shared(t, "data/photos"), filepath.Join(t.TempDir(), "dst")
	s, err := PackPCR(context.Background(), src, dst, PCROptions{ImagesPerRecord: 24})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Refused) > 0 || s.Converted.Files < 60 {
		t.Fatalf("%v", s)
	}
	names, read := recordImages(t, dst), readIndependently(t, dst, "full")
	want := pilTree(t, src)
	for record, images := range names {
		for i, image := range images {
			if got := read.Records[record].Images[i].Pixels[0].SHA256; got != want[image] {
				t.Errorf("%s has other pixels", image)
			}
		}
	}
}

// pilTree is pilPixels of every file of a tree, by path.
func pilTree(t testing.TB, root string) map[string]string {
	t.Helper()
	const program = `import sys, os, json, hashlib
from PIL import Image
root = sys.argv[1]
out = {}
for below, _, names in os.walk(root):
    for name in names:
        path = os.path.join(below, name)
        out[os.path.relpath(path, root)] = hashlib.sha256(Image.open(path).convert("RGB").tobytes()).hexdigest()
json.dump(out, sys.stdout)`
	out, err := exec.Command(python(), "-c", program, root).Output()
	if err != nil {
		t.Fatalf("PIL: %v", err)
	}
	pixels := map[string]string{}
	if err := json.Unmarshal(out, &pixels); err != nil {
		t.Fatal(err)
	}
	return pixels
}

// What is written depends on neither the number of jobs nor their order, and on
// the seed alone where it is shuffled.
func TestPackPCRIsReproducible(t *testing.T) {
	src := pcrTree(t, 7)
	contents := func(opt PCROptions) map[string]string {
		dst := filepath.Join(t.TempDir(), "dst")
		opt.ImagesPerRecord = 4
		mustPackPCR(t, src, dst, opt)
		out := map[string]string{}
		for _, name := range names(t, dst) {
			data, err := os.ReadFile(filepath.Join(dst, name))
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(data)
		}
		return out
	}
	seed1, seed2 := uint64(1), uint64(2)
	for _, seed := range []*uint64{nil, &seed1} {
		one := contents(PCROptions{Jobs: 1, ShuffleSeed: seed})
		for _, jobs := range []int{2, 9} {
			if diff := cmp.Diff(one, contents(PCROptions{Jobs: jobs, ShuffleSeed: seed})); diff != "" {
				t.Errorf("with %d jobs it is not the same", jobs)
			}
		}
	}
	plain, first, second := contents(PCROptions{}), contents(PCROptions{ShuffleSeed: &seed1}), contents(PCROptions{ShuffleSeed: &seed2})
	if plain["PCR_0.pcr"] == first["PCR_0.pcr"] || first["PCR_0.pcr"] == second["PCR_0.pcr"] {
		t.Error("another seed gives the same record")
	}
}

func TestPackPCRRefusals(t *testing.T) {
	src, dst := pcrTree(t, 2), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{
		"top.jpg": jpegBytes(t, 1), "PCR_index.pb": []byte("x"), "a/notes.txt": []byte("notes"), "a/empty.jpg": nil,
		"a/false.png": []byte("no image"), "a/cut.jpg": jpegBytes(t, 3)[:300], "a/16.npy": npy16(t),
	})
	s := mustPackPCR(t, src, dst, PCROptions{})
	want := map[string]string{
		"top.jpg": "has a class", "PCR_index.pb": "have in the destination", "a/notes.txt": "no image", "a/empty.jpg": "empty",
		"a/false.png": "no known image format", "a/cut.jpg": "ends early", "a/16.npy": "8 bits",
	}
	for _, r := range s.Refused {
		if part, ok := want[r.Path]; !ok || !strings.Contains(r.Reason, part) {
			t.Errorf("%s was refused: %s", r.Path, r.Reason)
		}
		delete(want, r.Path)
	}
	if len(want) > 0 || s.Converted.Files != 6 || s.Passed.Files != 1 {
		t.Errorf("not refused: %v; %v", want, s)
	}
}

// npy16 is an array of one uint16.
func npy16(t testing.TB) []byte {
	t.Helper()
	header := fmt.Sprintf("%-117s\n", "{'descr': '<u2', 'fortran_order': False, 'shape': (1, 1), }")
	data := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return append(append(data, header...), 1, 2)
}

func TestPackPCRUnusableSources(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "src")
	writeTree(t, empty, map[string][]byte{"top.jpg": jpegBytes(t, 1), "class/": nil})
	for _, src := range []string{empty, filepath.Join(empty, "none")} {
		dst := filepath.Join(t.TempDir(), "dst")
		if _, err := PackPCR(context.Background(), src, dst, PCROptions{}); !errors.Is(err, ErrSource) {
			t.Errorf("%s: %v", src, err)
		}
		if _, err := os.Lstat(dst); err == nil {
			t.Error("the destination was made")
		}
	}
	src := pcrTree(t, 1)
	if _, err := PackPCR(context.Background(), src, filepath.Join(src, "dst"), PCROptions{}); !errors.Is(err, ErrDestination) {
		t.Errorf("a destination in the source: %v", err)
	}
}

// Classes whose folders would be taken for records, an index or pack's own files
// are named before anything is made.
func TestPackPCRRefusesNamesOfRecords(t *testing.T) {
	for _, class := range []string{"PCR_0.pcr", "mine.pcr", pcr.IndexNamePB, pcr.IndexNameSQLite, Marker, tempPrefix + "x", ".prismfs-mine"} {
		for _, file := range []string{"/1.jpg", "/"} {
			src, dst := pcrTree(t, 1), filepath.Join(t.TempDir(), "dst")
			writeTree(t, src, map[string][]byte{class + file: jpegBytes(t, 1)})
			_, err := PackPCR(context.Background(), src, dst, PCROptions{})
			if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "rename "+class) {
				t.Errorf("%s%s: %v", class, file, err)
			}
			if _, err := os.Lstat(dst); err == nil {
				t.Error("the destination was made")
			}
		}
	}
}

// L3 files would hide records.
func TestPackL3RefusesFoldersOfRecords(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"a/1.png": pngBytes(t, 1), "note.pcr": []byte("no record")})
	root := t.TempDir()
	mustPackPCR(t, pcrTree(t, 1), filepath.Join(root, "above", "train"), PCROptions{})
	writeTree(t, root, map[string][]byte{"index/PCR.db": nil})
	for _, dst := range []string{"above", "above/train", "index"} {
		before := without(listing(t, filepath.Join(root, dst)))
		_, err := Pack(context.Background(), src, filepath.Join(root, dst), Options{})
		if !errors.Is(err, ErrDestination) || !strings.Contains(err.Error(), "holds PCR records") {
			t.Errorf("%s: %v", dst, err)
		}
		if diff := cmp.Diff(before, without(listing(t, filepath.Join(root, dst)))); diff != "" {
			t.Errorf("%s changed:\n%s", dst, diff)
		}
	}
	// What was copied from the source is no obstacle.
	for range 2 {
		if s := mustPack(t, src, filepath.Join(root, "new"), Options{}); s.Converted.Files != 1 || s.Passed.Files != 1 {
			t.Errorf("%v", s)
		}
	}
}

// Each record tells all labels, so that a lost one shifts none.
func TestPackPCRTellsAllClasses(t *testing.T) {
	src, dst := pcrTree(t, 2), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"empty/": nil})
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 2})
	want := []pcr.Class{{Label: 0, Name: "Z"}, {Label: 1, Name: "a"}, {Label: 2, Name: "b"}, {Label: 3, Name: "empty"}}
	for i := range 3 {
		data, err := os.ReadFile(filepath.Join(dst, recordName(i)))
		if err != nil {
			t.Fatal(err)
		}
		size, err := pcr.MetadataBytes(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := pcr.ParseMetadata(data[:size])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, meta.Extension.Classes); diff != "" {
			t.Errorf("record %d:\n%s", i, diff)
		}
	}
}

func TestPackPCRNotesPartsOfADataset(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"train/cat/1.jpg": jpegBytes(t, 1), "val/cat/1.jpg": jpegBytes(t, 2)})
	s := mustPackPCR(t, src, filepath.Join(t.TempDir(), "dst"), PCROptions{})
	if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "pack each of them by itself") {
		t.Errorf("notes %q", notes)
	}
}

// JPEG has no alpha, no int16 and no channels without meaning.
func TestForJPEG(t *testing.T) {
	shape := func(channels int, colour raster.Color, dtype raster.DType) raster.Shape {
		return raster.Shape{Height: 1, Width: 2, Channels: channels, DType: dtype, Color: colour}
	}
	for _, c := range []struct {
		in    raster.Shape
		want  []byte // nil: refused
		alpha bool
	}{
		{shape(1, raster.Grey, raster.Uint8), []byte{1, 2}, false},
		{shape(3, raster.RGB, raster.Uint8), []byte{1, 2, 3, 4, 5, 6}, false},
		{shape(2, raster.GreyAlpha, raster.Uint8), []byte{1, 3}, true},
		{shape(4, raster.RGBA, raster.Uint8), []byte{1, 2, 3, 5, 6, 7}, true},
		{shape(1, raster.Other, raster.Uint8), []byte{1, 2}, false},
		{shape(2, raster.Other, raster.Uint8), nil, false},
		{shape(3, raster.RGB, raster.Uint16), nil, false},
	} {
		pix := make([]byte, c.in.Bytes())
		for i := range pix {
			pix[i] = byte(i + 1)
		}
		got, alpha, err := forJPEG(raster.Image{Shape: c.in, Pix: pix})
		if (err != nil) != (c.want == nil) || !bytes.Equal(got.Pix, c.want) || alpha != c.alpha {
			t.Errorf("%v: %v %v %v", c.in, got.Pix, alpha, err)
		}
		if err == nil && got.Bytes() != int64(len(got.Pix)) {
			t.Errorf("%v became %v with %d bytes", c.in, got.Shape, len(got.Pix))
		}
	}
}

// An image that was encoded comes near its source.
func TestPackPCREncodesAtQuality(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"a/1.png": encodePNG(t, smooth(64, 48))})
	sizes := map[int]int64{}
	for _, quality := range []int{0, 40, 90} {
		dst := filepath.Join(t.TempDir(), "dst")
		s := mustPackPCR(t, src, dst, PCROptions{Quality: quality})
		sizes[quality] = s.Converted.BytesOut
		record, err := os.ReadFile(filepath.Join(dst, "PCR_0.pcr"))
		if err != nil {
			t.Fatal(err)
		}
		_, spans, err := pcr.RebuildIndexEntry(bytes.NewReader(record), int64(len(record)), "PCR_0.pcr")
		if err != nil {
			t.Fatal(err)
		}
		if len(spans) != 10 {
			t.Errorf("quality %d: %d scan groups", quality, len(spans))
		}
	}
	if sizes[0] != sizes[90] || sizes[40] >= sizes[90] {
		t.Errorf("bytes by quality: %v", sizes)
	}
}

// jpegOf returns the JPEG of an image of a record at full fidelity.
func jpegOf(t testing.TB, path string, image int) []byte {
	t.Helper()
	record, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	entry, spans, err := pcr.RebuildIndexEntry(bytes.NewReader(record), int64(len(record)), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for g, group := range spans {
		at := entry.GroupOffset(g+1) + group[image].Off
		data = append(data, record[at:at+group[image].Len]...)
	}
	return pcr.AppendEOI(data)
}

// Every image is as it was decoded when it was packed.
func TestPackPCRPixelsWithoutPython(t *testing.T) {
	src, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
	for record, images := range recordImages(t, dst) {
		for i, image := range images {
			got, err := jpeg.Decode(jpegOf(t, filepath.Join(dst, record), i), jpeg.Options{})
			if err != nil {
				t.Fatalf("%s: %v", image, err)
			}
			want := decodeSource(t, filepath.Join(src, image))
			if got.Shape != want.Shape || !bytes.Equal(got.Pix, want.Pix) || !got.Header.Progressive {
				t.Errorf("%s: %v, source %v", image, got.Shape, want.Shape)
			}
		}
	}
}
