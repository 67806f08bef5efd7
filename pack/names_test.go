package pack

import (
	"os/exec"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPackedName(t *testing.T) {
	for _, c := range []struct{ name, plain, kept string }{
		{"img.jpg", "img.l3", "img.jpg.l3"},
		{"img.JPEG", "img.l3", "img.JPEG.l3"},
		{"a.b.c.jpeg", "a.b.c.l3", "a.b.c.jpeg.l3"},
		{"no_suffix", "no_suffix.l3", "no_suffix.l3"},
		{"scan.001", "scan.001.l3", "scan.001.l3"},
		{".hidden.jpg", ".hidden.l3", ".hidden.jpg.l3"},
		{".jpg", ".jpg.l3", ".jpg.l3"},
		{"dot..jpg", "dot..l3", "dot..jpg.l3"},
		{"lat\xe9.jpg", "lat\xe9.l3", "lat\xe9.jpg.l3"},
	} {
		if got := PackedName(c.name, false); got != c.plain {
			t.Errorf("%q becomes %q, expected %q", c.name, got, c.plain)
		}
		if got := PackedName(c.name, true); got != c.kept {
			t.Errorf("%q becomes %q with its suffix, expected %q", c.name, got, c.kept)
		}
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"plain name.jpg": "plain name.jpg", "写真.JPEG": "写真.JPEG", "new\nline": `"new\nline"`, "lat\xe9": `"lat\xe9"`,
		" space": `" space"`, "space ": `"space "`, "": `""`, `"q"`: `"\"q\""`, "bell\a": `"bell\a"`,
	} {
		if got := Printable(name); got != want {
			t.Errorf("%q is printed as %s, expected %s", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Printable(string(rapid.SliceOf(rapid.Byte()).Draw(t, "name")))
		if s == "" || strings.ContainsAny(s, "\n\r\t\x1b") {
			t.Fatalf("printed as %q", s)
		}
	})
}

// For names in UTF-8 Python's order is that of the bytes.
func TestRanksOfTextAreBytewise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folders := rapid.SliceOfNDistinct(rapid.StringN(1, 8, -1), 0, 20, rapid.ID).Draw(t, "folders")
		sorted := append([]string(nil), folders...)
		sort.Strings(sorted)
		want := map[string]int64{}
		for i, f := range sorted {
			want[f] = int64(i)
		}
		if diff := cmp.Diff(want, ranks(folders)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The order of any names is that of Python itself.
func TestRanksEqualPythons(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here")
	}
	folders := []string{"a", "b", "B", "a\xe9", "a\x80", "aé", "a\U0001F600", "a\uFFFD", "aa", "\xff", "\uE000", "10", "2", "a\xe9\x80", "a\xf0\x9f"}
	script := "import sys,os\nfor n in sorted(os.fsdecode(x) for x in sys.stdin.buffer.read().split(b'\\0')): sys.stdout.buffer.write(os.fsencode(n)+b'\\0')"
	cmd := exec.Command(python, "-X", "utf8", "-c", script)
	cmd.Stdin = strings.NewReader(strings.Join(folders, "\x00"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	order := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	rank := ranks(folders)
	for i, name := range order {
		if rank[name] != int64(i) {
			t.Errorf("%q has rank %d, in Python %d", name, rank[name], i)
		}
	}
	if len(order) != len(folders) {
		t.Errorf("Python returned %d names of %d", len(order), len(folders))
	}
}

func TestJudge(t *testing.T) {
	png := pngBytes(t, 1)
	for _, c := range []struct {
		name   string
		prefix []byte
		want   content
	}{
		{"x.jpg", png, anImage}, {"x", png, anImage}, {"x.txt", png, anImage}, {"x.l3", png, falseL3},
		{"x.txt", []byte("text"), noImage}, {"x", nil, noImage}, {"x.txt", nil, noImage},
		{"x.jpg", []byte("<html>"), falseImage}, {"x.JPG", nil, emptyImage}, {"x.npy", nil, emptyImage},
		{"x.pdf", []byte("%PDF-1.4"), noImage}, {"x.jpg", []byte("%PDF-1.4"), anImage},
		{"x.l3", []byte("LLL2...."), anL3}, {"x.l3", []byte("LLL....."), anL3}, {"x.dat", []byte("LLL2...."), anL3},
		{"x.jpg", []byte("LLL2...."), misnamedL3}, {"x.l3", []byte("text"), falseL3}, {"x.l3", nil, falseL3},
	} {
		if got, _ := judge(c.name, c.prefix); got != c.want {
			t.Errorf("%s with %.8q is judged %d, expected %d", c.name, c.prefix, got, c.want)
		}
	}
}

// Whatever the names: two files that are not refused never take one name, and
// a refused one has a rival.
func TestCollisionsAreExactlyThose(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", ".", ".jpg", ".png", ".JPG", ".l3", ".txt", "\xe9"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfNDistinct(name, 0, 12, rapid.ID).Draw(t, "names")
		folders := rapid.IntRange(0, len(entries)).Draw(t, "folders")
		d := &directory{folders: entries[:folders], files: entries[folders:]}
		keep := rapid.Bool().Draw(t, "keep suffix")
		taken := map[string]int{}
		for _, f := range d.folders {
			taken[f]++
		}
		outputs := map[string]string{}
		for _, f := range d.files {
			outputs[f] = f
			if !strings.HasSuffix(f, Suffix) && rapid.Bool().Draw(t, "is an image") {
				outputs[f] = PackedName(f, keep)
			}
			taken[outputs[f]]++
		}
		refused := collisions(d, packKey(keep), func(name string) string { return outputs[name] }, "advice")
		for _, f := range d.files {
			if _, got := refused[f]; got != (taken[outputs[f]] > 1) {
				t.Fatalf("%q takes %q with %d others; refused: %v", f, outputs[f], taken[outputs[f]]-1, got)
			}
		}
	})
}
