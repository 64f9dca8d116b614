package sqlbody_test

import (
	"path/filepath"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/orchestrator/sqlbody"
)

// The system's own engine, with its guards on, takes every shape that the
// structured form makes, and renders reads as clients expect them.
func TestParse_OnTheGuardedEngine_Runs(t *testing.T) {
	conn, err := sqlite.Open(filepath.Join(t.TempDir(), "engine.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := conn.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	if err = conn.Exec(`CREATE TABLE apicount(service_name TEXT NOT NULL PRIMARY KEY, count INTEGER NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"query":"insert","table":"apicount","values":{"service_name":"users","count":41}}`,
		`{"query":"insert","table":"apicount","values":{"service_name":"rides","count":1}}`,
		`{"query":"update","table":"apicount","values":{"count":"count + 1"},"condition":{"service_name":"users"}}`,
		`{"query":"update","table":"apicount","values":{"service_name":"count + 1"},"condition":{"service_name":"rides"}}`,
		`{"query":"delete","table":"apicount","condition":{"service_name":"nobody","count":null}}`,
	} {
		st, err := sqlbody.ParseWrite([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		prepared, err := conn.Prepare(st.SQL, replication.WriteGuard(nil))
		if err != nil {
			t.Fatalf("%s: %v", st.SQL, err)
		}
		if _, err = prepared.Run(&st, 1<<20); err != nil {
			t.Fatalf("%s: %v", st.SQL, err)
		}
	}
	for body, want := range map[string]string{
		`{"table":"apicount","columns":["count","service_name"],"where":{"service_name":"users"}}`: `[{"count":42,"service_name":"users"}]`,
		`{"table":"apicount","columns":["count"],"condition":{"service_name":"count + 1"}}`:        `[{"count":1}]`,
		`{"table":"apicount","columns":["count(*)"]}`:                                              `[{"count(*)":2}]`,
		`{"table":"apicount","columns":["count"],"condition":{"service_name":"nobody"}}`:           `[]`,
	} {
		st, err := sqlbody.ParseRead([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := conn.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{st}}, replication.ReadGuard)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", body, got, err, want)
		}
	}
}
