package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/internal/testfiles"
	"prismfs/pcr"
)

// noTables keeps tests out of the user's cache folder.
func noTables(t testing.TB) { t.Setenv("XDG_CACHE_HOME", t.TempDir()) }

func TestUnpackPCR(t *testing.T) {
	src, packed, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "packed"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{
		"a/drawn.png": pngBytes(t, 4), "a/01.png": pngBytes(t, 6), "b/sub/deep.JPEG": jpegBytes(t, 7), "empty/": nil,
	})
	mustPackPCR(t, src, packed, PCROptions{ImagesPerRecord: 4})
	s := mustUnpack(t, packed, dst, UnpackOptions{Jobs: 3})
	if s.Converted.Files != 12 || s.Passed.Files != 1 || len(s.Refused) > 0 || s.Classes != 4 {
		t.Errorf("%v", s)
	}
	want := []string{"README", "Z/00.jpg", "Z/01.jpg", "Z/02.jpg", "a/00.jpg", "a/01.jpg", "a/01.png.jpg", "a/02.jpg", "a/drawn.jpg",
		"b/00.jpg", "b/01.jpg", "b/02.jpg", "b/sub/deep.JPEG"}
	if diff := cmp.Diff(want, names(t, dst)); diff != "" {
		t.Fatalf("unpacked files:\n%s", diff)
	}
	for _, name := range want[1:] {
		if strings.HasSuffix(name, ".png.jpg") || name == "a/drawn.jpg" {
			continue
		}
		got, source := decodeSource(t, filepath.Join(dst, name)), decodeSource(t, filepath.Join(src, name))
		if got.Shape != source.Shape || !bytes.Equal(got.Pix, source.Pix) {
			t.Errorf("%s has other pixels than its source", name)
		}
	}
	if info, err := os.Stat(filepath.Join(dst, "empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty class: %v", err)
	}
	again := mustUnpack(t, packed, dst, UnpackOptions{})
	if again.AlreadyThere != 13 {
		t.Errorf("unpacked again: %v", again)
	}
	writeTree(t, dst, map[string][]byte{"Z/00.jpg": []byte("mine")})
	if s := mustUnpack(t, packed, dst, UnpackOptions{}); len(s.Refused) != 1 || s.Refused[0].Path != "Z/00.pcr" {
		t.Errorf("over another file: %v", s)
	}
	if s := mustUnpack(t, packed, dst, UnpackOptions{Force: true}); len(s.Refused) != 0 || s.Replaced != 1 {
		t.Errorf("over another file, forced: %v", s)
	}
}

// A folder that has the name of a class hides its images, which is said.
func TestHiddenImagesAreMissed(t *testing.T) {
	src, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, src, dst, PCROptions{})
	writeTree(t, dst, map[string][]byte{"a/note": []byte("in the way")})
	v, err := Verify(context.Background(), dst, VerifyOptions{})
	if err != nil || v.Good != 6 || len(v.Bad) != 1 || !strings.Contains(v.Bad[0].Reason, "3 images cannot be seen") {
		t.Errorf("%+v %v", v, err)
	}
	s := mustUnpack(t, dst, filepath.Join(t.TempDir(), "back"), UnpackOptions{})
	if s.Converted.Files != 6 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "3 images cannot be seen") {
		t.Errorf("%v %q", s, s.Notes)
	}
}

// A single record says where to look.
func TestInspectOfARecordNamesTheFolder(t *testing.T) {
	noTables(t)
	dst := filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, pcrTree(t, 1), dst, PCROptions{})
	record := filepath.Join(dst, "PCR_0.pcr")
	_, inspect := Inspect(context.Background(), record)
	_, verify := Verify(context.Background(), record, VerifyOptions{})
	for _, err := range []error{inspect, verify} {
		if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "name the folder") {
			t.Errorf("error %v", err)
		}
	}
}

// Packing what was unpacked gives the same images again.
func TestPackPCRUnpackPack(t *testing.T) {
	src := pcrTree(t, 3)
	first, back, second := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2"), filepath.Join(t.TempDir(), "3")
	mustPackPCR(t, src, first, PCROptions{})
	mustUnpack(t, first, back, UnpackOptions{})
	mustPackPCR(t, back, second, PCROptions{})
	for i := range 9 {
		a, b := jpegOf(t, filepath.Join(first, "PCR_0.pcr"), i), jpegOf(t, filepath.Join(second, "PCR_0.pcr"), i)
		if !bytes.Equal(a, b) {
			t.Errorf("image %d is another one", i)
		}
	}
}

func TestVerifyPCRFindsDamage(t *testing.T) {
	noTables(t)
	src, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
	v, err := Verify(context.Background(), dst, VerifyOptions{})
	if err != nil || v.Samples != 9 || v.Good != 9 || len(v.Bad) != 0 || v.Records != 3 || v.WithoutCRC != 0 || v.RawBytes != 9*23*17*3 {
		t.Errorf("%+v %v", v, err)
	}
	flipFromEnd(t, filepath.Join(dst, "PCR_1.pcr"), 3)
	truncate(t, filepath.Join(dst, "PCR_2.pcr"), 10)
	last := 0
	v, err = Verify(context.Background(), dst, VerifyOptions{Jobs: 2, Progress: func(done, total int) { last = done }})
	if err != nil {
		t.Fatal(err)
	}
	if v.Good != 7 || len(v.Bad) != 2 || v.Samples != 8 || v.BadRecords != 1 || last == 0 {
		t.Errorf("%+v, progress %d", v, last)
	}
	report, err := Inspect(context.Background(), dst)
	if err != nil || len(report.PCR.Bad)+len(report.PCR.Damaged) == 0 {
		t.Errorf("inspect: %+v %v", report, err)
	}
}

func TestInspectPCR(t *testing.T) {
	noTables(t)
	src, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"empty/": nil})
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
	writeTree(t, dst, map[string][]byte{"PCR_7.pcr": []byte("stale")})
	report, err := Inspect(context.Background(), dst)
	if err != nil || report.PCR == nil {
		t.Fatalf("%+v %v", report, err)
	}
	r := report.PCR
	want := []PCRLabel{{0, "Z", "Z", 3}, {1, "a", "a", 3}, {2, "b", "b", 3}, {3, "empty", "empty", 0}}
	if diff := cmp.Diff(want, r.Labels); diff != "" {
		t.Errorf("labels:\n%s", diff)
	}
	if r.Images != 9 || r.Records != 3 || r.Levels != 10 || r.Index != pcr.IndexNamePB || r.RepeatedEntries != 27 || r.WithoutCRC != 0 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"PCR_7.pcr"}, r.Stale); diff != "" {
		t.Errorf("stale:\n%s", diff)
	}
	if len(r.Fidelities) != 10 || r.Fidelities[9].Share != 1 || r.Fidelities[0].MeanBytes <= 0 {
		t.Fatalf("fidelities %+v", r.Fidelities)
	}
	for i := 1; i < 10; i++ {
		if r.Fidelities[i].MeanBytes <= r.Fidelities[i-1].MeanBytes || r.Fidelities[i].K != i+1 {
			t.Errorf("fidelities %+v", r.Fidelities)
		}
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
}

// The parts of a dataset lie in folders below one.
func TestDatasetsInParts(t *testing.T) {
	noTables(t)
	root, dst := t.TempDir(), filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, pcrTree(t, 2), filepath.Join(root, "train"), PCROptions{ImagesPerRecord: 4})
	mustPackPCR(t, pcrTree(t, 1), filepath.Join(root, "deep", "val"), PCROptions{})
	writeTree(t, root, map[string][]byte{"README": []byte("all"), "train/.hidden": []byte("h")})
	datasets := func() []string {
		list, err := Datasets(context.Background(), root)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	parts := []string{filepath.Join(root, "deep/val"), filepath.Join(root, "train")}
	if diff := cmp.Diff(parts, datasets()); diff != "" {
		t.Errorf("datasets:\n%s", diff)
	}
	s := mustUnpack(t, root, dst, UnpackOptions{})
	if s.Converted.Files != 9 || s.Passed.Files != 4 || s.SourceUnfinished || len(s.Notes) != 0 {
		t.Errorf("%v %q", s, s.Notes)
	}
	want := []string{"README", "deep/val/README", "deep/val/Z/00.jpg", "deep/val/a/00.jpg", "deep/val/b/00.jpg",
		"train/.hidden", "train/README", "train/Z/00.jpg", "train/Z/01.jpg", "train/a/00.jpg", "train/a/01.jpg", "train/b/00.jpg", "train/b/01.jpg"}
	if diff := cmp.Diff(want, names(t, dst)); diff != "" {
		t.Errorf("unpacked:\n%s", diff)
	}
	if _, err := MeasureQuality(context.Background(), root, QualityOptions{}); !errors.Is(err, ErrSource) {
		t.Errorf("the quality of several: %v", err)
	}
	// L3 files beside them are a dataset, too.
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"c/1.png": pngBytes(t, 1)})
	mustPack(t, src, filepath.Join(root, "lossless"), Options{})
	if diff := cmp.Diff(append([]string{root}, parts...), datasets()); diff != "" {
		t.Errorf("datasets:\n%s", diff)
	}
	if s := mustUnpack(t, root, dst, UnpackOptions{}); s.Converted.Files != 10 || s.AlreadyThere != 13 {
		t.Errorf("%v", s)
	}
	samePixelsOfPNG(t, filepath.Join(dst, "lossless/c/1.png"), filepath.Join(src, "c/1.png"))
	// Nothing is read of a part that is no longer there, and the others are.
	truncate(t, filepath.Join(root, "deep/val/PCR_0.pcr"), 3)
	if s := mustUnpack(t, root, filepath.Join(t.TempDir(), "again"), UnpackOptions{}); s.Converted.Files != 7 || len(s.Refused) == 0 || !strings.HasPrefix(s.Refused[0].Path, "deep/val/") {
		t.Errorf("with a damaged part: %v", s)
	}
}

// samePixelsOfPNG compares two images.
func samePixelsOfPNG(t testing.TB, a, b string) {
	t.Helper()
	if x, y := decodeSource(t, a), decodeSource(t, b); x.Shape != y.Shape || !bytes.Equal(x.Pix, y.Pix) {
		t.Errorf("%s and %s are not the same", a, b)
	}
}

// Names that differ in their suffixes alone, or have none.
func TestUnpackedNamesOfPCR(t *testing.T) {
	src, packed, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "packed"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{
		"c/a.jpg": jpegBytes(t, 1), "c/a.png": pngBytes(t, 2), "c/b.png": pngBytes(t, 3), "c/noext": jpegBytes(t, 4),
		"c/sub/a.JPEG": jpegBytes(t, 5),
	})
	mustPackPCR(t, src, packed, PCROptions{})
	mustUnpack(t, packed, dst, UnpackOptions{})
	want := []string{"c/a.jpg", "c/a.png.jpg", "c/b.jpg", "c/noext.jpg", "c/sub/a.JPEG"}
	if diff := cmp.Diff(want, names(t, dst)); diff != "" {
		t.Errorf("unpacked:\n%s", diff)
	}
}

// An index that has lost entries is found by the records beside it, and those of
// other datasets are not.
func TestVerifyPCRFindsALostEntry(t *testing.T) {
	noTables(t)
	src, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
	other := filepath.Join(t.TempDir(), "other")
	mustPackPCR(t, pcrTree(t, 1), other, PCROptions{})
	record, err := os.ReadFile(filepath.Join(other, "PCR_0.pcr"))
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, dst, map[string][]byte{"PCR_7.pcr": record})
	v, err := Verify(context.Background(), dst, VerifyOptions{})
	if err != nil || len(v.Bad) != 0 || v.StaleRecords != 1 || v.Unfinished {
		t.Errorf("with a record of another dataset: %+v %v", v, err)
	}
	forgetRecord(t, dst, "PCR_1.pcr")
	v, err = Verify(context.Background(), dst, VerifyOptions{})
	if err != nil || v.Good != 5 || len(v.Bad) != 1 || v.Bad[0].Path != "PCR_1.pcr" || !strings.Contains(v.Bad[0].Reason, "the index does not have it") || v.Samples != 5 || v.BadRecords != 1 {
		t.Errorf("%+v %v", v, err)
	}
	report, err := Inspect(context.Background(), dst)
	if err != nil || len(report.PCR.Bad) != 1 || len(report.PCR.Stale) != 2 {
		t.Errorf("%+v %v", report.PCR, err)
	}
}

// A dataset all of whose records are damaged is one that Verify finds to be bad, as
// one that has lost them; only who needs an image of it has an error.
func TestVerifyPCRWithoutAWholeRecord(t *testing.T) {
	noTables(t)
	for name, spoil := range map[string]func(record string) error{
		"damaged": func(record string) error {
			return os.WriteFile(record, []byte("no record at all, and not its size"), 0o644)
		},
		"cut":     func(record string) error { return os.Truncate(record, 5) },
		"empty":   func(record string) error { return os.Truncate(record, 0) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			mustPackPCR(t, pcrTree(t, 2), dst, PCROptions{})
			if err := spoil(filepath.Join(dst, "PCR_0.pcr")); err != nil {
				t.Fatal(err)
			}
			v, err := Verify(context.Background(), dst, VerifyOptions{})
			if err != nil || v.Good != 0 || len(v.Bad) != 1 || v.Bad[0].Path != "PCR_0.pcr" || v.Samples != 0 || v.BadRecords != 1 {
				t.Errorf("%+v %v", v, err)
			}
		})
	}
}

// forgetRecord takes the entries of a record out of the index.
func forgetRecord(t testing.TB, dst, name string) {
	t.Helper()
	path := filepath.Join(dst, pcr.IndexNamePB)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index, err := pcr.ParseIndexPB(data)
	if err != nil {
		t.Fatal(err)
	}
	entries := slices.DeleteFunc(index.Entries, func(e pcr.IndexEntry) bool { return e.Name == name })
	if data, err = pcr.AppendIndex(nil, entries); err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A dataset says that it is not finished, after a run that was ended in any way.
func TestUnfinishedPCR(t *testing.T) {
	noTables(t)
	src := pcrTree(t, 4)
	for name, spoil := range map[string]func(t *testing.T, dst string){
		"interrupted": func(t *testing.T, dst string) { interruptPCR(t, src, dst, PCROptions{ImagesPerRecord: 4}, 6) },
		"killed": func(t *testing.T, dst string) {
			mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
			killed(t, dst)
		},
		"without index": func(t *testing.T, dst string) {
			mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
			if err := os.Remove(filepath.Join(dst, pcr.IndexNamePB)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			spoil(t, dst)
			v, err := Verify(context.Background(), dst, VerifyOptions{})
			if err != nil || !v.Unfinished || v.UnfinishedBecause == "" {
				t.Errorf("verify: %+v %v", v, err)
			}
			report, err := Inspect(context.Background(), dst)
			if err != nil || !report.PCR.Unfinished || report.PCR.UnfinishedBecause == "" {
				t.Errorf("inspect: %+v %v", report, err)
			}
			s := mustUnpack(t, dst, filepath.Join(t.TempDir(), "back"), UnpackOptions{})
			if !s.SourceUnfinished || !strings.Contains(strings.Join(s.Notes, "\n"), "is not finished: ") {
				t.Errorf("unpack: %v %q", s, s.Notes)
			}
			mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
			if v, err := Verify(context.Background(), dst, VerifyOptions{}); err != nil || v.Unfinished || v.Good != 12 {
				t.Errorf("verify of the finished dataset: %+v %v", v, err)
			}
		})
	}
}

func TestMeasureQuality(t *testing.T) {
	noTables(t)
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	for i := range 9 {
		writeTree(t, src, map[string][]byte{fmt.Sprintf("%d/1.png", i%3): encodePNG(t, smooth(64+i, 48)), fmt.Sprintf("%d/2.png", i%3): encodePNG(t, noise(60, 50, i))})
	}
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
	var curve *QualityCurve
	for _, jobs := range []int{1, 3} {
		done := 0
		c, err := MeasureQuality(context.Background(), dst, QualityOptions{Images: 5, Jobs: jobs, Progress: func(n, total int) { done = n }})
		if err != nil {
			t.Fatal(err)
		}
		if c.Images != 5 || done != 5 || len(c.Points) != 10 || len(c.Bad) > 0 {
			t.Fatalf("%+v", c)
		}
		for i, p := range c.Points {
			if p.K != i+1 || i > 0 && p.MeanBytes <= c.Points[i-1].MeanBytes || i < 5 && (p.PSNR < 5 || p.PSNR > 60 || p.SSIM <= 0 || p.SSIM >= 1) {
				t.Errorf("point %+v", p)
			}
		}
		if last := c.Points[9]; last.Identical != 5 || !math.IsInf(last.PSNR, 1) || last.SSIM != 1 || last.Share != 1 {
			t.Errorf("at full fidelity %+v", last)
		}
		if first, fifth := c.Points[0], c.Points[4]; first.PSNR >= fifth.PSNR || first.SSIM >= fifth.SSIM {
			t.Errorf("k = 1 %+v, k = 5 %+v", first, fifth)
		}
		data, err := json.Marshal(c)
		if err != nil || !strings.Contains(string(data), `"psnr_db":null`) {
			t.Errorf("%s %v", data, err)
		}
		curve = c
	}
	var plot bytes.Buffer
	if err := curve.WritePlot(&plot); err != nil {
		t.Fatal(err)
	}
	if m, err := png.Decode(&plot); err != nil || m.Bounds().Dx() < 500 {
		t.Errorf("the plot: %v", err)
	}
	if err := (&QualityCurve{}).WritePlot(&bytes.Buffer{}); err == nil {
		t.Error("a curve of nothing was drawn")
	}
}

// Of a grey image, which has fewer scans, the last one counts for what is above.
func TestQualityOfImagesWithFewerScans(t *testing.T) {
	c := newCurve(3)
	c.add("colour", imageQuality{bytes: []int64{10, 20, 40}, psnr: []float64{20, 30, math.Inf(1)}, ssim: []float64{0.5, 0.75, 1}})
	c.add("grey", imageQuality{bytes: []int64{10, 20}, psnr: []float64{22, math.Inf(1)}, ssim: []float64{0.7, 1}})
	c.add("bad", imageQuality{err: errors.New("it is damaged")})
	want := &QualityCurve{Images: 2, Bad: []Refusal{{"bad", "it is damaged"}}, Points: []QualityPoint{
		{K: 1, MeanBytes: 10, Share: 20.0 / 60, PSNR: 21, SSIM: 0.6},
		{K: 2, MeanBytes: 20, Share: 40.0 / 60, PSNR: 30, SSIM: 0.875, Identical: 1},
		{K: 3, MeanBytes: 30, Share: 1, PSNR: math.Inf(1), SSIM: 1, Identical: 2},
	}}
	if diff := cmp.Diff(want, c.finish()); diff != "" {
		t.Errorf("the curve:\n%s", diff)
	}
}

// Every image of the fixtures is found good, unpacked under the expected bytes,
// and counted as it should be.
func TestReadingReferenceRecords(t *testing.T) {
	noTables(t)
	for _, c := range []struct {
		name                    string
		images, repeated, level int
	}{{"pb", 200, 32, 10}, {"edge-pb", 16, 4, 18}, {"edge-raw", 16, 4, 18}, {"edge-rawsql", 16, 4, 18}, {"edge-sqlite", 16, 0, 18}} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.images > 100 {
				t.Skip("many images")
			}
			dir := testfiles.Shared(t, "fixtures/pcr/"+c.name)
			report, err := Inspect(context.Background(), dir)
			if err != nil || report.PCR.Images != c.images || report.PCR.RepeatedImages != c.repeated || report.PCR.Levels != c.level ||
				report.PCR.WithoutCRC != c.images+c.repeated {
				t.Fatalf("%+v %v", report, err)
			}
			v, err := Verify(context.Background(), dir, VerifyOptions{})
			if err != nil || v.Good != c.images || len(v.Bad) > 0 || v.WithoutCRC != c.images {
				t.Errorf("%+v %v", v, err)
			}
			dst := filepath.Join(t.TempDir(), "dst")
			if s := mustUnpack(t, dir, dst, UnpackOptions{}); s.Converted.Files != c.images || len(s.Refused) > 0 {
				t.Errorf("%v", s)
			}
			full := fullHashes(t, dir)
			for path, line := range listing(t, dst) {
				if line[0] == '-' && strings.HasSuffix(path, ".jpg") && !full[line[strings.LastIndexByte(line, ' ')+1:]] {
					t.Errorf("%s has bytes that are those of no image", path)
				}
			}
		})
	}
}

// fullHashes returns the SHA-256 of the images of a fixture at full fidelity.
func fullHashes(t testing.TB, dir string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Records []struct {
			Images []struct {
				Levels []struct {
					JPEG string `json:"jpeg_sha256"`
				} `json:"levels"`
			} `json:"images"`
		} `json:"records"`
	}
	if err := json.Unmarshal(data, &expected); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, r := range expected.Records {
		for _, m := range r.Images {
			out[m.Levels[len(m.Levels)-1].JPEG] = true
		}
	}
	return out
}
