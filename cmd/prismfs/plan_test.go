package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPlan hands plans over to a mount, lists and removes them.
func TestPlan(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	images, err := filepath.Glob(filepath.Join(mnt, "cat", "*.npy"))
	if err != nil || len(images) < 2 {
		t.Fatal(images, err)
	}
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink(mnt, link); err != nil {
		t.Fatal(err)
	}
	relative := file("relative", "cat/"+filepath.Base(images[0])+"\ncat/"+filepath.Base(images[1])+"\n")
	absolute := file("absolute", strings.Join(images, "\n"))
	linked := file("linked", strings.ReplaceAll(strings.Join(images, "\n"), mnt, link))
	elsewhere := file("elsewhere", "/data/cat/001.npy\n")
	wrong := file("wrong", "dog/none.npy\nbird/none.npy\n")
	fromWindows := file("crlf", "cat/"+filepath.Base(images[0])+"\r\n\r\ncat/"+filepath.Base(images[1])+"\r\n")
	stream := file("stream", "cat+stream/epoch-0000/000000.tar\n")
	for _, c := range []struct {
		args   []string
		status exitStatus
		text   string // a pattern
	}{
		{[]string{mnt}, statusOK, `^$`},
		{[]string{mnt, relative}, statusOK, `^plan default has 2 lines\n$`},
		{[]string{mnt, absolute, "--name", "rank1", "--start", "1"}, statusOK, `^plan rank1 has`},
		{[]string{link, linked, "--name", "rank2"}, statusOK, `^plan rank2 has`},
		{[]string{mnt}, statusOK, `NAME +LINES(.|\n)*\ndefault +2 +0 (.|\n)*\nrank1 +\d+ +1 (.|\n)*\nrank2 `},
		{[]string{mnt, "--json"}, statusOK, `"name": "rank1"`},
		{[]string{mnt, "--remove", "--name", "rank2"}, statusOK, `^$`},
		{[]string{mnt, "--remove", "--name", "rank2"}, statusBadInput, `no plan rank2`},
		{[]string{mnt, "--remove"}, statusOK, `^$`},
		{[]string{mnt, elsewhere}, statusUsage, `line 1: "/data/cat/001.npy" is not below \S+; want a path as the job opens it, such as \S+/train/cat/001.npy, or train/cat/001.npy below the mount point\n`},
		{[]string{mnt, fromWindows, "--name", "crlf"}, statusOK, `^plan crlf has 2 lines`},
		{[]string{mnt, "--remove", "--name", "crlf"}, statusOK, `^$`},
		{[]string{mnt, stream}, statusUsage, `streams need no plan`},
		{[]string{mnt, folder}, statusBadInput, `is a folder; FILE has`},
		{[]string{folder + "/none", relative}, statusNotMounted, `none does not exist`},
		{[]string{mnt, wrong}, statusUsage, `dog/none.npy.*no file of the mount`},
		{[]string{mnt, os.DevNull}, statusUsage, `no lines`},
		{[]string{mnt, filepath.Join(folder, "none")}, statusBadInput, `none`},
		{[]string{mnt, relative, "--start", "3"}, statusUsage, `2 lines`},
		{[]string{mnt, relative, "--start", "-1"}, statusUsage, `from 0`},
		{[]string{mnt, relative, "--name", "a b"}, statusUsage, `plan name`},
		{[]string{mnt, relative, "--json"}, statusUsage, `--json`},
		{[]string{mnt, relative, "--remove"}, statusUsage, `--remove`},
		{[]string{mnt, "--start", "1"}, statusUsage, `FILE`},
		{[]string{mnt + "/cat", relative}, statusUsage, `name the mount point`},
		{[]string{folder, relative}, statusNotMounted, `no mount of prismfs`},
		{[]string{}, statusUsage, `MOUNTPOINT is missing`},
	} {
		status, out := output(t, prismfs(append([]string{"plan"}, c.args...)...))
		if status != c.status || !regexp.MustCompile(c.text).MatchString(out) {
			t.Errorf("plan %v: status %d, want %d: %s, want %s", c.args, status, c.status, out, c.text)
		}
	}
	cmd := prismfs("plan", mnt, "-")
	cmd.Stdin = strings.NewReader("cat/" + filepath.Base(images[0]) + "\n")
	if status, out := output(t, cmd); status != statusOK || !strings.Contains(out, "has 1 line\n") {
		t.Errorf("from standard input: %d, %s", status, out)
	}
}

// Paths of a plan may be relative to the folder that the command runs in, above the
// mount point, beside it or within.
func TestPlanFromHere(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	base := filepath.Base(mnt)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(mnt), link); err != nil {
		t.Fatal(err)
	}
	beside := t.TempDir()
	out, err := filepath.Rel(beside, mnt)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder, text string
		status       exitStatus
		want         string
	}{
		{filepath.Dir(mnt), base + "/cat/0.npy\n./" + base + "/dog/1.npy\n\ncat/2.npy", statusOK, "plan default has 3 lines\n"},
		{link, base + "/cat/0.npy\r\n" + base + "/dog/1.npy\r\n", statusOK, "plan default has 2 lines\n"},
		{beside, out + "/cat/0.npy\n", statusOK, "plan default has 1 line\n"},
		{mnt + "/cat", "0.npy\n2.npy\n", statusOK, "plan default has 2 lines\n"},
		{mnt + "/cat", "cat/0.npy\n", statusOK, "plan default has 1 line\n"},
		{filepath.Dir(mnt), base + "/cat/none.npy\n", statusUsage, `"cat/none.npy", and others that were looked up, lead to no file of the mount; want a path`},
		{filepath.Dir(mnt), base + "/cat/0.npy\n/data/0.npy\n", statusUsage, `line 2: "/data/0.npy" is not below`},
		{beside, base + "/cat/0.npy\n", statusUsage, `"` + base + `/cat/0.npy", and others`},
	} {
		cmd := prismfs("plan", mnt, "-")
		cmd.Dir, cmd.Stdin = c.folder, strings.NewReader(c.text)
		if status, out := output(t, cmd); status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%q in %s: status %d, %s", c.text, c.folder, status, out)
		}
	}
}
