package main

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"prismfs/pack"
)

// writeJPEGs makes a source of n small JPEG files in two classes.
func writeJPEGs(t testing.TB, n int) (src, dst string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // tables of records go there
	src, dst = filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	for i := range n {
		m := image.NewRGBA(image.Rect(0, 0, 40, 30))
		for y := range 30 {
			for x := range 40 {
				m.Set(x, y, color.RGBA{uint8(x * 6), uint8(y*8 + i), uint8(x + y), 255})
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, nil); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(src, []string{"cat", "dog"}[i%2], strconv.Itoa(i)+".jpg"), b.Bytes())
	}
	return src, dst
}

// mustCall runs a command line that must end well.
func mustCall(t testing.TB, args ...string) string {
	t.Helper()
	status, stdout, stderr := call(args...)
	if status != statusOK {
		t.Fatalf("%v: status %v\n%s%s", args, status, stdout, stderr)
	}
	return stdout
}

// contains checks that a text has all the parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

func TestPCRCommands(t *testing.T) {
	src, dst := writeJPEGs(t, 8)
	writeFile(t, filepath.Join(src, "cat", "drawn.png"), pngOf(t))
	contains(t, mustCall(t, "pack", "--to", "pcr", "--images-per-record", "4", "--quality", "80", src, dst),
		"9 files = 9 packed + 0 passed through + 0 refused", "3 records, ", "1 images were no JPEG and were encoded at quality 80")
	contains(t, mustCall(t, "pack", "--to", "pcr", "--images-per-record", "4", "--quality", "80", src, dst),
		"9 of the first two were there already", "3 records, ", "3 were there already")
	contains(t, mustCall(t, "pack", "--to", "pcr", "--images-per-record", "9", src, dst), "2 that were too many have been removed")
	contains(t, mustCall(t, "inspect", dst), "format          PCR, index PCR_index.pb, 9 of its entries name a record again",
		"images          9 in 2 classes, in 1 records", "checksums       of all images", "label           0: 5 images of class cat", "bytes an image")
	contains(t, mustCall(t, "verify", dst), "9 samples = 9 good + 0 bad")
	contains(t, mustCall(t, "unpack", dst, filepath.Join(t.TempDir(), "back")), "9 files = 9 unpacked")
}

// pngOf is a small PNG.
func pngOf(t testing.TB) []byte {
	t.Helper()
	src, _ := writeImages(t, 1)
	data, err := os.ReadFile(filepath.Join(src, "cat", "0.png"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestInspectQualityCurve(t *testing.T) {
	src, dst := writeJPEGs(t, 4)
	mustCall(t, "pack", "--to", "pcr", src, dst)
	plot := filepath.Join(t.TempDir(), "curve.png")
	contains(t, mustCall(t, "inspect", "--plot", plot, "--quality-images", "3", dst), "means of 3 images", "PSNR dB", "∞")
	if data, err := os.ReadFile(plot); err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
		t.Errorf("the plot: %v", err)
	}
	var report pack.Report
	if err := json.Unmarshal([]byte(mustCall(t, "inspect", "--json", "--quality-curve", dst)), &report); err != nil {
		t.Fatal(err)
	}
	if q := report.PCR.Quality; q == nil || q.Images != 4 || len(q.Points) != 10 {
		t.Errorf("%+v", report.PCR)
	}
	for _, args := range [][]string{{"inspect", "--quality-images", "0", dst}, {"inspect", "--quality-curve", src}} {
		if status, _, stderr := call(args...); status == statusOK || stderr == "" {
			t.Errorf("%v: status %v, %q", args, status, stderr)
		}
	}
	if status, _, _ := call("inspect", "--plot", filepath.Join(t.TempDir(), "none", "curve.png"), dst); status != statusBadOutput {
		t.Errorf("a plot that cannot be written: status %v", status)
	}
}

func TestPCRCommandsReportDamage(t *testing.T) {
	src, dst := writeJPEGs(t, 4)
	mustCall(t, "pack", "--to", "pcr", src, dst)
	record := filepath.Join(dst, "PCR_0.pcr")
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-4] ^= 0xff
	writeFile(t, record, data)
	writeFile(t, filepath.Join(dst, "PCR_9.pcr"), data)
	status, stdout, _ := call("verify", dst)
	if status != statusSomeBad {
		t.Errorf("status %v", status)
	}
	contains(t, stdout, "4 samples = 3 good + 1 bad", "bad dog/3.pcr: ")
	contains(t, mustCall(t, "inspect", dst), "stale           1 records that the index does not name, and mounts leave out: PCR_9.pcr")
}
