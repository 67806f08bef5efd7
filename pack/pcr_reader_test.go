package pack

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// The reader that the writer is tested with gives what the published programs
// give, at every fidelity.
func TestIndependentReaderIsRight(t *testing.T) {
	dir := testfiles.Shared(t, "fixtures/pcr/edge-pb")
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Index   []string `json:"index_keys_in_file_order"`
		Records []struct {
			Name   string  `json:"name"`
			Levels int     `json:"progressive_levels"`
			Bytes  []int64 `json:"lengths"`
			Images []struct {
				Label  int32 `json:"label"`
				Levels []struct {
					Bytes int    `json:"jpeg_len"`
					JPEG  string `json:"jpeg_sha256"`
					RGB   string `json:"rgb_sha256"`
				} `json:"levels"`
			} `json:"images"`
		} `json:"records"`
	}
	if err := json.Unmarshal(data, &expected); err != nil {
		t.Fatal(err)
	}
	read := readIndependently(t, dir, "all")
	if strings.Join(read.Index, " ") != strings.Join(expected.Index, " ") || len(read.Records) != len(expected.Records) {
		t.Errorf("index %v, %d records", read.Index, len(read.Records))
	}
	compared := 0
	for _, want := range expected.Records {
		got := read.Records[want.Name]
		if got.Levels != want.Levels || len(got.Images) != len(want.Images) || len(got.Lengths) != len(want.Bytes) {
			t.Fatalf("%s: %d levels, %d images", want.Name, got.Levels, len(got.Images))
		}
		for i, image := range want.Images {
			if got.Labels[i] != image.Label {
				t.Errorf("%s, image %d: label %d", want.Name, i, got.Labels[i])
			}
			for k, level := range image.Levels {
				g := got.Images[i]
				if g.Bytes[k] != level.Bytes || g.SHA256[k] != level.JPEG || g.Pixels[k].SHA256 != level.RGB {
					t.Errorf("%s, image %d at k = %d differs", want.Name, i, k+1)
				}
				compared++
			}
		}
	}
	if compared < 200 {
		t.Errorf("only %d images were compared", compared)
	}
}

// It does not pass over what is wrong.
func TestIndependentReaderStopsAtDamage(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, pcrTree(t, 1), dst, PCROptions{})
	if read := readIndependently(t, dst, "none"); len(read.Records) != 1 {
		t.Errorf("%d records", len(read.Records))
	}
	truncate(t, filepath.Join(dst, "PCR_0.pcr"), 500)
	out, err := exec.Command(python(), "-B", "testdata/pcr_reader.py", "--pixels", "none", dst).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "500 bytes, the index says") {
		t.Errorf("a record that was cut: %v, %s", err, out)
	}
}
