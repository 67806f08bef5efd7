package pcr

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// sentinels are what errors of this package wrap.
var sentinels = []error{ErrDamaged, ErrTooLarge, ErrUnsupported, ErrExtension, ErrImage}

func checkSentinel(t *testing.T, err error) {
	t.Helper()
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return
		}
	}
	t.Errorf("%v wraps none of the sentinels", err)
}

// Indexes and pickles from anywhere.
func FuzzIndex(f *testing.F) {
	f.Add(slices.Concat(entryOf("PCR_0.pcr", 10, 20, 30), entryOf("PCR_0.pcr", 10, 20, 30), entryOf("../x", 1, 2)))
	for _, p := range pickles(f) {
		if len(p.data) < 1000 {
			f.Add(p.data)
		}
	}
	f.Add(sqliteFile(f, "PRAGMA page_size=512", createTable,
		insert("/PCR_0.pcr", pickleOf(6, 30)), insert("m_PCR_full_index_PCR_0.pcr_0", pickleOf(10, 20)),
		fmt.Sprintf(`INSERT INTO unnamed VALUES ('m_x', x'%s')`, hex.EncodeToString(make([]byte, 1000)))))
	f.Fuzz(func(t *testing.T, data []byte) {
		if ints, err := parsePickleInts(data); err != nil {
			checkSentinel(t, err)
		} else if len(ints) > len(data) {
			t.Errorf("%d integers of %d bytes", len(ints), len(data))
		}
		for _, parse := range []func([]byte) (*Index, error){ParseIndexPB, ParseIndexSQLite} {
			idx, err := parse(data)
			if err != nil {
				checkSentinel(t, err)
				continue
			}
			checkIndex(t, idx)
		}
	})
}

// checkIndex fails unless an index keeps its promises.
func checkIndex(t *testing.T, idx *Index) {
	t.Helper()
	seen := map[string]bool{}
	for i := range idx.Entries {
		e := &idx.Entries[i]
		if err := e.Check(); err != nil || seen[e.Name] {
			t.Errorf("entry %v: %v, or it stands twice", *e, err)
		}
		seen[e.Name] = true
		for g, sizes := range idx.FullSizes[e.Name] {
			var sum int64
			for _, s := range SpansOf(sizes) {
				sum += s.Len
			}
			if sum != e.Lengths[g+1] {
				t.Errorf("%q: group %d of the full index has %d bytes", e.Name, g, sum)
			}
		}
	}
	for _, b := range idx.Bad {
		checkSentinel(t, b.Err)
	}
	if idx.Differing > idx.Repeated {
		t.Errorf("%d of %d repeated entries differ", idx.Differing, idx.Repeated)
	}
}

// Records from anywhere: whole, as metadata, as a group.
func FuzzRecord(f *testing.F) {
	images := sampleImages(f)
	for _, info := range []RecordInfo{{}, {Bare: true}, {DatasetID: 1, SourceHash: 2, Quality: 3}} {
		record, e, err := AppendRecord(nil, []Image{images[1], images[4]}, info)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(record, 2)
		f.Add(record[:e.Lengths[0]], 2)
		f.Add(record[e.GroupOffset(6):e.GroupOffset(7)], 2)
	}
	if b, err := os.ReadFile("testdata/golden/extension-1.pcr"); err == nil {
		f.Add(b, 3)
	}
	f.Add(extended(1, "\x08\x01", "\x12\x01a\x12\x03b/c", "\x22\x06\x01\x01\x01\x02\x02\x03", "\x2a\x0812345678"), 2)
	f.Add(slices.Concat([]byte("\x0a\x02\x05\x06\x10\x01\x50\x01"), group("\xff\xd8a", "b"), []byte("\x10\x05")), 2)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		fuzzMetadata(t, data)
		fuzzGroup(t, data, n)
		fuzzRebuild(t, data)
	})
}

func fuzzMetadata(t *testing.T, data []byte) {
	m, err := ParseMetadata(data)
	if err != nil {
		checkSentinel(t, err)
		return
	}
	if m.Levels < 1 || m.Levels > MaxLevels || len(m.Labels) > len(data) {
		t.Errorf("%d levels, %d labels", m.Levels, len(m.Labels))
	}
	if m.ExtensionErr != nil && (m.Extension != nil || !errors.Is(m.ExtensionErr, ErrExtension)) {
		t.Errorf("an extension, and %v", m.ExtensionErr)
	}
	x := m.Extension
	if x == nil {
		return
	}
	n := len(m.Labels)
	if x.Names != nil && len(x.Names) != n || x.Shapes != nil && len(x.Shapes) != n {
		t.Errorf("%d names and %d shapes for %d images", len(x.Names), len(x.Shapes), n)
	}
	for _, name := range x.Names {
		if err := checkImageName(name); err != nil {
			t.Error(err)
		}
	}
	if x.Lengths != nil && len(x.Spans(m.Levels)) != n {
		t.Errorf("%d spans for %d images", len(x.Spans(m.Levels)), n)
	}
}

func fuzzGroup(t *testing.T, data []byte, n int) {
	walked, read, walkErr := WalkGroup(bytes.NewReader(data), 0, int64(len(data)), n)
	parsed, parseErr := ParseGroup(data, n)
	if walkErr != nil {
		checkSentinel(t, walkErr)
	} else if parseErr != nil || !slices.Equal(walked, parsed) {
		t.Errorf("walked %v, parsed %v, %v", walked, parsed, parseErr)
	}
	if parseErr != nil {
		checkSentinel(t, parseErr)
	}
	if limit := int64(2*n+65) * (entryWindow + longWindow); walkErr == nil && read > limit {
		t.Errorf("%d bytes were read for %d images", read, n)
	}
	var last int64
	for _, s := range parsed {
		if s.Off < last || s.Len < 0 || s.Off+s.Len > int64(len(data)) {
			t.Errorf("%v of %d bytes", s, len(data))
		}
		last = s.Off + s.Len
	}
}

func fuzzRebuild(t *testing.T, data []byte) {
	e, spans, err := RebuildIndexEntry(bytes.NewReader(data), int64(len(data)), "PCR_0.pcr")
	if err != nil {
		checkSentinel(t, err)
		return
	}
	m, err := ParseMetadata(data[:e.Lengths[0]])
	if err != nil || e.Size() != int64(len(data)) || e.Levels() != m.Levels {
		t.Fatalf("%v for %d bytes, %v", e, len(data), err)
	}
	for g, want := range spans {
		got, err := ParseGroup(data[e.GroupOffset(g+1):][:e.Lengths[g+1]], len(m.Labels))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("group %d: walked %v, parsed %v, %v", g+1, want, got, err)
		}
	}
}

// Scans from anywhere.
func FuzzScans(f *testing.F) {
	images := sampleImages(f)
	for _, img := range images {
		if len(img.JPEG) < 4000 {
			f.Add(img.JPEG, 1)
		}
	}
	record, e, _ := rawRecord(f, images[:3])
	f.Add(record[e.GroupOffset(1):e.GroupOffset(2)], 3)
	f.Add(record[e.GroupOffset(2):e.GroupOffset(3)], 3)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		scans, err := SplitScans(data)
		if err != nil {
			checkSentinel(t, err)
		} else if !bytes.HasPrefix(data, append(slices.Concat(scans...), 0xff, markerEOI)) {
			t.Errorf("the scans and EOI are not what the data begins with")
		}
		s := NewSplitter(n % 100)
		for range 3 {
			spans, err := s.Next(data)
			if err != nil {
				checkSentinel(t, err)
				return
			}
			var at int64
			for _, span := range spans {
				if span.Off != at || span.Len < 0 {
					t.Fatalf("%v, want it to begin at %d", span, at)
				}
				at += span.Len
			}
			if at != int64(len(data)) {
				t.Errorf("the images have %d of %d bytes", at, len(data))
			}
		}
	})
}
