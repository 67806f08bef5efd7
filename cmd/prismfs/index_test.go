package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/jpeg"
	"prismfs/pcr"
	"prismfs/raster"
)

// writeRecords makes a folder of records of tiny images, each of two images.
func writeRecords(t *testing.T, dir string, records int) {
	t.Helper()
	shape := raster.Shape{Height: 9, Width: 17, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	var entries []pcr.IndexEntry
	for r := range records {
		var images []pcr.Image
		for i := range 2 {
			pix := make([]byte, shape.Bytes())
			for p := range pix {
				pix[p] = byte(p * (2*r + i + 3))
			}
			encoded, err := jpeg.EncodeProgressive(raster.Image{Shape: shape, Pix: pix}, jpeg.EncodeOptions{Quality: 90})
			if err != nil {
				t.Fatal(err)
			}
			images = append(images, pcr.Image{JPEG: encoded, Label: int32(i), Width: 17, Height: 9, Components: 3})
		}
		b, entry, err := pcr.AppendRecord(nil, images, pcr.RecordInfo{Bare: true})
		if err != nil {
			t.Fatal(err)
		}
		entry.Name = fmt.Sprintf("PCR_%d.pcr", r)
		writeFile(t, filepath.Join(dir, entry.Name), b)
		entries = append(entries, entry)
	}
	b, err := pcr.AppendIndex(nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, pcr.IndexNamePB), b)
}

func TestIndex(t *testing.T) {
	src, tables := t.TempDir(), t.TempDir()
	writeRecords(t, filepath.Join(src, "train"), 3)
	writeRecords(t, filepath.Join(src, "deep", "val"), 1)
	writeFile(t, filepath.Join(src, "README"), nil)
	for range 2 {
		status, out, errs := call("index", "--table-dir", tables, src)
		if status != statusOK || !strings.Contains(out, "6 in 3 records and 2 classes") || !strings.Contains(out, "2 in 1 record and 2 classes") {
			t.Fatalf("%v\n%s%s", status, out, errs)
		}
	}
	if found, err := filepath.Glob(filepath.Join(tables, "*")); err != nil || len(found) != 2 {
		t.Errorf("tables: %q, %v", found, err)
	}
	// A folder of records itself; one that misses a record; one without any.
	if err := os.Remove(filepath.Join(src, "train", "PCR_1.pcr")); err != nil {
		t.Fatal(err)
	}
	status, out, _ := call("index", "--table-dir", tables, filepath.Join(src, "train"))
	if status != statusSomeBad || !strings.Contains(out, "missing") {
		t.Errorf("a missing record: %v\n%s", status, out)
	}
	if err := os.Truncate(filepath.Join(src, "train", "PCR_2.pcr"), 200); err != nil {
		t.Fatal(err)
	}
	status, out, _ = call("index", "--table-dir", tables, filepath.Join(src, "train"))
	if status != statusSomeBad || !strings.Contains(out, "INCOMPLETE") || !strings.Contains(out, "damaged records") {
		t.Errorf("a record that was cut: %v\n%s", status, out)
	}
	status, _, errs := call("index", "--table-dir", filepath.Join(src, "README", "x"), filepath.Join(src, "deep", "val"))
	if last := errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:]; status != statusFailed ||
		!strings.Contains(last, "val could be kept on disk: mkdir "+filepath.Join(src, "README")) || !strings.Contains(last, "choose another --table-dir") {
		t.Errorf("no folder for tables: %v\n%s", status, errs)
	}
	for name, c := range map[string]struct {
		args []string
		want exitStatus
	}{
		"no records":  {[]string{tables}, statusBadInput},
		"no folder":   {[]string{filepath.Join(src, "none")}, statusBadInput},
		"no source":   {nil, statusUsage},
		"memory":      {[]string{"--table-dir", "-", src}, statusUsage},
		"no such dir": {[]string{"--table-dir", filepath.Join(src, "README", "x"), src}, statusFailed},
	} {
		if status, out, errs := call(append([]string{"index"}, c.args...)...); status != c.want || errs == "" {
			t.Errorf("%s: %v, want %v\n%s%s", name, status, c.want, out, errs)
		}
	}
}
