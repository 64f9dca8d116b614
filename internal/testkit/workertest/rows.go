package workertest

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// Rows returns every row of every application table of a file as text, by table. It reads through database/sql, and so
// shares no code with the product. The test that calls it must import the driver, modernc.org/sqlite.
func Rows(tb testing.TB, path string) (map[string][]string, error) {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // only read.
	names, err := column(tb, db, "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'rs!_%' ESCAPE '!' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'")
	if err != nil {
		return nil, err
	}
	tables := map[string][]string{}
	for _, name := range names {
		cols, err := column(tb, db, fmt.Sprintf("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('%s')", name))
		if err != nil {
			return nil, err
		}
		if tables[name], err = column(tb, db, "SELECT "+strings.Join(cols, " || ',' || ")+" FROM \""+name+"\" ORDER BY 1"); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func column(tb testing.TB, db *sql.DB, query string) ([]string, error) {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err is checked.
	var values []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}
