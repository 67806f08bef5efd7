package sqlite

import (
	"errors"
	"strings"
	"testing"
)

func file(t *testing.T, statements ...string) []byte {
	t.Helper()
	b, err := Make(statements...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// all returns the rows of a query, columns joined by commas.
func all(t *testing.T, db []byte, query string) ([]string, error) {
	t.Helper()
	d, err := Open(db)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var rows []string
	err = d.Query(query, func(columns [][]byte) error {
		var texts []string
		for _, c := range columns {
			texts = append(texts, string(c))
		}
		rows = append(rows, strings.Join(texts, ","))
		return nil
	})
	return rows, err
}

func TestQuery(t *testing.T) {
	db := file(t, "CREATE TABLE x (a TEXT, b BLOB, c)", "INSERT INTO x VALUES ('one', x'00ff', 7)", "INSERT INTO x VALUES ('two', NULL, '')")
	rows, err := all(t, db, "SELECT a, b, c FROM x ORDER BY a")
	if err != nil || len(rows) != 2 || rows[0] != "one,\x00\xff,7" || rows[1] != "two,," {
		t.Errorf("%q, %v", rows, err)
	}
	if _, err := all(t, db, "SELECT nothing FROM x"); !errors.Is(err, ErrSQLite) {
		t.Errorf("a wrong statement: %v", err)
	}
	if _, err := all(t, db, "INSERT INTO x VALUES (1, 2, 3)"); !errors.Is(err, ErrSQLite) {
		t.Errorf("a file was written to: %v", err)
	}
}

func TestYieldEnds(t *testing.T) {
	db, err := Open(file(t, "CREATE TABLE x (a)", "INSERT INTO x VALUES (1), (2), (3)"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	enough := errors.New("enough")
	n := 0
	if err := db.Query("SELECT a FROM x", func([][]byte) error { n++; return enough }); err != enough || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestNothingIsRun: a view that stands for a table is refused.
func TestNothingIsRun(t *testing.T) {
	db := file(t, "CREATE TABLE x (a)", "CREATE VIEW v AS SELECT a FROM x")
	if rows, err := all(t, db, "SELECT a FROM v"); !errors.Is(err, ErrSQLite) {
		t.Errorf("%q, %v", rows, err)
	}
}

func TestDamaged(t *testing.T) {
	db := file(t, "CREATE TABLE x (a)", "INSERT INTO x VALUES (zeroblob(20000))")
	for name, b := range map[string][]byte{"nothing": nil, "text": []byte("this is no database, it is a text"), "cut": db[:len(db)/2], "begin": db[:50]} {
		if _, err := all(t, b, "SELECT a FROM x"); !errors.Is(err, ErrSQLite) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongValues: a value beyond the limit is not taken into memory.
func TestLongValues(t *testing.T) {
	db := file(t, "CREATE TABLE x (a, b)", "INSERT INTO x VALUES ('short', zeroblob(100)), ('long', zeroblob(70000000))")
	if rows, err := all(t, db, "SELECT a, b FROM x"); !errors.Is(err, ErrSQLite) || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
