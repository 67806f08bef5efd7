package imagefile

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// pilScript prints, for each file named on standard input, the SHA-256 of
// what PIL makes of it: the samples for what PIL opens with 16 bits, else RGB.
const pilScript = `
import sys, json, hashlib
import numpy as np
from PIL import Image
out = {}
for path in sys.stdin.read().splitlines():
    with Image.open(path) as im:
        wide = im.mode.startswith("I")
        a = np.array(im).astype("<u2") if wide else np.array(im.convert("RGB"))
    out[path] = hashlib.sha256(a.tobytes()).hexdigest()
json.dump(out, sys.stdout)
`

// TestPhotosEqualPIL compares photographs, depth maps and the test pictures
// that PIL can read with PIL.
func TestPhotosEqualPIL(t *testing.T) {
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import numpy, PIL").Run(); err != nil {
		t.Skipf("%s with NumPy and PIL is not here: %v", python, err)
	}
	var files []string
	for _, folder := range []string{"data/photos", "data/kodak", "data/deep16"} {
		err := filepath.WalkDir(testfiles.Shared(t, folder), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && !strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "-c", pilScript)
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n"))
	var answer, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &answer, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("PIL: %v: %s", err, complaint.String())
	}
	var want map[string]string
	if err := json.Unmarshal(answer.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode(data, DefaultLimits)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		got := d.Pix
		if d.DType.Size() == 1 {
			got = asRGB(d.Image)
		}
		if hash(got) != want[file] {
			t.Errorf("%s: other pixels than PIL's", file)
		}
	}
	t.Logf("%d files", len(files))
}
