package dataset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"prismfs/l3"
)

// What a folder says of its entries is what is said of them one by one.
func TestFolderSamples(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a/x.l3", string(image(t, 4, 3, 1, l3.EncodeOptions{})))
	writeFile(t, dir+"/a/y.l3", string(image(t, 6, 5, 1, l3.EncodeOptions{})))
	writeFile(t, dir+"/a/bad.l3", "L3 and no header")
	writeFile(t, dir+"/a/plain.txt", "text")
	must(t, os.Mkdir(filepath.Join(dir, "a", "sub.l3"), 0o755))
	symlink(t, "x.l3", dir+"/a/link.l3")
	symlink(t, "/etc/passwd", dir+"/a/out.l3")
	symlink(t, "a", dir+"/linked")
	names := []string{"x.l3", "y.l3", "bad.l3", "plain.txt", "sub.l3", "link.l3", "out.l3", "none.l3", "../a/x.l3", ".."}
	for _, folder := range []string{"a", "linked"} {
		one, many := Open(openLocal(t, dir), Options{}), Open(openLocal(t, dir), Options{})
		f, err := many.Folder(context.Background(), folder)
		must(t, err)
		if near := f.near != nil; near != (folder == "a") {
			t.Errorf("%s is opened: %v", folder, near)
		}
		for range 2 { // read, and remembered
			for _, name := range names {
				want, wantErr := one.Sample(context.Background(), join(folder, name))
				got, err := f.Sample(context.Background(), name)
				if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
					t.Errorf("%s of %s: %+v, %v; by itself %+v, %v", name, folder, got, err, want, wantErr)
				}
			}
		}
		info, err := f.Info(context.Background())
		must(t, err)
		if want, err := one.Stat(context.Background(), folder); err != nil || info != want {
			t.Errorf("%s: %+v, want %+v", folder, info, want)
		}
		must(t, f.Close())
	}
}

// A file that is replaced while its folder is open is the new one.
func TestFolderOfReplacedFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/x.l3", string(image(t, 4, 3, 1, l3.EncodeOptions{})))
	d := Open(openLocal(t, dir), Options{})
	f, err := d.Folder(context.Background(), "")
	must(t, err)
	defer f.Close()
	for _, width := range []int{3, 9} {
		writeFile(t, dir+"/new", string(image(t, 4, width, 1, l3.EncodeOptions{})))
		must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "x.l3")))
		s, err := f.Sample(context.Background(), "x.l3")
		must(t, err)
		if s.Shape.Width != width {
			t.Errorf("the width is %d, want %d", s.Shape.Width, width)
		}
	}
}

func TestFolderErrors(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "text")
	d := Open(openLocal(t, dir), Options{})
	for path, want := range map[string]error{"none": fs.ErrNotExist, "../x": fs.ErrInvalid} {
		if _, err := d.Folder(context.Background(), path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := d.Folder(context.Background(), "file"); err == nil {
		t.Error("a file is opened as a folder")
	}
}
