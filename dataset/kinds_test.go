package dataset

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A first look finds what is packed wherever it lies, counts what is there
// otherwise, and says how far it went.
func TestUnpacked(t *testing.T) {
	many := func(n int, name string) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(name, i))
		}
		return all
	}
	for name, test := range map[string]struct {
		files, folders []string
		want           string // what the line has, "" for no line
	}{
		"empty":        {want: "there are no files in "},
		"folders":      {folders: []string{"cat", "dog"}, want: "there are no files in "},
		"packed":       {files: []string{"a.txt", "train/cat/a.l3"}},
		"records":      {files: []string{"train/PCR_0.pcr", "train/PCR_index.pb"}},
		"an index":     {files: []string{"PCR.db"}},
		"plain":        {files: []string{"cat/1.png", "cat/2.PNG", "dog/3.jpg"}, want: "among the 3 files of SRC (2 .png, 1 .jpg): "},
		"one":          {files: []string{"README"}, want: "among the 1 file of SRC (none with a suffix): "},
		"many kinds":   {files: []string{"a.a", "b.b", "c.c", "d.d", "e", ".f", "g.not-a-suffix"}, want: "(1 .a, 1 .b, 1 .c, 4 others)"},
		"being packed": {files: []string{PackMarker}, want: "there are no files in "},
		"only a limit": {files: many(maxFirstFiles, "%d.png"), want: "among the 1,000 files of SRC (1,000 .png)"},
		"more files":   {files: many(maxFirstFiles+1, "%d.png"), want: "among the first 1,000 files of SRC (1,000 .png)"},
		"more folders": {files: many(maxFirstFolders, "%d/a.png"), want: fmt.Sprintf("among the first %d files", maxFirstFolders-1)},
		"no files":     {folders: many(maxFirstFolders, "%d"), want: fmt.Sprintf("in the first %d folders", maxFirstFolders)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range test.folders {
				must(t, os.Mkdir(dir+"/"+folder, 0o755))
			}
			for _, file := range test.files {
				writeFile(t, dir+"/"+file, "")
			}
			line := Open(openLocal(t, dir), Options{TableDir: NoTables}).Unpacked(context.Background())
			want := strings.ReplaceAll(test.want, "SRC", dir)
			if (want == "") != (line == "") || !strings.Contains(line, want) || strings.Contains(line, "\n") {
				t.Errorf("%q, want %q in it", line, want)
			}
		})
	}
}

// Folders that cannot be read keep nobody from the others.
func TestUnpackedWithoutPermission(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/closed/a.png", "")
	faults, err := ParseFaults("list fail EACCES path closed")
	must(t, err)
	d := Open(Faulty(openLocal(t, dir), faults), Options{TableDir: NoTables})
	if line := d.Unpacked(context.Background()); !strings.Contains(line, "1 folder cannot be read") {
		t.Error(line)
	}
	writeFile(t, dir+"/open/a.l3", "")
	if line := d.Unpacked(context.Background()); line != "" {
		t.Error(line)
	}
}

// How many fidelities there are is known of L3 and within folders of records.
func TestLevels(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/l3/train/cat/a.l3", "")
	writeFile(t, dir+"/l3/plain/a.png", "")
	writeFile(t, dir+"/mixed/a.l3", "")
	writeFile(t, dir+"/mixed/val/PCR_0.pcr", "")
	d := Open(openLocal(t, dir), Options{TableDir: NoTables})
	for folder, want := range map[string]int{"l3": 1, "l3/train": 1, "l3/train/cat": 1, "l3/plain": 0, "mixed": 0, "": 0, "none": 0} {
		if got := d.Levels(context.Background(), folder); got != want {
			t.Errorf("%q has %d, want %d", folder, got, want)
		}
	}
}
