package integration

import (
	"encoding/csv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// TestReferenceFiles mounts files of the published L3 encoder.
func TestReferenceFiles(t *testing.T) {
	folder := testfiles.Shared(t, "fixtures/l3-reference")
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, folder, m)
		check(t, "reference", args{"mount": mt.dir, "folder": folder})
	})
}

// TestBadFiles damages packed files in every way that a disk or a broken copy
// does: each costs itself only.
func TestBadFiles(t *testing.T) {
	f := testFixtures(t)
	whole, err := os.ReadFile(f.path("small-packed/000.l3"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte {
		copied := slices.Clone(whole)
		copied[at] ^= 0x10
		return copied
	}
	bad := map[string][]byte{
		"empty": {}, "magic-alone": whole[:4], "half-a-head": whole[:40], "half": whole[:len(whole)/2],
		"one-byte-less": whole[:len(whole)-1], "one-byte-more": append(slices.Clone(whole), 0),
		"no-magic": append([]byte("JUNK"), whole[4:]...), "text": []byte(strings.Repeat("no image\n", 1000)),
		"flipped-head": flipped(9), "flipped-middle": flipped(len(whole) / 2), "flipped-end": flipped(len(whole) - 2),
	}
	eachMode(t, func(t *testing.T, m mode) {
		source := scratch(t)
		var names []string
		for _, name := range slices.Sorted(maps.Keys(bad)) {
			if err := os.WriteFile(filepath.Join(source, name+".l3"), bad[name], 0o644); err != nil {
				t.Fatal(err)
			}
			names = append(names, name+".npy")
		}
		copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "good.l3"))
		mt := mount(t, source, m)
		check(t, "bad_files", args{"mount": mt.dir, "expected": f.path("small"), "bad": names, "good": args{"good.npy": "000.npy"}})
	})
}

// TestImageCases packs small odd images and compares what the mount shows of
// them with what PIL gives, by a list that says which must be refused.
func TestImageCases(t *testing.T) {
	cases := testfiles.Shared(t, "cases")
	files := filepath.Join(cases, "files")
	rows := imageCases(t, filepath.Join(cases, "cases.tsv"))
	source, packed := scratch(t), filepath.Join(scratch(t), "packed")
	for _, row := range rows {
		copyFile(t, filepath.Join(files, row.File), filepath.Join(source, row.File))
	}
	out, err := prismfs("pack", "--to", "l3", "--keep-suffix", "--allow-refused", source, packed)
	if err != nil {
		t.Fatalf("pack: %v\n%s", err, out)
	}
	for i, row := range rows {
		stored := filepath.Join(packed, row.File+".l3")
		_, err := os.Stat(stored)
		if row.Refused = err != nil; row.Refused && !strings.Contains(out, row.File) {
			t.Errorf("%s was refused, and the summary does not name it", row.File)
		}
		if row.Refused && !mayBeRefused(row) {
			t.Errorf("%s was refused; it should be: %s", row.File, row.right)
		}
		if !row.Refused && strings.Contains(row.SHA256, "rror") {
			t.Errorf("%s was packed; PIL says %s", row.File, row.SHA256)
		}
		rows[i] = row
	}
	mt := mount(t, packed, best)
	var compared int
	checkInto(t, &compared, "image_cases", args{"mount": mt.dir, "files": files, "rows": rows})
	if compared < 30 {
		t.Errorf("%d images were compared: %s", compared, out)
	}
}

// imageCase is a row of cases.tsv about one image file.
type imageCase struct {
	ID      string `json:"id"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"` // of the RGB pixels, or PIL's error
	Refused bool   `json:"refused"`
	right   string
}

// mayBeRefused says whether a refusal by name is among the right behaviours.
func mayBeRefused(row imageCase) bool {
	return strings.Contains(row.right, "refus") || strings.Contains(row.SHA256, "rror")
}

// imageCases reads the rows of group 1 that name a file, one for each file.
func imageCases(t *testing.T, table string) []imageCase {
	t.Helper()
	seen := map[string]bool{}
	var rows []imageCase
	for _, r := range tableRows(t, table) {
		if r[1] == "1" && r[2] != "-" && !seen[r[2]] {
			seen[r[2]] = true
			rows = append(rows, imageCase{ID: r[0], File: r[2], right: r[3], SHA256: r[6]})
		}
	}
	if len(rows) < 30 {
		t.Fatalf("%s has %d rows about images", table, len(rows))
	}
	return rows
}

// tableRows reads a table of cases, without its head.
func tableRows(t *testing.T, table string) [][]string {
	t.Helper()
	file, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read := csv.NewReader(file)
	read.Comma, read.LazyQuotes, read.FieldsPerRecord = '\t', true, -1
	records, err := read.ReadAll()
	if err != nil || len(records) == 0 {
		t.Fatalf("%s: %d rows, %v", table, len(records), err)
	}
	return records[1:]
}
