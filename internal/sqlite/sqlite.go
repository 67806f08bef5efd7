// Package sqlite reads SQLite files that are in memory, by the system's SQLite
// library.
//
// Files may be hostile: nothing that they bring along is run (no views, no
// triggers, no functions that are not safe), what is damaged is an error, and so
// are values of more than 64 MiB, and a file is never written to. The package knows nothing of what tables hold.
package sqlite

/*
#cgo pkg-config: sqlite3
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

// A value that is longer, or a row of such, is an error.
enum { MAX_VALUE = 64 << 20 };

// open_memory opens a database in memory, which is a copy of n bytes of a file or,
// without any, empty.
static int open_memory(sqlite3 **db, const void *file, size_t n)
{
	int rc = sqlite3_open_v2(":memory:", db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK || n == 0)
		return rc;
	sqlite3_db_config(*db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(*db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(*db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_limit(*db, SQLITE_LIMIT_LENGTH, MAX_VALUE);
	unsigned char *copy = sqlite3_malloc64(n);
	if (copy == NULL)
		return SQLITE_NOMEM;
	memcpy(copy, file, n);
	// It frees the copy, also where it fails.
	return sqlite3_deserialize(*db, "main", copy, (sqlite3_int64)n, (sqlite3_int64)n,
				   SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrSQLite is wrapped by what the library says.
var ErrSQLite = errors.New("SQLite")

// DB is an open database. It serves one goroutine at a time and is freed by
// Close.
type DB struct{ c *C.sqlite3 }

// Open opens a file, of which it keeps a copy.
func Open(file []byte) (*DB, error) {
	if len(file) == 0 {
		return nil, fmt.Errorf("%w: no data", ErrSQLite)
	}
	return open(file)
}

func open(file []byte) (*DB, error) {
	db := new(DB)
	rc := C.open_memory(&db.c, unsafe.Pointer(unsafe.SliceData(file)), C.size_t(len(file)))
	if rc != C.SQLITE_OK {
		err := db.failure(rc)
		db.Close()
		return nil, err
	}
	return db, nil
}

// Close frees the database.
func (db *DB) Close() {
	C.sqlite3_close_v2(db.c) // of nil, too
	db.c = nil
}

func (db *DB) failure(rc C.int) error {
	if db.c == nil {
		return fmt.Errorf("%w: %s", ErrSQLite, C.GoString(C.sqlite3_errstr(rc)))
	}
	return fmt.Errorf("%w: %s", ErrSQLite, C.GoString(C.sqlite3_errmsg(db.c)))
}

// Query runs one statement and calls yield for every row, until it returns an
// error, which Query returns. Columns are bytes, numbers in decimal; they are
// valid until yield returns.
func (db *DB) Query(statement string, yield func(columns [][]byte) error) error {
	text := C.CString(statement)
	defer C.free(unsafe.Pointer(text))
	var st *C.sqlite3_stmt
	if rc := C.sqlite3_prepare_v2(db.c, text, -1, &st, nil); rc != C.SQLITE_OK {
		return db.failure(rc)
	}
	defer C.sqlite3_finalize(st)
	columns := make([][]byte, C.sqlite3_column_count(st))
	for {
		switch rc := C.sqlite3_step(st); rc {
		case C.SQLITE_DONE:
			return nil
		case C.SQLITE_ROW:
		default:
			return db.failure(rc)
		}
		for i := range columns {
			// The order matters: the first call may convert the value.
			data := C.sqlite3_column_blob(st, C.int(i))
			columns[i] = unsafe.Slice((*byte)(data), C.sqlite3_column_bytes(st, C.int(i)))
		}
		if err := yield(columns); err != nil {
			return err
		}
	}
}

// Make returns the file that a number of statements make.
func Make(statements ...string) ([]byte, error) {
	db, err := open(nil)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for _, s := range statements {
		if err := db.Query(s, func([][]byte) error { return nil }); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	name := C.CString("main")
	defer C.free(unsafe.Pointer(name))
	var size C.sqlite3_int64
	data := C.sqlite3_serialize(db.c, name, &size, 0)
	if data == nil {
		return nil, fmt.Errorf("%w: there is nothing in the database", ErrSQLite)
	}
	defer C.sqlite3_free(unsafe.Pointer(data))
	return C.GoBytes(unsafe.Pointer(data), C.int(size)), nil
}
