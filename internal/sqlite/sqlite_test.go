package sqlite_test

import (
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// writes is the guard of statements that write.
var writes = replication.WriteGuard(nil)

func statements(list ...string) []dbaas.Statement {
	out := make([]dbaas.Statement, len(list))
	for i, sql := range list {
		out[i].SQL = sql
	}
	return out
}

func read(t *testing.T, c *sqlite.Conn, r dbaas.Read) string {
	t.Helper()
	b, err := c.AppendRead([]byte("x"), &r, replication.ReadGuard)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[1:])
}

func hashes(t *testing.T, c *sqlite.Conn) map[string]string {
	t.Helper()
	h, err := replication.Hashes(c, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
