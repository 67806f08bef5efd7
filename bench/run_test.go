package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/l3"
)

// gradient is an image with a little noise.
func gradient(pix []uint8, stride int) {
	state := uint32(1)
	for i := range pix {
		state = state*1664525 + 1013904223
		pix[i] = uint8(i%stride+i/stride) + uint8(state>>29)
	}
}

func rgb(width, height int) image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	gradient(m.Pix, m.Stride)
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255
	}
	return m
}

func grey(width, height int) image.Image {
	m := image.NewGray(image.Rect(0, 0, width, height))
	gradient(m.Pix, m.Stride)
	return m
}

func grey16(width, height int) image.Image {
	m := image.NewGray16(image.Rect(0, 0, width, height))
	gradient(m.Pix, m.Stride)
	return m
}

// int16NPY is an array of signed samples.
func int16NPY(height, width int) []byte {
	header := fmt.Sprintf("{'descr': '<i2', 'fortran_order': False, 'shape': (%d, %d), }", height, width)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return append([]byte("\x93NUMPY\x01\x00\x76\x00"+header), bytes.Repeat([]byte{7, 255}, height*width)...)
}

// folder writes a few images of each kind, one that is damaged, and another
// file.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, m := range map[string]image.Image{
		"whole.png": rgb(128, 64), "sub/partial.png": rgb(33, 17), "sub/grey.png": grey(40, 30), "deep.png": grey16(20, 10),
	} {
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, path), b.Bytes())
		if path == "whole.png" {
			write(t, filepath.Join(dir, "cut.png"), b.Bytes()[:b.Len()/2])
		}
	}
	write(t, filepath.Join(dir, "signed.npy"), int16NPY(200, 300))
	write(t, filepath.Join(dir, "notes.txt"), []byte("notes"))
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// measure runs a benchmark and checks what holds for every report.
func measure(t *testing.T, dir string, opt Options) *Report {
	t.Helper()
	steps, total := 0, 0
	opt.Progress = func(done, of int) { steps, total = done, of }
	r, err := Run(context.Background(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if steps == 0 || steps > total {
		t.Errorf("progress ended at %d of %d", steps, total)
	}
	for _, c := range r.Codecs {
		checkResult(t, r, c)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	return r
}

// checkResult compares a result with the figures of its images.
func checkResult(t *testing.T, r *Report, c Result) {
	t.Helper()
	var images int
	var samples, bytes int64
	var logs float64
	var compared int
	for _, f := range r.Files {
		n, ok := f.Bytes[c.Codec]
		if !ok {
			continue
		}
		images, samples, bytes = images+1, samples+f.SampleBytes, bytes+n
		if f.Decode[c.Codec] <= 0 || n <= 0 {
			t.Errorf("%s of %s: %d bytes, %v MB/s", c.Codec, f.Path, n, f.Decode[c.Codec])
		}
		if p, ok := f.Bytes[pngFormat]; ok {
			compared++
			logs += math.Log(float64(n) / float64(p))
		}
	}
	if images != c.Images || samples != c.SampleBytes || bytes != c.FileBytes || c.Encode <= 0 || c.OneCore <= 0 || c.AllCores <= 0 {
		t.Errorf("%d images, %d and %d bytes: %+v", images, samples, bytes, c)
	}
	if (c.OverPNG == nil) != (compared == 0) {
		t.Errorf("%d images have a PNG: %+v", compared, c)
	}
	if o := c.OverPNG; o != nil && (o.Images != compared || math.Abs(o.GeometricMean-math.Exp(logs/float64(compared))) > 1e-9 ||
		o.Total <= 0 || o.OneCore <= 0 || o.AllCores <= 0) {
		t.Errorf("%s: %+v", c.Codec, *o)
	}
}

func codecs(r *Report) map[string]int {
	out := map[string]int{}
	for _, c := range r.Codecs {
		out[c.Codec] = c.Images
	}
	return out
}

// withoutPrograms hides every other program.
func withoutPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv(pythonVariable, "")
	return dir
}

func TestRunWithoutOtherPrograms(t *testing.T) {
	withoutPrograms(t)
	r := measure(t, folder(t), Options{Rounds: 2, Jobs: 3})
	if r.Images != 5 || len(r.Failed) != 0 || r.Processors != 3 || r.Rounds != 2 || r.Effort != l3.DefaultEffort {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff(map[string]int{"published": 1, "fast": 5, "dense": 5, "labels": 1}, codecs(r)); diff != "" {
		t.Errorf("codecs:\n%s", diff)
	}
	if len(r.Skipped) != 1 || r.Skipped[0].Subject != "cut.png" || r.Skipped[0].Reason == "" {
		t.Errorf("skipped: %+v", r.Skipped)
	}
	if len(r.Absent) != 2 || r.Absent[0].Subject != "PNG, WebP" || r.Absent[1].Subject != "JPEG XL" ||
		!strings.Contains(r.Absent[0].Reason, "no python3") || !strings.Contains(r.Absent[1].Reason, "cjxl") {
		t.Errorf("absent: %+v", r.Absent)
	}
}

// The sizes are those of the files that the encoder gives.
func TestSizes(t *testing.T) {
	withoutPrograms(t)
	dir := folder(t)
	r := measure(t, dir, Options{Rounds: 1, Effort: 1})
	for _, f := range r.Files {
		image, err := readImage(dir, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for codec, mode := range map[string]l3.Mode{"published": l3.ModePublished, "fast": l3.ModeFast, "dense": l3.ModeDense, "labels": l3.ModeLabels} {
			n, ok := f.Bytes[codec]
			if !ok {
				continue
			}
			file, err := l3.Encode(image.Image, l3.EncodeOptions{Mode: mode, Effort: 1})
			if err != nil || int64(len(file)) != n {
				t.Errorf("%s of %s: %d bytes, expected %d, %v", codec, f.Path, n, len(file), err)
			}
		}
	}
}

func TestRunBesidePillow(t *testing.T) {
	pillow, err := startPillow(t.Context(), 2)
	if err != nil {
		t.Skipf("Pillow is not here: %v", err)
	}
	pillow.close()
	dir := folder(t)
	r := measure(t, dir, Options{Rounds: 2, Jobs: 2})
	got := codecs(r)
	if got[pngFormat] != 5 || pillow.webp && got[webpFormat] != 3 {
		t.Errorf("codecs %v, failed %+v", got, r.Failed)
	}
	if r.Codecs[0].Codec != pngFormat || r.Codecs[0].OverPNG.GeometricMean != 1 || r.Codecs[0].OverPNG.OneCore != 1 || r.Codecs[0].OverPNG.AllCores != 1 {
		t.Errorf("PNG: %+v", r.Codecs[0])
	}
	if !slices.Contains(r.Programs, pillow.version) {
		t.Errorf("programs %v", r.Programs)
	}
}

func TestRunBesideJPEGXL(t *testing.T) {
	if _, err := findJPEGXL(t.Context(), 2); err != nil {
		t.Skipf("JPEG XL is not here: %v", err)
	}
	r := measure(t, folder(t), Options{Rounds: 1, Jobs: 2})
	if got := codecs(r); got["jpeg-xl"] != 5 {
		t.Errorf("codecs %v, failed %+v", got, r.Failed)
	}
}

// Programs that are there and do not work are named, and the rest is measured.
func TestProgramsThatDoNotWork(t *testing.T) {
	const sayNothing = "#!/bin/sh\nexit 0\n"
	for _, c := range []struct {
		name, program, script string
		absent, failed        string
	}{
		{"a Python without Pillow", "python3", "#!/bin/sh\necho '{\"error\": \"No module named PIL\"}'\n", "No module named PIL", ""},
		{"a Python that ends", "python3", sayNothing, "has ended", ""},
		{"a Python that says something else", "python3", "#!/bin/sh\necho hello\n", "answers \"hello", ""},
		{"a cjxl that fails", "cjxl", "#!/bin/sh\necho no memory >&2\nexit 3\n", "failed on every image", "exit status 3: no memory"},
		{"a cjxl that does not say how fast it was", "cjxl", sayNothing, "failed on every image", "does not say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := withoutPrograms(t)
			write(t, filepath.Join(dir, "djxl"), []byte("#!/bin/sh\necho djxl v9\n"))
			write(t, filepath.Join(dir, c.program), []byte(c.script))
			r := measure(t, folder(t), Options{Rounds: 1})
			if got := codecs(r); got["fast"] != 5 {
				t.Errorf("codecs %v", got)
			}
			if !slices.ContainsFunc(r.Absent, func(p Problem) bool { return strings.Contains(p.Reason, c.absent) }) {
				t.Errorf("absent: %+v", r.Absent)
			}
			if (len(r.Failed) > 0) != (c.failed != "") || len(r.Failed) > 0 && !strings.Contains(r.Failed[0].Reason, c.failed) {
				t.Errorf("failed: %+v", r.Failed)
			}
		})
	}
}

// PYTHON decides: where it cannot be used, no other Python is.
func TestNamedPython(t *testing.T) {
	const works = "#!/bin/sh\necho '{\"version\": \"1\"}'\nread line\n"
	dir := withoutPrograms(t)
	write(t, filepath.Join(dir, "python3"), []byte(works))
	write(t, filepath.Join(dir, "other"), []byte(works))
	bare := filepath.Join(t.TempDir(), "bare")
	write(t, bare, []byte("#!/bin/sh\necho '{\"error\": \"No module named PIL\"}'\n"))
	for named, part := range map[string]string{
		bare:         "PYTHON=" + bare + " has no Pillow that works: No module named PIL",
		"/bin/false": "PYTHON=/bin/false has no Pillow that works: ",
		"/no/python": "PYTHON=/no/python cannot be run: ",
		"pythonless": "PYTHON=pythonless cannot be run: ",
	} {
		t.Setenv(pythonVariable, named)
		r := measure(t, folder(t), Options{Rounds: 1, Images: 1})
		if len(r.Absent) == 0 || r.Absent[0].Subject != "PNG, WebP" || !strings.Contains(r.Absent[0].Reason, part) {
			t.Errorf("%s: absent %+v", named, r.Absent)
		}
	}
	for _, named := range []string{"", "other"} {
		t.Setenv(pythonVariable, named)
		p, err := startPillow(t.Context(), 1)
		if err != nil {
			t.Errorf("%q: %v", named, err)
			continue
		}
		if base := filepath.Base(p.cmd.Path); base != "python3" && named == "" || base != "other" && named != "" {
			t.Errorf("PYTHON=%s starts %s", named, p.cmd.Path)
		}
		p.close()
	}
}

// L3 files are not what is measured, and the report says so.
func TestL3Files(t *testing.T) {
	withoutPrograms(t)
	const note = "not measured: 2 L3 files; give the folder of their source images"
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.l3"), []byte("LLL2 and more"))
	write(t, filepath.Join(dir, "sub/b.l3"), []byte("LLL. and more"))
	if _, err := Run(context.Background(), dir, Options{}); !errors.Is(err, ErrNoImages) || !strings.HasSuffix(err.Error(), "; "+note) {
		t.Errorf("%v", err)
	}
	mixed := folder(t)
	write(t, filepath.Join(mixed, "a.l3"), []byte("LLL2 and more"))
	write(t, filepath.Join(mixed, "sub/b.l3"), []byte("LLL. and more"))
	if r := measure(t, mixed, Options{Rounds: 1, Images: 1}); r.L3Files != 2 || r.NotMeasured() != note {
		t.Errorf("%d L3 files: %q", r.L3Files, r.NotMeasured())
	}
	if note := (&Report{}).NotMeasured(); note != "" {
		t.Errorf("without L3 files: %q", note)
	}
}

func TestNothingToMeasure(t *testing.T) {
	withoutPrograms(t)
	empty, cut := t.TempDir(), t.TempDir()
	write(t, filepath.Join(empty, "notes.txt"), []byte("notes"))
	write(t, filepath.Join(cut, "cut.png"), []byte("\x89PNG\r\n\x1a\n"))
	for dir, part := range map[string]string{empty: "no image", cut: "cut.png"} {
		if _, err := Run(context.Background(), dir, Options{}); !errors.Is(err, ErrNoImages) || !strings.Contains(err.Error(), part) {
			t.Errorf("%v", err)
		}
	}
	if _, err := Run(context.Background(), filepath.Join(empty, "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestInterrupt(t *testing.T) {
	withoutPrograms(t)
	dir := folder(t)
	for _, after := range []int{1, 12, 30} { // while images are encoded, and in rounds
		ctx, cancel := context.WithCancel(context.Background())
		r, err := Run(ctx, dir, Options{Rounds: 3, Progress: func(done, _ int) {
			if done == after {
				cancel()
			}
		}})
		if r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after step %d: %v", after, err)
		}
		cancel()
	}
}

// The Python process ends with the benchmark.
func TestInterruptEndsPython(t *testing.T) {
	dir := withoutPrograms(t)
	write(t, filepath.Join(dir, "python3"), []byte("#!/bin/sh\necho '{\"version\": \"1\"}'\nexec /bin/sleep 600\n"))
	ctx, cancel := context.WithCancel(context.Background())
	p, err := startPillow(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.ask(request{Op: "about"}); err == nil {
		t.Error("a process that was ended answers")
	}
	p.close()
	if p.cmd.ProcessState == nil || p.cmd.ProcessState.Success() {
		t.Errorf("the process: %v", p.cmd.ProcessState)
	}
}

func TestQuiet(t *testing.T) {
	busy := float64(runtime.NumCPU())
	if r := (&Report{Load: busy}); r.Quiet() {
		t.Errorf("a load of %v is quiet", busy)
	}
	if r := (&Report{Load: 0.1}); !r.Quiet() {
		t.Error("a load of 0.1 is not quiet")
	}
}

func TestSpread(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 10, 97, 1000} {
		order := spread(n)
		sorted := slices.Clone(order)
		slices.Sort(sorted)
		for i, at := range sorted {
			if i != at {
				t.Fatalf("%d: number %d is %d in %v", n, i, at, order)
			}
		}
	}
	// Of a thousand, the first twenty leave no gap of twice the mean.
	first := append(spread(1000)[:20], 1000)
	slices.Sort(first)
	for i := 1; i < len(first); i++ {
		if first[i]-first[i-1] >= 2*1000/20 {
			t.Errorf("a gap of %d in %v", first[i]-first[i-1], first)
		}
	}
}

func TestFewerImages(t *testing.T) {
	withoutPrograms(t)
	r := measure(t, folder(t), Options{Rounds: 1, Images: 2})
	if r.Images != 2 || len(r.Files) != 2 || r.Files[0].Path >= r.Files[1].Path {
		t.Errorf("%+v", r.Files)
	}
}

func TestTimesOfJPEGXL(t *testing.T) {
	j, err := findJPEGXL(t.Context(), 1)
	if err != nil {
		t.Skipf("JPEG XL is not here: %v", err)
	}
	image, err := readImage(folder(t), "whole.png")
	if err != nil {
		t.Fatal(err)
	}
	image.Height, image.Width = 1000, 2000
	for said, seconds := range map[string]float64{
		"768 x 512, 4.00 MP/s [4.00, 4.00], 1 reps, 1 threads.":                   0.5,
		"Read 768x512 image, 694969 bytes, 45.4 MP/s\n768 x 512, 2.000 MP/s [2.]": 1,
	} {
		if took, err := j.took([]byte(said), image); err != nil || math.Abs(took.Seconds()-seconds) > 1e-6 {
			t.Errorf("%s: %v, %v", said, took, err)
		}
	}
	for _, said := range []string{"", "0 MP/s", "... MP/s"} {
		if took, err := j.took([]byte(said), image); err == nil {
			t.Errorf("%q: %v", said, took)
		}
	}
}
