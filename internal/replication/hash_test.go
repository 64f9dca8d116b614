package replication_test

import (
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
