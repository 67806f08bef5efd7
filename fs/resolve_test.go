package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/dataset"
	"prismfs/l3"
	"prismfs/raster"
)

// writeSample writes an L3 file of one shape.
func writeSample(t *testing.T, path string, s raster.Shape, originalName string) {
	t.Helper()
	file, err := l3.Encode(raster.Image{Shape: s, Pix: make([]byte, s.Bytes())},
		l3.EncodeOptions{Meta: l3.Metadata{OriginalName: originalName}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	rgb8   = raster.Shape{Height: 3, Width: 5, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	grey16 = raster.Shape{Height: 3, Width: 5, Channels: 1, DType: raster.Uint16, Color: raster.Grey}
	signed = raster.Shape{Height: 3, Width: 5, Channels: 1, DType: raster.Int16, Color: raster.Grey}
)

// longestStem and .l3 are 255 bytes, which is NAME_MAX.
var longestStem = strings.Repeat("n", 252)

// sourceTree makes a dataset with the names that are hard to get right.
func sourceTree(t *testing.T) resolver {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	writeSample(t, at("train/cat/001.l3"), rgb8, "001.JPEG")
	writeSample(t, at("train/cat/a+3.l3"), rgb8, "a+3.png")
	writeSample(t, at("train/cat/deep.l3"), grey16, "deep.png")
	writeSample(t, at("train/cat/hu.l3"), signed, "hu.npy")
	writeSample(t, at("train/cat/img.jpg.l3"), rgb8, "img.jpg")
	writeSample(t, at("train/cat/renamed.l3"), rgb8, "before.png")
	writeSample(t, at("both/x.l3"), rgb8, "x.png")
	writeSample(t, at("c++/y.l3"), rgb8, "")
	writeSample(t, at("user+3/z.l3"), rgb8, "")
	// The longest name that a file can have is longer in the mount.
	writeSample(t, at("long/"+longestStem+".l3"), rgb8, "")
	writeSample(t, at("both/pipe.l3"), rgb8, "pipe.png")
	if err := syscall.Mkfifo(at("both/pipe.npy"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"both/x.npy": "plain", "README": "text", "broken/no.l3": "not an L3 file", "lost+found/file": "",
	} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store, err := dataset.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ds := dataset.Open(store, dataset.Options{Limits: l3.DefaultLimits, Logger: slog.New(slog.DiscardHandler), TableDir: dataset.NoTables})
	return resolver{ds: ds, auto: new(fidelities)}
}

// walk resolves each name of a path from the root.
func walk(r resolver, view View, names ...string) (target, error) {
	p := place{view: view}
	var t target
	for _, n := range names {
		var err error
		if t, err = r.resolve(context.Background(), p, n); err != nil {
			return t, err
		}
		p = t.at
	}
	return t, nil
}

func mustParseView(t *testing.T, text string) View {
	t.Helper()
	v, err := ParseView(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestResolve(t *testing.T) {
	r := sourceTree(t)
	const dirOf, sampleOf, plain = folder, sample, passThru
	for _, c := range []struct {
		view   string
		path   []string
		kind   targetKind
		source string
		want   string // the view, of folders and samples
	}{
		{"npy", []string{"train"}, dirOf, "train", "npy"},
		{"npy", []string{"train+png"}, dirOf, "train", "png"},
		{"npy", []string{"train+3+png"}, dirOf, "train", "3+png"},
		{"npy", []string{"train+png+3"}, dirOf, "train", "3+png"},
		{"npy", []string{"+3+png"}, dirOf, "", "3+png"},
		{"npy", []string{"+png", "train", "cat", "001.png"}, sampleOf, "train/cat/001.l3", "png"},
		{"png+rgb", []string{"train+2", "cat", "001.png"}, sampleOf, "train/cat/001.l3", "2+png+rgb"},
		{"png+rgb", []string{"train+npy", "cat", "001.npy"}, sampleOf, "train/cat/001.l3", "npy"},
		{"npy", []string{"train", "cat", "001.npy"}, sampleOf, "train/cat/001.l3", "npy"},
		{"npy", []string{"train", "cat", "001+chw.npy"}, sampleOf, "train/cat/001.l3", "npy+chw"},
		{"npy", []string{"train", "cat", "001+3.npy"}, sampleOf, "train/cat/001.l3", "3+npy"},
		{"npy", []string{"train", "cat", "001+png.png"}, sampleOf, "train/cat/001.l3", "png"},
		{"npy", []string{"train", "cat", "a+3.npy"}, sampleOf, "train/cat/a+3.l3", "npy"},
		{"npy", []string{"train", "cat", "a+3+3.npy"}, sampleOf, "train/cat/a+3.l3", "3+npy"},
		{"npy", []string{"train", "cat+ppm+16", "deep.ppm"}, sampleOf, "train/cat/deep.l3", "ppm+16"},
		{"npy", []string{"train", "cat", "hu.npy"}, sampleOf, "train/cat/hu.l3", "npy"},
		{"npy", []string{"train", "cat", "img.jpg.npy"}, sampleOf, "train/cat/img.jpg.l3", "npy"},
		{"orig", []string{"train", "cat", "001.JPEG"}, sampleOf, "train/cat/001.l3", "orig"},
		{"orig", []string{"train", "cat", "img.jpg"}, sampleOf, "train/cat/img.jpg.l3", "orig"},
		{"orig", []string{"train", "cat", "renamed.png"}, sampleOf, "train/cat/renamed.l3", "orig"},
		{"orig", []string{"c++", "y.png"}, sampleOf, "c++/y.l3", "orig"},
		{"l3", []string{"train", "cat", "001.l3"}, sampleOf, "train/cat/001.l3", "l3"},
		{"npy", []string{"train+l3", "cat", "001.l3"}, sampleOf, "train/cat/001.l3", "l3"},
		{"npy", []string{"both", "x.npy"}, plain, "both/x.npy", ""},
		{"npy", []string{"both", "x.l3.npy"}, sampleOf, "both/x.l3", "npy"},
		{"png", []string{"both", "x.png"}, sampleOf, "both/x.l3", "png"},
		{"npy", []string{"README"}, plain, "README", ""},
		{"npy", []string{"+png", "README"}, plain, "README", ""},
		{"npy", []string{"c++"}, dirOf, "c++", "npy"},
		{"npy", []string{"c+++png"}, dirOf, "c++", "png"},
		{"npy", []string{"lost+found"}, dirOf, "lost+found", "npy"},
		{"npy", []string{"user+3"}, dirOf, "user+3", "npy"},
		{"npy", []string{"user+3+png"}, dirOf, "user+3", "png"},
	} {
		got, err := walk(r, mustParseView(t, c.view), c.path...)
		if err != nil {
			t.Errorf("%v in view %s: %v", c.path, c.view, err)
			continue
		}
		source, view := got.source, got.view
		if got.kind == folder {
			source, view = got.at.source, got.at.view
		}
		if got.kind != c.kind || source != c.source || (c.want != "" && view != mustParseView(t, c.want)) {
			t.Errorf("%v in view %s: kind %d, source %q, view %v; want %d, %q, %s",
				c.path, c.view, got.kind, source, view, c.kind, c.source, c.want)
		}
	}
}

func TestResolveNothing(t *testing.T) {
	r := sourceTree(t)
	for _, path := range [][]string{
		{"nothing"}, {"train+nothing"}, {"train+png+png"}, {"train+3+4"}, {"train+png+chw"}, {"train+l3+rgb"},
		{"nothing+png"}, {"train+png", "cat+npy"}, {"train+png", "cat", "001+raw.raw"}, {"train", "+png"},
		{"train+png", "cat", "001.npy"}, {"train", "cat", "001.png"}, {"train", "cat", "001.l3"},
		{"train", "cat", "001.l3.npy"}, {"train", "cat", ".npy"}, {"train", "cat", "001+png.npy"},
		{"train+ppm", "cat", "deep.ppm"}, {"train+png", "cat", "hu.png"}, {"train+jpg", "cat", "001.jpg"},
		{"+orig", "train", "cat", "before.png"}, {"+orig", "train", "cat", "001.png"}, {"README+png"},
	} {
		if got, err := walk(r, DefaultView, path...); !errors.Is(err, iofs.ErrNotExist) && toErrno(err).Error() != "no such file or directory" {
			t.Errorf("%v leads to %+v, %v", path, got, err)
		}
	}
	if _, err := walk(r, DefaultView, "broken", "no.npy"); !errors.Is(err, l3.ErrNotL3) {
		t.Errorf("a file that is no L3: %v", err)
	}
	var why *errWhy
	for _, path := range [][]string{{"train+png+npy"}, {"train+png+chw"}, {"train+png", "cat+raw"}, {"train+nothing"}, {"+PNG"}} {
		if _, err := walk(r, DefaultView, path...); !errors.As(err, &why) {
			t.Errorf("%v: %v does not say why", path, err)
		}
	}
}

// TestUnknownTermsAreExplained: a word that is out of the range of its term is
// told with that range, wherever it stands in the name.
func TestUnknownTermsAreExplained(t *testing.T) {
	r := sourceTree(t)
	for name, want := range map[string]string{
		"train+echo0":                         `"echo0" is no view term: echoE takes E from 1 to 100`,
		"train+echo101":                       "from 1 to 100, with two decimals at most",
		"train+echo1.234":                     "from 1 to 100",
		"train+echo":                          "from 1 to 100",
		"train+echo-2":                        "from 1 to 100",
		"train+echo0+png":                     "from 1 to 100",
		"+echo0+png":                          "from 1 to 100",
		"train+stream+rank2of2":               `"rank2of2" is no view term: rankRofW takes W from 1 to 65536, and R from 0 to W-1`,
		"train+stream+rank2":                  "R from 0 to W-1",
		"train+stream+shard0":                 "N from 1 to 1000000 images",
		"train+stream+buffer0":                "N from 1 to 1000000",
		"train+echo2+seed9223372036854775808": "N from 0 to 9223372036854775807",
		"train+echo2+seed01":                  "N from 0 to 9223372036854775807",
		"train+png+0":                         "whole numbers from 1 to 1000000",
		"train+echo2+echoes":                  `"echoes" is no view term`,
		"train+rankle":                        `"rankle" is no view term`,
		"train+echo0+shard0":                  `"echo0"`, // the first of them
	} {
		var why *errWhy
		if _, err := walk(r, DefaultView, name); !errors.As(err, &why) || !strings.Contains(why.reason, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	for _, name := range []string{"nothing+echo0", "echo0", "trainx+echo2+seed01"} {
		var why *errWhy
		if _, err := walk(r, DefaultView, name); !errors.Is(err, iofs.ErrNotExist) || errors.As(err, &why) {
			t.Errorf("%s: %v, want that it is not there, without a reason", name, err)
		}
	}
}

// TestTermsOfFilesAreExplained: what is wrong with the terms of a file that is there
// is told, and nothing of one that is not.
func TestTermsOfFilesAreExplained(t *testing.T) {
	r := sourceTree(t)
	for name, want := range map[string]string{
		"001+echo0.npy":   `"echo0" is no view term: echoE takes E from 1 to 100`,
		"001+png+foo.png": `"foo" is no view term`,
		"001+0.npy":       "whole numbers from 1 to",
		"001+echo2.npy":   "are terms of folders, not of a file",
		"001+raw.npy":     "files of the view raw end in .raw",
		"001+chw":         "files of the view npy+chw end in .npy",
		"001+chw+png.png": "chw",
		"001+2+3.npy":     "two fidelities",
		"none+echo0.npy":  "",
		"none+raw.npy":    "",
		"hu+png.png":      "", // it is there and has no such form
	} {
		why := new(errWhy)
		if _, err := walk(r, DefaultView, "train", "cat", name); !errors.As(err, &why) && want != "" || !strings.Contains(why.reason, want) || want == "" && why.reason != "" {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestNamesLikeUnknownTerms: files of the source may be named like terms that
// are out of range, and have terms behind them.
func TestNamesLikeUnknownTerms(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"c+echo0", "c+stream+rank2of2", "c", "train/d+shard0"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	store, err := dataset.OpenLocal(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ds := dataset.Open(store, dataset.Options{Logger: slog.New(slog.DiscardHandler), TableDir: dataset.NoTables})
	r := resolver{ds: ds, auto: new(fidelities)}
	for _, c := range []struct {
		path []string
		at   string
	}{
		{[]string{"c+echo0"}, "c+echo0"}, {[]string{"c+echo0+png"}, "c+echo0"}, {[]string{"c+echo0+echo2"}, "c+echo0"},
		{[]string{"c+stream+rank2of2+png"}, "c+stream+rank2of2"}, {[]string{"train+png", "d+shard0"}, "train/d+shard0"},
		{[]string{"train", "d+shard0+echo2"}, "train/d+shard0"},
	} {
		if got, err := walk(r, DefaultView, c.path...); err != nil || got.kind != folder || got.at.source != c.at {
			t.Errorf("%v leads to %+v, %v", c.path, got, err)
		}
	}
	var why *errWhy
	if _, err := walk(r, DefaultView, "c+echo0+pgn"); !errors.As(err, &why) || why.reason != `"pgn" is no view term` {
		t.Errorf("a wrong word behind a name that looks like a term: %v", err)
	}
}

// TestListedNamesResolve holds listing and lookup together: in every view,
// each listed name leads to the entry that it was listed for, and no name is
// listed twice.
func TestListedNamesResolve(t *testing.T) {
	r := sourceTree(t)
	ctx := context.Background()
	for _, view := range []string{"npy", "png", "ppm", "ppm+16", "raw", "l3", "orig", "npy+chw", "png+rgb", "jpg", "3+npy"} {
		for _, dir := range []string{"", "train", "train/cat", "both", "c++", "long", "user+3"} {
			p := place{source: dir, view: mustParseView(t, view)}
			seen := map[string]bool{}
			err := r.list(ctx, p, func(e dataset.DirEntry, name string) bool {
				if seen[name] {
					t.Errorf("%s in view %s lists %q twice", dir, view, name)
				}
				seen[name] = true
				got, err := r.resolve(ctx, p, name)
				if err != nil {
					t.Errorf("%s in view %s lists %q for %q: %v", dir, view, name, e.Name, err)
					return true
				}
				source := got.source
				if got.kind == folder {
					source = got.at.source
				}
				if filepath.Base(source) != e.Name {
					t.Errorf("%s in view %s lists %q for %q, which leads to %q", dir, view, name, e.Name, source)
				}
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestListing(t *testing.T) {
	r := sourceTree(t)
	ctx := context.Background()
	for view, want := range map[string][]string{
		"npy":     {"001.npy", "a+3.npy", "deep.npy", "hu.npy", "img.jpg.npy", "renamed.npy"},
		"png":     {"001.png", "a+3.png", "deep.png", "img.jpg.png", "renamed.png"},
		"ppm":     {"001.ppm", "a+3.ppm", "img.jpg.ppm", "renamed.ppm"},
		"ppm+16":  {"001.ppm", "a+3.ppm", "deep.ppm", "img.jpg.ppm", "renamed.ppm"},
		"png+rgb": {"001.png", "a+3.png", "deep.png", "img.jpg.png", "renamed.png"},
		"orig":    {"001.JPEG", "a+3.png", "deep.png", "img.jpg", "renamed.png"},
		"jpg":     nil,
	} {
		p := place{source: "train/cat", view: mustParseView(t, view)}
		var got []string
		err := r.list(ctx, p, func(e dataset.DirEntry, name string) bool {
			got = append(got, name)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		sort.Strings(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("view %s: %s", view, diff)
		}
	}
}
