package pcr

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prismfs/internal/testfiles"
)

// fixture is a dataset of the reference converters with what must come out.
type fixture struct {
	dir     string
	Records []struct {
		Name    string
		Version *int
		Levels  int `json:"progressive_levels"`
		Lengths []int64
		Images  []struct {
			Label  int32
			Levels []struct {
				K    int
				Len  int    `json:"jpeg_len"`
				Hash string `json:"jpeg_sha256"`
			}
		}
	}
}

// fixtureNames are the folders of the fixtures that have expected.json.
var fixtureNames = []string{"pb", "edge-pb", "edge-raw", "edge-rawsql", "edge-sqlite"}

func loadFixture(t testing.TB, name string) *fixture {
	t.Helper()
	f := &fixture{dir: testfiles.Shared(t, "fixtures/pcr/"+name)}
	b, err := os.ReadFile(filepath.Join(f.dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) index(t testing.TB) *Index {
	t.Helper()
	parse, name := ParseIndexPB, IndexNamePB
	if _, err := os.Stat(filepath.Join(f.dir, name)); err != nil {
		parse, name = ParseIndexSQLite, IndexNameSQLite
	}
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	idx, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

// spansOfRecord finds all images of a record in memory, as [group][image], in
// the way that its form needs.
func spansOfRecord(t testing.TB, e *IndexEntry, m *Metadata, idx *Index, record []byte) [][]Span {
	t.Helper()
	all := make([][]Span, m.Levels)
	splitter := NewSplitter(len(m.Labels))
	for g := range all {
		off, n := e.GroupOffset(g+1), len(m.Labels)
		group := record[off:][:e.Lengths[g+1]]
		var err error
		if !m.Raw() {
			var read int64
			all[g], read, err = WalkGroup(bytes.NewReader(record), off, int64(len(group)), n)
			if parsed, perr := ParseGroup(group, n); perr != nil || !slices.Equal(parsed, all[g]) {
				t.Errorf("%s: group %d: parsed in memory it differs, %v", e.Name, g+1, perr)
			}
			if limit := int64(entryWindow * n); read > limit {
				t.Errorf("%s: %d bytes were read to walk %d images", e.Name, read, n)
			}
		} else {
			all[g], err = splitter.Next(group)
			if sizes := idx.FullSizes[e.Name]; sizes != nil && err == nil && !slices.Equal(SpansOf(sizes[g]), all[g]) {
				t.Errorf("%s: group %d: split at markers it differs from the full index", e.Name, g+1)
			}
		}
		if err != nil {
			t.Fatalf("%s: group %d: %v", e.Name, g+1, err)
		}
	}
	return all
}

// assemble returns an image at fidelity k.
func assemble(e *IndexEntry, record []byte, spans [][]Span, image, k int) []byte {
	var out []byte
	for g := range min(k, len(spans)) {
		s := spans[g][image]
		out = append(out, record[e.GroupOffset(g+1)+s.Off:][:s.Len]...)
	}
	return AppendEOI(out)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Every image of the reference datasets has the expected bytes at every
// fidelity.
func TestFixtures(t *testing.T) {
	for _, name := range fixtureNames {
		t.Run(name, func(t *testing.T) {
			f := loadFixture(t, name)
			idx := f.index(t)
			if len(idx.Entries) != len(f.Records) || len(idx.Bad) != 0 || idx.Differing != 0 {
				t.Fatalf("%d entries for %d records, bad ones: %v, differing: %d", len(idx.Entries), len(f.Records), idx.Bad, idx.Differing)
			}
			if (name == "edge-rawsql") != (len(idx.FullSizes) == len(f.Records)) {
				t.Errorf("%d full indexes", len(idx.FullSizes))
			}
			for i := range f.Records {
				checkFixtureRecord(t, f, idx, i)
			}
		})
	}
}

func checkFixtureRecord(t *testing.T, f *fixture, idx *Index, i int) {
	want := &f.Records[i]
	at := slices.IndexFunc(idx.Entries, func(e IndexEntry) bool { return e.Name == want.Name })
	if at < 0 {
		t.Fatalf("%s is not in the index", want.Name)
	}
	e := &idx.Entries[at]
	record, err := os.ReadFile(filepath.Join(f.dir, want.Name))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(e.Lengths, want.Lengths) || e.Size() != int64(len(record)) || e.Levels() != want.Levels {
		t.Fatalf("%s: lengths %v, want %v, which are %d bytes", want.Name, e.Lengths, want.Lengths, len(record))
	}
	m, err := ParseMetadata(record[:e.Lengths[0]])
	if err != nil {
		t.Fatal(err)
	}
	version := 0
	if want.Version != nil {
		version = *want.Version
	}
	if m.Version != version || m.Levels != want.Levels || m.Extension != nil || m.ExtensionErr != nil {
		t.Errorf("%s: %+v", want.Name, m)
	}
	if len(m.Labels) != len(want.Images) {
		t.Fatalf("%s: %d labels for %d images", want.Name, len(m.Labels), len(want.Images))
	}
	spans := spansOfRecord(t, e, m, idx, record)
	for i, img := range want.Images {
		if m.Labels[i] != img.Label {
			t.Errorf("%s, image %d: label %d, want %d", want.Name, i, m.Labels[i], img.Label)
		}
		for _, level := range img.Levels {
			if got := assemble(e, record, spans, i, level.K); len(got) != level.Len || hash(got) != level.Hash {
				t.Errorf("%s, image %d at %d: %d bytes, want %d, or other ones", want.Name, i, level.K, len(got), level.Len)
			}
		}
	}
	checkRebuild(t, e, m, record, spans)
}

// checkRebuild compares a record's index entry with what walking it finds.
func checkRebuild(t *testing.T, e *IndexEntry, m *Metadata, record []byte, spans [][]Span) {
	t.Helper()
	got, walked, err := RebuildIndexEntry(bytes.NewReader(record), int64(len(record)), e.Name)
	if m.Raw() {
		if err == nil {
			t.Errorf("%s: a record of version 2 was walked", e.Name)
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	if got.Name != e.Name || !slices.Equal(got.Lengths, e.Lengths) {
		t.Errorf("rebuilt: %v, want %v", got, *e)
	}
	for g := range spans {
		if !slices.Equal(walked[g], spans[g]) {
			t.Errorf("%s: group %d: other spans when it is walked without an index", e.Name, g+1)
		}
	}
}

// What the reference makes of damaged images and of other formats is read as
// far as it is a record.
func TestDamagedFixture(t *testing.T) {
	f := &fixture{dir: testfiles.Shared(t, "fixtures/pcr/bad-pb")}
	idx := f.index(t)
	if len(idx.Entries) != 2 {
		t.Fatalf("%d entries", len(idx.Entries))
	}
	for i := range idx.Entries {
		e := &idx.Entries[i]
		record, err := os.ReadFile(filepath.Join(f.dir, e.Name))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseMetadata(record[:e.Lengths[0]])
		if err != nil {
			t.Fatal(err)
		}
		spans := spansOfRecord(t, e, m, idx, record)
		checkRebuild(t, e, m, record, spans)
	}
}
