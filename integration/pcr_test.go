package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/pcr"
)

// noTables keeps tests from the tables of the user's cache folder.
var noTables = []string{"--table-dir", "-"}

// pcrFixtures are the datasets of the reference converters that have expected
// bytes, in all published forms.
var pcrFixtures = []string{"pb", "edge-pb", "edge-raw", "edge-rawsql", "edge-sqlite"}

func pcrFixture(t *testing.T, name string) string {
	t.Helper()
	return testfiles.Shared(t, "fixtures/pcr/"+name)
}

// TestPCRReference reads every image of every reference dataset at every
// fidelity, and one more: the JPEG and its pixels.
func TestPCRReference(t *testing.T) {
	for _, name := range pcrFixtures {
		t.Run(name, func(t *testing.T) {
			fixture := pcrFixture(t, name)
			mt := mount(t, fixture, best, noTables...)
			check(t, "pcr_fixture", args{"mount": mt.dir, "fixture": fixture})
		})
	}
}

// TestPCRReferenceModes does so in every way of serving, for the small ones.
func TestPCRReferenceModes(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		for _, name := range pcrFixtures[1:] {
			fixture := pcrFixture(t, name)
			mt := mount(t, fixture, m, noTables...)
			check(t, "pcr_fixture", args{"mount": mt.dir, "fixture": fixture, "levels": []int{1, 4, 99}})
			check(t, "pcr_tree", args{"mount": mt.dir, "fixture": fixture, "others": []string{"expected.json"}})
		}
	})
}

// TestPCRTree lists the reference datasets in several views: each image once,
// what the last record repeats not at all, or twice where that is asked for.
func TestPCRTree(t *testing.T) {
	for _, name := range pcrFixtures {
		for _, keep := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/keep"}[keep], func(t *testing.T) {
				fixture := pcrFixture(t, name)
				flags := slices.Clone(noTables)
				if keep {
					flags = append(flags, "--keep-duplicates")
				}
				mt := mount(t, fixture, best, flags...)
				check(t, "pcr_tree", args{"mount": mt.dir, "fixture": fixture, "keep": keep, "others": []string{"expected.json"}})
				if keep {
					check(t, "pcr_fixture", args{"mount": mt.dir, "fixture": fixture, "keep": true, "levels": []int{1, 7}})
				}
			})
		}
	}
}

// TestPCRWithoutIndex reads version 1 records that have no index beside them.
func TestPCRWithoutIndex(t *testing.T) {
	for _, name := range []string{"pb", "edge-pb"} {
		t.Run(name, func(t *testing.T) {
			fixture := pcrFixture(t, name)
			source := scratch(t)
			copyRecords(t, fixture, source)
			mt := mount(t, source, best, noTables...)
			check(t, "pcr_tree", args{"mount": mt.dir, "fixture": fixture})
			check(t, "pcr_fixture", args{"mount": mt.dir, "fixture": fixture, "levels": []int{2, 10}})
		})
	}
}

// TestPCRTables mounts a dataset again and again with one folder of tables, two
// mounts at once among them: the same files every time, and nothing is looked
// for a second time.
func TestPCRTables(t *testing.T) {
	fixture := pcrFixture(t, "pb")
	tables := scratch(t)
	for _, round := range []string{"cold", "warm", "damaged", "again"} {
		t.Run(round, func(t *testing.T) {
			if round == "damaged" {
				damageTables(t, tables)
			}
			mt := mount(t, fixture, best, "--table-dir", tables)
			beside := mount(t, fixture, noPassthrough, "--table-dir", tables)
			var both sync.WaitGroup
			both.Go(func() {
				check(t, "pcr_tree", args{"mount": beside.dir, "fixture": fixture, "others": []string{"expected.json"}})
			})
			both.Go(func() {
				check(t, "pcr_fixture", args{"mount": mt.dir, "fixture": fixture, "levels": []int{1, 3, 10}})
			})
			both.Wait()
			var stats struct {
				Index uint64 `json:"store_bytes_index"`
			}
			checkInto(t, &stats, "stats", args{"mount": mt.dir})
			if round == "warm" && stats.Index != 0 {
				t.Errorf("%d bytes were read to find offsets that are known", stats.Index)
			}
			if round == "cold" && stats.Index == 0 {
				t.Error("nothing was read to find offsets")
			}
		})
	}
}

// damageTables overwrites the middle of every table.
func damageTables(t *testing.T, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) < 1024 {
			return err
		}
		found++
		for i := len(data) / 3; i < len(data)*2/3; i++ {
			data[i] ^= 0x5a
		}
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || found == 0 {
		t.Fatalf("%d tables in %s, %v", found, dir, err)
	}
}

// TestPCRBytes counts what is read: with built tables, no byte that is not
// needed by images in random order, and hardly one by a pass in order.
func TestPCRBytes(t *testing.T) {
	fixture := pcrFixture(t, "pb")
	tables := scratch(t)
	if out, err := prismfs("index", "--table-dir", tables, fixture); err != nil {
		t.Fatalf("prismfs index: %v\n%s", err, out)
	}
	for _, k := range []int{1, 2, 5, 99} {
		mt := mount(t, fixture, best, "--table-dir", tables, "--read-ahead", "off")
		var paths []string
		checkInto(t, &paths, "pcr_some_paths", args{"mount": mt.dir, "count": 40})
		var cost struct {
			Index uint64 `json:"store_bytes_index"`
		}
		checkInto(t, &cost, "pcr_bytes", args{"mount": mt.dir, "paths": paths, "k": k, "limit": 1})
		if cost.Index != 0 {
			t.Errorf("%d bytes of index with built tables", cost.Index)
		}
	}
	for _, k := range []int{1, 2, 99} {
		mt := mount(t, fixture, best, "--table-dir", tables)
		check(t, "pcr_bytes_of_a_pass", args{"mount": mt.dir, "k": k, "limit": 1.05})
	}
}

// packedPCR is a dataset that prismfs pack made of the fixtures' photographs and
// some JPEGs.
var packedPCR = sync.OnceValues(func() (string, error) {
	source, packed := filepath.Join(work, "jpegs"), filepath.Join(work, "jpegs-pcr")
	if out, err := exec.Command(python(), filepath.Join(testfiles.Root(), "integration", "jpegs.py"), source).CombinedOutput(); err != nil {
		return string(out), err
	}
	out, err := prismfs("pack", "--to", "pcr", "--images-per-record", "7", source, packed)
	return out, err
})

// testPCR returns a folder of JPEGs and the records that they were packed into.
func testPCR(t *testing.T) (source, packed string) {
	t.Helper()
	if out, err := packedPCR(); err != nil {
		t.Fatalf("packing JPEGs: %v\n%s", err, out)
	}
	return filepath.Join(work, "jpegs"), filepath.Join(work, "jpegs-pcr")
}

// TestPCRByPIL compares what a mount decodes with what PIL decodes, image by
// image and fidelity by fidelity, and full fidelity with the source.
func TestPCRByPIL(t *testing.T) {
	source, packed := testPCR(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, packed, m, noTables...)
		check(t, "pcr_by_pil", args{"mount": mt.dir, "source": source})
	})
}

// TestPCRLoaders reads a packed dataset as people do.
func TestPCRLoaders(t *testing.T) {
	source, packed := testPCR(t)
	mt := mount(t, packed, best, noTables...)
	for _, workers := range []int{0, 3} {
		check(t, "pcr_image_folder", args{"mount": mt.dir, "source": source, "workers": workers})
	}
}

// TestPCRThrottled mounts with a slow source: the same files.
func TestPCRThrottled(t *testing.T) {
	source, packed := testPCR(t)
	mt := mount(t, packed, best, append(slices.Clone(noTables), "--throttle", "2MB", "--max-gap", "0")...)
	check(t, "pcr_by_pil", args{"mount": mt.dir, "source": source})
}

// TestPCRDamage damages records: what cannot be right is an error, the rest is
// as it was.
func TestPCRDamage(t *testing.T) {
	_, packed := testPCR(t)
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
	}{
		{"truncated", func(t *testing.T, dir string) { cutFile(t, filepath.Join(dir, "PCR_0.pcr"), 0.9) }},
		{"emptied", func(t *testing.T, dir string) { cutFile(t, filepath.Join(dir, "PCR_0.pcr"), 0) }},
		{"flipped bits", func(t *testing.T, dir string) { flipBytes(t, filepath.Join(dir, "PCR_0.pcr"), 0.2, 0.95) }},
		{"damaged metadata", func(t *testing.T, dir string) { flipBytes(t, filepath.Join(dir, "PCR_0.pcr"), 0, 0.01) }},
		{"missing", func(t *testing.T, dir string) { removeFile(t, filepath.Join(dir, "PCR_0.pcr")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := scratch(t)
			copyRecords(t, packed, source)
			copyFile(t, filepath.Join(packed, "PCR_index.pb"), filepath.Join(source, "PCR_index.pb"))
			c.spoil(t, source)
			mt := mount(t, source, best, noTables...)
			whole := mount(t, packed, best, noTables...)
			var told struct {
				Right, Wrong, Refused int
			}
			checkInto(t, &told, "pcr_partly", args{"mount": mt.dir, "whole": whole.dir})
			if told.Wrong != 0 || told.Right == 0 || told.Refused == 0 {
				t.Errorf("%+v, want right and refused ones", told)
			}
		})
	}
}

// TestPCRTolerated serves JPEGs that are corrupt where that is asked for, and
// nowhere else. Records without checksums, as others write them, may hold some.
func TestPCRTolerated(t *testing.T) {
	source := scratch(t)
	writeCorrupt(t, source)
	var strict, tolerant struct {
		Right, Refused int
	}
	mt := mount(t, source, best, noTables...)
	checkInto(t, &strict, "pcr_against_pil", args{"mount": mt.dir})
	mt = mount(t, source, best, append(slices.Clone(noTables), "--tolerate-jpeg-warnings")...)
	checkInto(t, &tolerant, "pcr_against_pil", args{"mount": mt.dir})
	if strict.Refused == 0 || strict.Right == 0 || tolerant.Refused != 0 {
		t.Errorf("%+v, tolerating warnings %+v", strict, tolerant)
	}
	var stats struct {
		Tolerated int `json:"tolerated_jpegs"`
	}
	checkInto(t, &stats, "stats", args{"mount": mt.dir})
	if stats.Tolerated != strict.Refused {
		t.Errorf("%d files were refused, %d tolerated", strict.Refused, stats.Tolerated)
	}
}

// writeCorrupt writes a record of a whole JPEG and one whose first scan has lost
// its end.
func writeCorrupt(t *testing.T, dir string) {
	t.Helper()
	whole, err := os.ReadFile(filepath.Join(testfiles.Root(), "internal", "jpeg", "testdata", "rgb-420-progressive.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	scans, err := pcr.SplitScans(whole)
	if err != nil {
		t.Fatal(err)
	}
	scans[0] = scans[0][:len(scans[0])-40]
	cut := pcr.AppendEOI(bytes.Join(scans, nil))
	var images []pcr.Image
	for _, file := range [][]byte{whole, cut} {
		images = append(images, pcr.Image{JPEG: file, Width: 67, Height: 45, Components: 3})
	}
	record, entry, err := pcr.AppendRecord(nil, images, pcr.RecordInfo{Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	entry.Name = "PCR_0.pcr"
	index, err := pcr.AppendIndex(nil, []pcr.IndexEntry{entry})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{entry.Name: record, pcr.IndexNamePB: index} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// copyRecords copies the records of a dataset, and no index.
func copyRecords(t *testing.T, from, to string) {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(from, "*.pcr"))
	if err != nil || len(records) == 0 {
		t.Fatalf("records of %s: %d, %v", from, len(records), err)
	}
	for _, r := range records {
		copyFile(t, r, filepath.Join(to, filepath.Base(r)))
	}
}

// cutFile leaves a share of a file.
func cutFile(t *testing.T, path string, share float64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, int64(share*float64(info.Size())))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// flipBytes changes some bytes of a part of a file.
func flipBytes(t *testing.T, path string, from, to float64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := int(from*float64(len(data))), int(to*float64(len(data)))
	for i := range 5 {
		data[begin+(end-begin)*i/5] ^= 0x10
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestVersionNamesTheLibrary: pixels of incomplete JPEGs differ between
// versions of libjpeg-turbo.
func TestVersionNamesTheLibrary(t *testing.T) {
	_, packed := testPCR(t)
	mt := mount(t, packed, best, noTables...)
	var text string
	checkInto(t, &text, "text", args{"path": filepath.Join(mt.dir, ".prismfs", "version")})
	if !strings.Contains(text, "libjpeg-turbo ") {
		t.Errorf(".prismfs/version is %q", text)
	}
}
