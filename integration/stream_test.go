package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prismfs/internal/testfiles"
)

// The pictures of the fixtures that streams are made of.
const (
	streamFolder  = "photos"
	streamSamples = 18
)

// copyTree copies a folder of regular files, so that a test may change it.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := scratch(t)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestStream reads whole epochs and compares them with the plain views, by
// tarfile, by WebDataset's conventions and by GNU tar.
func TestStream(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.packed, m)
		whole := func(form, suffix, terms string, shard, percent, buffer int) {
			check(t, "stream_whole", args{
				"mount": mt.dir, "packed": f.packed, "folder": streamFolder, "form": form, "suffix": suffix, "terms": terms,
				"shard": shard, "seed": 7, "epoch": 3, "percent": percent, "buffer": buffer,
			})
		}
		whole("", ".npy", "", 5, 100, 0)
		whole("+png", ".png", "+echo2+buffer6", 7, 200, 6)
		check(t, "stream_offsets", args{"mount": mt.dir, "view": streamFolder + "+stream+echo1.5", "seed": 1})
		if m != best {
			return
		}
		for _, c := range []struct{ form, suffix string }{
			{"+raw+chw", ".raw"}, {"+png+rgb", ".png"}, {"+ppm", ".ppm"}, {"+l3", ".l3"}, {"+3", ".npy"}, {"+auto", ".npy"},
		} {
			whole(c.form, c.suffix, "+echo1.5", 1000, 150, 1000)
		}
		whole("", ".npy", "", 1, 100, 0)
		check(t, "stream_tar", args{"mount": mt.dir, "folder": streamFolder, "work": scratch(t)})
		check(t, "stream_names", args{"mount": mt.dir, "folder": streamFolder})
		mustLog(t, mt, "epochs are written with four digits")
		check(t, "stream_walk", args{"mount": mt.dir, "view": streamFolder + "+stream+shard4", "files": 2 * ((streamSamples + 3) / 4)})
		for _, ranks := range []int{8, 5, 1, 40} {
			check(t, "stream_ranks", args{"mount": mt.dir, "packed": f.packed, "folder": streamFolder, "ranks": ranks, "terms": ""})
		}
		check(t, "stream_ranks", args{"mount": mt.dir, "packed": f.packed, "folder": streamFolder, "ranks": 4, "terms": "+echo2.5", "percent": 250})
	})
}

// TestStreamLabels: labels follow from the folders as they are, not from what the
// files tell: after several runs of pack, after a renaming, without class folders.
func TestStreamLabels(t *testing.T) {
	packed, r := scratch(t), rand.New(rand.NewPCG(3, 4))
	pack := func(to string, names ...string) {
		source := scratch(t)
		for _, name := range names {
			if err := writeNoise(filepath.Join(source, name), r, 20, 30, false); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := prismfs("pack", "--to", "l3", "--mode", "fast", source, filepath.Join(packed, to)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	pack("twice", "m/1.png", "n/1.png", "n/deep/2.png")
	pack("twice", "a/1.png", "z/1.png")
	pack("renamed", "a/1.png", "b/1.png")
	pack("", "train/a/1.png", "train/b/1.png", "train/loose.png", "test/1.png", "test/2.png")
	pack("holes", "B/1.png", "a/1.png")
	if err := os.Rename(filepath.Join(packed, "renamed", "a"), filepath.Join(packed, "renamed", "c")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".hidden", "C"} {
		if err := os.Mkdir(filepath.Join(packed, "holes", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mt := mount(t, packed, best)
	for folder, labels := range map[string][]string{
		"twice": {"0", "1", "2", "3"}, "renamed": {"0", "1"}, "train": {"", "0", "1"}, "test": {""}, "holes": {"1", "3"},
	} {
		check(t, "stream_labels", args{"mount": mt.dir, "folder": folder, "labels": labels})
	}
}

// TestStreamSame: an epoch has the same bytes for two readers, by mounts with other
// caches and ways of serving, and by one that is made later.
func TestStreamSame(t *testing.T) {
	f := testFixtures(t)
	const view = "device-packed/fast+stream+seed9+echo2+buffer5+shard10"
	digest := func(m mode, readers int, flags ...string) string {
		mt := mount(t, f.root, m, flags...)
		var hash string
		checkInto(t, &hash, "stream_digest", args{"mount": mt.dir, "view": view, "epoch": 4, "readers": readers})
		return hash
	}
	first := digest(best, 2)
	for what, other := range map[string]string{
		"memory, small cache": digest(memory, 2, "--cache", "1MiB", "--read-ahead", "off"),
		"pinned, memfd":       digest(memfd, 1, "--cache", "4MiB", "--cache-policy", "pin"),
		"later":               digest(noPassthrough, 1),
	} {
		if other != first {
			t.Errorf("%s: another epoch", what)
		}
	}
}

// TestStreamDecodes counts decodes: echoes, what is skipped, what is listed.
func TestStreamDecodes(t *testing.T) {
	f := testFixtures(t)
	for _, percent := range []int{200, 150, 300} {
		mt := mount(t, f.root, best, "--cache", "64MiB") // the buffer is 12 MB, all are 117
		check(t, "stream_echoes", args{"mount": mt.dir, "packed": f.root, "folder": "bulk-packed", "percent": percent})
	}
	mt := mount(t, f.root, best, "--cache", "256MiB")
	check(t, "stream_resume", args{"mount": mt.dir, "folder": "bulk-packed", "skip": 5})
	mt = mount(t, f.root, best, "--cache", "256MiB")
	var listed int
	checkInto(t, &listed, "stream_listing", args{"mount": mt.dir, "folder": "bulk-packed", "samples": 84})
	t.Logf("tar -t of 84 images decodes %d", listed)
	if listed > 84 {
		t.Errorf("tar -t of 84 images decodes %d", listed)
	}
}

// TestStreamAhead: a reader in order finds images made.
func TestStreamAhead(t *testing.T) {
	f := testFixtures(t)
	for _, m := range []mode{best, noPassthrough} {
		mt := mount(t, f.root, m, "--cache", "128MiB")
		check(t, "stream_ahead", args{"mount": mt.dir, "view": "bulk-packed+stream+shard42"})
	}
}

// TestStreamBatches: on a device, what is made ahead fills batches: but for the
// first images of a shard, whose reader has not shown yet that he reads in order.
func TestStreamBatches(t *testing.T) {
	const (
		images    = 600
		leastMean = 60 // a tenth of them, on three lanes
	)
	f := testFixtures(t)
	packed := scratch(t)
	small := filepath.Join(f.path("device-packed"), "fast", "3-70x131.l3")
	for i := range images {
		if err := os.Link(small, filepath.Join(packed, fmt.Sprintf("%04d.l3", i))); err != nil {
			t.Fatal(err)
		}
	}
	mt := mountWith(t, packed, best, simulated(t, "kernel=20000"), "--backend", "cuda", "--cache", "256MiB")
	var s deviceStats
	checkInto(t, &s, "stream_ahead", args{"mount": mt.dir, "view": "+stream"})
	d := s.Device
	t.Logf("%d batches of %d images, %d at most", d.Batches, d.Images, d.LargestBatch)
	if d.Images < leastMean*d.Batches || d.Batches == 0 || d.Losses+d.FailedBatches != 0 || s.Errors != 0 {
		t.Errorf("statistics: %+v", s)
	}
}

// TestStreamDamaged: a flipped byte and a cut header cost nobody else anything.
func TestStreamDamaged(t *testing.T) {
	f := testFixtures(t)
	packed := copyTree(t, f.path("small-packed"))
	folder := filepath.Join(packed, "c")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(packed, "*.l3"))
	if err != nil || len(names) < 10 {
		t.Fatalf("%d files in the fixture (%v)", len(names), err)
	}
	for i, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 3:
			data[len(data)/2] ^= 0x10
		case 5:
			data = data[:20]
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []mode{best, memory} {
		mt := mount(t, packed, m)
		check(t, "stream_damaged", args{"mount": mt.dir, "folder": "c", "damaged": "c/" + filepath.Base(names[3]), "count": len(names) - 1})
		mustLog(t, mt, "cannot serve a file", "samples are left out of a stream")
	}
}

// TestStreamChanges: files are replaced and added under the mount.
func TestStreamChanges(t *testing.T) {
	f := testFixtures(t)
	for _, m := range []mode{best, noPassthrough} {
		packed := scratch(t)
		if err := os.CopyFS(filepath.Join(packed, "c"), os.DirFS(f.path("small-packed"))); err != nil {
			t.Fatal(err)
		}
		mt := mount(t, packed, m)
		names, err := filepath.Glob(filepath.Join(packed, "c", "*.l3"))
		if err != nil || len(names) < 10 {
			t.Fatalf("%d files (%v)", len(names), err)
		}
		var errors int
		checkInto(t, &errors, "stream_replaced", args{
			"mount": mt.dir, "packed": packed, "folder": "c", "replaced": filepath.Base(names[9]),
			"version": filepath.Join(f.path("replace-packed"), "000.l3"),
		})
		t.Logf("%v: %d reads of the replaced image failed", m, errors)
		check(t, "stream_grown", args{"mount": mt.dir, "packed": packed, "folder": "c", "source": filepath.Base(names[0])})
	}
}

// TestStreamFew: no sample, and one.
func TestStreamFew(t *testing.T) {
	f := testFixtures(t)
	packed := scratch(t)
	for _, dir := range []string{"none", "one"} {
		if err := os.Mkdir(filepath.Join(packed, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(f.path("small-packed"), "000.l3"), filepath.Join(packed, "one", "x.l3")); err != nil {
		t.Fatal(err)
	}
	mt := mount(t, packed, best)
	check(t, "stream_none", args{"mount": mt.dir, "folder": "none"})
	check(t, "stream_one", args{"mount": mt.dir, "folder": "one", "shape": []int{200, 200, 3}})
}

// TestStreamPCR: streams of records.
func TestStreamPCR(t *testing.T) {
	_, packed := testPCR(t)
	mt := mount(t, packed, best, slices.Clone(noTables)...)
	check(t, "stream_pcr", args{"mount": mt.dir, "folder": ""})
}

// TestStreamExample runs the example.
func TestStreamExample(t *testing.T) {
	f := testFixtures(t)
	mt := mount(t, f.packed, best)
	script := filepath.Join(testfiles.Root(), "examples", "read_stream.py")
	for _, form := range []string{"+rgb", "+png+rgb", "+ppm"} {
		check(t, "stream_example", args{"mount": mt.dir, "view": streamFolder + form + "+stream+echo2+shard4", "script": script, "workers": 3, "count": 2 * streamSamples})
	}
	check(t, "stream_example_refuses", args{"mount": mt.dir, "view": streamFolder + "+raw+stream", "script": script})
}

// TestStreamMany opens an epoch of many samples.
func TestStreamMany(t *testing.T) {
	f := testFixtures(t)
	samples, folders := 20_000, 50
	if testing.Short() {
		samples = 2000
	}
	packed := scratch(t)
	small := filepath.Join(f.path("small-packed"), "000.l3")
	for i := range samples {
		folder := filepath.Join(packed, fmt.Sprint(i%folders))
		if i < folders {
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Link(small, filepath.Join(folder, fmt.Sprint(i)+".l3")); err != nil {
			t.Fatal(err)
		}
	}
	mt := mount(t, packed, best)
	var got struct {
		Shards int     `json:"shards"`
		Opened float64 `json:"seconds_to_open"`
	}
	raw := check(t, "stream_many", args{"mount": mt.dir, "view": "+stream+seed1", "samples": samples})
	if err := json.Unmarshal(raw, &got); err != nil || got.Shards != (samples+999)/1000 {
		t.Errorf("%s (%v)", raw, err)
	}
	t.Logf("an epoch of %d samples opens in %.2f s", samples, got.Opened)
}
