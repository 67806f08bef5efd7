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
		"9 files = 9 packed + 0 passed through + 0 refused", "3 records, ", "1 image was no JPEG and was encoded at quality 80")
	contains(t, mustCall(t, "pack", "--to", "pcr", "--images-per-record", "4", "--quality", "80", src, dst),
		"; 9 were there already", "3 records, ", "3 were there already")
	contains(t, mustCall(t, "pack", "--to", "pcr", "--images-per-record", "9", src, dst), "2 that were too many were removed")
	contains(t, mustCall(t, "inspect", dst), "format          PCR, index PCR_index.pb\n",
		"images          9 in 2 classes, in 1 record\n", "checksums       of all images", "label           0: 5 images of class cat", "bytes an image")
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
	contains(t, stdout, "4 samples = 3 good + 1 bad; 1 record or index is bad, too; ", "bad dog/3.pcr: in PCR_0.pcr: damaged PCR data: ", "bad PCR_9.pcr: the index does not have it")
	status, stdout, _ = call("inspect", dst)
	if status != statusSomeBad {
		t.Errorf("inspect: status %v", status)
	}
	contains(t, stdout, "stale           1 record that the index does not name, and mounts leave out: PCR_9.pcr", "bad PCR_9.pcr: ")
}

// A dataset in parts is looked through part by part, and the exit status is that
// of all.
func TestPCRCommandsOnParts(t *testing.T) {
	src, dst := writeJPEGs(t, 4)
	for _, part := range []string{"train", "val"} {
		mustCall(t, "pack", "--to", "pcr", src, filepath.Join(dst, part))
	}
	train, val := filepath.Join(dst, "train"), filepath.Join(dst, "val")
	contains(t, mustCall(t, "verify", dst), train+":\n4 samples = 4 good + 0 bad", val+":\n4 samples = 4 good + 0 bad")
	contains(t, mustCall(t, "inspect", dst), train+"\n", val+"\n")
	contains(t, mustCall(t, "inspect", "--quality-curve", dst), "means of 4 images")
	contains(t, mustCall(t, "unpack", dst, filepath.Join(t.TempDir(), "back")), "8 files = 8 unpacked")
	var verified []pack.Verification
	var inspected []pack.Report
	for command, into := range map[string]any{"verify": &verified, "inspect": &inspected} {
		if err := json.Unmarshal([]byte(mustCall(t, command, "--json", dst)), into); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	if len(verified) != 2 || verified[1].Path != val || len(inspected) != 2 || inspected[0].PCR.Images != 4 {
		t.Errorf("%+v %+v", verified, inspected)
	}
	if status, _, stderr := call("inspect", "--plot", filepath.Join(t.TempDir(), "x.png"), dst); status != statusUsage || !strings.Contains(stderr, "name one of them") {
		t.Errorf("a plot of two: status %v, %q", status, stderr)
	}
	if err := os.Truncate(filepath.Join(train, "PCR_0.pcr"), 5); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"verify", "inspect"} {
		status, stdout, stderr := call(command, dst)
		if status == statusOK || !strings.Contains(stdout, val) {
			t.Errorf("%s with a damaged part: status %v\n%s%s", command, status, stdout, stderr)
		}
	}
}

// What pack has not finished is told by everything that reads it.
func TestUnfinishedPCRCommands(t *testing.T) {
	src, dst := writeJPEGs(t, 4)
	mustCall(t, "pack", "--to", "pcr", src, dst)
	writeFile(t, filepath.Join(dst, pack.Marker), nil)
	for _, args := range [][]string{{"verify", dst}, {"inspect", dst}, {"unpack", dst, filepath.Join(t.TempDir(), "back")}, {"unpack", "--allow-refused", dst, filepath.Join(t.TempDir(), "back")}} {
		status, stdout, _ := call(args...)
		if status != statusSomeBad {
			t.Errorf("%v: status %v", args, status)
		}
		contains(t, stdout, "give the same command again to go on")
	}
	mustCall(t, "pack", "--to", "pcr", src, dst)
	mustCall(t, "verify", dst)
	if status, _, stderr := call("pack", "--to", "l3", src, dst); status != statusBadOutput || !strings.Contains(stderr, "holds PCR records") {
		t.Errorf("L3 beside records: status %v, %q", status, stderr)
	}
	contains(t, mustCall(t, "verify", dst), "4 samples = 4 good + 0 bad")
}

// A mount in place of what is mounted is the likeliest mistake.
func TestCommandsSayThatItIsAMount(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	for _, args := range [][]string{
		{"verify", mnt}, {"inspect", mnt}, {"verify", mnt + "/cat"}, {"unpack", mnt, filepath.Join(t.TempDir(), "back")},
	} {
		status, out := output(t, prismfs(args...))
		if status != statusBadInput || !strings.Contains(out, "lies in a mount of prismfs") || !strings.Contains(out, "the source of the mount, "+packed) {
			t.Errorf("%v: status %d, %s", args, status, out)
		}
	}
}
