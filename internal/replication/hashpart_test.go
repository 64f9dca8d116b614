package replication_test

import (
	"fmt"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// parts hashes all of c in parts.
func parts(t *testing.T, c *sqlite.Conn, limit int) (list []string) {
	t.Helper()
	for from := (dbaas.HashFrom{}); ; {
		hashes, next, err := replication.HashPart(c, from, limit, func() {})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(hashes))
		if next == (dbaas.HashFrom{}) {
			return list
		}
		if len(list) > 1000 {
			t.Fatalf("no end, at %+v", next)
		}
		from = next
	}
}

// However small the parts are, a change of any row is in one of them, and no other part changes.
func TestHashPart_AllRowsInOneEach(t *testing.T) {
	t.Parallel()
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE a(k INTEGER PRIMARY KEY, v)", "CREATE TABLE b(v)", "CREATE TABLE c(k TEXT PRIMARY KEY, v) WITHOUT ROWID", "CREATE TABLE empty(v)",
		"INSERT INTO a VALUES(-9223372036854775808,0),(9223372036854775807,0)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20) INSERT INTO a SELECT i,0 FROM n",
		"INSERT INTO b SELECT v FROM a", "INSERT INTO c SELECT k,0 FROM a")
	for _, limit := range []int{1, 19, 100, 500, 1 << 20} {
		before := parts(t, c, limit)
		for _, change := range []string{
			"UPDATE a SET v=1-v WHERE k=-9223372036854775808", "UPDATE a SET v=1-v WHERE k=9223372036854775807", "UPDATE a SET v=1-v WHERE k=7",
			"UPDATE b SET v=1-v WHERE rowid=1", "UPDATE b SET v=1-v WHERE rowid=22", "UPDATE c SET v=1-v WHERE k='7'",
		} {
			sqlitetest.Exec(t, c, change)
			after := parts(t, c, limit)
			differ := 0
			for i := range min(len(before), len(after)) {
				if before[i] != after[i] {
					differ++
				}
			}
			if differ != 1 || len(before) != len(after) {
				t.Errorf("limit %d, %s: %d of %d parts differ, then %d parts; want one", limit, change, differ, len(before), len(after))
			}
			sqlitetest.Exec(t, c, change)
		}
	}
	if all := parts(t, c, 1<<20); len(all) != 1 {
		t.Errorf("got %d parts of a small file, want one", len(all))
	}
}
