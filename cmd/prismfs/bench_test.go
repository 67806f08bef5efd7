package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/bench"
)

func TestBenchCodec(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PYTHON", "")
	src, _ := writeImages(t, 3)
	plot := filepath.Join(t.TempDir(), "codec.png")
	status, stdout, stderr := call("bench", "codec", "--rounds", "1", "--plot", plot, src)
	if status != statusOK || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, part := range []string{"3 images, 10.5 KiB of samples, 1 round, ", "\nL3 fast                 3 ", "\nL3 dense                3 ",
		"\nabsent: PNG, WebP: ", "\nabsent: JPEG XL: ", "\nabsent: published: none of the images"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the output lacks %q:\n%s", part, stdout)
		}
	}
	drawn, err := os.ReadFile(plot)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(drawn)); err != nil {
		t.Errorf("the plot: %v", err)
	}
	status, stdout, _ = call("bench", "codec", "--rounds", "1", "--images", "2", "--json", src)
	var r bench.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != statusOK {
		t.Fatalf("status %d, %v:\n%s", status, err, stdout)
	}
	if r.Images != 2 || len(r.Files) != 2 || len(r.Codecs) != 2 || r.Codecs[0].Codec != "fast" || r.Codecs[0].FileBytes <= 0 || r.Codecs[0].OneCore <= 0 {
		t.Errorf("%+v", r)
	}
	status, _, stderr = call("bench", "codec", "--rounds", "1", "--plot", filepath.Join(plot, "no", "folder.png"), src)
	if status != statusBadOutput || !strings.Contains(stderr, "not a directory") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// What is wrong with the place of the plot is said before anything is measured,
// and the check leaves no trace.
func TestBenchPlotIsCheckedFirst(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PYTHON", "")
	dir := t.TempDir()
	none := filepath.Join(dir, "none") // a source that is found missing once measuring begins
	there := filepath.Join(dir, "there.png")
	writeFile(t, there, []byte("there"))
	if err := os.Mkdir(filepath.Join(dir, "folder.png"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		plot   string
		status exitStatus
		part   string
	}{
		{filepath.Join(dir, "codec.svg"), statusUsage, "--plot"},
		{"", statusUsage, "--plot"},
		{filepath.Join(dir, "missing", "codec.png"), statusBadOutput, "--plot: the plot cannot be written: "},
		{filepath.Join(dir, "folder.png"), statusBadOutput, "--plot: the plot cannot be written: "},
		{filepath.Join(dir, "new.PNG"), statusBadInput, "none"},
		{there, statusBadInput, "none"},
	} {
		status, stdout, stderr := call("bench", "codec", "--plot", c.plot, none)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.part) {
			t.Errorf("--plot %q: status %d: %s%s", c.plot, status, stdout, stderr)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the checks leave %v, %v", entries, err)
	}
	if data, err := os.ReadFile(there); err != nil || string(data) != "there" {
		t.Errorf("a file that was there holds %q, %v", data, err)
	}
}

// What was measured is printed although the plot could not be written.
func TestBenchPrintsWithoutPlot(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PYTHON", "/bin/false")
	src, _ := writeImages(t, 1)
	writeFile(t, filepath.Join(src, "packed.l3"), []byte("LLL2 and more"))
	full := filepath.Join(t.TempDir(), "full.png")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := call("bench", "codec", "--rounds", "1", "--plot", full, src)
	if status != statusBadOutput || !strings.Contains(stderr, "--plot: the plot cannot be written: ") {
		t.Errorf("status %d: %s", status, stderr)
	}
	for _, part := range []string{"\nL3 dense ", "\nabsent: PNG, WebP: PYTHON=/bin/false has no Pillow",
		"\nnot measured: 1 L3 file; give the folder of its source images\n"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the output lacks %q:\n%s", part, stdout)
		}
	}
}
