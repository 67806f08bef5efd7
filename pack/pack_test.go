package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/l3"
)

// mixedTree is a source with something of everything.
func mixedTree(t testing.TB) string {
	src := filepath.Join(t.TempDir(), "src")
	png := pngBytes(t, 1)
	writeTree(t, src, map[string][]byte{
		"README.md":            []byte("BM P6 things to know"),
		"cat/one.png":          png,
		"cat/two.jpg":          jpegBytes(t, 2),
		"cat/deep/three.JPEG":  pngBytes(t, 3), // content is PNG
		"cat/no_suffix":        pngBytes(t, 4),
		"cat/scan.001":         pngBytes(t, 5),
		"cat/notes.txt":        {},
		"dog/truncated.png":    png[:len(png)-20],
		"dog/empty.jpg":        {},
		"dog/page.jpg":         []byte("<html>404</html>"),
		"dog/fake.l3":          []byte("LL"),
		"dog/.hidden.png":      pngBytes(t, 6),
		".ipynb_checkpoints/x": []byte("x"),
		"empty/":               nil,
		"manual.pdf":           []byte("%PDF-1.4 manual"),
	})
	return src
}

func TestPackMixedTree(t *testing.T) {
	src, dst := mixedTree(t), filepath.Join(t.TempDir(), "new", "dst")
	when := time.Unix(1700000000, 123456789)
	setTime(t, filepath.Join(src, "cat/one.png"), when)
	setTime(t, filepath.Join(src, "README.md"), when)
	if err := os.Chmod(filepath.Join(src, "README.md"), 0o640); err != nil {
		t.Fatal(err)
	}
	before := listing(t, src)
	s := mustPack(t, src, dst, Options{Jobs: 3})
	if diff := cmp.Diff(before, listing(t, src)); diff != "" {
		t.Errorf("the source was touched:\n%s", diff)
	}
	if s.FilesIn != 14 || s.Converted.Files != 6 || s.Passed.Files != 4 || s.Classes != 4 {
		t.Errorf("summary %v", s)
	}
	if diff := cmp.Diff([]string{"dog/empty.jpg", "dog/fake.l3", "dog/page.jpg", "dog/truncated.png"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	for i, part := range []string{"empty", "L3", "no known image format", "PNG"} {
		if !strings.Contains(s.Refused[i].Reason, part) {
			t.Errorf("%s was refused with %q, which lacks %q", s.Refused[i].Path, s.Refused[i].Reason, part)
		}
	}
	want := []string{".ipynb_checkpoints/x", "README.md", "cat/deep/three.l3", "cat/no_suffix.l3", "cat/notes.txt",
		"cat/one.l3", "cat/scan.001.l3", "cat/two.l3", "dog/.hidden.l3", "manual.pdf"}
	if diff := cmp.Diff(want, names(t, dst)); diff != "" {
		t.Errorf("outputs:\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(dst, "empty")); err != nil || !info.IsDir() {
		t.Errorf("the folder of an empty class is missing: %v", err)
	}
	for _, c := range []struct {
		source, output, decoder string
		label                   int64
	}{
		{"cat/one.png", "cat/one.l3", "image/png", 1},
		{"cat/two.jpg", "cat/two.l3", "libjpeg-turbo", 1},
		{"cat/deep/three.JPEG", "cat/deep/three.l3", "image/png", 1},
		{"dog/.hidden.png", "dog/.hidden.l3", "image/png", 2},
	} {
		info := samePixelsAs(t, filepath.Join(dst, c.output), filepath.Join(src, c.source))
		m := info.Meta
		if m.Label == nil || *m.Label != c.label || m.Class != c.source[:3] || m.OriginalName != filepath.Base(c.source) || !strings.HasPrefix(m.SourceDecoder, c.decoder) {
			t.Errorf("%s: metadata %+v, label %v", c.output, m, m.Label)
		}
	}
	for _, path := range []string{"cat/one.l3", "README.md"} {
		if info, err := os.Stat(filepath.Join(dst, path)); err != nil || !info.ModTime().Equal(when) {
			t.Errorf("%s has not its source's time: %v, %v", path, info.ModTime(), err)
		}
	}
	if info, _ := os.Stat(filepath.Join(dst, "README.md")); info.Mode() != 0o640 {
		t.Errorf("README.md has mode %v", info.Mode())
	}
}

func TestPackCollisions(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	img, packed := pngBytes(t, 1), filepath.Join(t.TempDir(), "packed")
	writeTree(t, packed+".src", map[string][]byte{"x.png": img})
	mustPack(t, packed+".src", packed, Options{})
	l3file, err := os.ReadFile(filepath.Join(packed, "x.l3"))
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, src, map[string][]byte{
		"a/img.png": img, "a/img.jpg": img, "a/img.JPG": img, "a/img.txt": []byte("text"),
		"a/other.png": img, "a/other.jpg": {}, // the second is refused on its own account
		"a/kept.png": img, "a/kept.l3": l3file,
		"a/dir.png": img, "a/dir.l3/": nil,
		"a/suffix.png": img, "a/suffix.png.l3": l3file,
		"b/img.png": img,
	})
	s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{})
	want := []string{"a/dir.png", "a/img.JPG", "a/img.jpg", "a/img.png", "a/kept.l3", "a/kept.png", "a/other.jpg"}
	if diff := cmp.Diff(want, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	reason := "its output would be named img.l3, as would that of img.JPG, img.png: --keep-suffix tells them apart"
	if s.Refused[2].Reason != reason {
		t.Errorf("img.jpg was refused with %q", s.Refused[2].Reason)
	}
	dst := filepath.Join(t.TempDir(), "dst")
	s = mustPack(t, src, dst, Options{KeepSuffix: true})
	if diff := cmp.Diff([]string{"a/other.jpg", "a/suffix.png", "a/suffix.png.l3"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused with suffixes kept:\n%s", diff)
	}
	samePixelsAs(t, filepath.Join(dst, "a/img.JPG.l3"), filepath.Join(src, "a/img.JPG"))
}

func TestPackLinksAndSpecialFiles(t *testing.T) {
	base := t.TempDir()
	src, outside := filepath.Join(base, "src"), filepath.Join(base, "outside")
	img := pngBytes(t, 1)
	writeTree(t, src, map[string][]byte{"a/img.png": img, "b/sub/deep.png": img})
	writeTree(t, outside, map[string][]byte{"img.png": img})
	for link, target := range map[string]string{
		"a/inside.png":   "../b/sub/deep.png",
		"a/absolute.png": filepath.Join(src, "b/sub/deep.png"),
		"a/outside.png":  filepath.Join(outside, "img.png"),
		"a/nowhere.png":  "nothing",
		"a/self.png":     "self.png",
		"a/folder":       "../b/sub",
		"b/sub/loop":     "..",
		"c":              "b", // a class by a link
		"d":              outside,
	} {
		if err := os.Symlink(target, filepath.Join(src, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(src, "a/pipe.png"), 0o644); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(base, "dst")
	s := mustPack(t, src, dst, Options{})
	want := []string{"a/folder/loop/sub", "a/nowhere.png", "a/outside.png", "a/pipe.png", "a/self.png", "b/sub/loop", "c/sub/loop", "d"}
	if diff := cmp.Diff(want, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	for _, r := range s.Refused {
		outside := r.Path == "a/outside.png" || r.Path == "d"
		if strings.Contains(r.Reason, "cp -rL") != outside || strings.Contains(r.Reason, "empty folder") != (r.Path == "d") {
			t.Errorf("%s was refused: %s", r.Path, r.Reason)
		}
	}
	want = []string{"a/absolute.l3", "a/folder/deep.l3", "a/img.l3", "a/inside.l3", "b/sub/deep.l3", "c/sub/deep.l3"}
	if diff := cmp.Diff(want, names(t, dst)); diff != "" {
		t.Errorf("outputs:\n%s", diff)
	}
	// The labels are those that ImageFolder gives on the source, and it sees
	// as many folders in the destination.
	info, _ := decodeOutput(t, filepath.Join(dst, "c/sub/deep.l3"))
	if *info.Meta.Label != 2 || info.Meta.Class != "c" {
		t.Errorf("label %d, class %q", *info.Meta.Label, info.Meta.Class)
	}
	if info, err := os.Stat(filepath.Join(dst, "d")); err != nil || !info.IsDir() || s.Classes != 4 {
		t.Errorf("the folder of the refused class d: %v; %d classes", err, s.Classes)
	}
}

func TestCrosswiseLinksEnd(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	folders := []string{"a", "b", "c", "d", "e"}
	for _, f := range folders {
		writeTree(t, src, map[string][]byte{f + "/x.txt": []byte("x")})
		for _, g := range folders {
			if f != g {
				if err := os.Symlink("../"+g, filepath.Join(src, f, g)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{})
	// Every folder is reached once by each path that visits no folder twice:
	// 5·(1 + 4·(1 + 3·(1 + 2·(1 + 1)))).
	if s.Passed.Files != 325 {
		t.Errorf("%d files were copied", s.Passed.Files)
	}
}

func TestPackRefusesOverlappingFolders(t *testing.T) {
	base := t.TempDir()
	src := filepath.Join(base, "data", "src")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1)})
	link := filepath.Join(base, "link")
	if err := os.Symlink(src, link); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(base, "dangling")
	if err := os.Symlink("nothing", dangling); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before := listing(t, base)
	for _, c := range []struct {
		name, src, dst string
		want           error
	}{
		{"equal", src, src, ErrDestination},
		{"below", src, filepath.Join(src, "a", "new", "dst"), ErrDestination},
		{"below by a link", src, filepath.Join(link, "new"), ErrDestination},
		{"source by a link", link, filepath.Join(src, "new"), ErrDestination},
		{"above", src, filepath.Join(base, "data"), ErrDestination},
		{"dangling link", src, dangling, ErrDestination},
		{"a file", src, file, ErrDestination},
		{"no source", filepath.Join(base, "none"), filepath.Join(base, "new"), ErrSource},
		{"source is a file", file, filepath.Join(base, "new"), ErrSource},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Pack(context.Background(), c.src, c.dst, Options{})
			if s != nil || !errors.Is(err, c.want) {
				t.Errorf("summary %v, error %v", s, err)
			}
		})
	}
	if diff := cmp.Diff(before, listing(t, base)); diff != "" {
		t.Errorf("something was written:\n%s", diff)
	}
}

// A link in the destination must not lead a write into the source.
func TestPackDoesNotFollowLinksOutOfDestination(t *testing.T) {
	base := t.TempDir()
	src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1)})
	writeTree(t, dst, map[string][]byte{"x/": nil})
	if err := os.Symlink(filepath.Join(src, "a"), filepath.Join(dst, "a")); err != nil {
		t.Fatal(err)
	}
	before := listing(t, src)
	if _, err := Pack(context.Background(), src, dst, Options{}); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff(before, listing(t, src)); diff != "" {
		t.Errorf("the source was written to:\n%s", diff)
	}
}

func TestPackPublished(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	whole := encodePNG(t, picture(128, 64, 3))
	writeTree(t, src, map[string][]byte{"a/whole.png": whole, "a/partial.png": pngBytes(t, 1)})
	s := mustPack(t, src, dst, Options{Mode: l3.ModePublished})
	if diff := cmp.Diff([]string{"a/partial.png"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	info := samePixelsAs(t, filepath.Join(dst, "a/whole.l3"), filepath.Join(src, "a/whole.png"))
	if info.Version != 1 {
		t.Errorf("version %d", info.Version)
	}
	if s := mustPack(t, src, dst, Options{Mode: l3.ModePublished}); s.AlreadyThere != 1 || s.Replaced != 0 {
		t.Errorf("second run: %v", s)
	}
	if s := mustPack(t, src, dst, Options{}); s.AlreadyThere != 0 || s.Replaced != 1 || s.Converted.Files != 2 {
		t.Errorf("run in another mode: %v", s)
	}
}

func TestPackMaxPixels(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"a/small.png": encodePNG(t, picture(10, 10, 1)), "a/large.png": encodePNG(t, picture(11, 10, 1))})
	s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{MaxPixels: 100})
	if diff := cmp.Diff([]string{"a/large.png"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	if _, err := Pack(context.Background(), src, filepath.Join(t.TempDir(), "dst"), Options{MaxPixels: MaxPixelsLimit + 1}); err == nil {
		t.Error("a limit above what readers take was accepted")
	}
}

func TestPackUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1), "b/img.png": pngBytes(t, 1)})
	if err := errors.Join(os.Chmod(filepath.Join(src, "a/img.png"), 0), os.Chmod(filepath.Join(src, "b"), 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(src, "b"), 0o755) })
	s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{})
	if diff := cmp.Diff([]string{"a/img.png", "b"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
}

// The check before an output takes its name must see every kind of
// difference.
func TestCheckFindsDifferences(t *testing.T) {
	img := decodeBytes(t, pngBytes(t, 1))
	p := &packer{decoder: l3.NewDecoder(l3.Limits{})}
	label := int64(4)
	meta := l3.Metadata{Label: &label, Class: "c", OriginalName: "n"}
	encoded, err := l3.Encode(img.Image, l3.EncodeOptions{Meta: meta})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.check(encoded, img.Image, meta); err != nil {
		t.Errorf("a right output: %v", err)
	}
	other := img.Image
	other.Pix = append([]byte(nil), img.Pix...)
	other.Pix[len(other.Pix)/2]++
	if err := p.check(encoded, other, meta); err == nil {
		t.Error("other pixels were not noticed")
	}
	other = img.Image
	other.Width, other.Height = img.Height, img.Width
	if err := p.check(encoded, other, meta); err == nil {
		t.Error("another shape was not noticed")
	}
	if err := p.check(encoded, img.Image, l3.Metadata{Class: "c", OriginalName: "n"}); err == nil {
		t.Error("other metadata was not noticed")
	}
	encoded[len(encoded)-1] ^= 1
	if err := p.check(encoded, img.Image, meta); err == nil {
		t.Error("a damaged output was not noticed")
	}
}

// A full disk ends the run with an error and leaves no partial output.
func TestPackFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small tmpfs")
	}
	src, dst := filepath.Join(t.TempDir(), "src"), t.TempDir()
	files := map[string][]byte{}
	for i := range 40 {
		files["a/"+string(rune('A'+i))+".png"] = encodePNG(t, noise(64, 64, i))
	}
	writeTree(t, src, files)
	if err := syscall.Mount("tmpfs", dst, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dst, 0) })
	s, err := Pack(context.Background(), src, dst, Options{})
	if !errors.Is(err, syscall.ENOSPC) || s == nil || s.Finished {
		t.Fatalf("error %v, summary %v", err, s)
	}
	checkSum(t, s)
	outputs := 0
	for _, name := range names(t, dst) {
		if strings.HasPrefix(filepath.Base(name), tempPrefix) {
			t.Errorf("a partial output was left: %s", name)
		}
		if strings.HasSuffix(name, Suffix) {
			outputs++
			samePixelsAs(t, filepath.Join(dst, name), filepath.Join(src, strings.TrimSuffix(name, Suffix)+".png"))
		}
	}
	if outputs == 0 || outputs != s.Converted.Files {
		t.Errorf("%d outputs, %d converted", outputs, s.Converted.Files)
	}
}

func TestInterruptLeavesWholeOutputsOnly(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	files := map[string][]byte{}
	for i := range 200 {
		files["a/"+strings.Repeat("i", i+1)+".png"] = pngBytes(t, i)
	}
	writeTree(t, src, files)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Pack(ctx, src, dst, Options{Jobs: 4, Progress: func(done, _ int) {
		if done == 20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || s == nil || s.Finished {
		t.Fatalf("error %v, summary %v", err, s)
	}
	checkSum(t, s)
	if !unfinished(dst) {
		t.Error("nothing says that the run is not finished")
	}
	left := slices.DeleteFunc(names(t, dst), func(name string) bool { return name == Marker })
	if len(left) != s.Converted.Files || len(left) < 20 || len(left) == 200 {
		t.Errorf("%d files were left, %d converted", len(left), s.Converted.Files)
	}
	for _, name := range left {
		decodeOutput(t, filepath.Join(dst, name))
	}
	again := mustPack(t, src, dst, Options{})
	if again.AlreadyThere != len(left) || again.Converted.Files != 200 || again.Replaced != 0 {
		t.Errorf("after %d, the next run: %v", len(left), again)
	}
}

func TestPackEmptySource(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "dst")
	if s := mustPack(t, src, dst, Options{}); s.FilesIn != 0 || s.Classes != 0 {
		t.Errorf("summary %v", s)
	}
	if _, err := os.Stat(filepath.Join(dst, Marker)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the marker was left: %v", err)
	}
}

// What a mount would hide at its root is packed, and named; an image of that
// name becomes .prismfs.l3, which is not hidden.
func TestPackNamesWhatAMountHides(t *testing.T) {
	for path, named := range map[string]bool{".prismfs/x.png": true, ".prismfs": false, "a/.prismfs/x.png": false} {
		src := filepath.Join(t.TempDir(), "src")
		writeTree(t, src, map[string][]byte{path: pngBytes(t, 1)})
		s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{})
		if notes := strings.Join(s.Notes, "\n"); strings.Contains(notes, ".prismfs cannot be seen") != named || s.Converted.Files != 1 {
			t.Errorf("%s: notes %q, %v", path, notes, s)
		}
	}
}

// What is written depends on neither the number of jobs nor their order.
func TestOutputsDoNotDependOnJobs(t *testing.T) {
	src := mixedTree(t)
	writeTree(t, src, map[string][]byte{"top.png": pngBytes(t, 7), "cat/one.jpg": jpegBytes(t, 8)})
	var first map[string]string
	var firstSummary *Summary
	for _, jobs := range []int{1, 2, 9} {
		dst := filepath.Join(t.TempDir(), "dst")
		s := mustPack(t, src, dst, Options{Jobs: jobs})
		s.Seconds = 0
		outputs := listing(t, dst)
		for path, line := range outputs {
			if line[0] == 'd' {
				delete(outputs, path) // folders have the time at which they were made
			}
		}
		if first == nil {
			first, firstSummary = outputs, s
		}
		if diff := cmp.Diff(first, outputs); diff != "" {
			t.Errorf("with %d jobs:\n%s", jobs, diff)
		}
		if diff := cmp.Diff(firstSummary, s); diff != "" {
			t.Errorf("summary with %d jobs:\n%s", jobs, diff)
		}
		if info, _ := decodeOutput(t, filepath.Join(dst, "top.l3")); info.Meta.Label != nil || info.Meta.Class != "" {
			t.Errorf("an image beside the class folders has metadata %+v", info.Meta)
		}
	}
}
