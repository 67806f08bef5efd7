package kernels

import (
	"os"
	"path/filepath"
	"testing"

	"prismfs/internal/imagefile"
	"prismfs/internal/testfiles"
	"prismfs/l3"
	"prismfs/raster"
)

// cropEdge is the size of what is tested of a photograph: four patches and more, of
// which the simulated device has enough to do.
const cropEdge = 150

// crop returns the middle of an image.
func crop(img raster.Image) raster.Image {
	s := img.Shape
	s.Height, s.Width = min(cropEdge, s.Height), min(cropEdge, s.Width)
	pixel := s.Channels * s.DType.Size()
	x, y := (img.Width-s.Width)/2, (img.Height-s.Height)/2
	to := raster.Image{Shape: s}
	for row := range s.Height {
		at := ((y+row)*img.Width + x) * pixel
		to.Pix = append(to.Pix, img.Pix[at:at+s.Width*pixel]...)
	}
	return to
}

// TestPhotographs decodes pieces of photographs, microscopy and depth maps, each in
// both codings.
func TestPhotographs(t *testing.T) {
	s := newSimulator(t)
	var files [][]byte
	for _, folder := range []string{"kodak", "hires", "deep16"} {
		paths, err := filepath.Glob(filepath.Join(testfiles.Shared(t, "data/"+folder), "*.png"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d images, %v", folder, len(paths), err)
		}
		for _, path := range paths[:1] {
			decoded, err := imagefile.Decode(readFile(t, path), imagefile.DefaultLimits)
			check(t, err)
			img := crop(decoded.Image)
			files = append(files, encode(t, img, l3.ModeFast), encode(t, img, l3.ModeDense))
		}
	}
	o := s.decode(t, files, false)
	for i, file := range files {
		want, err := plain(file)
		check(t, err)
		checkImage(t, codingOf(t, file).String(), o, i, want)
	}
}

// TestPublishedPrograms decodes what the published programs wrote, good and bad.
func TestPublishedPrograms(t *testing.T) {
	s := newSimulator(t)
	paths, err := filepath.Glob(filepath.Join(testfiles.Shared(t, "fixtures/l3-reference"), "*.l3"))
	check(t, err)
	var good, bad int
	for _, path := range paths {
		file, err := os.ReadFile(path)
		check(t, err)
		want, wrong := plain(file)
		if new(l3.Plan).Parse(file, l3.DefaultLimits) != nil {
			continue // refused before any patch is decoded
		}
		o := s.decode(t, [][]byte{file}, false)
		if wrong == nil {
			good++
			checkImage(t, filepath.Base(path), o, 0, want)
			continue
		}
		bad++
		if o.statuses[0] == StatusOK {
			t.Errorf("%s: the device decodes what plain Go refuses: %v", filepath.Base(path), wrong)
		}
	}
	if good < 5 || bad == 0 {
		t.Errorf("%d good files and %d bad ones: too few to say anything", good, bad)
	}
}
