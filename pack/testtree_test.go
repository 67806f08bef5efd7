package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"prismfs/internal/imagefile"
	libjpeg "prismfs/internal/jpeg"
	"prismfs/l3"
	"prismfs/raster"
)

// picture is a small image whose pixels depend on seed.
func picture(width, height, seed int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.Set(x, y, color.NRGBA{uint8(x*3 + seed), uint8(y*5 + seed*7), uint8((x + y) * seed), 255})
		}
	}
	return m
}

// pngBytes is a PNG of 23×17 pixels.
func pngBytes(t testing.TB, seed int) []byte { return encodePNG(t, picture(23, 17, seed)) }

// jpegBytes is a JPEG of 23×17 pixels.
func jpegBytes(t testing.TB, seed int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, picture(23, 17, seed), &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeTree writes files by their paths; a path that ends in / is a folder.
func writeTree(t testing.TB, root string, files map[string][]byte) {
	t.Helper()
	for path, data := range files {
		full := filepath.Join(root, path)
		if strings.HasSuffix(path, "/") {
			if err := os.MkdirAll(full, 0o777); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// untar unpacks an archive of the shared test data.
func untar(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

// listing describes every entry under root: kind, permissions, size, time and
// content.
func listing(t testing.TB, root string) map[string]string {
	t.Helper()
	entries := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		line := fmt.Sprintf("%v %d", info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrPermission) {
				break
			}
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			line += " " + hex.EncodeToString(sum[:])
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		entries[rel] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// names returns the paths of regular files under root.
func names(t testing.TB, root string) []string {
	t.Helper()
	var out []string
	for path, line := range listing(t, root) {
		if line[0] == '-' {
			out = append(out, path)
		}
	}
	sort.Strings(out)
	return out
}

// mustPack packs and checks that the summary adds up.
func mustPack(t testing.TB, src, dst string, opt Options) *Summary {
	t.Helper()
	s, err := Pack(context.Background(), src, dst, opt)
	if err != nil {
		t.Fatalf("Pack: %v", err)
	}
	checkSum(t, s)
	if !s.Finished {
		t.Error("the summary of a finished run says it is not")
	}
	return s
}

func checkSum(t testing.TB, s *Summary) {
	t.Helper()
	if sum := s.Converted.Files + s.Passed.Files + len(s.Refused); sum != s.FilesIn {
		t.Errorf("%d files in, but %d + %d + %d out", s.FilesIn, s.Converted.Files, s.Passed.Files, len(s.Refused))
	}
	files, in, out := 0, int64(0), int64(0)
	for _, f := range s.Formats {
		files, in, out = files+f.Files, in+f.BytesIn, out+f.BytesOut
	}
	if (Tally{files, in, out}) != s.Converted {
		t.Errorf("the formats come to %d files, %d and %d bytes, the summary to %+v", files, in, out, s.Converted)
	}
}

// refusedPaths returns the refused paths, ordered.
func refusedPaths(s *Summary) []string {
	out := []string{}
	for _, r := range s.Refused {
		out = append(out, r.Path)
	}
	return out
}

// decodeOutput decodes an L3 file.
func decodeOutput(t testing.TB, path string) (l3.Info, raster.Image) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, pixels, err := decodeL3(l3.NewDecoder(l3.Limits{}), data, nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return info, raster.Image{Shape: info.Shape, Pix: pixels}
}

func decodeSource(t testing.TB, path string) *imagefile.Decoded {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := imagefile.Decode(data, imagefile.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

// samePixelsAs checks an output against its source.
func samePixelsAs(t testing.TB, output, source string) l3.Info {
	t.Helper()
	want := decodeSource(t, source)
	info, got := decodeOutput(t, output)
	if got.Shape != want.Shape || !bytes.Equal(got.Pix, want.Pix) {
		t.Errorf("%s holds %v, %s %v; same pixels: %v", output, got.Shape, source, want.Shape, bytes.Equal(got.Pix, want.Pix))
	}
	return info
}

func setTime(t testing.TB, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func encodePNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// noise is an image that does not compress.
func noise(width, height, seed int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	state := uint32(seed)*2654435761 + 1
	for i := range m.Pix {
		state = state*1664525 + 1013904223
		m.Pix[i] = uint8(state >> 24)
	}
	return m
}

func decodeBytes(t testing.TB, data []byte) *imagefile.Decoded {
	t.Helper()
	d, err := imagefile.Decode(data, imagefile.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// String keeps failures readable: of the refusals the first few are shown.
func (s *Summary) String() string {
	shown := s.Refused[:min(len(s.Refused), 3)]
	return fmt.Sprintf("{in %d, converted %+v, passed %+v, there %d, replaced %d, refused %d %q, finished %v}",
		s.FilesIn, s.Converted, s.Passed, s.AlreadyThere, s.Replaced, len(s.Refused), shown, s.Finished)
}

// smooth is an image that JPEG compresses well.
func smooth(width, height int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.Set(x, y, color.NRGBA{uint8(x * 255 / width), uint8(y * 255 / height), uint8((x + y) * 255 / (width + height)), 255})
		}
	}
	return m
}

// progressiveJPEG is jpegBytes as records hold it.
func progressiveJPEG(t testing.TB, seed int) []byte {
	t.Helper()
	data, err := libjpeg.Transcode(jpegBytes(t, seed), libjpeg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
