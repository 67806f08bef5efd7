package dataset

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"prismfs/internal/sqlite"
	"prismfs/pcr"
)

// ownFolder makes a folder as pack does, of three records with names, checksums
// and all classes of the dataset, one of which is empty. The class class2 has
// images in PCR_1 only.
func ownFolder(t testing.TB, dir string) *maker {
	t.Helper()
	m := &maker{dir: dir, info: pcr.RecordInfo{DatasetID: 77, Classes: []pcr.Class{
		{Label: 0, Name: "class0"}, {Label: 1, Name: "class1"}, {Label: 2, Name: "class2"}, {Label: 3, Name: "class3"}, {Label: 4, Name: "empty"},
	}}}
	for r, label := range []int{1, 2, 3} {
		m.add(t, "PCR_"+string(rune('0'+r))+".pcr",
			named(0, uint64(10*r+1)), named(label, uint64(10*r+2)), named(label, uint64(10*r+3)))
	}
	m.finish(t)
	return m
}

const ownImages = 9

// named is a picture with class and name.
func named(label int, seed uint64) pcr.Image {
	img := picture(label, seed)
	img.Class, img.Name = "class"+string(rune('0'+label)), "n"+string(rune('a'+seed))+".jpg"
	return img
}

// logged opens a folder with a log.
func logged(t testing.TB, dir string, opt Options) (*Dataset, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	opt.Logger = slog.New(slog.NewTextHandler(log, nil))
	d, _ := openPCR(t, dir, opt)
	return d, log
}

// allJPEGs returns what every image has at full fidelity, by path.
func allJPEGs(t testing.TB, d *Dataset) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range samplePaths(t, d, "") {
		out[path] = string(readAt(t, d, path, 0))
	}
	return out
}

// rawEntry is an entry of an index that can have any lengths.
func rawEntry(name string, lengths ...int64) []byte {
	var packed []byte
	for _, n := range lengths {
		packed = protowire.AppendVarint(packed, uint64(n))
	}
	e := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(name))
	e = protowire.AppendBytes(protowire.AppendTag(e, 2, protowire.BytesType), packed)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), e)
}

// An index that is wrong about a record takes nothing from it: neither images nor
// names nor checksums.
func TestIndexThatLies(t *testing.T) {
	with := func(lengths []int64, at int, more int64) []int64 {
		lengths = slices.Clone(lengths)
		lengths[at] += more
		return lengths
	}
	all := func(change func([]int64) []int64) func([]int64) [][]int64 {
		return func(l []int64) [][]int64 { return [][]int64{change(l), change(l), change(l), change(l)} }
	}
	for name, c := range map[string]struct {
		entries func(right []int64) [][]int64 // of PCR_1
		bare    bool                          // it is noticed without the extension, too
	}{
		"the first entry":     {func(l []int64) [][]int64 { return [][]int64{with(l, 2, 1), l, l, l} }, true},
		"the last entry":      {func(l []int64) [][]int64 { return [][]int64{l, l, l, with(l, 2, 1)} }, true},
		"metadata, once":      {func(l []int64) [][]int64 { return [][]int64{with(l, 0, 3), l, l, l} }, true},
		"fewer groups, once":  {func(l []int64) [][]int64 { return [][]int64{l[:3], l, l, l} }, true},
		"all but one":         {func(l []int64) [][]int64 { return [][]int64{with(l, 1, 9), with(l, 3, 8), l, with(l, 1, 9)} }, true},
		"all entries":         {all(func(l []int64) []int64 { return with(l, 2, 1) }), false},
		"the sum is right":    {all(func(l []int64) []int64 { return with(with(l, 1, 7), 2, -7) }), false},
		"all, the metadata":   {all(func(l []int64) []int64 { return with(l, 0, -5) }), false},
		"all, with no groups": {all(func(l []int64) []int64 { return l[:1] }), false},
		"all negative":        {all(func(l []int64) []int64 { return with(l, 3, -1<<40) }), false},
	} {
		for _, bare := range []bool{false, true} {
			if bare && !c.bare {
				continue
			}
			dir := t.TempDir()
			m := ownFolder(t, dir)
			if bare {
				dir = t.TempDir()
				m = bareFolder(t, dir, 3, 3, 2)
			}
			d, _ := openPCR(t, dir, Options{})
			want, before := allJPEGs(t, d), summary(t, d, "")
			var index []byte
			for i, e := range m.entries {
				entries := [][]int64{e.Lengths, e.Lengths, e.Lengths, e.Lengths}
				if i == 1 {
					entries = c.entries(e.Lengths)
				}
				for _, lengths := range entries {
					index = append(index, rawEntry(e.Name, lengths...)...)
				}
			}
			replace(t, filepath.Join(dir, pcr.IndexNamePB), index)
			tables := t.TempDir()
			for round := range 2 { // the second has the tables of the first
				d, log := logged(t, dir, Options{TableDir: tables})
				if got := allJPEGs(t, d); !maps.Equal(got, want) {
					t.Errorf("%s, bare=%v: %d images, want %d", name, bare, len(got), len(want))
				}
				s := summary(t, d, "")
				if s.Checksums != before.Checksums || !slices.Equal(s.Labels, before.Labels) || !slices.Equal(s.Mistaken, []string{"PCR_1.pcr"}) ||
					len(s.Bad)+len(s.Stale)+len(s.Damaged) != 0 {
					t.Errorf("%s, bare=%v, round %d: %+v, want %+v", name, bare, round, s, before)
				}
				if text := log.String(); !strings.Contains(text, "the index is wrong") || !strings.Contains(text, pcr.IndexNamePB) || !strings.Contains(text, "level=WARN") {
					t.Errorf("%s: the log says\n%s", name, text)
				}
			}
		}
	}
}

// A record that ends too early keeps names and checksums, index or not.
func TestCutRecordWithoutIndex(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		dir := t.TempDir()
		m := ownFolder(t, dir)
		must(t, os.Truncate(dir+"/PCR_1.pcr", m.entries[1].GroupOffset(3)))
		if !indexed {
			must(t, os.Remove(dir+"/"+pcr.IndexNamePB))
		}
		d, _ := openPCR(t, dir, Options{})
		if s := summary(t, d, ""); s.Checksums != ownImages || s.Images != ownImages || len(s.Damaged) != 1 {
			t.Errorf("indexed=%v: %+v", indexed, s)
		}
		for k, want := range map[int]int{1: ownImages, 2: ownImages, 3: ownImages - 3} {
			if good, bad := readable(t, d, k); good != want || good+bad != ownImages {
				t.Errorf("indexed=%v: at %d %d good, %d bad", indexed, k, good, bad)
			}
		}
	}
}

// Classes stay where they are, whatever is lost.
func TestClassesOfLostRecords(t *testing.T) {
	folders := map[string]Kind{"class0": Dir, "class1": Dir, "class2": Dir, "class3": Dir, "empty": Dir}
	for name, c := range map[string]struct {
		do   func(t *testing.T, m *maker)
		lost int
		said string
	}{
		"nothing": {func(*testing.T, *maker) {}, 0, ""},
		"missing": {func(t *testing.T, m *maker) { must(t, os.Remove(m.dir+"/PCR_1.pcr")) }, 3, "are missing"},
		"damaged": {func(t *testing.T, m *maker) {
			b, err := os.ReadFile(m.dir + "/PCR_1.pcr")
			must(t, err)
			b[3] ^= 1
			replace(t, m.dir+"/PCR_1.pcr", b)
		}, 3, "cannot be used"},
		"two of three": {func(t *testing.T, m *maker) {
			must(t, os.Remove(m.dir+"/PCR_1.pcr"))
			must(t, os.Remove(m.dir+"/PCR_2.pcr"))
		}, 6, "are missing"},
	} {
		dir := t.TempDir()
		c.do(t, ownFolder(t, dir))
		tables := t.TempDir()
		for range 2 {
			d, log := logged(t, dir, Options{TableDir: tables})
			if got := listed(t, d, ""); !maps.Equal(got, folders) {
				t.Errorf("%s: %v", name, got)
			}
			s := summary(t, d, "")
			if s.LostImages != c.lost || s.Images != ownImages-c.lost || len(s.Labels) != len(folders) {
				t.Errorf("%s: %+v", name, s)
			}
			text := log.String()
			if !strings.Contains(text, c.said) || strings.Contains(text, "level=ERROR") != (c.lost > 0) || strings.Contains(text, "images are lost") != (c.lost > 0) {
				t.Errorf("%s: the log says\n%s", name, text)
			}
			if got := listed(t, d, "empty"); len(got) != 0 {
				t.Errorf("%s: the empty class has %v", name, got)
			}
			if got := listed(t, d, "class2"); (len(got) == 0) != (c.lost > 0) {
				t.Errorf("%s: class2 has %v", name, got)
			}
			if _, err := d.Stat(context.Background(), "empty/n.pcr"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: in the empty class: %v", name, err)
			}
		}
	}
	// A real folder with the name of a class without images hides nothing.
	dir := t.TempDir()
	ownFolder(t, dir)
	must(t, os.Mkdir(dir+"/empty", 0o755))
	d, log := logged(t, dir, Options{})
	if got := listed(t, d, ""); !maps.Equal(got, folders) || log.Len() != 0 {
		t.Errorf("%v, and the log says\n%s", got, log.String())
	}
}

func TestLostImages(t *testing.T) {
	loads := func(counts ...int) (out []*recordLoad) {
		for i, n := range counts {
			if n > 0 {
				out = append(out, &recordLoad{head: recordHead{Name: "PCR_" + string(rune('0'+i)) + ".pcr", Images: n}})
			}
		}
		return out
	}
	full := map[string][][]uint32{"PCR_1.pcr": {make([]uint32, 5)}}
	for name, c := range map[string]struct {
		lost  []string
		loads []*recordLoad
		batch int64
		full  map[string][][]uint32
		want  int
	}{
		"nothing":               {nil, loads(4, 4, 1), 0, nil, 0},
		"one between":           {[]string{"PCR_1.pcr"}, loads(4, 0, 1), 0, nil, 4},
		"the last":              {[]string{"PCR_2.pcr"}, loads(4, 4, 0), 0, nil, 4},
		"a shorter last":        {[]string{"PCR_0.pcr"}, loads(0, 1), 0, nil, 0},
		"all":                   {[]string{"PCR_0.pcr", "PCR_1.pcr"}, nil, 0, nil, 0},
		"the index knows":       {[]string{"PCR_0.pcr"}, nil, 7, nil, 7},
		"a full index knows":    {[]string{"PCR_1.pcr"}, nil, 0, full, 5},
		"one of two is unknown": {[]string{"PCR_0.pcr", "PCR_1.pcr"}, nil, 0, full, 0},
	} {
		if got := lostImages(c.lost, c.loads, c.batch, c.full); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Records of the dataset that the index lacks are told from old ones.
func TestUnlistedRecords(t *testing.T) {
	dir := t.TempDir()
	m := ownFolder(t, dir)
	m.entries = m.entries[:2]
	m.finish(t)
	old := &maker{dir: dir, info: pcr.RecordInfo{DatasetID: 78}}
	old.add(t, "PCR_8.pcr", named(0, 200))
	bare := &maker{dir: dir, info: pcr.RecordInfo{Bare: true}}
	bare.add(t, "PCR_9.pcr", picture(0, 201))
	writeFile(t, dir+"/PCR_10.pcr", "junk")
	tables := t.TempDir()
	for range 2 {
		d, log := logged(t, dir, Options{TableDir: tables})
		s := summary(t, d, "")
		if want := []string{"PCR_2.pcr", "PCR_8.pcr", "PCR_9.pcr", "PCR_10.pcr"}; !slices.Equal(s.Unlisted, want[:1]) || !slices.Equal(s.Stale, want) || s.Images != 6 || s.Unfinished {
			t.Errorf("%+v", s)
		}
		if text := log.String(); !strings.Contains(text, "are not in its index") || !strings.Contains(text, "PCR_2.pcr") {
			t.Errorf("the log says\n%s", text)
		}
	}
}

func TestUnfinished(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string)
		want bool
	}{
		"finished": {func(t *testing.T, dir string) { ownFolder(t, dir) }, false},
		"no index": {func(t *testing.T, dir string) { ownFolder(t, dir); must(t, os.Remove(dir+"/"+pcr.IndexNamePB)) }, true},
		"the marker": {func(t *testing.T, dir string) {
			ownFolder(t, dir)
			writeFile(t, dir+"/"+PackMarker, "")
		}, true},
		"published without index": {func(t *testing.T, dir string) {
			bareFolder(t, dir, 2, 3, 2)
			must(t, os.Remove(dir+"/"+pcr.IndexNamePB))
		}, false},
	} {
		dir, tables := t.TempDir(), t.TempDir()
		c.do(t, dir)
		for range 2 {
			d, log := logged(t, dir, Options{TableDir: tables})
			if s := summary(t, d, ""); s.Unfinished != c.want {
				t.Errorf("%s: %+v", name, s)
			}
			if strings.Contains(log.String(), "level=WARN msg=\"a dataset is unfinished") != c.want {
				t.Errorf("%s: the log says\n%s", name, log.String())
			}
		}
	}
}

// A folder that is packed again while it is shown stays as it was until there is
// a new index.
func TestPackedAgain(t *testing.T) {
	for _, way := range []string{"index removed", "index left"} {
		dir := t.TempDir()
		m := ownFolder(t, dir)
		d, log := logged(t, dir, Options{})
		ctx := context.Background()
		before := samplePaths(t, d, "")
		gone, stays := before[0], before[1]
		s, err := d.Sample(ctx, gone)
		must(t, err)
		if s.Source != "PCR_0.pcr" {
			t.Fatalf("%s is in %s", gone, s.Source)
		}
		time.Sleep(20 * time.Millisecond) // longer than a tick of a coarse clock
		writeFile(t, dir+"/"+PackMarker, "")
		if way == "index removed" {
			must(t, os.Remove(dir+"/"+pcr.IndexNamePB))
		}
		again := &maker{dir: dir, info: m.info}
		again.info.DatasetID = 79
		for i, name := range []string{"PCR_0.pcr", "PCR_5.pcr"} {
			again.add(t, name, named(1, uint64(100+i)))
			if got := samplePaths(t, d, ""); !slices.Equal(got, before) {
				t.Errorf("%s: %d images, want %d", way, len(got), len(before))
			}
			if s := summary(t, d, ""); !s.Unfinished || s.Index == "" {
				t.Errorf("%s: %+v", way, s)
			}
		}
		if _, err := d.ReadEncoded(ctx, s, 0, nil); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: an image of a replaced record: %v", way, err)
		}
		for range 3 {
			if _, err := d.Sample(ctx, gone); !errors.Is(err, ErrChanged) {
				t.Errorf("%s: looking at it: %v", way, err)
			}
			if got := readAt(t, d, stays, 0); len(got) == 0 {
				t.Errorf("%s: an image of a record that is still there is empty", way)
			}
		}
		must(t, os.Remove(dir+"/PCR_1.pcr"))
		must(t, os.Remove(dir+"/PCR_2.pcr"))
		if got := samplePaths(t, d, ""); !slices.Equal(got, before) {
			t.Errorf("%s: %d images, want %d", way, len(got), len(before))
		}
		again.finish(t)
		if got := samplePaths(t, d, ""); len(got) != 2 {
			t.Errorf("%s: the new index shows %q", way, got)
		}
		must(t, os.Remove(dir+"/"+PackMarker))
		if s := summary(t, d, ""); s.Unfinished || s.Images != 2 {
			t.Errorf("%s: %+v", way, s)
		}
		if n := strings.Count(log.String(), "it is shown as it was"); n != 1 {
			t.Errorf("%s: the log says it %d times:\n%s", way, n, log.String())
		}
	}
	// An index that comes back is the same dataset again.
	dir := t.TempDir()
	ownFolder(t, dir)
	d, _ := openPCR(t, dir, Options{})
	before := samplePaths(t, d, "")
	index := dir + "/" + pcr.IndexNamePB
	must(t, os.Rename(index, index+".away"))
	if s := summary(t, d, ""); !s.Unfinished || s.Images != len(before) {
		t.Errorf("%+v", s)
	}
	must(t, os.Rename(index+".away", index))
	if s := summary(t, d, ""); s.Unfinished || s.Images != len(before) {
		t.Errorf("%+v", s)
	}
}

func TestCheck(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(top+"/train", 0o755))
	must(t, os.MkdirAll(top+"/val", 0o755))
	must(t, os.MkdirAll(top+"/other/deep", 0o755))
	train, val := ownFolder(t, top+"/train"), ownFolder(t, top+"/val")
	d, store := openPCR(t, top, Options{})
	check := func(path string, want ...string) {
		t.Helper()
		lines, err := d.Check(context.Background(), path)
		must(t, err)
		if len(lines) != len(want) {
			t.Errorf("%q: %q, want %d lines", path, lines, len(want))
			return
		}
		for i, line := range lines {
			if !strings.Contains(line, want[i]) {
				t.Errorf("%q: %q, want %q", path, line, want[i])
			}
		}
	}
	store.onOpen = func(path string) error {
		if pcr.IsRecordName(path) {
			t.Errorf("%s is opened", path)
		}
		return nil
	}
	check("")
	check("train")
	check("other")
	must(t, os.Remove(top+"/train/PCR_1.pcr"))
	must(t, os.Truncate(top+"/train/PCR_2.pcr", 500))
	b, entry := train.encode(t, "PCR_7.pcr", []pcr.Image{named(1, 99)})
	replace(t, top+"/train/PCR_7.pcr", b)
	writeFile(t, top+"/train/"+PackMarker, "")
	want := []string{"train: unfinished", `1 record that PCR_index.pb names is missing: "PCR_1.pcr"`, `1 record has another size than PCR_index.pb says: "PCR_2.pcr"`, "PCR_7.pcr"}
	check("train", want...)
	check("", want...)
	index := rawEntry("PCR_7.pcr", entry.Lengths...)
	index = append(index, rawEntry("PCR_7.pcr", 5, 5)...)
	index = append(index, rawEntry("PCR_8.pcr", 5, -5)...)
	must(t, os.Remove(top+"/train/"+PackMarker))
	replace(t, top+"/train/"+pcr.IndexNamePB, index)
	check("train", "2 records are not named", "1 entry of PCR_index.pb cannot be right", "1 entry of PCR_index.pb contradicts")
	replace(t, top+"/train/"+pcr.IndexNamePB, []byte("no index"))
	check("train", "cannot be read")
	must(t, os.Remove(val.dir+"/"+pcr.IndexNamePB))
	check("val", "3 records without an index")
	if _, err := d.Check(context.Background(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// What an image was called is found again where it is the only one of its folder.
func TestOriginalNames(t *testing.T) {
	dir := t.TempDir()
	m := &maker{dir: dir}
	put := func(record string, names ...string) {
		var images []pcr.Image
		for i, name := range names {
			img := picture(0, uint64(len(m.entries)*20+i+1))
			img.Class, img.Name = "cat", name
			images = append(images, img)
		}
		m.add(t, record, images...)
	}
	put("PCR_0.pcr", "a.jpg", "a.png", "a.jpg.png", "b.jpg", "twice.jpg", "s/a.jpg", "s/b.png", "s/b.jpg", "~image-1.jpg", "none")
	put("PCR_1.pcr", "twice.jpg", "s/c.jpg", "t/a.jpg")
	m.finish(t)
	tables := t.TempDir()
	for range 2 {
		d, _ := openPCR(t, dir, Options{TableDir: tables})
		ctx := context.Background()
		unique := map[string]string{}
		for _, path := range samplePaths(t, d, "") {
			s, err := d.Sample(ctx, path)
			must(t, err)
			if !s.OriginalUnique {
				continue
			}
			original := filepath.Dir(path) + "/" + s.OriginalName
			unique[original] = path
			if found, err := d.FindOriginal(ctx, filepath.Dir(path), s.OriginalName); err != nil || found != path {
				t.Errorf("%s is found as %q, %v", original, found, err)
			}
		}
		want := []string{"cat/a.jpg", "cat/a.jpg.png", "cat/a.png", "cat/b.jpg", "cat/none", "cat/s/a.jpg", "cat/s/b.jpg", "cat/s/b.png", "cat/s/c.jpg", "cat/t/a.jpg"}
		if got := slices.Sorted(maps.Keys(unique)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := unique["cat/a.jpg"]; got != "cat/a.jpg-PCR_0-00000.pcr" {
			t.Errorf("a.jpg is %s", got)
		}
		for _, none := range [][2]string{
			{"cat", "twice.jpg"}, {"cat", "a"}, {"cat", "b"}, {"cat", "s"}, {"cat", "s/a.jpg"}, {"cat/s", "c.png"}, {"cat", ""}, {"cat", "~image-1.jpg"},
			{"", "a.jpg"}, {"dog", "a.jpg"}, {"cat/none", "a.jpg"}, {"cat/b.pcr", "b.jpg"},
		} {
			if found, err := d.FindOriginal(ctx, none[0], none[1]); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %q, %v", none, found, err)
			}
		}
	}
}

// TestLostRecordWithoutNames: folders are labels; where a record is lost, every
// label has one, so that the place of a folder stays its label.
func TestLostRecordWithoutNames(t *testing.T) {
	dir := t.TempDir()
	m := &maker{dir: dir, info: pcr.RecordInfo{Bare: true}}
	m.add(t, "PCR_0.pcr", picture(0, 1), picture(1, 2))
	m.add(t, "PCR_1.pcr", picture(4, 3))
	m.finish(t)
	d, _ := openPCR(t, dir, Options{})
	if got := slices.Sorted(maps.Keys(listed(t, d, ""))); !slices.Equal(got, []string{"0", "1", "4"}) {
		t.Errorf("whole: %q", got)
	}
	must(t, os.Remove(dir+"/PCR_0.pcr"))
	d, _ = openPCR(t, dir, Options{})
	if got := slices.Sorted(maps.Keys(listed(t, d, ""))); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("with a record lost: %q", got)
	}
	if got := listed(t, d, "4"); len(got) != 1 {
		t.Errorf("in the last folder: %q", got)
	}
}

// TestUnsettledIndex: an SQLite index that has a log or a journal beside it does
// not tell all; the records are asked instead.
func TestUnsettledIndex(t *testing.T) {
	for _, suffix := range []string{"-wal", "-journal"} {
		dir := t.TempDir()
		m := &maker{dir: dir, info: pcr.RecordInfo{Bare: true}}
		m.add(t, "PCR_0.pcr", picture(0, 1))
		m.add(t, "PCR_1.pcr", picture(1, 2))
		index, err := sqlite.Make(`CREATE TABLE "unnamed" (key TEXT PRIMARY KEY, value BLOB)`)
		must(t, err)
		must(t, os.WriteFile(dir+"/"+pcr.IndexNameSQLite, index, 0o600))
		must(t, os.WriteFile(dir+"/"+pcr.IndexNameSQLite+suffix, []byte("not yet in it"), 0o600))
		d, _ := openPCR(t, dir, Options{})
		s := summary(t, d, "")
		if s.Images != 2 || len(s.Bad) != 1 || !strings.Contains(s.Bad[0].Reason, suffix) {
			t.Errorf("%s: %+v", suffix, s)
		}
	}
}

// TestTableMadeMeanwhile: of two processes that look into a folder for the first
// time, the second one uses the table of the first and writes to it.
func TestTableMadeMeanwhile(t *testing.T) {
	dir, tables := t.TempDir(), t.TempDir()
	bareFolder(t, dir, 2, 10, 2)
	path, last := "0/PCR_0-00000.pcr", ""
	first, store := openPCR(t, dir, Options{TableDir: tables})
	second, _ := openPCR(t, dir, Options{TableDir: tables})
	var made atomic.Bool
	store.onOpen = func(name string) error {
		if strings.HasSuffix(name, "PCR_1.pcr") && !made.Swap(true) { // while it reads metadata
			last = samplePaths(t, second, "")[19]
			readAt(t, second, last, 0)
		}
		return nil
	}
	readAt(t, first, path, 0)
	if !made.Load() {
		t.Fatal("the second one never came")
	}
	third, _ := openPCR(t, dir, Options{TableDir: tables})
	readAt(t, third, last, 0)
	if n := third.Stats().StoreBytesIndex; n != 0 {
		t.Errorf("%d bytes were read to find what the others knew", n)
	}
}

// TestCheckFromTable: a folder that has a table is checked without its index.
func TestCheckFromTable(t *testing.T) {
	dir, tables := t.TempDir(), t.TempDir()
	bareFolder(t, dir, 3, 5, 2)
	must(t, os.Remove(dir+"/PCR_1.pcr"))
	d, _ := openPCR(t, dir, Options{TableDir: tables})
	before, err := d.Check(context.Background(), "")
	must(t, err)
	summary(t, d, "") // makes the table
	d, _ = openPCR(t, dir, Options{TableDir: tables})
	after, err := d.Check(context.Background(), "")
	must(t, err)
	if len(before) != 1 || !strings.Contains(before[0], "PCR_1.pcr") || !slices.Equal(before, after) {
		t.Errorf("%q, and from the table %q", before, after)
	}
	if n := d.Stats().StoreBytesIndex; n != 0 {
		t.Errorf("%d bytes were read", n)
	}
}
