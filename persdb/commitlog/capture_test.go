package commitlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// A statement with a repeated text has its present meaning, whatever it was compiled to before, also on replicas.
func TestStore_Commit_SameTextAfterSchemaChange(t *testing.T) {
	for name, list := range map[string][]string{
		"DropTable":          {"DROP TABLE IF EXISTS x", "CREATE TABLE x(id INTEGER PRIMARY KEY, v)", "DROP TABLE IF EXISTS x", "CREATE TABLE x(id INTEGER PRIMARY KEY, other)"},
		"DropIndex":          {"CREATE TABLE x(v)", "DROP INDEX IF EXISTS i", "CREATE INDEX i ON x(v)", "DROP INDEX IF EXISTS i"},
		"DropView":           {"DROP VIEW IF EXISTS w", "CREATE VIEW w AS SELECT 1", "DROP VIEW IF EXISTS w"},
		"DropTrigger":        {"CREATE TABLE x(v)", "DROP TRIGGER IF EXISTS g", "CREATE TRIGGER g AFTER INSERT ON x BEGIN SELECT 1; END", "DROP TRIGGER IF EXISTS g"},
		"CreateUniqueIndex":  {"CREATE TABLE x(v)", "CREATE UNIQUE INDEX i ON x(v)", "CREATE UNIQUE INDEX IF NOT EXISTS i ON x(v)", "DROP INDEX i", "CREATE UNIQUE INDEX IF NOT EXISTS i ON x(v)"},
		"CreateTrigger":      {"CREATE TABLE x(v)", "CREATE TRIGGER g AFTER INSERT ON x BEGIN DELETE FROM x; END", "CREATE TRIGGER IF NOT EXISTS g AFTER INSERT ON x BEGIN DELETE FROM x; END", "DROP TRIGGER g", "CREATE TRIGGER IF NOT EXISTS g AFTER INSERT ON x BEGIN DELETE FROM x; END", "INSERT INTO x VALUES(1)"},
		"RowsOfAnotherTable": {"CREATE TABLE x(a)", "INSERT INTO x VALUES(1)", "DROP TABLE x", "CREATE TABLE x(a, b DEFAULT 7)", "INSERT INTO x(a) VALUES(1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
			for n, sql := range list {
				c := storetest.Commit(t, s, epoch, op(n, sql))
				if got := outcome(c.Results[0]); got != "ok" {
					t.Fatalf("%s: %s", sql, got)
				}
			}
			r.Follow(t, s)
		})
	}
}

// Creating, filling and dropping a table in one operation does not affect the other operations.
func TestStore_Commit_DropWithRowsInOneBatch(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	c := storetest.Commit(t, s, epoch,
		op(1, "DROP TABLE IF EXISTS x", "CREATE TABLE x(id INTEGER PRIMARY KEY, v)", "INSERT INTO x VALUES(1,'a')", "DROP TABLE IF EXISTS x"), op(2, ann))
	for i, want := range []string{"ok; ok; ok; ok", "ok"} {
		if got := outcome(c.Results[i]); got != want {
			t.Errorf("operation %d: got %s, want %s", i+1, got, want)
		}
	}
	r.Follow(t, s)
}

// Replicas have the rows, the row ids and the counters of persdb, whatever keys, clauses and collations a table has, and
// the sums of the rows fit.
func TestStore_Commit_AnyTable(t *testing.T) {
	for name, batches := range map[string][][]string{
		"IgnoreClause":    {{"CREATE TABLE x(id INTEGER PRIMARY KEY, u TEXT UNIQUE ON CONFLICT IGNORE)", "INSERT INTO x VALUES(1,'a')"}, {"DELETE FROM x WHERE id=1", "INSERT INTO x VALUES(7,'a')"}},
		"ReplaceClause":   {{"CREATE TABLE x(id INTEGER PRIMARY KEY, u TEXT UNIQUE ON CONFLICT REPLACE)", "INSERT INTO x VALUES(1,'a'),(2,'b')"}, {"UPDATE x SET u='b' WHERE id=1", "INSERT INTO x VALUES(3,'b')"}},
		"NoCaseKey":       {{"CREATE TABLE x(k TEXT NOT NULL COLLATE NOCASE PRIMARY KEY, v)", "INSERT INTO x VALUES('ann',1)"}, {"UPDATE x SET k='Ann'"}, {"INSERT OR REPLACE INTO x VALUES('ANN',2)"}, {"DELETE FROM x", "INSERT INTO x VALUES('aNN',3)"}},
		"NoCaseKeyOnly":   {{"CREATE TABLE x(k TEXT COLLATE NOCASE PRIMARY KEY, v) WITHOUT ROWID", "INSERT INTO x VALUES('ann',1)"}, {"UPDATE x SET k='Ann'"}, {"INSERT OR REPLACE INTO x VALUES('ANN',2)"}},
		"CollationOfKey":  {{"CREATE TABLE x(k TEXT COLLATE NOCASE, v, PRIMARY KEY(k COLLATE BINARY)) WITHOUT ROWID", "INSERT INTO x VALUES('A',1),('a',1)"}, {"DELETE FROM x WHERE k='a' COLLATE BINARY"}, {"INSERT INTO x VALUES('a',1)"}, {"UPDATE x SET v=2 WHERE k='A' COLLATE BINARY"}},
		"TwoCollations":   {{"CREATE TABLE x(k TEXT, v, PRIMARY KEY(k COLLATE NOCASE, k)) WITHOUT ROWID", "INSERT INTO x VALUES('A',1),('a',1)"}, {"DELETE FROM x WHERE k='a'"}, {"INSERT INTO x VALUES('a',1)"}, {"UPDATE x SET v=2 WHERE k='A'"}},
		"NumbersAsKeys":   {{"CREATE TABLE x(k NOT NULL PRIMARY KEY, v)", "INSERT INTO x VALUES(1,1)"}, {"UPDATE x SET k=1.0"}, {"UPDATE x SET v=0.0"}, {"UPDATE x SET v=-0.0"}},
		"NoKey":           {{"CREATE TABLE x(v)", "INSERT INTO x VALUES(1),(1),(NULL)"}, {"DELETE FROM x WHERE rowid=1", "UPDATE x SET v=2 WHERE rowid=2", "UPDATE x SET rowid=70 WHERE rowid=3"}, {"INSERT INTO x VALUES(9)"}},
		"NullKeyFilled":   {{"CREATE TABLE x(k TEXT PRIMARY KEY, v)", "CREATE TRIGGER g AFTER INSERT ON x WHEN NEW.k IS NULL BEGIN UPDATE x SET k='key'||NEW.v WHERE rowid=NEW.rowid; END", "INSERT INTO x VALUES(NULL,1),(NULL,2)"}, {"DELETE FROM x WHERE k='key2'"}},
		"SeveralInOne":    {{"CREATE TABLE x(v); INSERT INTO x VALUES(1); /* and */ CREATE INDEX i ON x(v);", "INSERT INTO x VALUES(2); ALTER TABLE x ADD COLUMN w; UPDATE x SET w=v; -- done"}, {"DROP INDEX i; DELETE FROM x; INSERT INTO x VALUES(9,9); SELECT * FROM x"}},
		"HiddenRowid":     {{"CREATE TABLE x(rowid TEXT, oid TEXT)", "INSERT INTO x VALUES('a','b'),('c','d')"}, {"UPDATE x SET oid='e' WHERE _rowid_=2"}},
		"Counters":        {{"CREATE TABLE x(id INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO x VALUES(100)", "DELETE FROM x"}, {"UPDATE sqlite_sequence SET seq=500 WHERE name='x'"}, {"INSERT INTO x DEFAULT VALUES"}, {"DELETE FROM sqlite_sequence"}, {"DROP TABLE x"}},
		"Swap":            {{"CREATE TABLE x(id INTEGER PRIMARY KEY, u UNIQUE)", "INSERT INTO x VALUES(1,1),(2,2),(3,3)"}, {"UPDATE x SET u=-u", "UPDATE x SET u=4+u", "UPDATE x SET id=id+1 WHERE id>=3"}},
		"ImplicitRowid":   {{"INSERT INTO users VALUES('dan','x'),('ann','x'),('cid','x'),('bob','x')"}, {"UPDATE users SET rowid=rowid+10"}},
		"RandomCheck":     {{"CREATE TABLE x(v CHECK(v>=0 OR random() IS NULL))", "INSERT INTO x VALUES(1)"}},
		"ConnectionCheck": {{"CREATE TABLE y(v)", "CREATE TABLE x(v CHECK(last_insert_rowid()=0))"}, {"INSERT INTO y VALUES(1)"}, {"INSERT INTO x VALUES(1)"}},
		"AddedReal":       {{"CREATE TABLE x(a INTEGER PRIMARY KEY)", "INSERT INTO x VALUES(1),(2),(3)", "ALTER TABLE x ADD COLUMN f DOUBLE DEFAULT 1"}, {"UPDATE x SET f=5.5 WHERE a=1", "DELETE FROM x WHERE a=2", "UPDATE x SET a=7 WHERE a=3"}},
		"LongValues":      {{"CREATE TABLE x(id INTEGER PRIMARY KEY, a, b)", "INSERT INTO x VALUES(1,hex(zeroblob(5000)),1)"}, {"UPDATE x SET b=2"}, {"UPDATE x SET a=a||'y', b=3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
			for n, list := range batches {
				var ops []dbaas.Operation
				for k, sql := range list {
					ops = append(ops, op(100*n+k, sql))
				}
				for i, result := range storetest.Commit(t, s, epoch, ops...).Results {
					if got := outcome(result); got != "ok" {
						t.Fatalf("%s: %s", list[i], got)
					}
				}
			}
			r.Follow(t, s)
			storetest.NewReplica(t, s).Follow(t, s)
			if h, err := s.Hashes(t.Context()); err != nil || len(h.Damaged) > 0 {
				t.Errorf("got damaged tables %v, %v, want none", h.Damaged, err)
			}
		})
	}
}

// A statement that fails after it has changed rows keeps none of the changes.
func TestStore_Commit_FailedStatementLeavesNothing(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	c := storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(id INTEGER PRIMARY KEY)", "INSERT INTO x VALUES(2)"), op(2, "INSERT OR FAIL INTO x VALUES(1),(2)"), op(3, "INSERT INTO x VALUES(5),(2)"), op(4, "INSERT INTO x VALUES(4)"))
	unique := "constraint: UNIQUE constraint failed: x.id"
	for i, want := range []string{"ok; ok", unique, unique, "ok"} {
		if got := outcome(c.Results[i]); got != want {
			t.Errorf("operation %d: got %s, want %s", i+1, got, want)
		}
	}
	r.Follow(t, s)
	if n := count(t, r, "x"); n != 2 {
		t.Errorf("got %d rows, want 2", n)
	}
}

// A text whose last statement fails, or whose row has no key or holds an infinity, leaves nothing, in an operation of any
// kind. The statements beside it stay.
func TestStore_Commit_FailedTextLeavesNothing(t *testing.T) {
	const null, infinite = "constraint: NOT NULL constraint failed: x.k", "invalid: column k holds an infinity, which JSON cannot carry"
	for sql, want := range map[string]string{
		"INSERT INTO x VALUES(1,1); INSERT INTO x VALUES(1,2)":                        "constraint: UNIQUE constraint failed: x.k",
		"INSERT INTO x VALUES(1,1); CREATE TABLE y(v); INSERT INTO nope(v) VALUES(1)": "invalid: no such table: nope",
		"DROP TABLE x; CREATE TABLE x(v); COMMIT":                                     "invalid: BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction",
		"INSERT INTO x VALUES(1,1); INSERT OR ROLLBACK INTO x VALUES(1,2)":            "constraint: UNIQUE constraint failed: x.k",
		"INSERT INTO x VALUES(1,1); INSERT INTO x VALUES(?,?)":                        "invalid: no value for parameter 1",
		"INSERT INTO x VALUES(1,1),(NULL,2)":                                          null,
		"INSERT OR REPLACE INTO x(v) VALUES(1)":                                       null,
		"UPDATE x SET k=NULL":                                                         null,
		"INSERT INTO x VALUES(9e999,1) RETURNING k":                                   infinite,
		"INSERT INTO x VALUES(1,1); SELECT -9e999 AS k":                               infinite,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			for _, atomic := range []bool{false, true} {
				s := open(t, commitlog.Config{})
				epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
				storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(k PRIMARY KEY, v)", "INSERT INTO x VALUES(7,7)"))
				failing := op(3, sql, sql, ann)
				failing.Atomic = atomic
				c := storetest.Commit(t, s, epoch, op(2, "INSERT INTO x VALUES(8,8)"), failing, op(4, bob))
				wants := []string{"ok", want + "; " + want + "; ok", "ok"}
				if atomic {
					wants[1] = want
				}
				for i := range wants {
					if got := outcome(c.Results[i]); got != wants[i] {
						t.Errorf("atomic %t, operation %d: got %s, want %s", atomic, i, got, wants[i])
					}
				}
				r.Follow(t, s)
				if n := count(t, r, "x"); n != 2 {
					t.Errorf("atomic %t: got %d rows, want 2", atomic, n)
				}
			}
		})
	}
}

// A statement fails alone even if the engine reports its failure as one of the whole transaction, or leaves traces of
// it.
func TestStore_Commit_FailureStaysWithItsStatement(t *testing.T) {
	for name, tc := range map[string]struct {
		before []string
		sql    string
		want   string
	}{
		"CounterUsedUp":     {[]string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)", "INSERT INTO x VALUES(9223372036854775807,1)"}, "INSERT INTO x(v) VALUES(2)", "constraint: database or disk is full"},
		"DeferredKeyOpen":   {[]string{"CREATE TABLE p(id PRIMARY KEY)", "CREATE TABLE x(id INTEGER PRIMARY KEY DESC, c REFERENCES p(id), d, FOREIGN KEY(d) REFERENCES p(id) DEFERRABLE INITIALLY DEFERRED)"}, "INSERT INTO x VALUES(3,'B',x'61')", "constraint: FOREIGN KEY constraint failed"},
		"WrongTypeAtTheEnd": {[]string{"CREATE TABLE x(a BLOB) STRICT"}, "INSERT INTO x VALUES(x''),(x'61'),('text')", "constraint: cannot store TEXT value in BLOB column x.a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
			storetest.Commit(t, s, epoch, op(1, tc.before...))
			c := storetest.Commit(t, s, epoch, op(2, ann), op(3, tc.sql), op(4, bob))
			for i, want := range []string{"ok", tc.want, "ok"} {
				if got := outcome(c.Results[i]); got != want {
					t.Errorf("operation %d: got %s, want %s", i+1, got, want)
				}
			}
			r.Follow(t, s)
		})
	}
}

// A statement that changes no row reports that, whatever ran before it on the connection.
func TestStore_Commit_RowsAffectedIsItsOwn(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	c := storetest.Commit(t, s, epoch, op(1, ann), op(2, "DROP TABLE IF EXISTS nope", "CREATE TABLE IF NOT EXISTS users(x)"))
	for _, r := range c.Results[1].Statements {
		if r.RowsAffected != 0 || r.LastInsertID != 0 {
			t.Errorf("got %+v, want no row", r)
		}
	}
}

// Tables can be emptied and dropped at any size: the entry is small, and rows that refer to them are handled.
func TestStore_Commit_EmptiedAtAnySize(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	fill := "INSERT INTO %s SELECT i, hex(zeroblob(200)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000) SELECT i FROM n)"
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(id INTEGER PRIMARY KEY, v)", fmt.Sprintf(fill, "x"), "CREATE TABLE y(id INTEGER REFERENCES x ON DELETE CASCADE, v)", "INSERT INTO y VALUES(7,0)"), op(2, fmt.Sprintf(fill, "users")))
	s.SetSizes(5_000, 3_000, 2_000)
	for n, tc := range []struct {
		sql, want string
		rows      int64
	}{
		{"DELETE FROM users", "ok", 2000},
		{"delete from \"X\" ;", "refused too_large", 0}, // a row of y refers to it: row by row
		{"DELETE FROM y", "ok", 1},
		{"delete from main.X", "ok", 2000},
		{fmt.Sprintf(strings.Replace(fill, "SELECT i, hex(zeroblob(200))", "SELECT NULL, i", 1), "y"), "refused too_large", 0},
		{"DELETE FROM x", "ok", 0},
		{"DROP TABLE y", "ok", 0},
		{"DROP TABLE x", "ok", 0},
	} {
		got := storetest.Commit(t, s, epoch, op(10+n, tc.sql)).Results[0]
		if outcome(got) != tc.want || len(got.Statements) > 0 && got.Statements[0].RowsAffected != tc.rows {
			t.Errorf("%s: got %s and %v, want %s and %d rows", tc.sql, outcome(got), got.Statements, tc.want, tc.rows)
		}
	}
	r.Follow(t, s)
}

// Emptying a table as a whole has no time limit. Anything else has.
func TestStore_Commit_EmptiedInAnyTime(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(id INTEGER PRIMARY KEY)", "INSERT INTO x WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000) SELECT i FROM n"))
	for i, tc := range []struct{ sql, want string }{
		{"UPDATE x SET id=-id", "timeout: execute timeout"},
		{"DELETE FROM x", "ok"},
	} {
		in := op(2+i, tc.sql)
		in.StatementTime = time.Nanosecond
		if got := outcome(storetest.Commit(t, s, epoch, in).Results[0]); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.sql, got, tc.want)
		}
	}
	r.Follow(t, s)
}

// An operation that takes longer than others may wait is deferred without affecting them. Alone it may use its full
// time; statements that have not finished by then fail permanently.
func TestStore_Commit_SlowOperationIsPutOff(t *testing.T) {
	s := open(t, commitlog.Config{StatementLimit: 2 * time.Second, OperationLimit: 4 * time.Second, SharedLimit: 2 * time.Second})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	slow := op(1, bob, "SELECT count(*) FROM "+endless, "INSERT INTO apicount SELECT 'n'||i, i FROM "+endless, "SELECT min(i) FROM "+endless)
	c := storetest.Commit(t, s, epoch, slow, op(2, ann))
	for i, want := range []string{"refused slow", "ok"} {
		if got := outcome(c.Results[i]); got != want {
			t.Errorf("operation %d: got %s, want %s", i+1, got, want)
		}
	}
	late := "timeout: execute timeout"
	c = storetest.Commit(t, s, epoch, slow)
	if got, want := outcome(c.Results[0]), strings.Join([]string{"ok", late, late, late}, "; "); got != want {
		t.Errorf("alone: got %s, want %s", got, want)
	}
	r.Follow(t, s)
	if n := count(t, r, "users"); n != 2 {
		t.Errorf("got %d users, want 2", n)
	}
}

// Bytes that change on the disk are detected, by table, without false alarms: not after schema changes, restarts,
// commits that were undone or replayed.
func TestStore_Hashes_FindDamage(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir(), SharedLimit: time.Minute}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	for n, list := range [][]string{
		{ann, bob, "INSERT INTO rides(created_by,timestamp,source,destination) VALUES('ann','a-quiet-place',1,2)", "CREATE TABLE x(a, b AS (a||a) STORED, c)", "INSERT INTO x(a) VALUES(1),('two'),(3.5),(x'04')"},
		{"ALTER TABLE x ADD COLUMN d DEFAULT 'dd'", "UPDATE x SET c=a WHERE rowid>2", "DELETE FROM x WHERE rowid=1", "ALTER TABLE x RENAME TO y", "UPDATE y SET rowid=rowid+10"},
		{"CREATE TABLE k(a TEXT COLLATE NOCASE PRIMARY KEY, b) WITHOUT ROWID", "INSERT INTO k VALUES('a',1),('b',2)", "UPDATE k SET a='A'", "INSERT INTO users VALUES('ann',1),('new',2)"},
		{"DELETE FROM users WHERE username='bob'", "DROP TABLE k", "ALTER TABLE y DROP COLUMN c"},
	} {
		storetest.Commit(t, s, epoch, op(n, list...), atomic(100+n, "INSERT INTO users VALUES('undone','x')", "nonsense"))
	}
	s.FailBeforeAppend(func() error { return errors.New("disk failed") })
	if _, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(200, "DELETE FROM users")}); err == nil {
		t.Fatal("the commit did not fail")
	}
	s.FailBeforeAppend(nil)
	s.FailBeforeTables(func() error { return errors.New("disk failed") })
	storetest.Commit(t, s, epoch, op(202, "INSERT INTO users VALUES('late','x')", "INSERT INTO y(a) VALUES('again')"))
	s.FailBeforeTables(nil)
	storetest.Commit(t, s, epoch, op(201, "INSERT INTO users VALUES('last','x')"))
	damaged := func(want ...string) {
		t.Helper()
		h, err := s.Hashes(t.Context())
		if err != nil || !slices.Equal(h.Damaged, want) {
			t.Errorf("got damaged tables %v, %v, want %v", h.Damaged, err, want)
		}
	}
	damaged()
	closeStore(t, s)
	path := filepath.Join(cfg.Dir, commitlog.FileName)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(file, []byte("a-quiet-place")) // the row; the log follows
	file[at] = 'A'
	if err = os.WriteFile(path, file, 0o600); err != nil || at < 0 {
		t.Fatal(at, err)
	}
	s = reopen(t, cfg)
	defer closeStore(t, s)
	damaged("rides")
}
