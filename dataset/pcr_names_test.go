package dataset

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prismfs/pcr"
)

// Whatever names records tell, every image has a path of its own, which leads to
// it and to nothing else, and listings and look-ups agree.
func TestEveryImageHasAPath(t *testing.T) {
	jpeg := fakeJPEG(3, 4, 1, 1, 5)
	parts := rapid.SampledFrom([]string{
		"a", "a.jpg", "a.png", "a.jpg.png", "b", "a.pcr", "a.jpg.pcr", "PCR_0-00000", "PCR_0-00001.jpg", "a.jpg-PCR_1-00000", "~image-0",
		"~image-2.jpg", ".jpg", "\xff\xfe", " ", "a-", "a0", "a/b", "a/a.jpg", "a.pcr/a.jpg", "b/a.jpg", "a-b", "A",
	})
	classes := rapid.SampledFrom([]string{"", "cat", "1", "0", "2", "cat~1", "PCR_index.pb"})
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		m := &maker{dir: dir}
		named := map[int32]string{}
		original := map[string]string{} // by place
		alike := map[string]int{}       // images of a class with an original name
		total := 0
		for r := range rapid.IntRange(1, 3).Draw(rt, "records") {
			var images []pcr.Image
			for range rapid.IntRange(1, 8).Draw(rt, "images") {
				img := pcr.Image{JPEG: jpeg, Width: 3, Height: 4, Components: 1}
				img.Label = int32(rapid.IntRange(0, 2).Draw(rt, "label"))
				img.Name = parts.Draw(rt, "name")
				if _, ok := named[img.Label]; !ok {
					named[img.Label] = classes.Draw(rt, "class")
				}
				img.Class = named[img.Label]
				original[fmt.Sprintf("PCR_%d.pcr %d", r, len(images))] = img.Name
				alike[fmt.Sprintf("%d %s", img.Label, img.Name)]++
				images = append(images, img)
				total++
			}
			b, entry, err := pcr.AppendRecord(nil, images, m.info)
			if err != nil {
				rt.Skip(err) // package pcr refuses some names
			}
			entry.Name = fmt.Sprintf("PCR_%d.pcr", r)
			must(t, os.WriteFile(dir+"/"+entry.Name, b, 0o644))
			m.entries = append(m.entries, entry)
		}
		m.finish(t)
		opt := Options{KeepDuplicates: true, TableDir: NoTables}
		if rapid.Bool().Draw(rt, "on disk") {
			opt.TableDir = dir + "/tables"
		}
		d, _ := openPCR(t, dir, opt)
		paths := samplePaths(t, d, "")
		sorted := slices.Clone(paths)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != total || len(paths) != total {
			rt.Fatalf("%d images have %d paths: %q", total, len(slices.Compact(sorted)), paths)
		}
		seen := map[string]bool{}
		for _, p := range paths {
			s, err := d.Sample(context.Background(), p)
			if err != nil {
				rt.Fatal(err)
			}
			place := fmt.Sprintf("%s %d", s.Source, s.index)
			if seen[place] || s.Path != p || s.Stem != strings.TrimSuffix(path.Base(p), RecordSuffix) || s.Class != named[int32(*s.Label)] {
				rt.Fatalf("%s leads to %s: %+v", p, place, s)
			}
			seen[place] = true
			name := original[place]
			alone := alike[fmt.Sprintf("%d %s", *s.Label, name)] == 1 && !strings.HasPrefix(name, reservedName) &&
				!(strings.HasPrefix(s.Stem, reservedName) && strings.Contains(name, "/"))
			if s.OriginalUnique != alone || alone && s.OriginalName != path.Base(name) {
				rt.Fatalf("%s was %q, unique=%v: %+v", p, name, alone, s)
			}
			if at, err := d.FindOriginal(context.Background(), path.Dir(p), s.OriginalName); alone && (err != nil || at != p) || err == nil && !alone && at == p {
				rt.Fatalf("%q leads to %q, %v, want %s", name, at, err, p)
			}
			for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
				if info, err := d.Stat(context.Background(), dir); err != nil || info.Kind != Dir {
					rt.Fatalf("%s of %s: %v, %v", dir, p, info.Kind, err)
				}
			}
			got, err := d.ReadEncoded(context.Background(), s, 0, nil)
			if err != nil || !bytes.Equal(got, jpeg) {
				rt.Fatalf("%s: %d bytes, %v", p, len(got), err)
			}
		}
	})
}
