package sqlite_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	zombiezen "zombiezen.com/go/sqlite"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// zombiezen lacks the methods that the ADR names. If a newer version adds one, this test fails, and the decision must be
// reviewed.
func TestZombiezen_StillLacksMethods(t *testing.T) {
	for typ, missing := range map[reflect.Type][]string{
		reflect.TypeFor[*zombiezen.Stmt]():    {"decl", "origin", "readonly", "explain", "status"},
		reflect.TypeFor[*zombiezen.Conn]():    {"config", "trigger", "status", "progress"},
		reflect.TypeFor[*zombiezen.Session](): {"config", "filter", "size"},
	} {
		for method := range typ.Methods() {
			name := method.Name
			if slices.ContainsFunc(missing, func(part string) bool { return strings.Contains(strings.ToLower(name), part) }) {
				t.Errorf("%v has %s now: read docs/adr/0001-sqlite-binding.md again", typ, name)
			}
		}
	}
}

// Columns keep their names even if two are equal or the schema changed since the statement was prepared; with zombiezen
// they lose them in both cases.
func TestStmt_Run_ColumnNamesThatZombiezenLoses(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	z := openWitness(t, t.TempDir()+"/copy.db", false)
	const same, all = "SELECT 1 AS a, 2 AS a", "SELECT * FROM t"
	for _, tc := range []struct {
		sql         string
		ours, their []string
	}{
		{same, []string{"a", "a"}, []string{"", "a"}},
		{all, []string{"id", "added"}, []string{"id", ""}},
	} {
		if tc.sql == all {
			sqlitetest.Exec(t, c, "CREATE TABLE t(id INTEGER PRIMARY KEY)")
			rowsOf(t, c, all) // prepared now, and kept.
			sqlitetest.Exec(t, c, "ALTER TABLE t ADD COLUMN added")
			witnessed(t, z, "CREATE TABLE t(id INTEGER PRIMARY KEY)")
			z.Prep(all)
			witnessed(t, z, "ALTER TABLE t ADD COLUMN added")
		}
		r, err := run(t, c, dbaas.Statement{SQL: tc.sql})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.ours, r.Columns); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.sql, diff)
		}
		if diff := cmp.Diff(tc.their, witnessNames(t, z, tc.sql)); diff != "" {
			t.Errorf("zombiezen, %s (-want +got):\n%s", tc.sql, diff)
		}
	}
}

func witnessNames(t *testing.T, z *zombiezen.Conn, sql string) []string {
	t.Helper()
	s, err := z.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Reset() }()
	names := make([]string, s.ColumnCount())
	for i := range names {
		names[i] = s.ColumnName(i)
	}
	return names
}
