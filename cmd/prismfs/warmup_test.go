package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"prismfs/fs"
)

// warmth runs warmup --json with its arguments, of one mount.
func warmth(t *testing.T, args ...string) (exitStatus, fs.Warmth) {
	t.Helper()
	status, out := output(t, prismfs(append([]string{"warmup", "--json"}, args...)...))
	var w fs.Warmth
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		t.Fatalf("status %d: %v: %s", status, err, out)
	}
	return status, w
}

func TestWarmup(t *testing.T) {
	packed, mnt := packedImages(t)
	writeFile(t, filepath.Join(packed, "README"), []byte("hello"))
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	const bytes = 4 * (128 + 40*30*3)
	status, w := warmth(t, mnt)
	if status != statusOK || w.Files != 5 || w.Samples != 4 || w.Bytes != bytes || w.Decoded != 4 || w.Held != 4 || w.Failed != 0 || w.Mountpoint != mnt {
		t.Errorf("status %d: %+v", status, w)
	}
	// What is there is not decoded again, another view is.
	if status, w := warmth(t, filepath.Join(mnt, "cat"), filepath.Join(mnt, "dog", "1.npy")); status != statusOK || w.Samples != 3 || w.Decoded != 0 || w.Held != 3 {
		t.Errorf("status %d: %+v", status, w)
	}
	if status, w := warmth(t, mnt+"/cat+png"); status != statusOK || w.Samples != 2 || w.Decoded != 2 {
		t.Errorf("status %d: %+v", status, w)
	}
	status, out := output(t, prismfs("warmup", mnt))
	if status != statusOK || !strings.Contains(out, "5 files opened, 4 of them made from images") || !strings.Contains(out, "the cache holds all of them") {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestWarmupNamesFailures: a file that is damaged is named, the others are
// decoded.
func TestWarmupNamesFailures(t *testing.T) {
	packed, mnt := packedImages(t)
	bad := filepath.Join(packed, "cat", "0.l3")
	file, err := os.ReadFile(bad)
	if err != nil {
		t.Fatal(err)
	}
	file[len(file)-1] ^= 1
	writeFile(t, bad, file)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	status, w := warmth(t, mnt)
	if status != statusSomeBad || w.Files != 3 || w.Held != 3 || w.Failed != 1 || len(w.Failures) != 1 || w.Failures[0].Path != mnt+"/cat/0.npy" {
		t.Errorf("status %d: %+v", status, w)
	}
	if status, out := output(t, prismfs("warmup", mnt)); status != statusSomeBad || !strings.Contains(out, "failed "+mnt+"/cat/0.npy: ") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestWarmupRefuses(t *testing.T) {
	packed, mnt := packedImages(t)
	if err := os.CopyFS(filepath.Join(packed, "dog+stream", "deep"), os.DirFS(filepath.Join(packed, "dog"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(packed, "dog+stream", "deep", "3.l3")); err != nil {
		t.Fatal(err)
	}
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	for _, c := range []struct {
		args   []string
		status exitStatus
		text   string
	}{
		{[]string{packed}, statusNotMounted, "no mount of prismfs"},
		{[]string{mnt + "/cow"}, statusBadInput, "no such file"},
		{[]string{mnt + "/cat+echo2"}, statusUsage, "without those terms"},
		{[]string{mnt + "/cat+stream/epoch-0000"}, statusUsage, "without those terms"},
		{[]string{mnt + "/dog+stream/deep+echo2"}, statusUsage, "without those terms"},
		{[]string{mnt + "/dog+stream"}, statusOK, "1 file opened"}, // a folder of the source
		{[]string{mnt + "/dog+stream/deep"}, statusOK, "1 file opened"},
		{[]string{"-j", "0", mnt}, statusUsage, "one job at least"},
		{nil, statusUsage, "PATH is missing: prismfs warmup PATH..."},
	} {
		status, out := output(t, prismfs(append([]string{"warmup"}, c.args...)...))
		if status != c.status || !strings.Contains(out, c.text) {
			t.Errorf("warmup %v: status %d, want %d and %q: %s", c.args, status, c.status, c.text, out)
		}
	}
}

// TestWarmupIsInterrupted by a signal: it says what it has done.
func TestWarmupIsInterrupted(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", "--throttle", "2kB", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	cmd := prismfs("warmup", "--json", "-j", "1", mnt)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, "a file is opened", func() bool {
		return !strings.Contains(cat(t, mnt+"/.prismfs/stats"), `"cache_misses": 0`) && cmd.Process.Signal(syscall.SIGINT) == nil
	})
	cmd.Wait()
	var w fs.Warmth
	if err := json.Unmarshal(stdout.Bytes(), &w); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	if status := exitStatus(cmd.ProcessState.ExitCode()); status != statusInterrupted || !w.Ended || w.Files == 4 {
		t.Errorf("status %d: %+v", status, w)
	}
}

func TestHeldText(t *testing.T) {
	for _, c := range []struct {
		w    fs.Warmth
		want string
	}{
		{fs.Warmth{Samples: 3, Held: 3, Budget: 1 << 20}, "the cache holds all of them (its budget is 1.0 MiB)"},
		{fs.Warmth{Samples: 3, Held: -1}, "was not looked for"},
		{fs.Warmth{}, "nothing to be held"},
		{fs.Warmth{Samples: 3, Held: 2, Bytes: 3, Budget: 1 << 20, Evictions: 4}, "holds 2 of them (its budget is 1.0 MiB, and other files were read meanwhile: 4 evictions)"},
		{fs.Warmth{Samples: 3, Held: 2, Bytes: 3 << 20, Budget: 1 << 20, Evictions: 1, Policy: "lru"}, "with --cache-policy pin"},
		{fs.Warmth{Samples: 3, Held: 2, Bytes: 3 << 20, Budget: 1 << 20, Evictions: 1, Policy: "pin"}, "what it holds stays"},
	} {
		if got := heldText(&c.w); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.w, got)
		}
	}
}
