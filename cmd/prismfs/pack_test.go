package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"prismfs/internal/testfiles"
	"prismfs/pack"
)

func TestPackPrintsSumsThatAddUp(t *testing.T) {
	src, dst := writeImages(t, 3)
	writeFile(t, filepath.Join(src, "notes.txt"), []byte("notes"))
	writeFile(t, filepath.Join(src, "cat", "lat\xe9\n.jpg"), nil)
	status, stdout, _ := call("pack", "--to", "l3", src, dst)
	if status != statusSomeBad || !strings.Contains(stdout, "5 files = 3 packed + 1 passed through + 1 refused\n") ||
		!strings.Contains(stdout, `refused "cat/lat\xe9\n.jpg": the file is empty`) {
		t.Errorf("status %d:\n%s", status, stdout)
	}
	status, stdout, _ = call("pack", "--to", "l3", "--json", "--allow-refused", src, dst)
	var s pack.Summary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || status != statusOK {
		t.Fatalf("status %d, %v:\n%s", status, err, stdout)
	}
	if s.FilesIn != 5 || s.Converted.Files != 3 || s.Passed.Files != 1 || len(s.Refused) != 1 || s.AlreadyThere != 4 || !s.Finished {
		t.Errorf("%+v", s)
	}
}

// wallpaper is a PNG of noise that repeats, for which PNG is better than any
// coding of L3.
func wallpaper(t testing.TB) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 256, 256))
	for y := range 256 {
		for x := range 256 {
			noise := uint32(x%32+32*(y%8)) * 2654435761
			m.Set(x, y, color.RGBA{uint8(noise >> 24), uint8(noise >> 17), uint8(noise >> 11), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPackSaysWhatItLeaves(t *testing.T) {
	src, dst := writeImages(t, 2)
	writeFile(t, filepath.Join(src, "cat", "paper.png"), wallpaper(t))
	log := filepath.Join(t.TempDir(), "log")
	status, stdout, stderr := call("pack", "--to", "l3", "--log-level", "debug", "--log-file", log, src, dst)
	if status != statusOK || !strings.Contains(stdout, "3 files = 2 packed + 1 passed through + 0 refused\n1 of those passed through is an image that was left as it is\n") {
		t.Errorf("status %d:\n%s%s", status, stdout, stderr)
	}
	if lines, err := os.ReadFile(log); err != nil || !strings.Contains(string(lines), `msg="left as it is" image=cat/paper.png`) {
		t.Errorf("log %s, %v", lines, err)
	}
	for args, part := range map[string]string{
		"inspect " + dst:                  "as they are     1 of PNG\n",
		"verify " + dst:                   "3 samples = 3 good + 0 bad; 0 other files not looked into\n",
		"verify  " + dst:                  "1 of the good ones is an image that is not packed: it can be decoded",
		"unpack " + dst + " " + dst + "2": "3 files = 2 unpacked + 1 passed through + 0 refused\n",
	} {
		if status, stdout, stderr := call(strings.Fields(args)...); status != statusOK || !strings.Contains(stdout, part) {
			t.Errorf("%s: status %d, output lacks %q:\n%s%s", args, status, part, stdout, stderr)
		}
	}
	for _, mode := range []string{"dense", "fast"} {
		status, stdout, _ := call("pack", "--to", "l3", "--json", "--mode", mode, "--effort", "1", src, dst)
		var s pack.Summary
		if err := json.Unmarshal([]byte(stdout), &s); err != nil || status != statusOK || s.Converted.Files != 3 || len(s.Left) != 0 {
			t.Errorf("%s: status %d, %v:\n%s", mode, status, err, stdout)
		}
	}
}

// The mode decides the coding.
func TestPackModes(t *testing.T) {
	src, _ := writeImages(t, 1)
	for mode, coding := range map[string]string{"auto": "dense 8-bit", "dense": "dense 8-bit", "fast": "fast 8-bit"} {
		dst := filepath.Join(t.TempDir(), mode)
		if status, _, stderr := call("pack", "--to", "l3", "--mode", mode, src, dst); status != statusOK {
			t.Fatal(stderr)
		}
		if status, stdout, _ := call("inspect", dst+"/cat/0.l3"); status != statusOK || !strings.Contains(stdout, "L3 version 2, "+coding) {
			t.Errorf("%s: status %d:\n%s", mode, status, stdout)
		}
	}
	for _, mode := range []string{"labels", "published"} { // which this image is not for
		status, stdout, _ := call("pack", "--to", "l3", "--mode", mode, src, filepath.Join(t.TempDir(), mode))
		if status != statusSomeBad || !strings.Contains(stdout, "refused cat/0.png: ") {
			t.Errorf("%s: status %d:\n%s", mode, status, stdout)
		}
	}
}

func TestInspectVerifyUnpack(t *testing.T) {
	src, dst := writeImages(t, 3)
	if status, _, stderr := call("pack", "--to", "l3", src, dst); status != statusOK {
		t.Fatal(stderr)
	}
	for args, part := range map[string]string{
		"inspect " + dst + "/dog/1.l3":    "label           1\n",
		"inspect " + dst:                  "shape           3 of 30×40×3 uint8\n",
		"verify " + dst:                   "3 samples = 3 good + 0 bad",
		"verify  " + dst:                  "source decoder: image/png",
		"unpack " + dst + " " + dst + "2": "3 files = 3 unpacked + 0 passed through + 0 refused\n",
	} {
		if status, stdout, stderr := call(strings.Fields(args)...); status != statusOK || !strings.Contains(stdout, part) {
			t.Errorf("%s: status %d, output lacks %q:\n%s%s", args, status, part, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dst+"2", "dog", "1.png")); err != nil {
		t.Error(err)
	}
	writeFile(t, filepath.Join(dst, "cat", "0.l3"), []byte("LLL2 and no more"))
	status, stdout, _ := call("verify", "--json", dst)
	var v pack.Verification
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || status != statusSomeBad {
		t.Fatalf("status %d, %v:\n%s", status, err, stdout)
	}
	if v.Samples != 3 || v.Good != 2 || len(v.Bad) != 1 || v.Bad[0].Path != "cat/0.l3" {
		t.Errorf("%+v", v)
	}
	status, stdout, _ = call("inspect", "--json", dst)
	var r pack.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != statusSomeBad || r.Tree == nil || r.Tree.Samples != 2 {
		t.Errorf("status %d, %v:\n%s", status, err, stdout)
	}
}

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	logger, err := newLogger(&b, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("not this")
	logger.Warn("this")
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.Level != "WARN" || line.Msg != "this" {
		t.Errorf("%v: %s", err, b.String())
	}
	log := filepath.Join(t.TempDir(), "log")
	if status, _, stderr := call("--log-file", log, "version"); status != statusOK {
		t.Fatal(stderr)
	}
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}
}

// That JPEGs grow is said once, with the figure of this run.
func TestPackSaysThatJPEGsGrow(t *testing.T) {
	src, dst := writeImages(t, 1)
	jpeg, err := os.ReadFile(testfiles.Shared(t, "cases/files/c30_411.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(src, "cat", "photo.jpg"), jpeg)
	status, stdout, stderr := call("pack", "--to", "l3", src, dst)
	if status != statusOK || stderr != "" || strings.Count(stdout, "note: JPEG images became ") != 1 {
		t.Errorf("status %d:\n%s%s", status, stdout, stderr)
	}
}

func TestPackOfNothing(t *testing.T) {
	status, stdout, _ := call("pack", "--to", "l3", t.TempDir(), filepath.Join(t.TempDir(), "dst"))
	if status != statusOK || !strings.Contains(stdout, "no image was packed") || strings.Contains(stdout, "times)") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
}

// entries counts the files of a destination by what they are.
func entries(t *testing.T, dst string) (outputs, partial, markers int) {
	t.Helper()
	err := filepath.WalkDir(dst, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case e.Name() == pack.Marker:
			markers++
		case strings.HasSuffix(path, pack.Suffix):
			outputs++
		case !e.IsDir():
			partial++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return outputs, partial, markers
}

// signalMidway starts a pack of n images and sends the signal when the first
// outputs are there. It returns the ended process's state.
func signalMidway(t *testing.T, src, dst string, sig syscall.Signal) *os.ProcessState {
	t.Helper()
	cmd := prismfs("pack", "--to", "l3", "--jobs", "1", src, dst)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if outputs, _, _ := entries(t, dst); outputs > 3 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	cmd.Process.Signal(sig)
	cmd.Wait()
	return cmd.ProcessState
}

func TestSignals(t *testing.T) {
	const n = 300
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			src, dst := writeImages(t, n)
			state := signalMidway(t, src, dst, sig)
			outputs, partial, markers := entries(t, dst)
			if outputs >= n {
				t.Skip("the run had ended before the signal came")
			}
			if sig != syscall.SIGKILL && (state.ExitCode() != int(statusInterrupted) || partial != 0) {
				t.Errorf("%v left %d outputs, %d partial ones", state, outputs, partial)
			}
			if markers != 1 {
				t.Errorf("the run left %d markers", markers)
			}
			for _, command := range []string{"verify", "inspect"} {
				if status, stdout, _ := call(command, dst); status != statusSomeBad || !strings.Contains(stdout, "UNFINISHED") || !strings.Contains(stdout, "give the same command again") {
					t.Errorf("%s: status %d:\n%s", command, status, stdout)
				}
			}
			status, stdout, stderr := call("pack", "--to", "l3", "--json", src, dst)
			var s pack.Summary
			if err := json.Unmarshal([]byte(stdout), &s); err != nil || status != statusOK {
				t.Fatalf("status %d, %v: %s", status, err, stderr)
			}
			if s.Converted.Files != n || s.AlreadyThere != outputs || s.Replaced != 0 {
				t.Errorf("after %d outputs the next run found %d, and replaced %d", outputs, s.AlreadyThere, s.Replaced)
			}
			if outputs, partial, markers := entries(t, dst); outputs != n || partial+markers != 0 {
				t.Errorf("%d outputs, %d partial ones, %d markers", outputs, partial, markers)
			}
			if status, stdout, _ := call("verify", dst); status != statusOK {
				t.Errorf("status %d:\n%s", status, stdout)
			}
		})
	}
}

// A decompression bomb costs no memory in the whole process.
func TestBombMemory(t *testing.T) {
	bomb, err := os.ReadFile(testfiles.Shared(t, "cases/files/c51_bomb_20000x20000.png"))
	if err != nil {
		t.Fatal(err)
	}
	src, dst := writeImages(t, 2)
	writeFile(t, filepath.Join(src, "cat", "bomb.png"), bomb)
	cmd := prismfs("pack", "--to", "l3", src, dst)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != int(statusSomeBad) || !strings.Contains(string(out), "2 packed + 0 passed through + 1 refused") {
		t.Fatalf("%v:\n%s", err, out)
	}
	const limitKiB = 200 << 10
	if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; used > limitKiB {
		t.Errorf("%d KiB were resident", used)
	}
}

// Several things are inspected and verified by one command; what is wrong with one
// keeps it from none of the others.
func TestInspectSeveral(t *testing.T) {
	src, dst := writeImages(t, 3)
	mustCall(t, "pack", "--to", "l3", src, dst)
	for _, command := range []string{"inspect", "verify"} {
		out := mustCall(t, command, dst, filepath.Join(dst, "cat", "0.l3"))
		contains(t, out, dst, filepath.Join(dst, "cat", "0.l3"))
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(mustCall(t, command, "--json", dst, dst, dst+"/cat")), &list); err != nil || len(list) != 3 {
			t.Errorf("%s: %d reports, %v", command, len(list), err)
		}
		status, out, errs := call(command, dst+"/none", dst)
		if status != statusBadInput || !strings.Contains(out, dst) || !strings.Contains(errs, "none: no such file") {
			t.Errorf("%s: status %d, %s%s", command, status, out, errs)
		}
	}
	if status, _, errs := call("inspect", "--plot", "curve.png", dst, dst); status != statusUsage || !strings.Contains(errs, "--plot draws one dataset") {
		t.Errorf("a plot of two: status %d, %s", status, errs)
	}
}

// The parts of a dataset are not counted as its classes.
func TestPackSaysParts(t *testing.T) {
	src, dst := writeImages(t, 2)
	whole := filepath.Join(t.TempDir(), "whole")
	for _, part := range []string{"train", "val"} {
		if err := os.CopyFS(filepath.Join(whole, part), os.DirFS(src)); err != nil {
			t.Fatal(err)
		}
	}
	contains(t, mustCall(t, "pack", "--to", "l3", whole, dst), " s, 2 parts (train, val)\n", "4 files = 4 packed")
	contains(t, mustCall(t, "inspect", dst), "4 in 2 parts, and 0 other files", "part            2 of train\n")
	contains(t, mustCall(t, "pack", "--to", "l3", filepath.Join(whole, "val", "cat"), dst+"-one"), "1 file = 1 packed", " 0 class folders\n")
}
