package main

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// envRunMain makes the test binary be prismfs itself, for the tests that need
// a process of its own.
const envRunMain = "PRISMFS_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envRunMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// prismfs returns the command line as a process.
func prismfs(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), envRunMain+"=1")
	return cmd
}

// call runs a command line in this process.
func call(args ...string) (status exitStatus, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = execute(context.Background(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// writeImages makes a source of n small PNG files in two classes.
func writeImages(t testing.TB, n int) (src, dst string) {
	t.Helper()
	src, dst = filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	for i := range n {
		m := image.NewRGBA(image.Rect(0, 0, 40, 30))
		for y := range 30 {
			for x := range 40 {
				m.Set(x, y, color.RGBA{uint8(x * i), uint8(y + i), uint8(x * y), 255})
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(src, []string{"cat", "dog"}[i%2], strconv.Itoa(i)+".png"), b.Bytes())
	}
	return src, dst
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// damaged writes two L3 files, one with a head and one with patches that do not
// match their checksums.
func damaged(t *testing.T) (head, tail string) {
	t.Helper()
	src, dst := writeImages(t, 1)
	if status, _, stderr := call("pack", "--to", "l3", src, dst); status != statusOK {
		t.Fatal(stderr)
	}
	good, err := os.ReadFile(filepath.Join(dst, "cat", "0.l3"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(name string, at int) string {
		data := bytes.Clone(good)
		data[at] ^= 1
		path := filepath.Join(dst, name)
		writeFile(t, path, data)
		return path
	}
	return change("head.l3", 9), change("tail.l3", len(good)-5)
}

func TestExitStatusesAndMessages(t *testing.T) {
	src, dst := writeImages(t, 2)
	bad, badDst := writeImages(t, 2)
	writeFile(t, filepath.Join(bad, "cat", "new\nline.jpg"), nil)
	notL3 := filepath.Join(src, "cat", "0.png")
	damagedPlain, noImage := filepath.Join(t.TempDir(), "half.png"), filepath.Join(t.TempDir(), "notes.txt")
	whole, err := os.ReadFile(notL3)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, damagedPlain, whole[:len(whole)/2])
	writeFile(t, noImage, []byte("notes"))
	damagedHead, damagedTail := damaged(t)
	for _, c := range []struct {
		args   string // separated by spaces
		status exitStatus
		stderr string // a part of it; empty: nothing is said
	}{
		{"version", statusOK, ""},
		{"--version", statusOK, ""},
		{"", statusOK, ""},
		{"nonsense", statusUsage, `unknown command "nonsense"`},
		{"help", statusOK, ""},
		{"help pack", statusOK, ""},
		{"help bench codec", statusOK, ""},
		{"help nosuch", statusUsage, `no command "nosuch"`},
		{"help pack nosuch", statusUsage, `no command "pack nosuch"`},
		{"bench", statusUsage, "needs to be told"},
		{"bench nosuch", statusUsage, "unknown command"},
		{"bench codec", statusUsage, "DIR is missing: prismfs bench codec DIR"},
		{"bench codec --rounds 0 " + src, statusUsage, "--rounds"},
		{"bench codec --images=-1 " + src, statusUsage, "--images"},
		{"bench codec --effort 9 " + src, statusUsage, "--effort"},
		{"bench codec --jobs=-1 " + src, statusUsage, "--jobs"},
		{"bench codec " + src + "/none", statusBadInput, "source not usable: "},
		{"bench codec " + notL3, statusBadInput, "not a directory"},
		{"pack " + src + " " + dst, statusUsage, "needs --to"},
		{"pack --to pcr --mode dense " + src + " " + dst, statusUsage, "--mode means something with --to l3 only"},
		{"pack --to l3 --quality 90 " + src + " " + dst, statusUsage, "--quality means something with --to pcr only"},
		{"pack --to pcr --quality 101 " + src + " " + dst, statusUsage, "between 1 and 100"},
		{"pack --to pcr --images-per-record 0 " + src + " " + dst, statusUsage, "--images-per-record"},
		{"pack --to pcr --shuffle-seed x " + src + " " + dst, statusUsage, "invalid syntax"},
		{"pack --to pcr " + src + "/cat " + dst, statusBadInput, "no image lies in a folder"},
		{"pack --to zip " + src + " " + dst, statusUsage, "no format that can be written"},
		{"pack --to l3 --mode slow " + src + " " + dst, statusUsage, "none of auto, dense"},
		{"pack --to l3 --effort 0 " + src + " " + dst, statusUsage, "between 1 and 3"},
		{"pack --to l3 --effort 4 " + src + " " + dst, statusUsage, "between 1 and 3"},
		{"pack --to l3 --jobs=-1 " + src + " " + dst, statusUsage, "--jobs"},
		{"pack --to l3 --max-pixels 0 " + src + " " + dst, statusUsage, "--max-pixels"},
		{"pack --to l3 --max-pixels x " + src + " " + dst, statusUsage, "--max-pixels\" flag: invalid syntax\n"},
		{"pack --to l3 --nonsense " + src + " " + dst, statusUsage, "unknown flag"},
		{"pack --to l3 " + src, statusUsage, "pack: DST is missing: prismfs pack --to l3|pcr SRC DST"},
		{"unpack", statusUsage, "SRC and DST are missing"},
		{"unpack a b c d", statusUsage, `["c" "d"] are too much: prismfs unpack SRC DST`},
		{"plan", statusUsage, "MOUNTPOINT is missing"},
		{"plan a b c", statusUsage, `["c"] is too much`},
		{"doctor all", statusUsage, `["all"] is too much`},
		{"version 2", statusUsage, `["2"] is too much`},
		{"--log-level loud version", statusUsage, "--log-level"},
		{"--log-format xml version", statusUsage, "--log-format"},
		{"pack --to l3 " + src + "/none " + dst, statusBadInput, "no such file"},
		{"pack --to l3 " + src + " " + src + "/cat/new", statusBadOutput, "choose a folder outside"},
		{"pack --to l3 " + src + " " + dst, statusOK, ""},
		{"pack --to l3 " + bad + " " + badDst, statusSomeBad, ""},
		{"pack --to l3 --allow-refused " + bad + " " + badDst, statusOK, ""},
		{"inspect " + dst, statusOK, ""},
		{"inspect " + dst + "/cat/0.l3", statusOK, ""},
		{"inspect " + notL3, statusOK, ""},
		{"inspect " + damagedPlain, statusSomeBad, ""},
		{"inspect " + noImage, statusBadInput, "L3"},
		{"inspect " + damagedHead, statusSomeBad, ""},
		{"inspect " + damagedTail, statusSomeBad, ""},
		{"inspect --json " + damagedHead, statusSomeBad, ""},
		{"inspect", statusUsage, "PATH is missing: prismfs inspect PATH..."},
		{"verify " + dst, statusOK, ""},
		{"verify " + dst + "/none", statusBadInput, "no such file"},
		{"verify " + notL3, statusOK, ""},
		{"verify " + damagedPlain, statusSomeBad, ""},
		{"verify " + noImage, statusSomeBad, ""},
		{"verify " + src, statusBadInput, "was it packed?"},
		{"inspect " + src, statusBadInput, "was it packed?"},
		{"unpack " + src + " " + dst + "-none", statusBadInput, "was it packed?"},
		{"verify --jobs=-1 " + dst, statusUsage, "--jobs"},
		{"unpack " + dst + " " + dst + "/x", statusBadOutput, "choose a folder outside"},
		{"unpack --jobs=-1 " + dst + " x", statusUsage, "--jobs"},
		{"bench codec " + badDst, statusBadInput, "no image to measure"},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, stdout, stderr := call(strings.Fields(c.args)...)
			if status != c.status {
				t.Errorf("exit status %d, expected %d\n%s%s", status, c.status, stdout, stderr)
			}
			if c.stderr == "" && stderr != "" || !strings.Contains(stderr, c.stderr) {
				t.Errorf("standard error %q lacks %q", stderr, c.stderr)
			}
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if len(lines) > 2 || len(lines) == 2 && !strings.HasPrefix(lines[1], "See 'prismfs") {
				t.Errorf("an error takes one line, and a usage error a second:\n%s", stderr)
			}
			if (status == statusOK || status == statusSomeBad) == (stdout == "") {
				t.Errorf("standard output is %q", stdout)
			}
		})
	}
}

func TestExitStatusesAreNamed(t *testing.T) {
	seen := map[string]exitStatus{}
	for _, s := range []exitStatus{
		statusOK, statusSomeBad, statusUsage, statusFailed, statusBadInput, statusBadOutput, statusMountPoint,
		statusNoFuse, statusNoFusermount, statusNotPermitted, statusMounted, statusNotMounted, statusUnmountBusy,
		statusMountNoAnswer, statusNoDevice, statusInterrupted,
	} {
		name := s.String()
		if other, ok := seen[name]; ok || strings.HasPrefix(name, "exit status") {
			t.Errorf("status %d is called %q, as is %d", s, name, other)
		}
		seen[name] = s
	}
	if got := exitStatus(99).String(); got != "exit status 99" {
		t.Errorf("a status without name is called %q", got)
	}
}

func TestHelpNamesExitStatuses(t *testing.T) {
	_, out, _ := call("--help")
	for _, want := range []string{"\n    0  ok\n", "\n   17  mount does not answer\n", "\n  130  interrupted\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
