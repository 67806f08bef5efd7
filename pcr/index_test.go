package pcr

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"prismfs/internal/sqlite"
)

// entryOf is an entry of an index in protobuf form.
func entryOf(name string, lengths ...int64) []byte {
	message := appendEntry(nil, &IndexEntry{Name: name, Lengths: lengths})
	out := protowire.AppendTag(nil, fieldEntry, protowire.BytesType)
	return protowire.AppendBytes(out, message)
}

func TestIndexPB(t *testing.T) {
	data := slices.Concat(
		entryOf("PCR_1.pcr", 10, 20, 30),
		entryOf("PCR_1.pcr", 10, 20, 30),
		entryOf("PCR_0.pcr", 10, 0),
		[]byte{0x10, 7, 0x1a, 1, 'x'}, // fields that are not known
		entryOf("PCR_1.pcr", 10, 20, 31),
		// Not packed, the name last, with an unknown field.
		[]byte("\x0a\x0f\x10\x05\x10\x06\x18\x01\x0a\x07\xff b.pcr"),
	)
	idx, err := ParseIndexPB(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []IndexEntry{
		{"PCR_1.pcr", []int64{10, 20, 30}},
		{"PCR_0.pcr", []int64{10, 0}},
		{"\xff b.pcr", []int64{5, 6}},
	}
	if fmt.Sprint(idx.Entries) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", idx.Entries, want)
	}
	if idx.Repeated != 2 || idx.Differing != 1 {
		t.Errorf("%d repeated, %d differing", idx.Repeated, idx.Differing)
	}
	if got := fmt.Sprint(idx.Variants); got != "map[PCR_1.pcr:[{PCR_1.pcr [10 20 31]}]]" {
		t.Errorf("variants %s", got)
	}
	e := &idx.Entries[0]
	if e.Levels() != 2 || e.Size() != 60 || e.GroupOffset(1) != 10 || e.GroupOffset(2) != 30 || e.GroupOffset(3) != 60 {
		t.Errorf("levels %d, size %d, offsets %d %d %d", e.Levels(), e.Size(), e.GroupOffset(1), e.GroupOffset(2), e.GroupOffset(3))
	}
}

// badEntries are entries that must be left out, and the others not.
var badEntries = map[string]IndexEntry{
	"a folder":           {"a/b.pcr", []int64{1, 2}},
	"a way out":          {"../PCR_0.pcr", []int64{1, 2}},
	"the folder above":   {"..", []int64{1, 2}},
	"no name":            {"", []int64{1, 2}},
	"NUL":                {"a\x00.pcr", []int64{1, 2}},
	"another suffix":     {"passwd", []int64{1, 2}},
	"the suffix alone":   {".pcr", []int64{1, 2}},
	"a long name":        {strings.Repeat("x", 252) + ".pcr", []int64{1, 2}},
	"no lengths":         {"a.pcr", nil},
	"one length":         {"a.pcr", []int64{1}},
	"no metadata":        {"a.pcr", []int64{0, 2}},
	"a negative length":  {"a.pcr", []int64{1, -1}},
	"the least length":   {"a.pcr", []int64{1, math.MinInt64}},
	"negative metadata":  {"a.pcr", []int64{-1, 1}},
	"large metadata":     {"a.pcr", []int64{MaxMetadataBytes + 1, 1}},
	"a large record":     {"a.pcr", []int64{1, MaxRecordBytes}},
	"a sum that is over": {"a.pcr", []int64{1, math.MaxInt64, math.MaxInt64}},
	"many groups":        {"a.pcr", make([]int64, MaxLevels+2)},
}

func TestIndexBadEntries(t *testing.T) {
	for name, e := range badEntries {
		good := entryOf("PCR_0.pcr", 1, 2)
		bad := entryOf(e.Name, e.Lengths...)
		idx, err := ParseIndexPB(slices.Concat(bad, good, bad))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(idx.Entries) != 1 || idx.Entries[0].Name != "PCR_0.pcr" || len(idx.Bad) != 1 || idx.Repeated != 0 {
			t.Errorf("%s: entries %v, bad %v, %d repeated", name, idx.Entries, idx.Bad, idx.Repeated)
			continue
		}
		if err := idx.Bad[0].Err; !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if idx, err := ParseIndexPB(slices.Concat([]byte{0x0a, 2, 0x0a, 9}, entryOf("PCR_0.pcr", 1, 2))); err != nil || len(idx.Bad) != 1 || len(idx.Entries) != 1 {
		t.Errorf("an entry that is no message: %+v, %v", idx, err)
	}
}

// All that entries of one record say is kept, whichever of them comes first, and
// one that can be none does not stand for the record.
func TestIndexVariants(t *testing.T) {
	a, b, c := entryOf("PCR_0.pcr", 1, 2), entryOf("PCR_0.pcr", 1, 3), entryOf("PCR_0.pcr", 1, 4)
	bad := entryOf("PCR_0.pcr", 1, -2)
	for _, order := range []struct {
		data                []byte
		first, variants     string
		repeated, differing int
	}{
		{slices.Concat(a, a, a), "[1 2]", "[]", 2, 0},
		{slices.Concat(a, b, a, b, c), "[1 2]", "[{PCR_0.pcr [1 3]} {PCR_0.pcr [1 4]}]", 4, 3},
		{slices.Concat(b, a, a), "[1 3]", "[{PCR_0.pcr [1 2]}]", 2, 2},
		{slices.Concat(bad, a, a), "[1 2]", "[]", 2, 1},
		{slices.Concat(a, bad, a), "[1 2]", "[]", 2, 1},
		{slices.Concat(a, a, bad, bad), "[1 2]", "[]", 2, 1},
	} {
		idx, err := ParseIndexPB(order.data)
		if err != nil || len(idx.Entries) != 1 || len(idx.Bad) != 0 {
			t.Errorf("%x: %+v, %v", order.data, idx, err)
			continue
		}
		if fmt.Sprint(idx.Entries[0].Lengths) != order.first || fmt.Sprint(idx.Variants["PCR_0.pcr"]) != order.variants ||
			idx.Repeated != order.repeated || idx.Differing != order.differing {
			t.Errorf("%+v, want %+v", idx, order)
		}
	}
	var many []byte
	for n := range int64(1000) {
		many = append(many, entryOf("PCR_0.pcr", 1, n)...)
	}
	if idx, err := ParseIndexPB(many); err != nil || len(idx.Variants["PCR_0.pcr"]) != maxVariants || idx.Differing != 999 {
		t.Errorf("a thousand entries: %+v, %v", idx, err)
	}
	// In SQLite form a name can stand twice, with a slash and without.
	idx, err := ParseIndexSQLite(sqliteFile(t, createTable, insert("/PCR_0.pcr", pickleOf(6, 30)), insert("PCR_0.pcr", pickleOf(6, 31))))
	if err != nil || len(idx.Entries) != 1 || len(idx.Variants["PCR_0.pcr"]) != 1 {
		t.Errorf("in SQLite form: %+v, %v", idx, err)
	}
}

func TestIndexRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing": nil,
		"text":    []byte("no index at all"),
		"cut":     entryOf("PCR_0.pcr", 1, 2)[:9],
		"zeros":   make([]byte, 100),
	} {
		if idx, err := ParseIndexPB(data); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s, as protobuf: %v, %v", name, idx, err)
		}
		if idx, err := ParseIndexSQLite(data); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s, as SQLite: %v, %v", name, idx, err)
		}
	}
}

// What AppendIndex writes is what ParseIndexPB reads.
func TestIndexRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[ -.0-~äß]{1,20}`), 1, 5, rapid.ID[string]).Draw(t, "names")
		var entries []IndexEntry
		levels := 0
		for _, name := range names {
			lengths := rapid.SliceOfN(rapid.Int64Range(1, math.MaxInt32/20), 2, 20).Draw(t, "lengths")
			lengths[0] = min(lengths[0], MaxMetadataBytes)
			entries = append(entries, IndexEntry{name + ".pcr", lengths})
			levels += len(lengths) - 1
		}
		data, err := AppendIndex([]byte("before"), entries)
		if err != nil {
			t.Fatal(err)
		}
		idx, err := ParseIndexPB(data[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(idx.Entries) != fmt.Sprint(entries) || idx.Repeated != levels-len(entries) || len(idx.Bad) != 0 || idx.Differing != 0 {
			t.Errorf("%+v, want %v", idx, entries)
		}
	})
}

func TestAppendIndexRefuses(t *testing.T) {
	for name, e := range badEntries {
		if _, err := AppendIndex(nil, []IndexEntry{e}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	large := IndexEntry{"a.pcr", []int64{1, math.MaxInt32}}
	if _, err := AppendIndex(nil, []IndexEntry{large}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a record of 2 GiB: %v", err)
	}
	large.Lengths[1]--
	if _, err := AppendIndex(nil, []IndexEntry{large}); err != nil {
		t.Errorf("a record of one byte less: %v", err)
	}
}

func TestRecordNames(t *testing.T) {
	for name, want := range map[string]bool{
		"PCR_0.pcr": true, "x.pcr": true, ".pcr": false, "PCR_0.PCR": false, "PCR_index.pb": false, "PCR.db": false, "": false,
	} {
		if got := IsRecordName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for name, want := range map[string]int64{
		"PCR_0.pcr": 0, "PCR_12.pcr": 12, "PCR_007.pcr": 7, "PCR_.pcr": -1, "PCR_-1.pcr": -1, "x.pcr": -1, "PCR_1": -1,
		"PCR_99999999999999999999.pcr": -1,
	} {
		got := int64(-1)
		if n, ok := RecordNumber(name); ok {
			got = int64(n)
		}
		if got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

// sqliteFile makes a database by statements.
func sqliteFile(tb testing.TB, statements ...string) []byte {
	tb.Helper()
	b, err := sqlite.Make(statements...)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

const createTable = `CREATE TABLE "unnamed" (key TEXT PRIMARY KEY, value BLOB)`

// insert is the statement that stores a pickle.
func insert(key string, pickle []byte) string {
	return fmt.Sprintf(`INSERT INTO unnamed VALUES ('%s', x'%s')`, key, hex.EncodeToString(pickle))
}

// pickleOf is a pickle of a list of small integers, as Python writes it.
func pickleOf(ints ...byte) []byte {
	b := []byte("\x80\x04]\x94(")
	for _, n := range ints {
		b = append(b, 'K', n)
	}
	return append(b, "e."...)
}

func TestIndexSQLite(t *testing.T) {
	db := sqliteFile(t, createTable,
		insert("m_dataset_size", []byte("\x80\x05K\x10.")),
		insert("m_batch_size", []byte("\x80\x05K\x04.")),
		insert("m_classes", pickleOf(0, 1)),
		insert("/PCR_0.pcr", pickleOf(6, 30, 3)),
		insert("m_PCR_full_index_PCR_0.pcr_0", pickleOf(10, 20)),
		insert("m_PCR_full_index_PCR_0.pcr_1", pickleOf(3, 0)),
		insert("PCR_1.pcr", pickleOf(6, 30)),
		insert("PCR_2.pcr", []byte("\x80\x05cos\nsystem\n\x8c\x04true\x85R.")),
		insert("/../PCR_3.pcr", pickleOf(6, 30)),
		// Full indexes that do not fit: another sum, a group too few, one too
		// many, a record that is not there, no group.
		insert("PCR_4.pcr", pickleOf(6, 30)),
		insert("m_PCR_full_index_PCR_4.pcr_0", pickleOf(10, 21)),
		insert("PCR_5.pcr", pickleOf(6, 30, 30)),
		insert("m_PCR_full_index_PCR_5.pcr_0", pickleOf(10, 20)),
		insert("PCR_6.pcr", pickleOf(6, 30)),
		insert("m_PCR_full_index_PCR_6.pcr_0", pickleOf(10, 20)),
		insert("m_PCR_full_index_PCR_6.pcr_1", pickleOf(10, 20)),
		insert("PCR_7.pcr", pickleOf(6, 30, 30)),
		insert("m_PCR_full_index_PCR_7.pcr_0", pickleOf(10, 20)),
		insert("m_PCR_full_index_PCR_7.pcr_1", pickleOf(10, 10, 10)),
		insert("m_PCR_full_index_PCR_9.pcr_0", pickleOf(10, 20)),
		insert("m_PCR_full_index_PCR_0.pcr_x", pickleOf(10, 20)),
		insert("m_PCR_full_index_", pickleOf(10, 20)),
		insert("m_PCR_full_index_PCR_1.pcr_0", []byte("no pickle")),
	)
	idx, err := ParseIndexSQLite(db)
	if err != nil {
		t.Fatal(err)
	}
	want := "[{PCR_0.pcr [6 30 3]} {PCR_1.pcr [6 30]} {PCR_4.pcr [6 30]} {PCR_5.pcr [6 30 30]} {PCR_6.pcr [6 30]} {PCR_7.pcr [6 30 30]}]"
	if got := fmt.Sprint(idx.Entries); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(idx.FullSizes); got != "map[PCR_0.pcr:[[10 20] [3 0]]]" {
		t.Errorf("full indexes: %s", got)
	}
	if idx.DatasetSize != 16 || idx.BatchSize != 4 {
		t.Errorf("%d images, %d in a record", idx.DatasetSize, idx.BatchSize)
	}
	var bad []string
	for _, b := range idx.Bad {
		bad = append(bad, b.Name)
	}
	slices.Sort(bad)
	wantBad := []string{
		"../PCR_3.pcr", "PCR_2.pcr", "m_PCR_full_index_", "m_PCR_full_index_PCR_0.pcr_x", "m_PCR_full_index_PCR_1.pcr_0",
		"m_PCR_full_index_PCR_4.pcr", "m_PCR_full_index_PCR_5.pcr", "m_PCR_full_index_PCR_6.pcr", "m_PCR_full_index_PCR_7.pcr",
	}
	if !slices.Equal(bad, wantBad) {
		t.Errorf("bad entries %q, want %q", bad, wantBad)
	}
}

// A database that was written with a write-ahead log is read as one without.
func TestIndexSQLiteWAL(t *testing.T) {
	db := sqliteFile(t, createTable, insert("PCR_0.pcr", pickleOf(6, 30)))
	db[18], db[19] = 2, 2 // what the journal mode does to a file
	idx, err := ParseIndexSQLite(db)
	if err != nil || len(idx.Entries) != 1 {
		t.Errorf("%+v, %v", idx, err)
	}
	if db[18] != 2 {
		t.Error("the file was changed")
	}
}

// Nothing that a file brings along is run.
func TestIndexSQLiteRefuses(t *testing.T) {
	for name, statements := range map[string][]string{
		"no table":         {`CREATE TABLE other (key TEXT, value BLOB)`},
		"an empty table":   {createTable},
		"a view":           {`CREATE VIEW unnamed AS WITH RECURSIVE c(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM c) SELECT key, key AS value FROM c`},
		"other columns":    {`CREATE TABLE unnamed (name TEXT, data BLOB)`},
		"a virtual table":  {`CREATE VIRTUAL TABLE unnamed USING fts5(key, value)`},
		"generated values": {`CREATE TABLE unnamed (key TEXT, value BLOB GENERATED ALWAYS AS (zeroblob(100)) VIRTUAL)`, `INSERT INTO unnamed VALUES ('PCR_0.pcr')`},
	} {
		if idx, err := ParseIndexSQLite(sqliteFile(t, statements...)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, idx, err)
		}
	}
}

// Pages that refer to each other do not make a table without end.
func TestIndexSQLitePagesInCircles(t *testing.T) {
	db := sqliteFile(t, "PRAGMA page_size=512", createTable,
		`WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 999)
			INSERT INTO unnamed SELECT 'PCR_' || n || '.pcr', x'`+hex.EncodeToString(pickleOf(6, 30, 40))+`' FROM c`)
	changed := 0
	for page := 512; page < len(db); page += 512 {
		if db[page] != 5 { // an interior page of a table
			continue
		}
		// All of its cells lead to the first one's child.
		cells := int(db[page+3])<<8 | int(db[page+4])
		first := page + int(db[page+12])<<8 + int(db[page+13])
		for i := range cells {
			at := page + int(db[page+12+2*i])<<8 + int(db[page+13+2*i])
			copy(db[at:at+4], db[first:first+4])
		}
		changed += cells
	}
	if changed < 5 {
		t.Fatalf("%d cells were changed", changed)
	}
	// Whether SQLite notices or the rows repeat each other, it ends.
	idx, err := ParseIndexSQLite(db)
	if err == nil && idx.Repeated == 0 {
		t.Errorf("%d entries, none of them repeated", len(idx.Entries))
	}
}
