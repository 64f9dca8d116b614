package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkSnapshot compares the copy of the tables with VACUUM INTO of the same
// file, without a log beside the tables and with one ten times as large, for docs/adr/0002-snapshot-copy.md.
func BenchmarkSnapshot(b *testing.B) {
	for _, entries := range []int{0, 20_000} {
		path := benchFile(b)
		c := benchOwn(b, path, false)
		must(b, c.Exec("CREATE TABLE rs_log(seq INTEGER PRIMARY KEY, changes BLOB NOT NULL)"))
		must(b, c.Exec(fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n LIMIT %d) INSERT INTO rs_log(changes) SELECT randomblob(5000) FROM n LIMIT %d", entries, entries)))
		copies := 0
		to := func() string {
			copies++
			return filepath.Join(b.TempDir(), fmt.Sprintf("copy%d.db", copies))
		}
		b.Run(fmt.Sprintf("Log%d/Tables", entries), func(b *testing.B) {
			for b.Loop() {
				snapshot(b, path, to())
			}
		})
		b.Run(fmt.Sprintf("Log%d/VacuumInto", entries), func(b *testing.B) {
			for b.Loop() {
				must(b, c.Exec("VACUUM INTO '"+to()+"'"))
			}
		})
	}
}
