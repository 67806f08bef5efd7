package integration

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// The trees that echo views are read of. Every image is noise, so that its pixels
// tell which one it is.
const (
	echoClasses = 4
	echoImages  = 30 // a class
)

// packedEcho makes the trees and packs them: uniform has images of one shape,
// mixed of many, large of more bytes, flat no class folders, sides a text beside
// an image.
var packedEcho = sync.OnceValues(func() (folders [2]string, err error) {
	folders = [2]string{filepath.Join(work, "echo"), filepath.Join(work, "echo-packed")}
	r := rand.New(rand.NewPCG(1, 2))
	for class := range echoClasses {
		for i := range echoImages {
			name := fmt.Sprintf("class-%d/%02d.png", class, i)
			if err := writeNoise(filepath.Join(folders[0], "uniform", name), r, 32, 40, false); err != nil {
				return folders, err
			}
			if err := writeNoise(filepath.Join(folders[0], "mixed", name), r, 20+i*7%50, 30+i*11%40, i%5 == 0); err != nil {
				return folders, err
			}
		}
	}
	for i := range 64 {
		if err := writeNoise(filepath.Join(folders[0], fmt.Sprintf("large/class-%d/%02d.png", i%8, i)), r, 120, 300, false); err != nil {
			return folders, err
		}
	}
	for _, name := range []string{"flat/a.png", "flat/b.png", "sides/c/a.png", "sides/c/b.png"} {
		if err := writeNoise(filepath.Join(folders[0], name), r, 20, 30, false); err != nil {
			return folders, err
		}
	}
	if err := os.WriteFile(filepath.Join(folders[0], "sides/c/b.txt"), []byte("a box\n"), 0o644); err != nil {
		return folders, err
	}
	if out, err := prismfs("pack", "--to", "l3", "--mode", "fast", folders[0], folders[1]); err != nil {
		return folders, fmt.Errorf("%w\n%s", err, out)
	}
	return folders, nil
})

// writeNoise writes a picture of random samples.
func writeNoise(path string, r *rand.Rand, height, width int, grey bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var picture image.Image
	if grey {
		p := image.NewGray(image.Rect(0, 0, width, height))
		for i := range p.Pix {
			p.Pix[i] = byte(r.Uint32())
		}
		picture = p
	} else {
		p := image.NewNRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				v := r.Uint32()
				p.SetNRGBA(x, y, color.NRGBA{R: byte(v), G: byte(v >> 8), B: byte(v >> 16), A: 255})
			}
		}
		picture = p
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	encoder := png.Encoder{CompressionLevel: png.NoCompression} // noise does not get smaller
	if err := encoder.Encode(f, picture); err != nil {
		return err
	}
	return f.Close()
}

func testEcho(t *testing.T) (source, packed string) {
	t.Helper()
	folders, err := packedEcho()
	if err != nil {
		t.Fatal("making the trees of echo views:", err)
	}
	return folders[0], folders[1]
}

// TestEcho reads echo views with the datasets and loaders of torchvision and
// PyTorch.
func TestEcho(t *testing.T) {
	source, packed := testEcho(t)
	mt := mount(t, packed, best, "--cache", "64MiB")
	for i, c := range []struct {
		factor  string
		workers int
		form    string
	}{{"2", 0, "npy"}, {"2", 2, "png"}, {"3", 2, "npy"}, {"1.5", 0, "png"}, {"1.5", 2, "npy"}, {"1", 0, "npy"}} {
		t.Run(fmt.Sprintf("echo%s, %d workers, %s", c.factor, c.workers, c.form), func(t *testing.T) {
			check(t, "echo_loader", args{"mount": mt.dir, "source": filepath.Join(source, "uniform"), "folder": "uniform",
				"factor": c.factor, "workers": c.workers, "form": c.form, "seed": 100 + i})
		})
	}
	for _, name := range []string{"split", "ranks", "shared", "readers", "source", "decodes"} {
		t.Run(name, func(t *testing.T) {
			check(t, "echo_"+name, args{"mount": mt.dir, "source": filepath.Join(source, "uniform"), "folder": "uniform"})
		})
	}
	t.Run("refusals", func(t *testing.T) { check(t, "echo_refusals", args{"mount": mt.dir}) })
}

// TestEchoForms reads folders of mixed shapes, where a size, a header and pixels
// of different images would not fit together, in every way of serving.
func TestEchoForms(t *testing.T) {
	source, packed := testEcho(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, packed, m, "--cache", "64MiB")
		check(t, "echo_mixed", args{"mount": mt.dir, "source": filepath.Join(source, "mixed"), "folder": "mixed"})
	})
}

// TestEchoSmallCaches: pools stay within their share, and everything is right,
// however little there is.
func TestEchoSmallCaches(t *testing.T) {
	source, packed := testEcho(t)
	// Half of 1 MiB holds four images of eight classes.
	for cache, perClass := range map[string]bool{"1MiB": false, "4MiB": true} {
		t.Run(cache, func(t *testing.T) {
			mt := mount(t, packed, best, "--cache", cache)
			check(t, "echo_small_cache", args{"mount": mt.dir, "source": filepath.Join(source, "large"), "folder": "large", "one_of_each": perClass})
		})
	}
}

// TestEchoPCR reads a PCR dataset, at a fidelity and at one that changes.
func TestEchoPCR(t *testing.T) {
	source, packed := testPCR(t)
	mt := mount(t, packed, best, append(slices.Clone(noTables), "--cache", "64MiB")...)
	check(t, "echo_pcr", autoArgs(mt, args{"source": source}))
}
