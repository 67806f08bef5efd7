package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/l3"
)

// resumable is a packed tree: two images, two other files.
func resumable(t testing.TB) (src, dst string) {
	src, dst = filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{
		"a/one.png": pngBytes(t, 1), "b/two.png": pngBytes(t, 2), "a/notes.txt": []byte("notes"), "README": []byte("read me"),
	})
	for _, name := range names(t, src) {
		setTime(t, filepath.Join(src, name), time.Unix(1700000000, 987654321))
	}
	mustPack(t, src, dst, Options{})
	return src, dst
}

// expect runs Pack and checks what it found done, replaced and refused.
func expect(t *testing.T, src, dst string, already, replaced int, refused ...string) {
	t.Helper()
	s := mustPack(t, src, dst, Options{})
	if s.AlreadyThere != already || s.Replaced != replaced {
		t.Errorf("%d already there and %d replaced; expected %d and %d", s.AlreadyThere, s.Replaced, already, replaced)
	}
	if diff := cmp.Diff(append([]string{}, refused...), refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s%v", diff, s)
	}
}

func TestResumeLeavesWhatIsDone(t *testing.T) {
	src, dst := resumable(t)
	before := listing(t, dst)
	first := mustPack(t, src, filepath.Join(t.TempDir(), "other"), Options{})
	second := mustPack(t, src, dst, Options{})
	if second.AlreadyThere != 4 || second.Replaced != 0 {
		t.Errorf("summary %v", second)
	}
	if first.Converted != second.Converted || first.Passed != second.Passed {
		t.Errorf("a resumed run comes to %v, a fresh one to %v", second, first)
	}
	after := listing(t, dst)
	delete(before, ".") // the folder's time changes with the marker
	delete(after, ".")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the destination changed:\n%s", diff)
	}
}

func TestResumeAfterChanges(t *testing.T) {
	newer := time.Unix(1800000000, 0)
	older := time.Unix(1600000000, 0)
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, src, dst string)
		already int
		replace int
		refused []string
	}{
		{"a newer source", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/one.png": pngBytes(t, 9)})
			setTime(t, filepath.Join(src, "a/one.png"), newer)
		}, 3, 1, nil},
		{"an older, other source", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/one.png": pngBytes(t, 9)})
			setTime(t, filepath.Join(src, "a/one.png"), older)
		}, 3, 0, []string{"a/one.png"}},
		{"a source that was only touched", func(t *testing.T, src, _ string) {
			setTime(t, filepath.Join(src, "a/one.png"), newer)
		}, 4, 0, nil},
		{"an output whose time was lost in copying", func(t *testing.T, _, dst string) {
			setTime(t, filepath.Join(dst, "a/one.l3"), newer)
			setTime(t, filepath.Join(dst, "a/notes.txt"), newer)
		}, 4, 0, nil},
		{"a file system with times in seconds", func(t *testing.T, _, dst string) {
			setTime(t, filepath.Join(dst, "a/one.l3"), time.Unix(1700000000, 0))
		}, 4, 0, nil},
		{"an output that is cut off", func(t *testing.T, _, dst string) {
			truncate(t, filepath.Join(dst, "a/one.l3"), 20)
		}, 3, 1, nil},
		{"an output that was emptied", func(t *testing.T, _, dst string) {
			truncate(t, filepath.Join(dst, "a/one.l3"), 0)
		}, 3, 1, nil},
		{"a file of somebody else in the place", func(t *testing.T, _, dst string) {
			writeTree(t, dst, map[string][]byte{"a/one.l3": []byte("mine")})
		}, 3, 0, []string{"a/one.png"}},
		{"an image of another name in the place", func(t *testing.T, _, dst string) {
			img := decodeBytes(t, pngBytes(t, 1))
			data, err := l3.Encode(img.Image, l3.EncodeOptions{Meta: l3.Metadata{OriginalName: "other.png"}})
			if err != nil {
				t.Fatal(err)
			}
			writeTree(t, dst, map[string][]byte{"a/one.l3": data})
		}, 3, 0, []string{"a/one.png"}},
		{"damaged in place", func(t *testing.T, _, dst string) {
			damageTail(t, filepath.Join(dst, "a/one.l3"))
			setTime(t, filepath.Join(dst, "a/one.l3"), newer)
		}, 3, 1, nil},
		{"another image's, and damaged", func(t *testing.T, _, dst string) {
			data, err := os.ReadFile(filepath.Join(dst, "b/two.l3"))
			if err != nil {
				t.Fatal(err)
			}
			writeTree(t, dst, map[string][]byte{"a/one.l3": data})
			damageTail(t, filepath.Join(dst, "a/one.l3"))
			setTime(t, filepath.Join(dst, "a/one.l3"), newer)
		}, 3, 0, []string{"a/one.png"}},
		{"a link in the place", func(t *testing.T, _, dst string) {
			replaceByLink(t, filepath.Join(dst, "a/one.l3"))
		}, 3, 0, []string{"a/one.png"}},
		{"a newer other file", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/notes.txt": []byte("other notes")})
			setTime(t, filepath.Join(src, "a/notes.txt"), newer)
		}, 3, 1, nil},
		{"a copy that was edited", func(t *testing.T, _, dst string) {
			writeTree(t, dst, map[string][]byte{"a/notes.txt": []byte("edited")})
		}, 3, 0, []string{"a/notes.txt"}},
		{"a copy replaced by a link", func(t *testing.T, _, dst string) {
			replaceByLink(t, filepath.Join(dst, "a/notes.txt"))
		}, 3, 0, []string{"a/notes.txt"}},
		// A new class in front shifts the labels of all others.
		{"a new class", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"A/": nil})
		}, 2, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, dst := resumable(t)
			c.change(t, src, dst)
			expect(t, src, dst, c.already, c.replace, c.refused...)
			if len(c.refused) > 0 {
				return
			}
			info := samePixelsAs(t, filepath.Join(dst, "a/one.l3"), filepath.Join(src, "a/one.png"))
			want := int64(0)
			if _, err := os.Stat(filepath.Join(src, "A")); err == nil {
				want = 1
			}
			if *info.Meta.Label != want {
				t.Errorf("label %d, expected %d", *info.Meta.Label, want)
			}
			expect(t, src, dst, 4, 0)
		})
	}
}

func truncate(t *testing.T, path string, keep int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, keep)
	}
	if err != nil {
		t.Fatal(err)
	}
	setTime(t, path, info.ModTime())
}

func replaceByLink(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".moved"), os.Symlink(filepath.Base(path)+".moved", path)); err != nil {
		t.Fatal(err)
	}
}

// What a killed run leaves: the marker, unfinished outputs, and, if the
// machine went down, outputs whose content never reached the disk.
func TestResumeAfterKilledRun(t *testing.T) {
	src, dst := resumable(t)
	writeTree(t, dst, map[string][]byte{
		Marker: []byte(markerText), tempPrefix + "X": []byte("part"), "a/" + tempPrefix + "Y": []byte("part"),
	})
	damageTail(t, filepath.Join(dst, "a/one.l3"))
	damageTail(t, filepath.Join(dst, "a/notes.txt"))
	s := mustPack(t, src, dst, Options{})
	if s.AlreadyThere != 2 || s.Replaced != 2 {
		t.Errorf("summary %v", s)
	}
	if data, err := os.ReadFile(filepath.Join(dst, "a/notes.txt")); err != nil || string(data) != "notes" {
		t.Errorf("the damaged copy now holds %q, %v", data, err)
	}
	samePixelsAs(t, filepath.Join(dst, "a/one.l3"), filepath.Join(src, "a/one.png"))
	want := []string{"README", "a/notes.txt", "a/one.l3", "b/two.l3"}
	if diff := cmp.Diff(want, names(t, dst)); diff != "" {
		t.Errorf("the destination holds:\n%s", diff)
	}
}

// Names that are not UTF-8 are names as any other, of folders of the dataset and
// of somebody else's.
func TestResumeAfterKilledRunBesideOtherNames(t *testing.T) {
	const class, stranger = "cl\xe4ss", "\xe9tranger"
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{class + "/one.png": pngBytes(t, 1)})
	writeTree(t, dst, map[string][]byte{
		Marker: []byte(markerText), stranger + "/note": []byte("mine"), class + "/" + tempPrefix + "X": []byte("part"),
	})
	if s := mustPack(t, src, dst, Options{}); s.Converted.Files != 1 || len(s.Refused) > 0 {
		t.Errorf("summary %v", s)
	}
	if diff := cmp.Diff([]string{class + "/one.l3", stranger + "/note"}, names(t, dst)); diff != "" {
		t.Errorf("the destination holds:\n%s", diff)
	}
	back := filepath.Join(t.TempDir(), "back")
	writeTree(t, back, map[string][]byte{Marker: []byte(markerText), class + "/" + tempPrefix + "Y": []byte("part")})
	if _, err := Unpack(context.Background(), dst, back, UnpackOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{class + "/one.png", stranger + "/note"}, names(t, back)); diff != "" {
		t.Errorf("unpacked:\n%s", diff)
	}
	packed := filepath.Join(t.TempDir(), "pcr")
	writeTree(t, packed, map[string][]byte{Marker: []byte(markerText), stranger + "/note": []byte("mine")})
	if _, err := PackPCR(context.Background(), src, packed, PCROptions{}); err != nil {
		t.Error(err)
	}
}

// What stands in the place of a folder is not replaced, and named.
func TestNoFolderInTheWay(t *testing.T) {
	for kind, put := range map[string]func(path string) error{
		"a file":                    func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a link that leads nowhere": func(path string) error { return os.Symlink("nothing", path) },
		"a link out of the folder":  func(path string) error { return os.Symlink("/", path) },
	} {
		src, dst := filepath.Join(t.TempDir(), "src"), t.TempDir()
		writeTree(t, src, map[string][]byte{"cl\xe4ss/one.png": pngBytes(t, 1)})
		if err := put(filepath.Join(dst, "cl\xe4ss")); err != nil {
			t.Fatal(err)
		}
		_, err := Pack(context.Background(), src, dst, Options{})
		if !errors.Is(err, ErrDestination) || !strings.Contains(err.Error(), `"cl\xe4ss" in it stands where a folder`) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// damageTail changes the last bytes of a file, and keeps its size and time.
func damageTail(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) - 3; i < len(data); i++ {
		data[i] ^= 0xff
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	setTime(t, path, info.ModTime())
}

func TestOneRunAtATime(t *testing.T) {
	src, dst := resumable(t)
	first, err := openTarget(dst)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Pack(context.Background(), src, dst, Options{})
	if !errors.Is(err, ErrDestination) || !strings.Contains(err.Error(), "another run") {
		t.Errorf("while another run has the destination: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	expect(t, src, dst, 4, 0)
	if _, err := os.Lstat(filepath.Join(dst, Marker)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the marker was left: %v", err)
	}
}

// The files of an unfinished run are not taken for content.
func TestUnfinishedSource(t *testing.T) {
	src, dst := resumable(t)
	writeTree(t, src, map[string][]byte{Marker: nil, "a/" + tempPrefix + "X": nil})
	expect(t, src, dst, 4, 0, Marker, "a/"+tempPrefix+"X")
}

func TestCommitDoesNotReplace(t *testing.T) {
	target, err := openTarget(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, target.path, map[string][]byte{"there": []byte("old")})
	info, err := os.Stat(filepath.Join(target.path, "there"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := writeOutput(target, "", "there", []byte("new"), info, false, outcome{fate: converted})
	if err != nil || o.fate != refused {
		t.Errorf("outcome %+v, error %v", o, err)
	}
	o, err = writeOutput(target, "", strings.Repeat("x", 256), []byte("new"), info, false, outcome{fate: converted})
	if err != nil || o.fate != refused {
		t.Errorf("for a name that is too long: outcome %+v, error %v", o, err)
	}
	if data, _ := os.ReadFile(filepath.Join(target.path, "there")); string(data) != "old" {
		t.Errorf("the file now holds %q", data)
	}
	o, err = writeOutput(target, "", "there", []byte("new"), info, true, outcome{fate: converted})
	if data, _ := os.ReadFile(filepath.Join(target.path, "there")); err != nil || !o.replaced || string(data) != "new" {
		t.Errorf("replacing: outcome %+v, error %v, content %q", o, err, data)
	}
	if err := target.close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"there"}, names(t, target.path)); diff != "" {
		t.Errorf("left over:\n%s", diff)
	}
}
