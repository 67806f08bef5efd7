package pack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/l3"
	"prismfs/raster"
)

func mustUnpack(t testing.TB, src, dst string, opt UnpackOptions) *Summary {
	t.Helper()
	s, err := Unpack(context.Background(), src, dst, opt)
	if err != nil {
		t.Fatalf("Unpack: %v", err)
	}
	checkSum(t, s)
	return s
}

// npyBytes is a .npy file of version 1.0 in the dtype and shape as NumPy
// writes them, with counting bytes as data.
func npyBytes(dtype, shape string, dataBytes int) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape)
	for (10+len(header)+1)%64 != 0 {
		header += " "
	}
	header += "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(header)))...)
	out = append(out, header...)
	for i := range dataBytes {
		out = append(out, byte(i*7))
	}
	return out
}

// unpackTree is a source of all kinds that are restored differently.
func unpackTree(t testing.TB) string {
	src := filepath.Join(t.TempDir(), "src")
	grey16 := image.NewGray16(image.Rect(0, 0, 9, 5))
	for i := range grey16.Pix {
		grey16.Pix[i] = byte(i * 5)
	}
	translucent := noise(9, 5, 1)
	profiled, err := withColourProfile(encodePNG(t, noise(9, 5, 2)), bytes.Repeat([]byte("profile "), 40))
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, src, map[string][]byte{
		"a/photo.jpg":      jpegBytes(t, 1),
		"a/UPPER.PNG":      pngBytes(t, 2),
		"a/alpha.png":      encodePNG(t, translucent),
		"a/deep.png":       encodePNG(t, grey16),
		"a/profiled.png":   profiled,
		"b/signed.npy":     npyBytes("<i2", "(3, 4)", 24),
		"b/planes.npy":     npyBytes("|u1", "(3, 4, 2)", 24),
		"b/grey.npy":       npyBytes("|u1", "(3, 4)", 12),
		"b/image with.txt": pngBytes(t, 3),
		"b/notes.txt":      []byte("notes"),
	})
	return src
}

func TestUnpackRestoresPixels(t *testing.T) {
	src := unpackTree(t)
	when := time.Unix(1700000000, 5000)
	setTime(t, filepath.Join(src, "a/photo.jpg"), when)
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep suffix %v", keep), func(t *testing.T) {
			packed, back := filepath.Join(t.TempDir(), "packed"), filepath.Join(t.TempDir(), "back")
			if s := mustPack(t, src, packed, Options{KeepSuffix: keep}); len(s.Refused) > 0 {
				t.Fatalf("packing: %v", s)
			}
			before := listing(t, packed)
			s := mustUnpack(t, packed, back, UnpackOptions{Jobs: 2})
			if s.Converted.Files != 9 || s.Passed.Files != 1 || len(s.Refused) != 0 {
				t.Errorf("summary %v", s)
			}
			if diff := cmp.Diff(before, listing(t, packed)); diff != "" {
				t.Errorf("the packed tree was touched:\n%s", diff)
			}
			photo := "a/photo.png"
			if keep {
				photo = "a/photo.jpg.png"
			}
			want := []string{"a/UPPER.PNG", "a/alpha.png", "a/deep.png", photo, "a/profiled.png",
				"b/grey.npy", "b/image with.txt.png", "b/notes.txt", "b/planes.npy", "b/signed.npy"}
			if diff := cmp.Diff(want, names(t, back)); diff != "" {
				t.Errorf("unpacked:\n%s", diff)
			}
			for _, pair := range [][2]string{{"a/photo.jpg", photo}, {"b/image with.txt", "b/image with.txt.png"},
				{"a/UPPER.PNG", ""}, {"a/alpha.png", ""}, {"a/deep.png", ""}, {"a/profiled.png", ""},
				{"b/grey.npy", ""}, {"b/planes.npy", ""}, {"b/signed.npy", ""}} {
				if pair[1] == "" {
					pair[1] = pair[0]
				}
				got, want := decodeSource(t, filepath.Join(back, pair[1])), decodeSource(t, filepath.Join(src, pair[0]))
				if got.Shape != want.Shape || !bytes.Equal(got.Pix, want.Pix) || !bytes.Equal(got.ColourProfile, want.ColourProfile) {
					t.Errorf("%s: %v, profile of %d bytes; the source %v, %d bytes", pair[1], got.Shape, len(got.ColourProfile), want.Shape, len(want.ColourProfile))
				}
			}
			if info, err := os.Stat(filepath.Join(back, photo)); err != nil || !info.ModTime().Equal(when) {
				t.Errorf("the time of the source is lost: %v", err)
			}
			if len(decodeSource(t, filepath.Join(back, "a/profiled.png")).ColourProfile) != 320 {
				t.Error("the colour profile is lost")
			}
			if s := mustUnpack(t, packed, back, UnpackOptions{}); s.AlreadyThere != 10 || s.Replaced != 0 {
				t.Errorf("second run: %v", s)
			}
		})
	}
}

func TestUnpackDoesNotReplace(t *testing.T) {
	src, packed, back := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "packed"), filepath.Join(t.TempDir(), "back")
	writeTree(t, src, map[string][]byte{"a/one.png": pngBytes(t, 1), "a/two.png": pngBytes(t, 2), "a/notes.txt": []byte("notes")})
	mustPack(t, src, packed, Options{})
	damageTail(t, filepath.Join(packed, "a/two.l3"))
	writeTree(t, back, map[string][]byte{"a/one.png": pngBytes(t, 3), "a/notes.txt": []byte("my notes")})
	s := mustUnpack(t, packed, back, UnpackOptions{})
	if diff := cmp.Diff([]string{"a/notes.txt", "a/one.l3", "a/two.l3"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
	if data, _ := os.ReadFile(filepath.Join(back, "a/one.png")); !bytes.Equal(data, pngBytes(t, 3)) {
		t.Error("an existing file was replaced")
	}
	s = mustUnpack(t, packed, back, UnpackOptions{Force: true})
	if diff := cmp.Diff([]string{"a/two.l3"}, refusedPaths(s)); diff != "" || s.Replaced != 2 {
		t.Errorf("by force, refused:\n%s%v", diff, s)
	}
	if got := decodeSource(t, filepath.Join(back, "a/one.png")); !bytes.Equal(got.Pix, decodeBytes(t, pngBytes(t, 1)).Pix) {
		t.Error("the file was not replaced by force")
	}
}

func TestUnpackCollisions(t *testing.T) {
	src, packed := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "packed")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1), "a/free.png": pngBytes(t, 2)})
	mustPack(t, src, packed, Options{})
	data, err := os.ReadFile(filepath.Join(packed, "a/free.l3"))
	if err != nil {
		t.Fatal(err)
	}
	// img.l3, img.png.l3 and img.png all want to become img.png.
	writeTree(t, packed, map[string][]byte{"a/img.png.l3": data, "a/img.png": pngBytes(t, 3)})
	s := mustUnpack(t, packed, filepath.Join(t.TempDir(), "back"), UnpackOptions{})
	if diff := cmp.Diff([]string{"a/img.l3", "a/img.png", "a/img.png.l3"}, refusedPaths(s)); diff != "" {
		t.Errorf("refused:\n%s", diff)
	}
}

// A name that a file carries must not lead anywhere else.
func TestUnpackedNameIsNoPath(t *testing.T) {
	shape := raster.Shape{Height: 1, Width: 1, Channels: 1, DType: raster.Uint8, Color: raster.Grey}
	for _, c := range []struct{ file, original, want string }{
		{"x.l3", "x.png", "x.png"},
		{"x.l3", "x.PNG", "x.PNG"},
		{"x.l3", "x.jpg", "x.png"},
		{"x.l3", "", "x.png"},
		{"x.png.l3", "x.png", "x.png"},
		{"x.jpg.l3", "x.jpg", "x.jpg.png"},
		{"x.l3", "../../x.png", "x.png"},
		{"x.l3", "y.png", "x.png"},
		{"..l3", "..png", "..png"},
		{"x.l3", "x.npy", "x.npy"},
	} {
		got := UnpackedName(c.file, l3.Info{Shape: shape, Meta: l3.Metadata{OriginalName: c.original}})
		if got != c.want {
			t.Errorf("%q of %q becomes %q, expected %q", c.file, c.original, got, c.want)
		}
	}
}
