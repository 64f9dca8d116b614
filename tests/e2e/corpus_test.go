package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
)

// levels are the levels of the reads in a comparison: at a slave once it has the last write, at a slave, and at the master.
var levels = []string{"none", "weak", "linearizable"}

// same compares reads at all levels with plain SQLite.
func (s *system) same(t *testing.T, p plain, seq string, queries ...sqlgen.Statement) {
	t.Helper()
	want := p.run(queries, false, func(int) error { return nil })
	for _, level := range levels {
		got, _ := s.results(t, "/db/query?level="+level, asBody(queries), "X-Min-Seq", seq)
		if len(got) != len(want) {
			t.Fatalf("level %s: got %d results, want %d", level, len(got), len(want))
		}
		for i := range want {
			if d := differs(&want[i], &got[i], true); d != "" {
				t.Errorf("level %s, %s: %s", level, queries[i].SQL, d)
			}
		}
	}
}

// record is a statement of a corpus file, in the format of SQLite's sqllogictest.
type record struct {
	line  int
	kind  string // "statement ok", "statement error", "query"
	query string
}

// corpus reads a file of records, which empty lines separate; # begins a comment.
func corpus(t *testing.T, file string) []record {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	var r record
	for i, line := range strings.Split(string(text)+"\n\n", "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			if r.kind != "" {
				records = append(records, r)
			}
			r = record{}
		case r.kind == "":
			r = record{line: i + 1, kind: line}
		default:
			r.query = strings.TrimPrefix(r.query+"\n"+line, "\n")
		}
	}
	return records
}

// Each record of the corpus gives what plain SQLite gives, at each level, and the replicas are equal at the end.
func TestCorpus_EachRecord_LikePlainSQLite(t *testing.T) {
	sys, p := start(t, setup{owned: true}), openPlain(t)
	records := corpus(t, filepath.Join("testdata", "corpus.slt"))
	seq := "0"
	for _, r := range records {
		st := sqlgen.Statement{Statement: dbaas.Statement{SQL: r.query}}
		switch r.kind {
		case "query":
			sys.same(t, p, seq, st)
		case "statement ok", "statement error":
			if strings.HasPrefix(r.query, "CREATE") || strings.HasPrefix(r.query, "DROP") || strings.HasPrefix(r.query, "ALTER") {
				st.Kind = sqlgen.Schema
			}
			want := p.run([]sqlgen.Statement{st}, true, func(int) error { return nil })
			got, position := sys.results(t, "/db/execute", asBody([]sqlgen.Statement{st}))
			if position != "" {
				seq = position
			}
			if d := differs(&want[0], &got[0], true); d != "" || (want[0].err == nil) != (r.kind == "statement ok") {
				t.Errorf("line %d, %s: %s; SQLite's error: %v, want %s", r.line, r.query, d, want[0].err, r.kind)
			}
		default:
			t.Fatalf("line %d: unknown kind %q", r.line, r.kind)
		}
	}
	t.Logf("%d records", len(records))
	sys.awaitChecked(t)
}

// corpusSeedEnv repeats a run of generated statements.
const corpusSeedEnv = "RIDESHARE_CORPUS_SEED"

// corpusOperations is how many generated operations a run has.
const corpusOperations = 400

// Generated operations give what plain SQLite gives, reads at each level see its rows, and the replicas are equal at the end.
func TestCorpus_GeneratedStatements_LikePlainSQLite(t *testing.T) {
	sys, p := start(t, setup{owned: true}), openPlain(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(corpusSeedEnv); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", corpusSeedEnv, err)
		}
	}
	t.Logf("%s=%d repeats the run", corpusSeedEnv, seed)
	gen := sqlgen.New(seed, false)
	for n, o := 0, gen.Begin(); n < corpusOperations && !t.Failed(); n, o = n+1, gen.Operation() {
		seq := sys.operation(t, p, &o)
		if n%8 == 0 && seq != "" {
			sys.same(t, p, seq, p.contents()...)
		}
		if t.Failed() {
			t.Logf("it failed at\n%s", o.String())
		}
	}
	sys.awaitChecked(t)
}

// operation sends an operation and compares its answers with those of plain SQLite. It returns its position.
func (s *system) operation(t *testing.T, p plain, o *sqlgen.Operation) string {
	t.Helper()
	path := "/db/execute"
	atomic := o.Atomic && len(o.Statements) > 1
	if atomic {
		path += "?transaction"
	}
	got, seq := s.results(t, path, asBody(o.Statements))
	want := p.run(o.Statements, atomic, func(i int) error {
		if i >= len(got) || got[i].Error == "" || o.Statements[i].Kind != sqlgen.Refused && !p.nullInKey(got[i].Error) {
			return nil
		}
		return fmt.Errorf("refused: %s", got[i].Error)
	})
	if len(want) != len(got) {
		t.Errorf("got %d results, want %d", len(got), len(want))
		return seq
	}
	for i := range want {
		if d := differs(&want[i], &got[i], false); d != "" {
			t.Errorf("%s: %s", o.Statements[i].SQL, d)
		}
	}
	return seq
}

// nullInKey reports whether an error is about NULL in a primary key that SQLite would accept, for historical reasons, and
// this system does not.
func (p plain) nullInKey(message string) bool {
	name, ok := strings.CutPrefix(message, "NOT NULL constraint failed: ")
	table, column, _ := strings.Cut(name, ".")
	if !ok {
		return false
	}
	found := p.one(&sqlgen.Statement{Statement: dbaas.Statement{
		SQL: `SELECT 1 FROM pragma_table_info(?) WHERE name = ? AND pk > 0 AND "notnull" = 0`, Args: []dbaas.Value{dbaas.Text(table), dbaas.Text(column)},
	}})
	return len(found.rows) > 0
}

// contents returns queries for all rows of all tables and for the schema.
func (p plain) contents() []sqlgen.Statement {
	query := func(sql string) sqlgen.Statement { return sqlgen.Statement{Statement: dbaas.Statement{SQL: sql}} }
	const mine = `name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE 'rs!_%' ESCAPE '!'`
	queries := []sqlgen.Statement{
		query("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE " + mine + " ORDER BY 1, 2"),
		query("SELECT name, seq FROM sqlite_sequence ORDER BY 1, 2"),
	}
	names := `SELECT name, (SELECT group_concat('quote("' || name || '")') FROM pragma_table_xinfo(m.name)) FROM sqlite_master AS m WHERE type = 'table' AND ` + mine
	for _, row := range p.one(new(query(names))).rows {
		table, columns := row[0], row[1]
		for _, sql := range []string{
			fmt.Sprintf(`SELECT _rowid_, %v FROM "%v" ORDER BY 1`, columns, table), // fails for WITHOUT ROWID, in both
			fmt.Sprintf(`SELECT %v FROM "%v"`, columns, table),
		} {
			queries = append(queries, query(sql))
		}
	}
	return queries
}
