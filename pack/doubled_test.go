package pack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/l3"
)

// Images that an earlier run packed under other names are told of, whichever of the
// two runs kept suffixes; names that are the same either way, files that the source
// has itself, and a second run with the same options are not.
func TestDoubledOutputs(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeTree(t, src, map[string][]byte{
		"a/one.png": pngBytes(t, 1), "a/two.jpg": jpegBytes(t, 2), "a/noext": pngBytes(t, 3), "b/three.png": pngBytes(t, 4),
	})
	for _, c := range []struct {
		name          string
		first, second Options
		note          string
	}{
		{"kept later", Options{Mode: l3.ModeDense}, Options{Mode: l3.ModeDense, KeepSuffix: true},
			"3 images are in the destination under another name too, as a/one.l3, from a run without --keep-suffix: a mount shows each twice"},
		{"kept first", Options{Mode: l3.ModeDense, KeepSuffix: true}, Options{Mode: l3.ModeDense},
			"3 images are in the destination under another name too, as a/one.png.l3, from a run with --keep-suffix: a mount shows each twice"},
		{"the same", Options{Mode: l3.ModeDense, KeepSuffix: true}, Options{Mode: l3.ModeDense, KeepSuffix: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			if s := mustPack(t, src, dst, c.first); s.Doubled != 0 || strings.Contains(strings.Join(s.Notes, "\n"), "twice") {
				t.Errorf("the first run: %+v", s)
			}
			for range 2 { // it stays said
				s := mustPack(t, src, dst, c.second)
				notes := strings.Join(s.Notes, "\n")
				if (s.Doubled == 3) != (c.note != "") || !strings.Contains(notes, c.note) || strings.Contains(notes, "twice") != (c.note != "") {
					t.Errorf("%d, notes: %s", s.Doubled, notes)
				}
			}
		})
	}

	packed, own := filepath.Join(t.TempDir(), "packed"), filepath.Join(t.TempDir(), "own")
	mustPack(t, src, packed, Options{Mode: l3.ModeDense})
	file, err := os.ReadFile(filepath.Join(packed, "a/one.l3"))
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, own, map[string][]byte{"a/one.png": pngBytes(t, 1), "a/one.l3": file})
	if s := mustPack(t, own, filepath.Join(t.TempDir(), "dst"), Options{KeepSuffix: true}); s.Doubled != 0 || s.Passed.Files != 1 {
		t.Errorf("an L3 file of the source: %+v", s)
	}
}
