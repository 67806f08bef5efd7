package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"prismfs/internal/testfiles"
	"prismfs/l3"
	"prismfs/pcr"
)

// readable reads every sample that is listed and returns how many could be read
// at k. The others must give an error of package pcr.
func readable(t testing.TB, d *Dataset, k int) (good, bad int) {
	t.Helper()
	for _, path := range samplePaths(t, d, "") {
		s, err := d.Sample(context.Background(), path)
		if err == nil {
			var b []byte
			b, err = d.ReadEncoded(context.Background(), s, k, nil)
			if size, sizeErr := d.EncodedBytes(context.Background(), s, k); err == nil && (sizeErr != nil || size != int64(len(b))) {
				t.Errorf("%s has %d bytes, said to be %d, %v", path, len(b), size, sizeErr)
			}
		}
		switch {
		case err == nil:
			good++
		case isDamage(err):
			bad++
		default:
			t.Errorf("%s: %v", path, err)
		}
	}
	return good, bad
}

// What is wrong with a record or its index costs the images of that record, at
// the fidelities that need it.
func TestDamagedRecords(t *testing.T) {
	const each = 12
	type state struct{ listed, good1, good4 int }
	whole := state{3 * each, 3 * each, 3 * each}
	middle := func(m *maker) *pcr.IndexEntry { return &m.entries[1] }
	change := func(path string, f func([]byte) []byte) func(t *testing.T, m *maker) {
		return func(t *testing.T, m *maker) {
			b, err := os.ReadFile(m.dir + "/" + path)
			must(t, err)
			replace(t, m.dir+"/"+path, f(b))
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, m *maker)
		want state
		said string // in the log
	}{
		"nothing": {func(*testing.T, *maker) {}, whole, ""},
		"last group cut": {change("PCR_1.pcr", func(b []byte) []byte { return b[:len(b)-10] }),
			state{3 * each, 3 * each, 2 * each}, "has"},
		"first group cut": {func(t *testing.T, m *maker) {
			must(t, os.Truncate(m.dir+"/PCR_1.pcr", middle(m).GroupOffset(1)+40))
		}, state{3 * each, 2 * each, 2 * each}, "has"},
		"metadata cut": {change("PCR_1.pcr", func(b []byte) []byte { return b[:3] }), state{2 * each, 2 * each, 2 * each}, "cannot be used"},
		"empty":        {change("PCR_1.pcr", func(b []byte) []byte { return nil }), state{2 * each, 2 * each, 2 * each}, "cannot be used"},
		"junk behind":  {change("PCR_1.pcr", func(b []byte) []byte { return append(b, "junk"...) }), whole, "has"},
		"no record":    {change("PCR_1.pcr", func(b []byte) []byte { return bytes.Repeat([]byte{0xff}, len(b)) }), state{2 * each, 2 * each, 2 * each}, "cannot be used"},
		"an image's length lies": {func(t *testing.T, m *maker) {
			at := middle(m).GroupOffset(2)
			change("PCR_1.pcr", func(b []byte) []byte { b[at+1] ^= 0x40; return b })(t, m)
		}, state{3 * each, 3 * each, 2 * each}, ""},
		"an image is no JPEG": {func(t *testing.T, m *maker) {
			at := middle(m).GroupOffset(1)
			change("PCR_1.pcr", func(b []byte) []byte { b[at+4] = 0; return b })(t, m)
		}, state{3 * each, 3*each - 1, 3*each - 1}, ""},
		"missing": {func(t *testing.T, m *maker) { must(t, os.Remove(m.dir+"/PCR_1.pcr")) }, state{2 * each, 2 * each, 2 * each}, "missing"},
		"stale": {func(t *testing.T, m *maker) {
			b, err := os.ReadFile(m.dir + "/PCR_0.pcr")
			must(t, err)
			replace(t, m.dir+"/PCR_7.pcr", b)
		}, whole, "does not name"},
		"a record that is a folder": {func(t *testing.T, m *maker) {
			must(t, os.Remove(m.dir+"/PCR_1.pcr"))
			must(t, os.Mkdir(m.dir+"/PCR_1.pcr", 0o755))
		}, state{2 * each, 2 * each, 2 * each}, "missing"},
		"lengths of the index lie": {func(t *testing.T, m *maker) {
			middle(m).Lengths[1] += 7
			middle(m).Lengths[2] -= 7
			m.finish(t)
		}, state{3 * each, 2 * each, 2 * each}, ""},
		"lengths far off": {func(t *testing.T, m *maker) {
			middle(m).Lengths[4] = 1 << 30
			m.finish(t)
		}, state{3 * each, 3 * each, 2 * each}, "has"},
		"too few groups": {func(t *testing.T, m *maker) {
			middle(m).Lengths = middle(m).Lengths[:3]
			m.finish(t)
		}, state{2 * each, 2 * each, 2 * each}, "cannot be used"},
		"names that lead out": {func(t *testing.T, m *maker) {
			writeFile(t, m.dir+"/../PCR_9.pcr", "outside")
			for _, name := range []string{"../PCR_9.pcr", "/etc/passwd", "..", "a/b.pcr", "x\x00.pcr"} {
				e := m.entries[0]
				e.Name = name
				var raw []byte
				raw = protowire.AppendTag(raw, 1, protowire.BytesType)
				raw = protowire.AppendBytes(raw, []byte(name))
				var lengths []byte
				for _, n := range e.Lengths {
					lengths = protowire.AppendVarint(lengths, uint64(n))
				}
				raw = protowire.AppendTag(raw, 2, protowire.BytesType)
				raw = protowire.AppendBytes(raw, lengths)
				change(pcr.IndexNamePB, func(b []byte) []byte {
					return protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), raw)
				})(t, m)
			}
		}, whole, "cannot be used"},
		"an index that is none": {change(pcr.IndexNamePB, func([]byte) []byte { return []byte("\xff\xffno index") }), whole, "walked instead"},
		"no index":              {func(t *testing.T, m *maker) { must(t, os.Remove(m.dir+"/"+pcr.IndexNamePB)) }, whole, ""},
	} {
		for _, tables := range []string{"on disk", "in memory"} {
			t.Run(name+"/"+tables, func(t *testing.T) {
				dir := t.TempDir() + "/data"
				must(t, os.Mkdir(dir, 0o755))
				m := bareFolder(t, dir, 3, each, 2)
				c.do(t, m)
				opt := Options{TableDir: t.TempDir()}
				if tables == "in memory" {
					opt.TableDir = NoTables
				}
				var log bytes.Buffer
				opt.Logger = slog.New(slog.NewTextHandler(&log, nil))
				for round := range 2 { // the second has the tables of the first
					d, _ := openPCR(t, dir, opt)
					good1, bad1 := readable(t, d, 1)
					good4, bad4 := readable(t, d, 0)
					if got := (state{good1 + bad1, good1, good4}); got != c.want || good4+bad4 != got.listed {
						t.Errorf("round %d: %+v, want %+v", round, got, c.want)
					}
					if round == 0 {
						must(t, d.BuildTables(context.Background(), "", nil))
					}
				}
				if !strings.Contains(log.String(), c.said) {
					t.Errorf("the log does not say %q:\n%s", c.said, log.String())
				}
			})
		}
	}
}

// Checksums that records have are held against the bytes.
func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	m := &maker{dir: dir}
	m.fill(t, 2, 10, 1)
	e := m.entries[0]
	b, err := os.ReadFile(dir + "/PCR_0.pcr")
	must(t, err)
	b[e.GroupOffset(3)+20] ^= 1
	replace(t, dir+"/PCR_0.pcr", b)
	d, _ := openPCR(t, dir, Options{})
	for k, want := range map[int]int{1: 20, 2: 20, 3: 19, 4: 19} {
		good, bad := readable(t, d, k)
		if good != want || good+bad != 20 {
			t.Errorf("at %d: %d of %d can be read, want %d", k, good, good+bad, want)
		}
	}
	if s := summary(t, d, ""); s.Checksums != 20 || s.Labels[0].Class != "class0" || s.Labels[0].Images != 20 {
		t.Errorf("%+v", s)
	}
}

// rawRecord makes a record of version 2, whose metadata can be anything.
func rawRecord(labels []int64, version int, groups ...[]byte) ([]byte, []int64) {
	var meta []byte
	for _, l := range labels {
		meta = protowire.AppendVarint(protowire.AppendTag(meta, 1, protowire.VarintType), uint64(l))
	}
	meta = protowire.AppendVarint(protowire.AppendTag(meta, 2, protowire.VarintType), uint64(len(groups)))
	meta = protowire.AppendVarint(protowire.AppendTag(meta, 3, protowire.VarintType), uint64(version))
	lengths := []int64{int64(len(meta))}
	for _, g := range groups {
		meta = append(meta, g...)
		lengths = append(lengths, int64(len(g)))
	}
	return meta, lengths
}

// group makes a group of version 1.
func group(entries ...[]byte) []byte {
	var g []byte
	for _, e := range entries {
		g = protowire.AppendBytes(protowire.AppendTag(g, 1, protowire.BytesType), e)
	}
	return g
}

func TestLabels(t *testing.T) {
	dir := t.TempDir()
	m := &maker{dir: dir}
	jpeg := fakeJPEG(8, 9, 1, 1, 100)
	jpeg = jpeg[:len(jpeg)-2]
	labels := []int64{0, -1, 1<<31 - 1, 7, -1 << 31}
	b, lengths := rawRecord(labels, 1, group(jpeg, jpeg, jpeg, jpeg, jpeg))
	must(t, os.WriteFile(dir+"/PCR_0.pcr", b, 0o644))
	m.entries = append(m.entries, pcr.IndexEntry{Name: "PCR_0.pcr", Lengths: lengths})
	m.finish(t)
	d, _ := openPCR(t, dir, Options{})
	want := []string{"0000000000/PCR_0-00000.pcr", "0000000007/PCR_0-00003.pcr", "2147483647/PCR_0-00002.pcr"}
	if got := samplePaths(t, d, ""); !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	if s := summary(t, d, ""); s.RefusedImages != 2 || s.Images != 3 {
		t.Errorf("%+v", s)
	}
	if got := readAt(t, d, want[1], 0); !bytes.Equal(got, wantJPEG(t, append(jpeg, 0xff, 0xd9), 1)) {
		t.Errorf("%d bytes", len(got))
	}
	for _, hidden := range []string{"0000000000/PCR_0-00001.pcr", "-1/PCR_0-00001.pcr", "00000000-1"} {
		if _, err := d.Sample(context.Background(), hidden); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrNotSample) {
			t.Errorf("%s: %v", hidden, err)
		}
	}
}

// Records of odd forms: images that are far from each other, that end with EOI,
// empty ones, and more groups than bytes.
func TestOddRecords(t *testing.T) {
	dir := t.TempDir()
	m := &maker{dir: dir}
	jpeg := fakeJPEG(8, 9, 3, 1, 100)
	far := protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), make([]byte, 1000))
	first := append(append(group(jpeg), far...), group(jpeg[:len(jpeg)-2])...)
	second := group(nil, []byte{1, 2, 3})
	b, lengths := rawRecord([]int64{3, 3}, 1, first, second)
	must(t, os.WriteFile(dir+"/PCR_0.pcr", b, 0o644))
	m.entries = append(m.entries, pcr.IndexEntry{Name: "PCR_0.pcr", Lengths: lengths})
	m.finish(t)
	for range 2 {
		d, _ := openPCR(t, dir, Options{})
		must(t, d.BuildTables(context.Background(), "", nil))
		if good, bad := readable(t, d, 0); good != 2 || bad != 0 {
			t.Errorf("%d good, %d bad", good, bad)
		}
		// EOI is not doubled at full fidelity, and it is there at every other.
		if got := readAt(t, d, "3/PCR_0-00000.pcr", 0); !bytes.Equal(got, jpeg) {
			t.Errorf("%d bytes of %d", len(got), len(jpeg))
		}
		if got := readAt(t, d, "3/PCR_0-00001.pcr", 1); !bytes.Equal(got, jpeg) {
			t.Errorf("%d bytes of %d", len(got), len(jpeg))
		}
		if got := readAt(t, d, "3/PCR_0-00001.pcr", 0); !bytes.Equal(got, append(bytes.Clone(jpeg[:len(jpeg)-2]), 1, 2, 3, 0xff, 0xd9)) {
			t.Errorf("%d bytes of %d", len(got), len(jpeg))
		}
	}
	// A million images in no bytes.
	var empty [][]byte
	for range 2000 {
		empty = append(empty, nil)
	}
	b, lengths = rawRecord(make([]int64, 50_000), 2, empty...)
	must(t, os.WriteFile(dir+"/PCR_0.pcr", b, 0o644))
	m.entries[0].Lengths = lengths
	m.finish(t)
	d, _ := openPCR(t, dir, Options{})
	if s := summary(t, d, ""); len(s.Bad) != 1 || s.Images != 0 {
		t.Errorf("%d bad, %d images", len(s.Bad), s.Images)
	}
}

func TestImagesTooLarge(t *testing.T) {
	dir := t.TempDir()
	m := bareFolder(t, dir, 1, 3, 1)
	d, _ := openPCR(t, dir, Options{Limits: l3.Limits{MaxPixels: 22*32 - 1}})
	good, bad := readable(t, d, 0)
	if good != 1 || bad != 2 || len(m.entries) != 1 {
		t.Errorf("%d good, %d bad", good, bad)
	}
}

// Changes while the dataset is open.
func TestChangingFolder(t *testing.T) {
	dir := t.TempDir()
	m := bareFolder(t, dir, 2, 10, 1)
	d, _ := openPCR(t, dir, Options{})
	ctx := context.Background()
	old, err := d.Sample(ctx, "0/PCR_1-00003.pcr")
	must(t, err)
	time.Sleep(20 * time.Millisecond) // longer than a tick of a coarse clock
	// A record is replaced: what was known of it is no longer right.
	other := &maker{dir: dir, info: m.info}
	var images []pcr.Image
	for i := range 4 {
		images = append(images, picture(0, uint64(100+i)))
	}
	b, entry := other.encode(t, "PCR_1.pcr", images)
	replace(t, dir+"/PCR_1.pcr", b)
	if _, err := d.ReadEncoded(ctx, old, 0, nil); !errors.Is(err, ErrChanged) {
		t.Errorf("a replaced record: %v", err)
	}
	m.entries[1] = entry
	m.finish(t)
	if got := readAt(t, d, "0/PCR_1-00003.pcr", 0); !bytes.Equal(got, images[3].JPEG) {
		t.Error("the new record has other bytes")
	}
	if _, err := d.Sample(ctx, "0/PCR_1-00004.pcr"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an image that is gone: %v", err)
	}
	m.add(t, "PCR_2.pcr", picture(1, 200), picture(0, 201))
	m.finish(t)
	if got := samplePaths(t, d, ""); len(got) != 16 || !slices.Contains(got, "1/PCR_2-00000.pcr") {
		t.Errorf("a new record: %d images are listed", len(got))
	}
	// A record that is written to in place, with the same length.
	s, err := d.Sample(ctx, "0/PCR_0-00000.pcr")
	must(t, err)
	time.Sleep(20 * time.Millisecond)
	same, err := os.ReadFile(dir + "/PCR_0.pcr")
	must(t, err)
	must(t, os.WriteFile(dir+"/PCR_0.pcr", same, 0o644))
	if _, err := d.ReadEncoded(ctx, s, 0, nil); !errors.Is(err, ErrChanged) {
		t.Errorf("a record that was written to: %v", err)
	}
	if got := readAt(t, d, "0/PCR_0-00000.pcr", 1); len(got) == 0 {
		t.Error("nothing is read of it any more")
	}
	// The folder stops being one of records.
	for _, name := range []string{"PCR_0.pcr", "PCR_1.pcr", "PCR_2.pcr", pcr.IndexNamePB} {
		must(t, os.Remove(dir+"/"+name))
	}
	if got := listed(t, d, ""); len(got) != 0 {
		t.Errorf("an empty folder has %v", got)
	}
	if _, err := d.PCRFolder(ctx, ""); !errors.Is(err, ErrNotPCR) {
		t.Errorf("an empty folder: %v", err)
	}
}

// A record that cannot be read at the moment is not taken for damaged for ever.
func TestUnreadableForNow(t *testing.T) {
	dir := t.TempDir()
	bareFolder(t, dir, 3, 5, 1)
	tables := t.TempDir()
	d, store := openPCR(t, dir, Options{TableDir: tables})
	store.onOpen = func(path string) error {
		if path == "PCR_1.pcr" {
			return os.ErrDeadlineExceeded
		}
		return nil
	}
	if s := summary(t, d, ""); len(s.Bad) != 1 || s.Images != 10 || s.Table != "" {
		t.Errorf("%+v", s)
	}
	next, _ := openPCR(t, dir, Options{TableDir: tables})
	if s := summary(t, next, ""); len(s.Bad) != 0 || s.Images != 15 || s.Table == "" {
		t.Errorf("%+v", s)
	}
	// A group that could not be read is read again.
	path := "0/PCR_2-00001.pcr"
	fault := true
	next, store = openPCR(t, dir, Options{TableDir: t.TempDir()})
	listed(t, next, "")
	store.onRead = func([]byte, int64) (int, error, bool) { return 0, os.ErrDeadlineExceeded, fault }
	if _, err := next.Sample(context.Background(), path); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	fault = false
	if _, err := next.Sample(context.Background(), path); err != nil {
		t.Errorf("after a fault: %v", err)
	}
}

// What converters made of files that are no good JPEGs.
func TestBadReferenceRecords(t *testing.T) {
	dir := testfiles.Shared(t, "fixtures/pcr/bad-pb")
	d, _ := openPCR(t, dir, Options{KeepDuplicates: true})
	good, bad := readable(t, d, 0)
	if good == 0 || good+bad != summary(t, d, "").Images {
		t.Errorf("%d good, %d bad", good, bad)
	}
}

func TestRepeatedBatch(t *testing.T) {
	for name, want := range map[string]int{"pb": 32, "edge-pb": 4, "edge-raw": 4, "edge-rawsql": 4, "edge-sqlite": 0} {
		f := readFixture(t, name)
		all := 0
		for _, r := range f.Records {
			all += len(r.Images)
		}
		tables := t.TempDir()
		for _, keep := range []bool{false, true, false} {
			d, _ := openPCR(t, f.dir, Options{KeepDuplicates: keep, TableDir: tables})
			shown := len(samplePaths(t, d, ""))
			hidden := want
			if keep {
				hidden = 0
			}
			if s := summary(t, d, ""); s.RepeatedImages != want || s.Images != shown || shown != all-hidden {
				t.Errorf("%s, keep=%v: %d shown of %d, %d repeated", name, keep, shown, all, s.RepeatedImages)
			}
		}
	}
	// Records made here: the last one has the batch before it and a rest.
	dir := t.TempDir()
	m := &maker{dir: dir, info: pcr.RecordInfo{Bare: true}}
	batch := []pcr.Image{picture(1, 1), picture(1, 2), picture(1, 3)}
	m.add(t, "PCR_9.pcr", picture(1, 4), picture(1, 5), picture(1, 6))
	m.add(t, "PCR_10.pcr", batch...)
	m.add(t, "PCR_11.pcr", append(slices.Clone(batch), picture(1, 7))...)
	m.finish(t)
	d, _ := openPCR(t, dir, Options{})
	if got := samplePaths(t, d, ""); len(got) != 7 || slices.Contains(got, "1/PCR_11-00002.pcr") || !slices.Contains(got, "1/PCR_11-00003.pcr") {
		t.Errorf("%q", got)
	}
	if _, err := d.Sample(context.Background(), "1/PCR_11-00000.pcr"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a repeated image: %v", err)
	}
	// Others of the same lengths are not the same.
	other := slices.Clone(batch)
	for i := range other {
		other[i].JPEG = bytes.Clone(other[i].JPEG)
		j := other[i].JPEG
		j[len(j)-20] ^= 1
	}
	m.add(t, "PCR_11.pcr", other...)
	m.entries = slices.Delete(m.entries, 2, 3)
	m.finish(t)
	if got := samplePaths(t, d, ""); len(got) != 9 {
		t.Errorf("%q", got)
	}
}

// No bytes of a JPEG header make the reader fail but with an error, or give a
// shape that is none.
func FuzzJPEGShape(f *testing.F) {
	f.Add(fakeJPEG(300, 200, 3, 1, 5))
	f.Add(fakeJPEG(1, 1, 1, 2, 5))
	long := fakeJPEG(7, 8, 4, 3, 5)
	long = slices.Insert(long, 2, append([]byte{0xff, 0xff, 0xff, 0xe1, 0x10, 0}, make([]byte, 0x10fe-0)...)...)
	f.Add(long)
	f.Fuzz(func(t *testing.T, b []byte) {
		width, height, components, err := jpegShape(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !errors.Is(err, pcr.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		frame := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{8}, uint16(height)), uint16(width))
		if width == 0 || height == 0 || components == 0 || !bytes.Contains(b, append(frame, byte(components))) {
			t.Fatalf("%d×%d×%d is not in the header", height, width, components)
		}
	})
}

// Whatever is in records and index, each image that is listed can be read or is
// refused as damaged, and only as many bytes come as were said. What is wrong in
// an index alone damages no image that has checksums, and takes none from it.
func FuzzPCRFolder(f *testing.F) {
	dir := f.TempDir()
	for _, bare := range []string{"bare", "named"} {
		must(f, os.Mkdir(dir+"/"+bare, 0o755))
		m := &maker{dir: dir + "/" + bare, info: pcr.RecordInfo{Bare: bare == "bare"}}
		m.fill(f, 2, 3, 2)
	}
	files := map[string][]byte{}
	for _, name := range []string{"bare/PCR_0.pcr", "named/PCR_0.pcr", "bare/PCR_index.pb", "named/PCR_index.pb"} {
		b, err := os.ReadFile(dir + "/" + name)
		must(f, err)
		files[name] = b
	}
	names := slices.Sorted(maps.Keys(files))
	for which := range names {
		f.Add(byte(which), uint16(1), []byte{1}, uint16(0))
		f.Add(byte(which), uint16(9), []byte{0x80, 0x7f, 0xff}, uint16(0))
		f.Add(byte(which), uint16(0), []byte{}, uint16(5))
	}
	stores := map[string]Store{"bare": openLocal(f, dir+"/bare"), "named": openLocal(f, dir+"/named")}
	f.Fuzz(func(t *testing.T, which byte, at uint16, flips []byte, cut uint16) {
		name := names[int(which)%len(names)]
		b := bytes.Clone(files[name][:max(0, len(files[name])-int(cut))])
		for i, flip := range flips {
			if n := int(at) + i; n < len(b) {
				b[n] ^= flip
			}
		}
		replace(t, dir+"/"+name, b)
		defer replace(t, dir+"/"+name, files[name])
		kind, _, _ := strings.Cut(name, "/")
		d := Open(stores[kind], Options{TableDir: NoTables})
		for k := range 3 {
			good, bad := readable(t, d, 2*k)
			s := summary(t, d, "")
			if good+bad != s.Images {
				t.Fatalf("%d good, %d bad, of %d", good, bad, s.Images)
			}
			if name == "named/"+pcr.IndexNamePB && (bad > 0 || s.Checksums != s.Images) {
				t.Fatalf("%d bad by the index, %d checksums for %d images", bad, s.Checksums, s.Images)
			}
		}
	})
}
