package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/dataset"
	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// A testCase is one row of the table of hard images.
type testCase struct{ id, file, size, sha string }

// imageCases returns the rows about image files.
func imageCases(t testing.TB) (dir string, cases []testCase) {
	t.Helper()
	f, err := os.Open(testfiles.Shared(t, "cases/cases.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = '\t'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		if row[1] == "1" && row[2] != "-" {
			cases = append(cases, testCase{row[0], row[2], row[5], row[6]})
		}
	}
	if len(cases) < 40 {
		t.Fatalf("the table has %d rows about images only", len(cases))
	}
	return testfiles.Shared(t, "cases/files"), cases
}

// must and may say which cases are refused: those PIL cannot read either, and
// those for which a refusal that names the reason is right too.
var (
	mustRefuse = map[string]string{
		"c22": "ends early", "c23": "", "c51": "limit", "c51b": "limit", "c53": "empty",
	}
	mayRefuse = map[string]string{
		"c37": "arithmetic", "c49": "scans", "c49b": "scans", "c57": "WebP",
	}
)

// Every hard image in one folder: the summary adds up, the right ones are
// refused, and the pixels of all others are those that PIL gives.
func TestPackHardImages(t *testing.T) {
	dir, cases := imageCases(t)
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	files := map[string]bool{}
	for _, c := range cases {
		data, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		writeTree(t, src, map[string][]byte{"hard/" + c.file: data})
		files[c.file] = true
	}
	s := mustPack(t, src, dst, Options{KeepSuffix: true, Jobs: 2})
	if s.FilesIn != len(files) || s.Passed.Files != 0 || s.Converted.Files != len(files)-len(s.Refused) {
		t.Errorf("%d files: %v", len(files), s)
	}
	refused := map[string]string{}
	for _, r := range s.Refused {
		refused[strings.TrimPrefix(r.Path, "hard/")] = r.Reason
	}
	for _, c := range cases {
		t.Run(c.id, func(t *testing.T) {
			reason, isRefused := refused[c.file]
			part, must := mustRefuse[c.id]
			if !must {
				part = mayRefuse[c.id]
			}
			_, may := mayRefuse[c.id]
			switch {
			case must && !isRefused:
				t.Error("it was packed")
			case isRefused && !must && !may:
				t.Errorf("it was refused: %s", reason)
			case isRefused:
				if !strings.Contains(reason, part) || reason == "" {
					t.Errorf("the reason %q lacks %q", reason, part)
				}
			default:
				checkHardImage(t, c, filepath.Join(src, "hard", c.file), filepath.Join(dst, "hard", c.file+Suffix))
			}
		})
	}
}

// checkHardImage compares a packed image with its source and with what PIL
// makes of that.
func checkHardImage(t *testing.T, c testCase, source, output string) {
	info := samePixelsAs(t, output, source)
	if info.Meta.SourceDecoder == "" || info.Meta.OriginalName != c.file {
		t.Errorf("metadata %+v", info.Meta)
	}
	if info.Shape.DType != raster.Uint8 {
		if !strings.Contains(c.file, "gray16") || info.Shape.DType != raster.Uint16 {
			t.Errorf("the samples are %v", info.Shape.DType)
		}
		return // PIL's conversion to RGB clips them: the table's row is wrong here
	}
	_, img := decodeOutput(t, output)
	sum := sha256.Sum256(asRGB(img))
	if got := hex.EncodeToString(sum[:]); got != c.sha {
		t.Errorf("as RGB the pixels have SHA-256 %s, PIL's %s", got, c.sha)
	}
}

// asRGB does what PIL's convert("RGB") does with 8-bit samples.
func asRGB(m raster.Image) []byte {
	var out []byte
	for i := 0; i < len(m.Pix); i += m.Channels {
		p := m.Pix[i : i+m.Channels]
		if m.Channels < 3 {
			out = append(out, p[0], p[0], p[0])
		} else {
			out = append(out, p[:3]...)
		}
	}
	return out
}

// A decompression bomb is refused by its header, without memory for it.
func TestPackBombAllocatesLittle(t *testing.T) {
	bomb, err := os.ReadFile(testfiles.Shared(t, "cases/files/c51_bomb_20000x20000.png"))
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"a/bomb.png": bomb, "a/good.png": pngBytes(t, 1)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{Jobs: 1})
	runtime.ReadMemStats(&after)
	if diff := cmp.Diff([]string{"a/bomb.png"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

func TestPackOddNames(t *testing.T) {
	src := filepath.Join(untar(t, testfiles.Shared(t, "cases/files/t01_odd_names.tar.gz")), "odd", "train")
	before := listing(t, src)
	dst := filepath.Join(t.TempDir(), "dst")
	s := mustPack(t, src, dst, Options{})
	if diff := cmp.Diff(before, listing(t, src)); diff != "" {
		t.Errorf("the source was touched:\n%s", diff)
	}
	want := map[string]string{
		"cls a/dangling.jpg": "leads nowhere",
		"cls a/fifo.jpg":     "named pipe",
		"cls a/loop":         "back to itself",
	}
	if os.Geteuid() != 0 {
		want["cls a/unreadable.jpg"] = "permission denied"
	}
	for _, r := range s.Refused {
		if part, ok := want[r.Path]; !ok || !strings.Contains(r.Reason, part) {
			t.Errorf("%q was refused: %s", r.Path, r.Reason)
		}
		delete(want, r.Path)
	}
	if len(want) > 0 {
		t.Errorf("not refused: %v", want)
	}
	class, err := os.ReadDir(filepath.Join(src, "cls a"))
	if err != nil {
		t.Fatal(err)
	}
	packed := 0
	for _, e := range class {
		source := filepath.Join(src, "cls a", e.Name())
		info, err := os.Stat(source)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o400 == 0 && os.Geteuid() != 0 {
			continue
		}
		packed++
		meta := samePixelsAs(t, filepath.Join(dst, "cls a", PackedName(e.Name(), false)), source).Meta
		// ImageFolder sees .ipynb_checkpoints, cls a and empty_class.
		if meta.OriginalName != e.Name() || meta.Class != "cls a" || meta.Label == nil || *meta.Label != 1 {
			t.Errorf("%q: metadata %+v", e.Name(), meta)
		}
	}
	if packed < 22 {
		t.Errorf("only %d odd names were looked at", packed)
	}
	for _, name := range []string{"notes.txt", "Thumbs.db", ".DS_Store", "cls a/latin\xe9.l3", "cls a/dir.jpg", "empty_class"} {
		if _, err := os.Lstat(filepath.Join(dst, name)); err != nil {
			t.Error(err)
		}
	}
	if s.Converted.Files != packed+1 || s.Passed.Files != 3 { // one image lies in .ipynb_checkpoints
		t.Errorf("%d images: %v", packed, s)
	}
}

func TestPackStemCollisionsAndClassOrder(t *testing.T) {
	src := filepath.Join(untar(t, testfiles.Shared(t, "cases/files/t02_stem_collisions_class_order.tar.gz")), "coll")
	classes := []string{"1", "10", "2", "B", "a", "Ä"} // in ImageFolder's order
	var collide, broken []string                       // the arrays are cut off
	for _, c := range classes {
		for _, name := range []string{"img.JPG", "img.jpeg", "img.jpg", "img.jpg.npy", "img.npy", "img.png"} {
			collide = append(collide, c+"/"+name)
		}
		broken = append(broken, c+"/img.jpg.npy", c+"/img.npy")
	}
	dst := filepath.Join(t.TempDir(), "dst")
	s := mustPack(t, src, dst, Options{})
	if diff := cmp.Diff(collide, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	for _, r := range s.Refused {
		if collides := strings.Contains(r.Reason, "--keep-suffix"); collides == strings.HasSuffix(r.Path, ".jpg.npy") {
			t.Errorf("%s was refused: %s", r.Path, r.Reason)
		}
	}
	if s.FilesIn != 42 || s.Converted.Files != 6 || s.Classes != 6 {
		t.Errorf("summary %v", s)
	}
	for label, class := range classes {
		info := samePixelsAs(t, filepath.Join(dst, class, "img2.l3"), filepath.Join(src, class, "img2.jpg"))
		if *info.Meta.Label != int64(label) || info.Meta.Class != class {
			t.Errorf("class %s has label %d and class %s", class, *info.Meta.Label, info.Meta.Class)
		}
	}
	dst = filepath.Join(t.TempDir(), "dst")
	s = mustPack(t, src, dst, Options{KeepSuffix: true})
	if diff := cmp.Diff(broken, refusedPaths(s)); diff != "" || s.Converted.Files != 30 {
		t.Errorf("with suffixes kept, refused:\n%s%v", diff, s)
	}
	for _, class := range classes {
		for _, name := range []string{"img.JPG", "img.jpeg", "img.jpg", "img.png", "img2.jpg"} {
			samePixelsAs(t, filepath.Join(dst, class, name+Suffix), filepath.Join(src, class, name))
		}
	}
}

// Verify tells the libraries, with their versions, that the pixels came from.
func TestVerifyNamesSourceDecoders(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"a/one.png": pngBytes(t, 1), "a/two.jpg": jpegBytes(t, 2), "a/three.jpg": jpegBytes(t, 3)})
	mustPack(t, src, dst, Options{})
	v, err := Verify(context.Background(), dst, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.SourceDecoders) != 2 || v.SourceDecoders[0].Samples != 2 || v.SourceDecoders[0].Name != decodeBytes(t, jpegBytes(t, 2)).Decoder ||
		!strings.HasPrefix(v.SourceDecoders[0].Name, "libjpeg-turbo ") {
		t.Errorf("source decoders %+v", v.SourceDecoders)
	}
}

// TestCasesOfDecoders: the library that read a source image, with its version, is
// recorded in what was packed, and verify prints it.
func TestCasesOfDecoders(t *testing.T) {
	t.Run("c65", TestVerifyNamesSourceDecoders)
	t.Run("c65b", func(t *testing.T) {
		src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
		for i, data := range [][]byte{jpegBytes(t, 1), progressiveJPEG(t, 2)} {
			writeTree(t, src, map[string][]byte{fmt.Sprintf("a/%d.jpg", i): data})
			want := decodeBytes(t, data).Decoder
			if !strings.ContainsAny(want, "0123456789") {
				t.Errorf("the decoder %q has no version", want)
			}
		}
		mustPack(t, src, dst, Options{})
		for i := range 2 {
			meta := samePixelsAs(t, filepath.Join(dst, fmt.Sprintf("a/%d.l3", i)), filepath.Join(src, fmt.Sprintf("a/%d.jpg", i))).Meta
			data, err := os.ReadFile(filepath.Join(src, fmt.Sprintf("a/%d.jpg", i)))
			if err != nil {
				t.Fatal(err)
			}
			if want := decodeBytes(t, data).Decoder; meta.SourceDecoder != want {
				t.Errorf("%d: recorded is %q, decoded with %q", i, meta.SourceDecoder, want)
			}
		}
	})
}

// scanFiles are JPEGs with different numbers of scans, and files that are none.
func scanFiles(t *testing.T) (good, bad map[string][]byte) {
	t.Helper()
	good, bad = map[string][]byte{}, map[string][]byte{"h_broken.jpg": nil, "i_zero.jpg": {}}
	for name, from := range map[string]string{
		"a_base.jpg": "rgb-420", "b_prog10.jpg": "rgb-420-progressive", "c_gray_prog.jpg": "grey-progressive",
		"d_two.jpg": "scans-2", "e_one.jpg": "scans-1", "f_noninter.jpg": "noninterleaved", "g_five.jpg": "scans-5",
	} {
		data, err := os.ReadFile(filepath.Join("..", "internal", "jpeg", "testdata", from+".jpg"))
		if err != nil {
			t.Fatal(err)
		}
		good[name] = data
	}
	bad["h_broken.jpg"] = good["a_base.jpg"][:300]
	good["k_same_as_a.jpg"] = good["a_base.jpg"]
	return good, bad
}

// TestCasesOfRecords packs images of different numbers of scans, and some that
// cannot be packed, in two classes under the same names.
func TestCasesOfRecords(t *testing.T) {
	noTables(t)
	good, bad := scanFiles(t)
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	var want, refused []string
	for _, class := range []string{"n01", "n02"} {
		for name, data := range good {
			writeTree(t, src, map[string][]byte{class + "/" + name: data})
			want = append(want, class+"/"+name)
		}
		for name, data := range bad {
			writeTree(t, src, map[string][]byte{class + "/" + name: data})
			refused = append(refused, class+"/"+name)
		}
	}
	slices.Sort(want)
	slices.Sort(refused)
	s := mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 5})
	t.Run("p13", func(t *testing.T) {
		if diff := cmp.Diff(refused, refusedPaths(s)); diff != "" {
			t.Errorf("refused:\n%s", diff)
		}
		if s.FilesIn != len(want)+len(refused) || s.Converted.Files != len(want) || s.Classes != 2 {
			t.Errorf("summary %v", s)
		}
	})
	t.Run("p08", func(t *testing.T) {
		var got []string
		for record, images := range recordImages(t, dst) {
			for _, image := range images {
				got = append(got, image)
				if class, _, _ := strings.Cut(image, "/"); class == "" {
					t.Errorf("%s has an image without class: %s", record, image)
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("names in the records:\n%s", diff)
		}
	})
	t.Run("p10", func(t *testing.T) { caseOfFewerScans(t, src, dst, want) })
	t.Run("p12", func(t *testing.T) { // labels are counted from classes, so none is ever negative
		for record, read := range readIndependently(t, dst, "none").Records {
			for i, label := range read.Labels {
				if label != 0 && label != 1 {
					t.Errorf("image %d of %s has label %d", i, record, label)
				}
			}
		}
	})
}

// caseOfFewerScans: an image with fewer scans than the record has groups is whole
// in its last scan's group and empty in those after it, so that every fidelity
// from there on is the same; full fidelity is the source's pixels.
func caseOfFewerScans(t *testing.T, src, dst string, images []string) {
	store, err := dataset.OpenLocal(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ds := dataset.Open(store, dataset.Options{TableDir: dataset.NoTables})
	fewer := 0
	for _, image := range images {
		sample, err := ds.Sample(context.Background(), strings.TrimSuffix(image, filepath.Ext(image))+dataset.RecordSuffix)
		if err != nil {
			t.Fatal(err)
		}
		var scans []string
		for k := 1; k <= sample.Levels; k++ {
			jpeg, err := ds.ReadEncoded(context.Background(), sample, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			scans = append(scans, string(jpeg))
		}
		data, err := os.ReadFile(filepath.Join(src, image))
		if err != nil {
			t.Fatal(err)
		}
		full := decodeBytes(t, []byte(scans[len(scans)-1]))
		if source := decodeBytes(t, data); !bytes.Equal(full.Image.Pix, source.Image.Pix) || full.Image.Shape != source.Image.Shape {
			t.Errorf("%s has other pixels at full fidelity than its source", image)
		}
		distinct := slices.Compact(slices.Clone(scans))
		if len(distinct) < len(scans) {
			fewer++
		}
		for k := len(distinct); k < len(scans); k++ {
			if scans[k] != distinct[len(distinct)-1] {
				t.Errorf("%s: fidelity %d is not its last scan", image, k+1)
			}
		}
	}
	if fewer == 0 {
		t.Error("no image has fewer scans than its record")
	}
}
