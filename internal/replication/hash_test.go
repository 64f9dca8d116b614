package replication_test

import (
	"fmt"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// Long hashing can rest: it says so after every 64 KiB, through a table and from one to the next.
func TestHashes_HasPlacesToRest(t *testing.T) {
	t.Parallel()
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE small(v)", "INSERT INTO small VALUES(zeroblob(1000))",
		"CREATE TABLE large(v)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1000) INSERT INTO large SELECT zeroblob(1000) FROM n")
	rests := 0
	if _, err := replication.Hashes(c, func() { rests++ }); err != nil {
		t.Fatal(err)
	}
	if rests != 15 { // 1,004 bytes a row: after every 66th
		t.Errorf("got %d places in 1 MB, want 15", rests)
	}
}

// A VIRTUAL column is never computed: what the expression needs, or that it fails, must not end persdb or a worker.
func TestHashes_VirtualColumnsAreNotComputed(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"v(a, b)", "v(a PRIMARY KEY, b) WITHOUT ROWID"} {
		p := newPair(t, "CREATE TABLE "+table)
		if err := replication.NewCapture(p.src, writes, 1<<30).KeepSums(); err != nil {
			t.Fatal(err)
		}
		var hashes []string
		for _, row := range []string{"-9223372036854775808, 'x'", "-9223372036854775808, 'y'", "-9223372036854775807, 'y'"} { // abs of the first is an error
			sqlitetest.Exec(t, p.src, "DROP TABLE v", "CREATE TABLE "+table, "INSERT INTO v VALUES("+row+")", "ALTER TABLE v ADD COLUMN g AS (abs(a))", "DELETE FROM rs_sums")
			whole, err := replication.Hashes(p.src, func() {})
			if err != nil {
				t.Fatalf("%s: %v", table, err)
			}
			part, _, err := replication.HashPart(p.src, dbaas.HashFrom{}, 1<<20, func() {})
			if err != nil || part["v"] != whole["v"] {
				t.Errorf("%s: got %v, %v, want the hash of the whole", table, part, err)
			}
			if err = replication.NewCapture(p.src, writes, 1<<30).KeepSums(); err != nil {
				t.Errorf("%s: sums: %v", table, err)
			}
			hashes = append(hashes, whole["v"])
		}
		if hashes[0] == hashes[1] || hashes[1] == hashes[2] {
			t.Errorf("%s: different rows have the hashes %v", table, hashes)
		}
	}
}

// The schema is read without preparing its views. A few views of views can take the engine a second each to prepare, and
// nothing limits what the system itself runs.
func TestHashes_ViewsAreNotPrepared(t *testing.T) {
	t.Parallel()
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE v0(x)")
	for n := 1; n <= 5; n++ {
		sqlitetest.Exec(t, c, fmt.Sprintf("CREATE VIEW v%d AS SELECT 1 AS x FROM v%d%s", n, n-1, strings.Repeat(fmt.Sprintf(" JOIN v%d", n-1), 7)))
	}
	for n := range 1000 { // to prepare all of them takes minutes
		sqlitetest.Exec(t, c, fmt.Sprintf("CREATE VIEW w%d AS SELECT 1 AS x FROM v5 JOIN v5", n))
	}
	hashes, err := replication.Hashes(c, func() {})
	if _, there := hashes["v0"]; err != nil || !there || len(hashes) != 2 {
		t.Errorf("got %v, %v, want the hashes of the schema and of table v0", hashes, err)
	}
}
