package kernels

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"prismfs/l3"
	"prismfs/raster"
)

// goldenFiles are those of package l3 that a kernel takes, by name.
func goldenFiles(t testing.TB) (names []string, files [][]byte) {
	t.Helper()
	paths, err := filepath.Glob("../../l3/testdata/golden/*.l3")
	check(t, err)
	for _, path := range paths {
		file := readFile(t, path)
		if Takes(codingOf(t, file)) {
			names, files = append(names, filepath.Base(path)), append(files, file)
		}
	}
	return names, files
}

// TestGolden decodes all golden files of every coding in one batch.
func TestGolden(t *testing.T) {
	s := newSimulator(t)
	names, files := goldenFiles(t)
	if len(files) < 60 {
		t.Fatalf("%d golden files that kernels take", len(files))
	}
	s.eachOrder(t, func() {
		o := s.decode(t, files, false)
		for i, file := range files {
			want, err := plain(file)
			check(t, err)
			checkImage(t, names[i], o, i, want)
		}
	})
}

func checkImage(t *testing.T, name string, o outcome, i int, want []byte) {
	t.Helper()
	if o.statuses[i] != StatusOK {
		t.Errorf("%s: %v", name, o.statuses[i])
	} else if !bytes.Equal(o.samples[i], want) {
		t.Errorf("%s: samples differ from byte %d of %d on", name, firstDifference(o.samples[i], want), len(want))
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// TestDrawn decodes images of all sizes, depths and numbers of channels, and checks
// that every kernel has had some.
func TestDrawn(t *testing.T) {
	s := newSimulator(t)
	files := drawnFiles(t, rand.New(rand.NewPCG(1, 2)))
	seen := make(map[l3.Coding]int)
	for _, file := range files {
		seen[codingOf(t, file)]++
	}
	for coding := range kernelOf {
		if seen[coding] == 0 {
			t.Errorf("no drawn file has the %v coding", coding)
		}
	}
	s.eachOrder(t, func() {
		o := s.decode(t, files, false)
		for i, file := range files {
			want, err := plain(file)
			check(t, err)
			checkImage(t, fmt.Sprintf("drawn %d, %v", i, codingOf(t, file)), o, i, want)
		}
	})
}

// TestPlanar checks that channels come out one after another where that is asked
// for.
func TestPlanar(t *testing.T) {
	s := newSimulator(t)
	rng := rand.New(rand.NewPCG(3, 4))
	var files [][]byte
	for channels := 1; channels <= raster.MaxChannels; channels++ {
		for _, d := range []raster.DType{raster.Uint8, raster.Uint16} {
			img := draw(rng, pictures["edges"], shapeOf(37, 71, channels, d))
			files = append(files, encode(t, img, l3.ModeFast), encode(t, img, l3.ModeDense))
		}
	}
	files = append(files, encode(t, draw(rng, pictures["smooth"], shapeOf(64, 128, 3, raster.Uint8)), l3.ModePublished))
	names, golden := goldenFiles(t)
	for i, name := range names {
		if name == "fast8-raw-patch.l3" || name == "fast8-constant.l3" {
			files = append(files, golden[i])
		}
	}
	o := s.decode(t, files, true)
	for i, file := range files {
		want, err := plain(file)
		check(t, err)
		plan := new(l3.Plan)
		check(t, plan.Parse(file, l3.DefaultLimits))
		checkImage(t, fmt.Sprint("planar ", i), o, i, planar(want, plan.Info.Shape))
	}
}

// planar returns interleaved samples one channel after another.
func planar(samples []byte, s raster.Shape) []byte {
	var to []byte
	size := s.DType.Size()
	for c := range s.Channels {
		for at := c * size; at < len(samples); at += s.Channels * size {
			to = append(to, samples[at:at+size]...)
		}
	}
	return to
}
