package pcr

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"prismfs/internal/sqlite"
)

// What keys that are no records begin with.
const (
	metaPrefix      = "m_"
	fullIndexPrefix = "m_PCR_full_index_"
	keyDatasetSize  = "m_dataset_size"
	keyBatchSize    = "m_batch_size"
)

// errSQLiteRows says that more comes out of a table than a file of this size
// holds: pages that are used several times.
var errSQLiteRows = errors.New("the SQLite table holds more than its file")

// minRowBytes is less than what any row takes in a file.
const minRowBytes = 4

// ParseIndexSQLite reads an index in SQLite form; db is the whole file, which
// is not changed. Values are pickles, which are read as data. A leading '/' of
// a record's name, as the TensorFlow converter writes it, is taken off.
func ParseIndexSQLite(db []byte) (*Index, error) {
	b := &sqliteIndex{indexBuilder: newIndexBuilder(), sizes: map[string]map[int][]uint32{}}
	if err := eachRow(db, b.row); err != nil {
		return nil, fmt.Errorf("reading a PCR index in SQLite form: %w", err)
	}
	b.takeFullSizes()
	idx, err := b.index()
	if err != nil {
		return nil, fmt.Errorf("reading a PCR index in SQLite form: %w", err)
	}
	return idx, nil
}

// eachRow calls yield for every row of the table of an index.
func eachRow(file []byte, yield func(key string, value []byte)) error {
	const magic = "SQLite format 3\x00"
	if len(file) < 100 || string(file[:len(magic)]) != magic {
		return fmt.Errorf("%w: no SQLite file", ErrDamaged)
	}
	db, err := sqlite.Open(withoutWAL(file))
	if err != nil {
		return sqliteError("opening the file", err)
	}
	defer db.Close()
	if err := checkTable(db); err != nil {
		return err
	}
	return readRows(db, len(file), yield)
}

// withoutWAL returns the file marked as one without a write-ahead log, which a
// database in memory cannot have. A log that was left over is not looked at.
func withoutWAL(file []byte) []byte {
	const writeVersion, readVersion = 18, 19
	if file[writeVersion] == 1 && file[readVersion] == 1 {
		return file
	}
	out := append([]byte(nil), file...)
	out[writeVersion], out[readVersion] = 1, 1
	return out
}

// checkTable makes sure that the table is a plain one, so that reading it runs
// nothing that the file brings along: no view, no virtual table, no generated
// column.
func checkTable(db *sqlite.DB) error {
	if err := db.Query("PRAGMA cell_size_check=ON", func([][]byte) error { return nil }); err != nil {
		return sqliteError("preparing to read", err)
	}
	plain, err := count(db, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'unnamed'
		AND rootpage > 0 AND upper(sql) LIKE 'CREATE TABLE %'`)
	if err != nil {
		return sqliteError("looking for its table", err)
	}
	if plain != "1" {
		return fmt.Errorf("%w: the SQLite file has no table \"unnamed\"", ErrDamaged)
	}
	columns, err := count(db, `SELECT count(*) FROM pragma_table_xinfo('unnamed')
		WHERE name IN ('key', 'value') AND hidden = 0`)
	if err != nil {
		return sqliteError("looking at its columns", err)
	}
	if columns != "2" {
		return fmt.Errorf("%w: the table \"unnamed\" has no columns \"key\" and \"value\"", ErrDamaged)
	}
	return nil
}

// count returns the number that a query is for.
func count(db *sqlite.DB, query string) (number string, err error) {
	err = db.Query(query, func(columns [][]byte) error {
		number = string(columns[0])
		return nil
	})
	return number, err
}

func sqliteError(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrDamaged, doing, err)
}

// readRows reads the table. A file whose pages refer to each other several
// times could go on for ever.
func readRows(db *sqlite.DB, fileBytes int, yield func(key string, value []byte)) error {
	bytesLeft, rowsLeft := fileBytes, fileBytes/minRowBytes
	err := db.Query(`SELECT key, value FROM unnamed NOT INDEXED`, func(columns [][]byte) error {
		key, value := columns[0], columns[1]
		bytesLeft -= len(key) + len(value)
		rowsLeft--
		if bytesLeft < 0 || rowsLeft < 0 {
			return errSQLiteRows
		}
		yield(string(key), value)
		return nil
	})
	if err != nil {
		return sqliteError("reading its table", err)
	}
	return nil
}

// sqliteIndex collects the rows.
type sqliteIndex struct {
	*indexBuilder
	sizes map[string]map[int][]uint32 // by record and group, from 0
}

// row takes in a key and its value, which is not kept.
func (x *sqliteIndex) row(key string, value []byte) {
	switch {
	case key == keyDatasetSize:
		x.DatasetSize = pickledCount(value)
	case key == keyBatchSize:
		x.BatchSize = pickledCount(value)
	case strings.HasPrefix(key, fullIndexPrefix):
		x.fullIndex(key, value)
	case strings.HasPrefix(key, metaPrefix):
		// Nothing that is of use here.
	default:
		name := strings.TrimPrefix(key, "/")
		lengths, err := parsePickleInts(value)
		if err != nil {
			x.refuse(name, err)
			return
		}
		x.add(IndexEntry{Name: name, Lengths: lengths})
	}
}

// pickledCount returns a number that only informs, 0 if it is none.
func pickledCount(value []byte) int64 {
	n, err := parsePickleInt(value)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// fullIndex takes in the bytes of each image in one group of a record:
// m_PCR_full_index_NAME_S has those of group S+1.
func (x *sqliteIndex) fullIndex(key string, value []byte) {
	rest := strings.TrimPrefix(key, fullIndexPrefix)
	at := strings.LastIndexByte(rest, '_')
	if at < 0 {
		x.refuse(key, fmt.Errorf("%w: a full index without a group", ErrDamaged))
		return
	}
	name := rest[:at]
	group, err := strconv.Atoi(rest[at+1:])
	if err != nil || group < 0 || group >= MaxLevels {
		x.refuse(key, fmt.Errorf("%w: a full index of the group %q", ErrDamaged, rest[at+1:]))
		return
	}
	ints, err := parsePickleInts(value)
	if err != nil {
		x.refuse(key, err)
		return
	}
	sizes := make([]uint32, len(ints))
	for i, n := range ints {
		if n < 0 || n > math.MaxUint32 {
			x.refuse(key, fmt.Errorf("%w: an image of %d bytes", ErrDamaged, n))
			return
		}
		sizes[i] = uint32(n)
	}
	if x.sizes[name] == nil {
		x.sizes[name] = map[int][]uint32{}
	}
	x.sizes[name][group] = sizes
}

// takeFullSizes keeps the full indexes that are whole and agree with the
// lengths of the groups. A record does without one that is not: its groups can
// be split at markers.
func (x *sqliteIndex) takeFullSizes() {
	x.FullSizes = map[string][][]uint32{}
	for i := range x.Entries {
		e := &x.Entries[i]
		groups := x.sizes[e.Name]
		if groups == nil {
			continue
		}
		sizes, err := fullSizes(e, groups)
		if err != nil {
			x.refuse(fullIndexPrefix+e.Name, err)
			continue
		}
		x.FullSizes[e.Name] = sizes
	}
}

// fullSizes puts the groups of a record in order.
func fullSizes(e *IndexEntry, groups map[int][]uint32) ([][]uint32, error) {
	if len(groups) != e.Levels() {
		return nil, fmt.Errorf("%w: a full index of %d groups for a record of %d", ErrDamaged, len(groups), e.Levels())
	}
	out := make([][]uint32, e.Levels())
	for g := range out {
		sizes, ok := groups[g]
		if !ok || len(sizes) != len(groups[0]) {
			return nil, fmt.Errorf("%w: a full index whose groups have not the same images", ErrDamaged)
		}
		var sum int64
		for _, n := range sizes {
			sum += int64(n)
		}
		if sum != e.Lengths[g+1] {
			return nil, fmt.Errorf("%w: a full index of %d bytes for group %d, which has %d", ErrDamaged, sum, g+1, e.Lengths[g+1])
		}
		out[g] = sizes
	}
	return out, nil
}
