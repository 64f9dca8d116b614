package replication_test

import (
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// Of the system's own tables an installed snapshot keeps the position alone; the application's tables stay.
func TestDropOwn_KeepsPositionAndApplication(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	if err := replication.CreatePosition(c); err != nil {
		t.Fatal(err)
	}
	sqlitetest.Exec(t, c, "CREATE TABLE rs_sums(name TEXT PRIMARY KEY, rows INTEGER) STRICT, WITHOUT ROWID", "CREATE TABLE rs_cluster(one INTEGER PRIMARY KEY, id TEXT)", "CREATE TABLE t(k)")
	want := dbaas.Head{Seq: 3, Epoch: 2}
	if err := replication.SetPosition(c, want); err != nil {
		t.Fatal(err)
	}
	if err := replication.DropOwn(c); err != nil {
		t.Fatal(err)
	}
	names := ""
	if err := c.Query("SELECT group_concat(name, ' ' ORDER BY name) FROM sqlite_schema", func(r sqlite.Row) error { names = r.Text(0); return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := replication.Position(c); err != nil || got != want || names != "rs_applied t" {
		t.Errorf("got tables %q, position %v, %v", names, got, err)
	}
}
