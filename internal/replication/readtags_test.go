package replication_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"

	"pgregory.net/rapid"
)

// tagSchemas are tables t with columns a, b and c, and what else changes or reads them.
var tagSchemas = [][]string{
	{"CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c)"},
	{"CREATE TABLE t(a TEXT NOT NULL PRIMARY KEY, b INTEGER, c)"},
	{"CREATE TABLE t(a REAL PRIMARY KEY, b, c)"},
	{"CREATE TABLE t(a NUMERIC PRIMARY KEY, b, c)"},
	{"CREATE TABLE t(a PRIMARY KEY, b, c)"},
	{"CREATE TABLE t(a BLOB PRIMARY KEY, b, c) WITHOUT ROWID"},
	{"CREATE TABLE t(a INTEGER, b TEXT, c, PRIMARY KEY(a, b))"},
	{"CREATE TABLE t(a INTEGER, b TEXT, c, PRIMARY KEY(b, a)) WITHOUT ROWID"},
	{"CREATE TABLE t(a TEXT COLLATE NOCASE PRIMARY KEY, b, c)"},
	{"CREATE TABLE t(a ANY PRIMARY KEY, b ANY, c ANY) STRICT", "CREATE VIEW w AS SELECT a FROM t LIMIT 1"},
	{"CREATE TABLE t(a, b, c)"},
	{"CREATE TABLE t(a ınt text PRIMARY KEY, b, c)"},
	{
		"CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE, c REFERENCES t(b) ON DELETE CASCADE ON UPDATE CASCADE)",
		"CREATE TRIGGER g AFTER UPDATE OF c ON t BEGIN DELETE FROM t WHERE a=new.a+1; END",
	},
}

var tagReads = []string{
	"SELECT * FROM t WHERE a=?1", `SELECT "t"."b" AS "b", a FROM "t" WHERE "t"."a" = ?1 AND "t"."b" = ?2`, "SELECT c FROM t WHERE b = :b AND a = :a;",
	"SELECT c FROM t WHERE a=? AND b=?", "SELECT a FROM t WHERE a=7 AND b='7'", "SELECT a FROM t WHERE a='7'", "SELECT b FROM T WHERE T.B=?",
	"SELECT * FROM t WHERE c=?", "SELECT count(*), max(b) FROM t", "SELECT * FROM t WHERE a>? ORDER BY c LIMIT 2", "SELECT * FROM v",
	"SELECT x.a FROM t x LEFT JOIN t y ON x.a=y.b", "SELECT (SELECT count(*) FROM t) FROM t WHERE a=7", "SELECT a FROM t WHERE a=7 COLLATE NOCASE",
	"SELECT a FROM t WHERE a=7 OR b='a'", "SELECT 7 IN (SELECT a FROM t)", `SELECT a FROM t WHERE "nope"='nope' AND a=7`, "SELECT c FROM t WHERE +a=?",
	"SELECT c FROM t WHERE a=? AND b=? LIMIT 1", "SELECT b FROM t WHERE a=? LIMIT 3",
}

func tagValue(t *rapid.T) string {
	return rapid.SampledFrom([]string{"1", "7", "'7'", "'07'", "'7.0'", "7.0", "7.5", "'7.5'", "x'37'", "NULL", "'a'", "'A'", "-7", "9007199254740993", "9007199254740992.0", "''"}).Draw(t, "value")
}

func tagChange(t *rapid.T) string {
	v := func() string { return tagValue(t) }
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0:
		return fmt.Sprintf("UPDATE OR REPLACE t SET a=%s, b=%s WHERE a=%s", v(), v(), v())
	case 1:
		return fmt.Sprintf("UPDATE OR REPLACE t SET b=%s, c=%s WHERE b=%s", v(), v(), v())
	case 2:
		return fmt.Sprintf("DELETE FROM t WHERE a=%s OR c=%s", v(), v())
	default:
		return fmt.Sprintf("INSERT OR REPLACE INTO t(a,b,c) VALUES(%s,%s,%s)", v(), v(), v())
	}
}

// answer runs a read and returns its answer and tags.
func answer(c *sqlite.Conn, st dbaas.Statement) (string, readtags.Tags, error) {
	read := &dbaas.Read{Format: dbaas.FormatArrays, Statements: []dbaas.Statement{st}}
	b, err := c.AppendRead(nil, read, replication.ReadGuard)
	if err != nil {
		return "", nil, err
	}
	tags, err := replication.ReadTags(c, read)
	return string(b), tags, err
}

// drawRead draws a read with values for its parameters.
func drawTagged(t *rapid.T, c *sqlite.Conn) dbaas.Statement {
	st := dbaas.Statement{SQL: rapid.SampledFrom(tagReads).Draw(t, "read")}
	draw := func() (v dbaas.Value) {
		if err := c.Query("SELECT "+tagValue(t), func(r sqlite.Row) error { v = r.Value(0); return nil }); err != nil {
			t.Fatal(err)
		}
		return v
	}
	switch n := strings.Count(st.SQL, "?"); {
	case n > 0:
		for range n {
			st.Args = append(st.Args, draw())
		}
	case strings.Contains(st.SQL, ":a"):
		st.Named = []dbaas.NamedValue{{Name: "a", Value: draw()}, {Name: "b", Value: draw()}}
	}
	return st
}

// A change that alters an answer touches one of the tags that the answer had before.
func TestReadTags_ChangeThatAltersAnAnswer_TouchesATag(t *testing.T) {
	narrow, kept := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, rapid.SampledFrom(tagSchemas).Draw(rt, "schema")...)
		sqlitetest.Exec(t, p.src, "CREATE VIEW v AS SELECT b, a FROM t WHERE a>1")
		p.capture = replication.NewCapture(p.src, writes, 1<<30)
		for range 25 {
			st := drawTagged(rt, p.src)
			before, tags, err := answer(p.src, st)
			if err != nil {
				rt.Fatal(err)
			}
			touched, all := p.change(rt, tagChange(rt))
			after, _, err := answer(p.src, st)
			if err != nil {
				rt.Fatal(err)
			}
			hit := all
			for i := range tags.Len() {
				kind, slot := tags.At(i)
				hit = hit || touched[slot]
				if kind != readtags.KindTable {
					narrow++
				}
			}
			if len(tags) > 0 && before != after && !hit {
				rt.Fatalf("%s %v %v: was %s, is %s, and no tag was touched", st.SQL, st.Args, st.Named, before, after)
			}
			if len(tags) > 0 && !hit && len(touched) > 0 {
				kept++
			}
		}
	})
	if narrow == 0 || kept == 0 {
		t.Errorf("got %d narrow tags, and %d answers that outlived a change of their table", narrow, kept)
	}
}

// change runs a change, which may fail, and returns the slots that it touches.
func (p *pair) change(t *rapid.T, sql string) (touched map[readtags.Slot]bool, all bool) {
	if err := errors.Join(p.capture.Begin(), p.capture.Next()); err != nil {
		t.Fatal(err)
	}
	_ = p.src.Exec(sql) // what a failed statement did before stays or is undone, and is recorded either way
	changes, err := p.capture.Take()
	if err = errors.Join(err, p.capture.Err()); err != nil {
		t.Fatal(err)
	}
	p.capture.Committed()
	p.capture.End()
	touched = map[readtags.Slot]bool{}
	return touched, !readtags.OfEntry(&dbaas.Entry{Changes: changes}, func(s readtags.Slot) { touched[s] = true })
}

// A table emptied as a whole touches every read of it, and an entry with too many rows or a schema change touches all.
func TestReadTags_WholeTables_TouchEveryRead(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(a INTEGER PRIMARY KEY)")
	fill := func(n int) string {
		return fmt.Sprintf("WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM s WHERE i<%d) INSERT INTO t SELECT i FROM s", n)
	}
	if e := p.record(fill(2000)); !readtags.OfEntry(&e, func(readtags.Slot) {}) {
		t.Error("2000 rows touch all tags")
	}
	_, tags, err := answer(p.src, dbaas.Statement{SQL: "SELECT a FROM t WHERE a=5000"})
	if err != nil || tags.Len() != 2 {
		t.Fatalf("got %v, %v, want two tags", tags, err)
	}
	if err = errors.Join(p.capture.Begin(), p.capture.Next()); err != nil {
		t.Fatal(err)
	}
	if _, done, emptyErr := p.capture.Empty("t"); emptyErr != nil || !done {
		t.Fatalf("not emptied: %v", emptyErr)
	}
	changes, err := p.capture.Take()
	if err != nil {
		t.Fatal(err)
	}
	p.capture.Committed()
	_, whole := tags.At(1)
	found := false
	if !readtags.OfEntry(&dbaas.Entry{Changes: changes}, func(s readtags.Slot) { found = found || s == whole }) || !found {
		t.Errorf("emptying a table does not touch a read of it")
	}
	for _, e := range []dbaas.Entry{
		p.record(fill(readtags.MaxRows + 1)),
		{ChangesOmitted: true},
		{Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: []byte("T\x01t")}}},
		{Changes: []dbaas.Change{{Kind: dbaas.ChangeSchema, Data: []byte("CREATE TABLE u(x)")}}},
	} {
		if readtags.OfEntry(&e, func(readtags.Slot) {}) {
			t.Errorf("%d changes do not touch all tags", len(e.Changes))
		}
	}
}

// A query whose answer can change without an entry, or that SQL leaves open, has no tags.
func TestReadTags_NotCacheable_NoTags(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, `CREATE TABLE t(a TEXT PRIMARY KEY, b, "order", "limit")`, "CREATE VIEW w AS SELECT a FROM t LIMIT 1")
	run := func(sql string) (readtags.Tags, error) {
		st := dbaas.Statement{SQL: sql}
		if _, name, found := strings.Cut(sql, "=:"); found {
			st.Named = []dbaas.NamedValue{{Name: strings.Fields(name)[0], Value: dbaas.Integer(1)}}
		}
		_, tags, err := answer(c, st)
		return tags, err
	}
	for _, sql := range []string{
		"SELECT 1", "SELECT random() FROM t", "SELECT date('now') FROM t", "SELECT CURRENT_TIMESTAMP FROM t", "SELECT a FROM t LIMIT 1", "SELECT * FROM w", "SELECT rowid FROM t",
		"SELECT group_concat(a) FROM t", "SELECT * FROM sqlite_master", "PRAGMA table_info(t)", "SELECT name FROM pragma_table_info('t')",
		"SELECT value FROM json_each('[1]'), t", "EXPLAIN SELECT a FROM t", "VALUES(1)", "SELECT nope FROM t", "SELECT changes() FROM t",
		`SELECT "order" FROM t LIMIT 1`, "SELECT sum(b) OVER (ORDER BY a) FROM t LIMIT 1", "SELECT sum(b ORDER BY a) FROM t LIMIT 1", "SELECT a FROM t /* ORDER BY a */ LIMIT 1",
		"SELECT * FROM w ORDER BY a", "WITH x AS (SELECT a FROM t ORDER BY a) SELECT a FROM x LIMIT 1", "SELECT a FROM t WHERE b=:order LIMIT 1",
		"SELECT b FROM t WHERE b=1 LIMIT 1", "SELECT b FROM t WHERE a='k' LIMIT 0", "SELECT b FROM t WHERE a='k' LIMIT 1 OFFSET 1",
	} {
		if tags, err := run(sql); err != nil || len(tags) > 0 {
			t.Errorf("%s: got %v, %v", sql, tags, err)
		}
	}
	for _, sql := range []string{
		"SELECT a FROM t ORDER BY a LIMIT 1", "SELECT count(*) FROM t", "WITH x AS (SELECT a FROM t) SELECT upper(a) FROM x",
		`SELECT "limit" FROM t`, "SELECT b, 'LIMIT' FROM t -- LIMIT", "SELECT a FROM t WHERE b=:limit", "SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1)",
	} {
		if tags, err := run(sql); err != nil || tags.Len() != 1 {
			t.Errorf("%s: got %v, %v, want one tag", sql, tags, err)
		}
	}
}

// A LIMIT leaves nothing open where the whole key is bound. Such a read has the tag of its row.
func TestReadTags_LimitOfOneRow_RowTag(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE t(a INTEGER, b TEXT, c, PRIMARY KEY(a, b))", "CREATE TABLE u(c)")
	for sql, kind := range map[string]readtags.Kind{
		"SELECT c FROM t WHERE a=1 AND b='x' LIMIT 1":  readtags.KindRow,
		"SELECT c FROM t WHERE b=?1 AND a=?1 LIMIT 20": readtags.KindRow,
		"SELECT c FROM t WHERE a=1":                    readtags.KindPrefix,
		"SELECT c FROM t WHERE a=1 LIMIT 1":            none,
		"SELECT c FROM t WHERE a=1 AND c=2 LIMIT 1":    none,
		"SELECT c FROM u WHERE c=2 LIMIT 1":            none,
		"SELECT c FROM t WHERE a=1 AND b='x' LIMIT ?1": none,
	} {
		st := dbaas.Statement{SQL: sql}
		for range strings.Count(sql, "?1") {
			st.Args = []dbaas.Value{dbaas.Integer(1)}
		}
		_, tags, err := answer(c, st)
		if err != nil {
			t.Fatal(err)
		}
		got := none
		if len(tags) > 0 {
			got, _ = tags.At(0)
		}
		if got != kind {
			t.Errorf("%s: got %v, want a tag of kind %d", sql, tags, kind)
		}
	}
}

// none stands for no tags.
const none = readtags.Kind(readtags.Kinds)

// Columns whose names are equal for Unicode are two for SQLite: a condition on the one beside the key binds no key.
func TestReadTags_ColumnNamedLikeTheKey_IsAnother(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, `CREATE TABLE t("é" INTEGER PRIMARY KEY, "É", v)`)
	for sql, want := range map[string]int{`SELECT v FROM t WHERE "É"=5`: 1, `SELECT v FROM t WHERE "é"=5`: 2} {
		if _, tags, err := answer(c, dbaas.Statement{SQL: sql}); err != nil || tags.Len() != want {
			t.Errorf("%s: got %d tags, %v, want %d", sql, tags.Len(), err, want)
		}
	}
}

// Tables whose names are equal for Unicode are two for SQLite: only the named one is emptied.
func TestCapture_Empty_TableOfASimilarNameStays(t *testing.T) {
	fill := func(table string) string {
		return "INSERT INTO " + table + " WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM s WHERE i<1100) SELECT i FROM s"
	}
	for range 20 { // the tables are in no order
		p := newPair(t, "CREATE TABLE É(a)", "CREATE TABLE é(a)", fill("É"), fill("é"))
		p.capture = replication.NewCapture(p.src, writes, 1<<30)
		if err := errors.Join(p.capture.Begin(), p.capture.Next()); err != nil {
			t.Fatal(err)
		}
		if _, done, err := p.capture.Empty("é"); err != nil || !done {
			t.Fatalf("not emptied: %v", err)
		}
		for table, want := range map[string]string{"É": "[[1100]]", "é": "[[0]]"} {
			if got, _, err := answer(p.src, dbaas.Statement{SQL: "SELECT count(*) FROM " + table}); err != nil || !strings.Contains(got, want) {
				t.Fatalf("%s: got %s, %v, want %s", table, got, err, want)
			}
		}
	}
}

// A prepared query gets new tags when a schema change alters what it reads, even if its first run after the change fails.
func TestReadTags_SchemaChange_NewTags(t *testing.T) {
	for name, firstFails := range map[string]bool{"FirstRunSucceeds": false, "FirstRunFails": true} {
		t.Run(name, func(t *testing.T) {
			c, _ := sqlitetest.Open(t, sqlite.Options{})
			sqlitetest.Exec(t, c, "CREATE TABLE t(a)", "CREATE TABLE u(a)", "CREATE VIEW v AS SELECT a FROM t")
			query := func(n int64) dbaas.Statement {
				return dbaas.Statement{SQL: "SELECT abs(?1), count(*) AS n FROM v", Args: []dbaas.Value{dbaas.Integer(n)}}
			}
			for range 2 {
				if _, tags, err := answer(c, query(1)); err != nil || tags.Len() != 1 {
					t.Fatalf("got %v, %v", tags, err)
				}
			}
			sqlitetest.Exec(t, c, "DROP VIEW v", "CREATE VIEW v AS SELECT a FROM u")
			if firstFails {
				if b, _, err := answer(c, query(math.MinInt64)); err != nil || !strings.Contains(b, "integer overflow") {
					t.Fatalf("abs of the smallest integer: got %s, %v", b, err)
				}
			}
			_, tags, err := answer(c, query(1))
			found := false
			for i := range tags.Len() {
				_, slot := tags.At(i)
				found = found || slot == readtags.Table("u")
			}
			if err != nil || !found {
				t.Errorf("got %v, %v, want the tag of u", tags, err)
			}
		})
	}
}
