package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

// maxSampleBytes is what the samples of all images may take in memory.
const maxSampleBytes = 512 << 20

// A sourceImage is a decoded image of the folder.
type sourceImage struct {
	*imagefile.Decoded
	path    string // relative to the folder
	scratch string // the beginning of the names of files made from it
	raw     string // a file of the samples as they are, "" until there is one
}

// unsigned returns the image for formats without signed samples, which then are
// 32768 larger.
func (s *sourceImage) unsigned() raster.Image {
	if s.DType != raster.Int16 {
		return s.Image
	}
	img := s.Image
	img.DType, img.Pix = raster.Uint16, bytes.Clone(s.Pix)
	for high := 1; high < len(img.Pix); high += 2 { // little-endian
		img.Pix[high] ^= 0x80
	}
	return img
}

// rawFile returns a file that holds the samples, unsigned.
func (s *sourceImage) rawFile() (string, error) {
	if s.raw == "" {
		path := s.scratch + ".raw"
		if err := os.WriteFile(path, s.unsigned().Pix, 0o600); err != nil {
			return "", err
		}
		s.raw = path
	}
	return s.raw, nil
}

// findings are what a folder holds beside what is measured.
type findings struct {
	paths   []string // of all images, known by content, relative to the folder
	skipped []Problem
	l3Files int
}

// collect decodes images of a folder, up to a number of them and to
// maxSampleBytes, in the order of their paths. Where there are more, those
// taken are spread evenly.
func collect(ctx context.Context, dir string, most int) (images []*sourceImage, found *findings, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, nil, err
	}
	if found, err = search(ctx, dir); err != nil {
		return nil, nil, err
	}
	budget := int64(maxSampleBytes)
	for _, i := range spread(len(found.paths)) {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if len(images) == most || budget <= 0 {
			break
		}
		image, err := readImage(dir, found.paths[i])
		if err != nil {
			found.skipped = append(found.skipped, Problem{Subject: found.paths[i], Reason: reasonOf(err)})
			continue
		}
		if image.Bytes() > budget {
			break
		}
		budget -= image.Bytes()
		images = append(images, image)
	}
	sort.Slice(images, func(i, j int) bool { return images[i].path < images[j].path })
	return images, found, nil
}

// search looks for images and L3 files below dir, and notes the folders that
// cannot be entered.
func search(ctx context.Context, dir string) (*findings, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, err
	}
	var found findings
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		relative, _ := filepath.Rel(dir, path) // it is below dir
		switch {
		case err != nil:
			found.skipped = append(found.skipped, Problem{Subject: relative, Reason: reasonOf(err)})
		case e.Type().IsRegular():
			found.judge(path, relative)
		}
		return nil
	})
	return &found, err
}

// judge notes a file that is an image or an L3 file, by its first bytes.
func (f *findings) judge(path, relative string) {
	prefix, err := readPrefix(path)
	if err != nil {
		return
	}
	if l3.IsL3(prefix) {
		f.l3Files++
	} else if _, ok := imagefile.Sniff(prefix); ok {
		f.paths = append(f.paths, relative)
	}
}

func readPrefix(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prefix := make([]byte, imagefile.SniffBytes)
	n, err := f.ReadAt(prefix, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return prefix[:n], nil
}

// spread returns the numbers below n in an order of which every beginning is
// spread evenly: steps of the golden section, which come close to no fraction
// with a small denominator.
func spread(n int) []int {
	if n == 0 {
		return nil
	}
	step := max(1, int(float64(n)*0.6180339887498949))
	for gcd(step, n) != 1 {
		step++
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i * step % n
	}
	return order
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// maxFileBytes is the largest file that is read: more than any image needs whose
// samples fit into maxSampleBytes.
const maxFileBytes = maxSampleBytes + 64<<20

func readImage(dir, path string) (*sourceImage, error) {
	full := filepath.Join(dir, path)
	info, err := os.Stat(full)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("a file of %d bytes, more than the %d of the largest that is measured", info.Size(), maxFileBytes)
	}
	data, err := os.ReadFile(full)
	if err != nil {
		return nil, err
	}
	decoded, err := imagefile.Decode(data, imagefile.Limits{MaxPixels: maxSampleBytes})
	if err != nil {
		return nil, err
	}
	decoded.Pix = slices.Clip(decoded.Pix)
	return &sourceImage{Decoded: decoded, path: path}, nil
}

// reasonOf is an error for a list that names the path already.
func reasonOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// firstReason says why the first of the images that were left out was.
func firstReason(skipped []Problem) string {
	if len(skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d cannot be read, such as %s: %s", len(skipped), skipped[0].Subject, skipped[0].Reason)
}
