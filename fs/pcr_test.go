package fs

import (
	"bytes"
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prismfs/dataset"
	"prismfs/internal/jpeg"
	"prismfs/internal/testfiles"
	"prismfs/pcr"
	"prismfs/tensor"
)

// progressive returns a test file of package jpeg and its scans.
func progressive(t *testing.T, name string) (file []byte, scans [][]byte) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(testfiles.Root(), "internal", "jpeg", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if scans, err = pcr.SplitScans(file); err != nil {
		t.Fatal(err)
	}
	return file, scans
}

// recordImages are colour and grey, with names that share a stem and names in
// folders.
func recordImages(t *testing.T) []pcr.Image {
	t.Helper()
	colour, _ := progressive(t, "rgb-420-progressive.jpg")
	other, _ := progressive(t, "rgb-444-progressive.jpg")
	grey, _ := progressive(t, "grey-progressive.jpg")
	image := func(file []byte, label int32, class, name string, components int) pcr.Image {
		return pcr.Image{JPEG: file, Label: label, Class: class, Name: name, Width: 67, Height: 45, Components: components}
	}
	return []pcr.Image{
		image(colour, 0, "cat", "001.JPEG", 3), image(grey, 0, "cat", "grey.png", 1),
		image(other, 0, "cat", "both.jpg", 3), image(colour, 0, "cat", "both.png", 3),
		image(other, 1, "dog", "below/002.jpg", 3),
	}
}

// recordMount is a mount of a dataset of one record, which nobody has mounted.
func recordMount(t *testing.T, bare bool) *mount {
	t.Helper()
	dir := t.TempDir()
	record, entry, err := pcr.AppendRecord(nil, recordImages(t), pcr.RecordInfo{Bare: bare})
	if err != nil {
		t.Fatal(err)
	}
	entry.Name = "PCR_0.pcr"
	index, err := pcr.AppendIndex(nil, []pcr.IndexEntry{entry})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"train/PCR_0.pcr": record, "train/" + pcr.IndexNamePB: index, "train/README": []byte("text"), "annotations.json": []byte("{}"),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store, err := dataset.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{View: DefaultView, Logger: slog.New(slog.DiscardHandler), TableDir: dataset.NoTables, ReadAhead: -1}
	setDefaults(&opt)
	m, err := newMount(opt, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.decoder.Close()
		store.Close()
	})
	return m
}

// namesIn lists all files of a view, with the folders that they are in.
func namesIn(t *testing.T, m *mount, p place) []string {
	t.Helper()
	var names []string
	err := m.names.list(context.Background(), p, func(e dataset.DirEntry, name string) bool {
		if e.Kind != dataset.Dir {
			names = append(names, path.Join(p.source, name))
			return true
		}
		sub := p
		sub.source = path.Join(p.source, name)
		names = append(names, namesIn(t, m, sub)...)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(names)
	return names
}

func TestRecordsAreListed(t *testing.T) {
	plain := []string{"annotations.json", "train/README"}
	for view, want := range map[string][]string{
		"npy":      {"train/cat/001.npy", "train/cat/both.jpg.npy", "train/cat/both.png.npy", "train/cat/grey.npy", "train/dog/below/002.npy"},
		"3+png":    {"train/cat/001.png", "train/cat/both.jpg.png", "train/cat/both.png.png", "train/cat/grey.png", "train/dog/below/002.png"},
		"auto+jpg": {"train/cat/001.jpg", "train/cat/both.jpg.jpg", "train/cat/both.png.jpg", "train/cat/grey.jpg", "train/dog/below/002.jpg"},
		"orig":     {"train/cat/001.JPEG", "train/cat/both.jpg", "train/cat/both.png", "train/cat/grey.png", "train/dog/below/002.jpg"},
		"orig+rgb": {},
		"l3":       {},
	} {
		m := recordMount(t, false)
		want = append(slices.Clone(plain), want...)
		sort.Strings(want)
		if diff := cmp.Diff(want, namesIn(t, m, place{view: mustParseView(t, view)})); diff != "" {
			t.Errorf("view %s: %s", view, diff)
		}
	}
	bare := recordMount(t, true)
	want := []string{"annotations.json", "train/0/PCR_0-00000.npy", "train/0/PCR_0-00001.npy", "train/0/PCR_0-00002.npy",
		"train/0/PCR_0-00003.npy", "train/1/PCR_0-00004.npy", "train/README"}
	if diff := cmp.Diff(want, namesIn(t, bare, place{view: DefaultView})); diff != "" {
		t.Errorf("without names: %s", diff)
	}
}

// TestListedRecordsResolve: every name that is listed leads to a file, and each
// file to the image that it is listed for.
func TestListedRecordsResolve(t *testing.T) {
	for _, bare := range []bool{false, true} {
		m := recordMount(t, bare)
		for _, view := range []string{"npy", "png", "ppm", "ppm+16", "raw+chw", "orig", "jpg", "2+jpg", "png+rgb", "99", "auto"} {
			at := place{view: mustParseView(t, view)}
			seen := map[string]bool{}
			for _, name := range namesIn(t, m, at) {
				var got target
				p := at
				for part := range bytes.SplitSeq([]byte(name), []byte("/")) {
					var err error
					if got, err = m.names.resolve(context.Background(), p, string(part)); err != nil {
						t.Fatalf("%s in view %s: %v", name, view, err)
					}
					p = got.at
				}
				if got.kind == passThru {
					continue
				}
				if seen[got.source] {
					t.Errorf("%s in view %s leads to %s, as another name does", name, view, got.source)
				}
				seen[got.source] = true
			}
			if len(seen) != 5 {
				t.Errorf("view %s shows %d of 5 images", view, len(seen))
			}
		}
		for _, name := range []string{"PCR_0.pcr", pcr.IndexNamePB, "PCR_0.npy", "PCR_0+jpg.jpg"} {
			if got, err := m.names.resolve(context.Background(), place{source: "train", view: DefaultView}, name); !errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("%s leads to %+v, %v", name, got, err)
			}
		}
	}
}

// TestRecordContents fills files of every image at every fidelity: they hold the
// first scans, or what package jpeg makes of them.
func TestRecordContents(t *testing.T) {
	m := recordMount(t, true)
	images := recordImages(t)
	for i, name := range []string{"0/PCR_0-00000", "0/PCR_0-00001", "0/PCR_0-00002", "0/PCR_0-00003", "1/PCR_0-00004"} {
		scans, err := pcr.SplitScans(images[i].JPEG)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 12 {
			n := len(scans)
			if k > 0 {
				n = min(k, n)
			}
			want := pcr.AppendEOI(bytes.Join(scans[:n], nil))
			checkContent(t, m, name, View{Fidelity: k, Form: tensor.Form{Container: tensor.JPG}}, want)
			decoded, err := jpeg.Decode(want, jpeg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkContent(t, m, name, View{Fidelity: k, Form: tensor.Form{Container: tensor.Raw}}, decoded.Pix)
			for _, form := range []string{"png", "npy", "ppm", "raw+rgb+chw"} {
				v := mustParseView(t, form)
				layout, err := v.Form.Layout(decoded.Shape)
				if err != nil {
					t.Fatal(err)
				}
				file := make([]byte, layout.Size())
				if err := layout.Render(file, bytes.Clone(decoded.Pix)); err != nil {
					t.Fatal(err)
				}
				checkContent(t, m, name, View{Fidelity: k, Form: v.Form}, file)
			}
		}
	}
}

func checkContent(t *testing.T, m *mount, image string, v View, want []byte) {
	t.Helper()
	s, err := m.ds.Sample(context.Background(), "train/"+image+dataset.RecordSuffix)
	if err != nil {
		t.Fatal(err)
	}
	c, err := contentOf(context.Background(), m.ds, s, v)
	if err != nil {
		t.Fatalf("%s in view %v: %v", image, v, err)
	}
	got := make([]byte, c.size)
	if err := m.fill(c, got, asked{}); err != nil {
		t.Errorf("%s in view %v: %v", image, v, err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s in view %v: %d bytes, want %d, or others", image, v, len(got), len(want))
	}
}
