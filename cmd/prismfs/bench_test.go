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
	for _, part := range []string{"3 images, 10.5 KiB of samples, 1 rounds", "\nL3 fast                 3 ", "\nL3 dense                3 ",
		"\nabsent: PNG and WebP: ", "\nabsent: JPEG XL: ", "\nabsent: published: none of the images"} {
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
