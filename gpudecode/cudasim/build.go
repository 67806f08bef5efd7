// Package cudasim is a GPU for tests: a libcuda.so and a libnvidia-ml.so whose
// device is the CPU. It runs the sources of gpudecode/kernels, compiled by g++, as
// a GPU runs them: 32 lanes a warp that meet in shuffles, ballots and barriers,
// blocks with shared memory, streams with an order of their own.
//
// What it does that a GPU does not: shared memory holds a pattern when a block
// begins, and device memory when it is allocated; allocations lie between pages
// that nobody may touch, and what alignment leaves beside them is looked at after
// each kernel; lanes that do not meet where they must are an error; threads run in
// either order, so that a missing barrier shows in one of them; PTX is loaded only
// if its kernels have the parameters of those that run. What is to go wrong is
// scripted, see src/script.h.
//
// What it knows nothing of: speed, and whether the PTX itself is right; the host's
// compiler makes other code of the same sources. Lanes take turns at barriers
// and collective operations alone, so that a race between two of these shows only
// if one of the two orders gives another result; and a shuffle or a ballot makes
// writes known to all lanes here, which on a GPU barriers alone do.
//
// Only tests use this package.
package cudasim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Libraries are the paths of what Build has built.
type Libraries struct {
	CUDA    string
	NVML    string
	OldNVML string // NVML of a driver that lacks some functions
}

// ErrNoCompiler says that there is no g++, so that nothing can be simulated.
var ErrNoCompiler = errors.New("cudasim: no g++")

// Build builds the libraries, unless they are there from these very sources, and
// returns where they are.
func Build() (Libraries, error) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		return Libraries{}, ErrNoCompiler
	}
	own := filepath.Join(folder(), "src")
	kernels := filepath.Join(folder(), "..", "kernels")
	hash, err := hashSources(own, kernels)
	if err != nil {
		return Libraries{}, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return Libraries{}, err
	}
	built := filepath.Join(cache, hex.EncodeToString(hash[:8]))
	libraries := librariesIn(built)
	if _, err := os.Stat(libraries.OldNVML); err == nil { // the last one of them
		return libraries, nil
	}
	return libraries, build(compiler, own, kernels, built)
}

// cacheFolder is where builds are kept, the user's own as what is loaded from it must
// be. What nobody has built for a week is removed.
func cacheFolder() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cudasim: %w", err)
	}
	folder := filepath.Join(user, "prismfs-cudasim")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("cudasim: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("cudasim: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keptFor {
			os.RemoveAll(filepath.Join(folder, e.Name()))
		}
	}
	return folder, nil
}

// keptFor is how long a build is kept.
const keptFor = 7 * 24 * time.Hour

func librariesIn(dir string) Libraries {
	return Libraries{
		CUDA:    filepath.Join(dir, "libcuda.so.1"),
		NVML:    filepath.Join(dir, "libnvidia-ml.so.1"),
		OldNVML: filepath.Join(dir, "old", "libnvidia-ml.so.1"),
	}
}

// folder is where this package is, the sources of the libraries below it.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// hashSources returns a checksum of all sources of the libraries.
func hashSources(folders ...string) ([]byte, error) {
	h := sha256.New()
	for _, folder := range folders {
		files, err := sources(folder, ".h", ".cpp", ".cu")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("cudasim: sources: %w", err)
			}
			fmt.Fprintf(h, "%s %d\n", filepath.Base(file), len(data))
			h.Write(data)
		}
	}
	return h.Sum(nil), nil
}

func sources(folder string, suffixes ...string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("cudasim: sources: %w", err)
	}
	var files []string
	for _, e := range entries {
		if slices.Contains(suffixes, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files, nil
}

// cudaSources are those of libcuda.
var cudaSources = []string{
	"driver.cpp", "faulty.cpp", "fiber.cpp", "grid.cpp", "memory.cpp", "module.cpp", "registry.cpp", "script.cpp",
}

// flags of every compilation. The kernels' sources look at memory as now bytes,
// now words.
var flags = []string{
	"-O1", "-std=gnu++17", "-fPIC", "-ftls-model=initial-exec", "-fno-strict-aliasing",
	"-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas",
}

// A builder compiles the sources into a folder.
type builder struct {
	compiler, own, kernels, dir string
}

// build builds into a folder of its own and gives it its name at the end, so that
// others never see half of it.
func build(compiler, own, kernels, built string) error {
	dir, err := os.MkdirTemp(filepath.Dir(built), "new-")
	if err != nil {
		return fmt.Errorf("cudasim: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &builder{compiler: compiler, own: own, kernels: kernels, dir: dir}
	if err := b.libraries(librariesIn(dir)); err != nil {
		return fmt.Errorf("cudasim: %w", err)
	}
	if err := os.Rename(dir, built); err != nil {
		if _, there := os.Stat(librariesIn(built).OldNVML); there == nil {
			return nil // another process was faster
		}
		return fmt.Errorf("cudasim: %w", err)
	}
	return nil
}

func (b *builder) libraries(to Libraries) error {
	if err := os.Mkdir(filepath.Dir(to.OldNVML), 0o700); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	objects := make([]string, len(cudaSources))
	for i, name := range cudaSources {
		g.Go(func() (err error) {
			objects[i], err = b.object(name)
			return err
		})
	}
	for _, nvml := range []struct{ path, define string }{{to.NVML, "-DNEW_DRIVER"}, {to.OldNVML, "-DOLD_DRIVER"}} {
		g.Go(func() error { return b.run("-shared", nvml.define, "-o", nvml.path, filepath.Join(b.own, "nvml.cpp")) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return b.run(append([]string{"-shared", "-Wl,-Bsymbolic", "-o", to.CUDA, "-lpthread"}, objects...)...)
}

// object compiles a source of libcuda and returns where its object is.
func (b *builder) object(name string) (string, error) {
	object := filepath.Join(b.dir, name+".o")
	return object, b.run("-c", "-I"+b.own, "-I"+b.kernels, "-o", object, filepath.Join(b.own, name))
}

func (b *builder) run(arguments ...string) error {
	out, err := exec.Command(b.compiler, append(slices.Clone(flags), arguments...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", b.compiler, err, bytes.TrimSpace(out))
	}
	return nil
}
