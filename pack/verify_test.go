package pack

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/internal/testfiles"
	"prismfs/l3"
)

func TestVerifyFindsEveryDamage(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	files := map[string][]byte{"README": []byte("text")}
	for _, name := range []string{"good", "tail", "cut", "head", "empty", "text"} {
		files["a/"+name+".png"] = encodePNG(t, noise(70, 70, len(name)))
	}
	writeTree(t, src, files)
	mustPack(t, src, dst, Options{})
	damageTail(t, filepath.Join(dst, "a/tail.l3"))
	truncate(t, filepath.Join(dst, "a/cut.l3"), 1000)
	truncate(t, filepath.Join(dst, "a/empty.l3"), 0)
	flip(t, filepath.Join(dst, "a/head.l3"), 9)
	writeTree(t, dst, map[string][]byte{"a/text.l3": []byte("text"), Marker: nil})
	progress := 0
	v, err := Verify(context.Background(), dst, VerifyOptions{Jobs: 3, Progress: func(done, _ int) { progress = done }})
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	for _, b := range v.Bad {
		bad = append(bad, b.Path)
		if b.Reason == "" {
			t.Errorf("%s is bad without a reason", b.Path)
		}
	}
	if diff := cmp.Diff([]string{"a/cut.l3", "a/empty.l3", "a/head.l3", "a/tail.l3", "a/text.l3"}, bad); diff != "" {
		t.Errorf("bad:\n%s", diff)
	}
	if v.Samples != 6 || v.Good != 1 || v.OtherFiles != 1 || !v.Unfinished || progress != 7 || v.RawBytes != 70*70*4 || v.PlainImages != 0 {
		t.Errorf("%+v, progress %d", v, progress)
	}
}

// flip changes one byte of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		data[at] ^= 1
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each byte of a small file is covered by a check.
func TestVerifySeesEveryByte(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1)})
	mustPack(t, src, dst, Options{})
	path := filepath.Join(dst, "a/img.l3")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		flip(t, path, i)
		if v, err := Verify(context.Background(), path, VerifyOptions{}); err != nil || len(v.Bad) != 1 {
			t.Fatalf("byte %d of %d was changed: %+v, %v", i, len(good), v, err)
		}
		flip(t, path, i)
	}
	if v, err := Verify(context.Background(), path, VerifyOptions{}); err != nil || v.Good != 1 || len(v.Bad) != 0 {
		t.Errorf("the good file: %+v, %v", v, err)
	}
}

// The reference's own files: those that it wrote in full are good, though
// without checksums; those that contradict themselves are bad.
func TestVerifyReferenceFiles(t *testing.T) {
	v, err := Verify(context.Background(), testfiles.Shared(t, "fixtures/l3-reference"), VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Samples < 10 || v.Good != v.WithoutCRC || v.Good+len(v.Bad) != v.Samples || v.Good < 7 {
		t.Errorf("%+v", v)
	}
	for _, b := range v.Bad {
		if !strings.HasPrefix(b.Path, "bad") {
			t.Errorf("%s: %s", b.Path, b.Reason)
		}
	}
}

func TestInspectFile(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1), "b/img.png": pngBytes(t, 2)})
	mustPack(t, src, dst, Options{})
	path := filepath.Join(dst, "b/img.l3")
	r, err := Inspect(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f := r.File
	// The picture is opaque, so that Go's encoder writes it without alpha.
	if r.Tree != nil || f == nil || !cmp.Equal(f.Shape, []int{17, 23, 3}) || f.DType != "uint8" || f.Colour != "RGB" ||
		f.Version != 2 || f.SignificantBits != 8 || f.FileBytes != stat.Size() || f.RawBytes != 17*23*3 || !f.Checksums ||
		*f.Label != 1 || f.Class != "b" || f.OriginalName != "img.png" || f.Damage != "" || f.Ratio <= 0 || len(f.PixelCRC) != 8 {
		t.Errorf("%+v", f)
	}
	damageTail(t, path)
	r, err = Inspect(context.Background(), path)
	if err != nil || r.File.Damage == "" {
		t.Errorf("a damaged file: %+v, %v", r, err)
	}
	plain := filepath.Join(src, "a/img.png")
	r, err = Inspect(context.Background(), plain)
	if err != nil || r.File == nil || r.File.Format != "png" || len(r.File.Shape) != 3 || r.File.FileBytes == 0 || r.File.Damage != "" {
		t.Errorf("a PNG: %+v, %v", r, err)
	}
	if v, err := Verify(context.Background(), plain, VerifyOptions{}); err != nil || v.Samples != 1 || v.Good != 1 || v.PlainImages != 1 {
		t.Errorf("a PNG: %+v, %v", v, err)
	}
	misnamed := plain + Suffix
	if err := os.Rename(plain, misnamed); err != nil {
		t.Fatal(err)
	}
	_, err = Inspect(context.Background(), misnamed)
	if !errors.Is(err, ErrSource) || !errors.Is(err, l3.ErrNotL3) || !strings.Contains(err.Error(), "PNG") {
		t.Errorf("a PNG that is called L3: %v", err)
	}
	if v, err := Verify(context.Background(), misnamed, VerifyOptions{}); err != nil || len(v.Bad) != 1 || v.PlainImages != 0 {
		t.Errorf("a PNG that is called L3: %+v, %v", v, err)
	}
}

func TestInspectTree(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{
		"a/one.png": pngBytes(t, 1), "a/two.png": pngBytes(t, 2), "b/three.png": encodePNG(t, noise(9, 5, 1)),
		"b/photo.jpg": jpegBytes(t, 1), "c/": nil, "README": []byte("text"),
	})
	mustPack(t, src, dst, Options{})
	writeTree(t, dst, map[string][]byte{"b/bad.l3": []byte("text")})
	r, err := Inspect(context.Background(), dst)
	if err != nil {
		t.Fatal(err)
	}
	tree := r.Tree
	if tree == nil || tree.Samples != 4 || tree.OtherFiles != 1 || tree.RawBytes != 3*17*23*3+9*5*4 || tree.WithoutCRC != 0 || tree.Unfinished {
		t.Fatalf("%+v", tree)
	}
	if diff := cmp.Diff([]Count{{"a", 2}, {"b", 2}, {"c", 0}}, tree.Classes); diff != "" {
		t.Errorf("classes:\n%s", diff)
	}
	if diff := cmp.Diff([]Count{{"17×23×3 uint8", 3}, {"5×9×4 uint8", 1}}, tree.Shapes); diff != "" {
		t.Errorf("shapes:\n%s", diff)
	}
	if len(tree.Bad) != 1 || tree.Bad[0].Path != "b/bad.l3" || len(tree.SourceDecoders) != 2 {
		t.Errorf("bad %v, decoders %v", tree.Bad, tree.SourceDecoders)
	}
}

func TestUnusableSources(t *testing.T) {
	pcr := t.TempDir()
	writeTree(t, pcr, map[string][]byte{"PCR_index.pb": nil})
	for _, path := range []string{filepath.Join(pcr, "none"), "/dev/null", pcr} {
		if _, err := Inspect(context.Background(), path); !errors.Is(err, ErrSource) {
			t.Errorf("Inspect of %s: %v", path, err)
		}
		if _, err := Verify(context.Background(), path, VerifyOptions{}); !errors.Is(err, ErrSource) {
			t.Errorf("Verify of %s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, t.TempDir(), VerifyOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrSource) {
		t.Errorf("after an interrupt: %v", err)
	}
}

// A folder without any L3 file is most likely the wrong one.
func TestFoldersWithoutSamples(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"a/img.png": pngBytes(t, 1)})
	ctx := context.Background()
	tools := map[string]func() error{
		"Verify":  func() error { _, err := Verify(ctx, src, VerifyOptions{}); return err },
		"Inspect": func() error { _, err := Inspect(ctx, src); return err },
		"Unpack":  func() error { _, err := Unpack(ctx, src, dst, UnpackOptions{}); return err },
	}
	for name, call := range tools {
		if err := call(); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "no L3 file and no PCR records in "+src+"; was it packed?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(dst); !os.IsNotExist(err) {
		t.Errorf("Unpack made its destination: %v", err)
	}
	writeTree(t, src, map[string][]byte{Marker: nil})
	for name, call := range tools {
		if err := call(); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "give the same command again") {
			t.Errorf("%s of an unfinished folder: %v", name, err)
		}
	}
	var nothing *NotPackedError
	if err := tools["Verify"](); !errors.As(err, &nothing) {
		t.Errorf("the error %v is no NotPackedError", err)
	}
	// What is bad or cannot be entered is reported as that.
	if err := os.Symlink("nowhere", filepath.Join(src, "lost.l3")); err != nil {
		t.Fatal(err)
	}
	for name, call := range tools {
		if err := call(); err != nil {
			t.Errorf("%s of a folder with a broken link: %v", name, err)
		}
	}
}

func TestRefusalAsJSON(t *testing.T) {
	for path, want := range map[string]string{
		"a/b.jpg":       `{"path":"a/b.jpg","reason":"r"}`,
		"a/lat\xe9.jpg": `{"path":"a/lat\ufffd.jpg","path_base64":"YS9sYXTpLmpwZw==","reason":"r"}`,
	} {
		got, err := json.Marshal(Refusal{path, "r"})
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", path, got, err)
		}
	}
}
