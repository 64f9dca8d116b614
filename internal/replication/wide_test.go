package replication_test

import (
	"fmt"
	"strings"
	"testing"

	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// each returns n terms that are made from the numbers 0 to n-1.
func each(n int, format, separator string) string {
	terms := make([]string, n)
	for i := range terms {
		terms[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(terms, separator)
}

// A row with more columns than an expression may be deep is found on the replica, in a table with row ids and by a key of as many
// columns. The limits of clients' statements do not hold for the replica's own.
func TestApplier_Apply_WideRows(t *testing.T) {
	t.Parallel()
	const width = 1200
	for name, limits := range map[string]sqlite.Limits{"Defaults": {}, "Lowest": {Parameters: 1, Depth: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t,
				"CREATE TABLE wide("+each(width, "c%d", ",")+")", "INSERT INTO wide VALUES("+each(width, "%d", ",")+")",
				"CREATE TABLE keyed("+each(width, "c%d", ",")+", v, PRIMARY KEY("+each(width, "c%d", ",")+")) WITHOUT ROWID",
				"INSERT INTO keyed VALUES("+each(width, "%d", ",")+",1), ("+each(width-1, "%d", ",")+",7,2)",
			)
			p.limit(limits)
			for _, sql := range []string{
				"UPDATE wide SET " + each(width, "c%[1]d=c%[1]d+1", ","),
				"UPDATE keyed SET v=3 WHERE v=1",
				"UPDATE keyed SET " + each(width, "c%[1]d=c%[1]d+1", ",") + " WHERE v=3",
				"DELETE FROM keyed WHERE v=2",
			} {
				if err := p.apply(p.record(sql)); err != nil {
					t.Fatalf("%.30s: %v", sql, err)
				}
			}
			p.same()
		})
	}
}

// limit opens the replica again with limits.
func (p *pair) limit(l sqlite.Limits) {
	p.t.Helper()
	var path string
	if err := p.dst.Query("SELECT file FROM pragma_database_list", func(r sqlite.Row) error { path = r.Text(0); return nil }); err != nil {
		p.t.Fatal(err)
	}
	p.dst = sqlitetest.OpenAt(p.t, path, sqlite.Options{Limits: l})
	p.applier = replication.NewApplier(p.dst)
}
