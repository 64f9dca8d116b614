package commitlog_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// The store creates the tables of its configuration, and only in a new folder. It refuses to let clients alter those that
// the configuration protects, and no others.
func TestOpen_Schema_IsTheConfigurations(t *testing.T) {
	cfg := commitlog.Config{
		Dir: t.TempDir(), TrimEvery: -1,
		Schema: []string{"CREATE TABLE kept(id INTEGER PRIMARY KEY)", "CREATE TABLE free(id INTEGER PRIMARY KEY)"}, Protected: []string{"kept"},
	}
	s, err := commitlog.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := storetest.Commit(t, s, storetest.Claim(t, s), op(1, "INSERT INTO kept VALUES(7)"), op(2, "DROP TABLE kept"), op(3, "DROP TABLE free"), op(4, ann))
	for i, want := range []string{"ok", "invalid: kept belongs to the application and cannot be altered or dropped", "ok", "invalid: no such table: users"} {
		if got := outcome(c.Results[i]); got != want {
			t.Errorf("operation %d: got %q, want %q", i+1, got, want)
		}
	}
	before, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, cfg) // with the schema of the application
	after, err := s.Hashes(t.Context())
	if err != nil || len(after.Tables) != len(before.Tables) || after.Tables["kept"] != before.Tables["kept"] {
		t.Errorf("got tables %v, %v, want %v", after.Tables, err, before.Tables)
	}
}

// A view can name none of the system's own tables in the file.
func TestStore_Commit_ViewOfASystemTable(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := open(t, cfg)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(cfg.Dir, commitlog.FileName)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var names string
	err = db.QueryRowContext(t.Context(), `SELECT group_concat(name, ' ') FROM sqlite_schema WHERE name LIKE 'rs!_%' ESCAPE '!'`).Scan(&names)
	if err != nil || len(strings.Fields(names)) < 3 {
		t.Fatalf("got %q, %v, want the system's tables", names, err)
	}
	epoch := storetest.Claim(t, s)
	for i, name := range strings.Fields(names) {
		c := storetest.Commit(t, s, epoch, op(i, "CREATE VIEW v AS SELECT * FROM "+name))
		if got, want := outcome(c.Results[0]), "invalid: v refers to "+name+", which belongs to the system"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A statement that changes the schema has no parameters, also where the engine skips the definition with them: the log
// has only its text. The statement is refused, and the replicas follow.
func TestStore_Commit_SchemaWithParameters(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	one := dbaas.Integer(1)
	o := op(1)
	o.Statements = []dbaas.Statement{
		{SQL: "CREATE TABLE IF NOT EXISTS users(a CHECK(a>?))", Args: []dbaas.Value{one}},
		{SQL: "CREATE TABLE IF NOT EXISTS users(a CHECK(a>:n))", Named: []dbaas.NamedValue{{Name: "n", Value: one}}},
		{SQL: "SELECT ?; CREATE TABLE IF NOT EXISTS users(a CHECK(a>?)); SELECT 1", Args: []dbaas.Value{one, one}},
		{SQL: "CREATE TABLE IF NOT EXISTS users(a CHECK(a>?))"},
	}
	c := storetest.Commit(t, s, epoch, o, op(2, ann))
	for i, result := range c.Results[0].Statements {
		const want = "a statement that changes the schema cannot have parameters"
		if result.Code != dbaas.CodeInvalid || result.Message != want {
			t.Errorf("statement %d: got %s %s, want %s", i, result.Code, result.Message, want)
		}
	}
	r.Follow(t, s)
}
