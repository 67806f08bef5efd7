package tensor

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"prismfs/raster"
)

// python is the interpreter that has NumPy and PIL on the systems the project
// is tested on.
const python = "/usr/bin/python3"

// pythonCase is one file for testdata/check.py to judge.
type pythonCase struct {
	Name    string // of the file
	Samples string // name of the file of the image's samples
	Form    string // container
	Terms   []string
	Height  int
	Width   int
	C       int
	DType   string // of the image
	Alpha   bool   // whether the last channel is alpha
	Shape   []int  // what the package says of the array
	Array   string
}

// TestAgainstNumPyAndPIL lets the programs that read the forms judge them: the
// .npy files are compared with those of numpy.save, the others are read by PIL
// and, where PIL does not give 16 bits, by a few lines of Python.
func TestAgainstNumPyAndPIL(t *testing.T) {
	if out, err := exec.Command(python, "-c", "import numpy, PIL.Image").CombinedOutput(); err != nil {
		t.Skipf("%s with NumPy and PIL is not here: %v\n%s", python, err, out)
	}
	dir := t.TempDir()
	var cases []pythonCase
	for i, kind := range kinds() {
		for _, size := range [][2]int{{1, 1}, {7, 5}, {1, 300}, {65, 64}, {150, 170}} {
			kind.Height, kind.Width = size[0], size[1]
			img := raster.Image{Shape: kind, Pix: noise(kind.Bytes())}
			cases = append(cases, writePythonCases(t, dir, i, img)...)
		}
	}
	list, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cases.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, filepath.Join("testdata", "check.py"), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := fmt.Sprintf("%d files are right\n", len(cases)); string(out) != want {
		t.Errorf("Python said %q, want %q", out, want)
	}
	t.Logf("%s", out)
}

// writePythonCases writes an image in every form that holds it.
func writePythonCases(t *testing.T, dir string, kind int, img raster.Image) (cases []pythonCase) {
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := fmt.Sprintf("%d-%dx%d", kind, img.Height, img.Width)
	write(base, img.Pix)
	for _, f := range forms() {
		l, err := f.Layout(img.Shape)
		if err != nil {
			continue
		}
		file, err := render(f, img)
		if err != nil {
			t.Fatal(err)
		}
		c := pythonCase{
			Name: base + "+" + f.String(), Samples: base, Form: f.Container.String(), Terms: []string{},
			Height: img.Height, Width: img.Width, C: img.Channels, DType: dtypeName(img.DType),
			Alpha: img.Color == raster.GreyAlpha || img.Color == raster.RGBA,
			Shape: l.Shape(), Array: l.DType(),
		}
		for term, set := range map[string]bool{"chw": f.CHW, "rgb": f.RGB, "16": f.Wide} {
			if set {
				c.Terms = append(c.Terms, term)
			}
		}
		write(c.Name, file)
		cases = append(cases, c)
	}
	return cases
}
