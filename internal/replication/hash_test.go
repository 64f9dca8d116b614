package replication_test

import (
	"testing"

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
