package replication_test

import (
	"strings"
	"testing"

	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// A file whose only AUTOINCREMENT is in a comment has no counters, and its text is written without them.
func TestDumpSQL_AutoincrementInAComment(t *testing.T) {
	t.Parallel()
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	const create = "CREATE TABLE t(id INTEGER PRIMARY KEY /* no AUTOINCREMENT */)"
	sqlitetest.Exec(t, c, create, "INSERT INTO t VALUES(7)")
	const want = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n" + create + ";\nINSERT INTO \"t\" VALUES(7);\nCOMMIT;\n"
	for _, only := range [][]string{nil, {"t"}} {
		var got strings.Builder
		if err := replication.DumpSQL(c, &got, only); err != nil || got.String() != want {
			t.Errorf("only %v: got %s, %v, want %s", only, got.String(), err, want)
		}
	}
}
