package replication_test

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"

	"github.com/google/go-cmp/cmp"
)

// pair is a source that records and a replica that follows it.
type pair struct {
	t        *testing.T
	src, dst *sqlite.Conn
	capture  *replication.Capture
	applier  *replication.Applier
	seq      dbaas.Seq
}

func newPair(t *testing.T, schema ...string) *pair {
	t.Helper()
	src, path := sqlitetest.Open(t, sqlite.Options{ForeignKeys: true, Triggers: true})
	if err := replication.CreatePosition(src); err != nil {
		t.Fatal(err)
	}
	sqlitetest.Exec(t, src, "CREATE TABLE rs_log(seq INTEGER PRIMARY KEY, x)", "INSERT INTO rs_log VALUES(1,'secret-of-the-log')")
	sqlitetest.Exec(t, src, schema...)
	to := filepath.Join(t.TempDir(), "replica.db")
	sqlitetest.Snapshot(t, path, to)
	dst := sqlitetest.OpenAt(t, to, sqlite.Options{})
	return &pair{t: t, src: src, dst: dst, applier: replication.NewApplier(dst)}
}

// record runs statements at the source and returns them as one entry of rows.
func (p *pair) record(list ...string) dbaas.Entry {
	p.t.Helper()
	if p.capture == nil {
		p.capture = replication.NewCapture(p.src, writes, 1<<30)
	}
	if err := p.capture.Begin(); err != nil {
		p.t.Fatal(err)
	}
	for _, sql := range list {
		if err := p.capture.Next(); err != nil {
			p.t.Fatal(err)
		}
		sqlitetest.Exec(p.t, p.src, sql)
	}
	size := p.capture.Size()
	changes, err := p.capture.Take()
	if err = errors.Join(err, p.capture.Err()); err != nil {
		p.t.Fatal(err)
	}
	p.capture.Committed()
	p.capture.End()
	for _, c := range changes {
		size -= int64(len(c.Data))
	}
	if size > 0 {
		p.t.Errorf("%d bytes of the recorded size are not in the changes", size)
	}
	p.seq++
	return dbaas.Entry{Seq: p.seq, Epoch: 1, Changes: changes}
}

func (p *pair) apply(e dbaas.Entry) error {
	p.t.Helper()
	if err := p.dst.BeginWrite(); err != nil {
		p.t.Fatal(err)
	}
	err := p.applier.Apply(e)
	if err == nil {
		return p.dst.Commit()
	}
	if end := p.dst.End(); end != nil {
		p.t.Error(end)
	}
	return err
}

func hashes(t *testing.T, c *sqlite.Conn) map[string]string {
	t.Helper()
	h, err := replication.Hashes(c, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// same fails the test unless both sides have equal content.
func (p *pair) same() {
	p.t.Helper()
	if diff := cmp.Diff(hashes(p.t, p.src), hashes(p.t, p.dst)); diff != "" {
		p.t.Errorf("replica differs (-source +replica):\n%s", diff)
	}
}

// Rows on the replica equal those at the source, whichever feature made them: defaults, cascades, REPLACE, upserts,
// triggers, generated columns, tables without rowid.
func TestApplier_Apply_RowsAsAtSource(t *testing.T) {
	p := newPair(t,
		"CREATE TABLE users(name TEXT NOT NULL PRIMARY KEY, at TEXT DEFAULT (datetime('now')), r DEFAULT (random()))",
		"CREATE TABLE rides(id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL REFERENCES users ON DELETE CASCADE ON UPDATE CASCADE)",
		"CREATE TABLE pairs(a INTEGER NOT NULL, b BLOB NOT NULL, c REAL, d AS (a*2), e AS (a*3) STORED, PRIMARY KEY(b,a)) WITHOUT ROWID",
		"CREATE TABLE audit(id INTEGER PRIMARY KEY, what TEXT)",
		"CREATE INDEX rides_who ON rides(who)",
		"CREATE VIEW everyone AS SELECT name FROM users",
		"CREATE TRIGGER log_users AFTER INSERT ON users BEGIN INSERT INTO audit(what) VALUES(new.name || random()); END",
	)
	p.same()
	for _, e := range []dbaas.Entry{
		p.record("INSERT INTO users(name) VALUES('ann'),('bob')", "INSERT INTO rides(who) VALUES('ann'),('bob')"),
		p.record("UPDATE users SET name='zoe' WHERE name='ann'", "INSERT INTO pairs(a,b,c) VALUES(1,x'00',1.5),(2,x'',NULL)"),
		p.record("INSERT OR REPLACE INTO users(name,r) VALUES('bob','x')", "INSERT INTO users(name,r) VALUES('bob',1) ON CONFLICT(name) DO UPDATE SET r=r||'y'"),
		p.record("DELETE FROM users WHERE name='zoe'", "UPDATE pairs SET a=a+10, c=9e999"),
		p.record("INSERT INTO pairs(a,b) VALUES(7,x'07')", "DELETE FROM pairs WHERE a=7"),
		p.record(),
	} {
		if err := p.apply(e); err != nil {
			t.Fatalf("entry %d: %v", e.Seq, err)
		}
	}
	p.same()
}

// Changes of internal tables are not recorded.
func TestCapture_LeavesInternalTablesOut(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY)")
	if e := p.record("INSERT INTO rs_log VALUES(2,'x')", "UPDATE rs_applied SET seq=7"); len(e.Changes) != 0 {
		t.Errorf("got %d changes", len(e.Changes))
	}
}

// Only the entry after the position is applied, and no older epoch.
func TestApplier_Apply_OnlyTheNextEntry(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY)")
	first, second := p.record("INSERT INTO t VALUES(1)"), p.record("INSERT INTO t VALUES(2)")
	if err := p.apply(second); !errors.Is(err, replication.ErrNotNext) {
		t.Errorf("a gap: got %v", err)
	}
	if err := p.apply(first); err != nil {
		t.Fatal(err)
	}
	if err := p.apply(first); !errors.Is(err, replication.ErrNotNext) {
		t.Errorf("twice: got %v", err)
	}
	second.Epoch = 0
	if err := p.apply(second); !errors.Is(err, replication.ErrNotNext) {
		t.Errorf("older epoch: got %v", err)
	}
	got, err := replication.Position(p.dst)
	if want := (dbaas.Head{Seq: 1, Epoch: 1}); err != nil || got != want {
		t.Errorf("got position %v, %v, want %v", got, err, want)
	}
}

// What does not fit is noticed, also where the engine itself would skip it.
func TestApplier_Apply_MisfitIsDivergence(t *testing.T) {
	for name, damage := range map[string]string{
		"RowChanged":   "UPDATE t SET v='other' WHERE id=1",
		"RowMissing":   "DELETE FROM t WHERE id=1",
		"RowExtra":     "INSERT INTO t VALUES(2,'extra')",
		"TableMissing": "DROP TABLE t",
		"ColumnMore":   "ALTER TABLE t ADD COLUMN w",
		"ColumnLess":   "ALTER TABLE t DROP COLUMN v",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES(1,'a')")
			sqlitetest.Exec(t, p.dst, damage)
			if err := p.apply(p.record("UPDATE t SET v='b' WHERE id=1", "INSERT INTO t VALUES(2,'c')")); !errors.Is(err, replication.ErrDiverged) {
				t.Errorf("got %v, want %v", err, replication.ErrDiverged)
			}
		})
	}
}

// A record that was cut or altered is refused and never makes the engine crash.
func TestApplier_Apply_DamagedRecords(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES(1,'a')")
	e := p.record("UPDATE t SET v='b' WHERE id=1", "INSERT INTO t VALUES(2,'c')")
	whole := e.Changes[0].Data
	for n := 1; n < len(whole); n++ {
		e.Changes[0].Data = whole[:n]
		_ = p.apply(e) // an error or not, depending on where a change ends.
		sqlitetest.Exec(t, p.dst, "DELETE FROM t", "INSERT INTO t VALUES(1,'a')", "UPDATE rs_applied SET seq=0")
	}
	e.Changes[0].Data = append([]byte{'?'}, whole...)
	if err := p.apply(e); err == nil {
		t.Error("a record that begins with nonsense was applied")
	}
}

// Schema text applies, bad text is divergence.
func TestApplier_Apply_Schema(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
	sql := "ALTER TABLE t ADD COLUMN w TEXT DEFAULT 'x'"
	sqlitetest.Exec(t, p.src, sql)
	e := p.record("INSERT INTO t(id) VALUES(1)")
	e.Changes = append([]dbaas.Change{{Kind: dbaas.ChangeSchema, Data: []byte(sql)}}, e.Changes...)
	if err := p.apply(e); err != nil {
		t.Fatal(err)
	}
	p.same()
	e.Seq++
	if err := p.apply(e); !errors.Is(err, replication.ErrDiverged) {
		t.Errorf("same column again: got %v, want %v", err, replication.ErrDiverged)
	}
}

// Hashes differ wherever clients can see a difference.
func TestHashes_SeeEveryDifference(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE a(id INTEGER PRIMARY KEY, v)", "CREATE TABLE b(id INTEGER PRIMARY KEY, v)", "INSERT INTO a VALUES(1,'x'),(2,'y')")
	seen := map[string]string{}
	for _, sql := range []string{
		"SELECT 1", "UPDATE a SET v=1 WHERE id=1", "UPDATE a SET v=1.0 WHERE id=1", "UPDATE a SET v='1' WHERE id=1", "UPDATE a SET v=x'31' WHERE id=1",
		"UPDATE a SET v=NULL WHERE id=1", "UPDATE a SET v='' WHERE id=1", "UPDATE a SET v=x'' WHERE id=1", "DELETE FROM a WHERE id=2", "DELETE FROM a",
	} {
		sqlitetest.Exec(t, c, sql)
		h := hashes(t, c)["a"]
		if other, ok := seen[h]; ok {
			t.Errorf("%q gives the same hash as %q", sql, other)
		}
		seen[h] = sql
	}
	before := hashes(t, c)
	sqlitetest.Exec(t, c, "CREATE TABLE rs_other(id INTEGER PRIMARY KEY)", "INSERT INTO rs_other VALUES(1)")
	if !maps.Equal(before, hashes(t, c)) {
		t.Error("an internal table changes the hashes")
	}
	sqlitetest.Exec(t, c, "CREATE INDEX i ON a(v)")
	if before[replication.SchemaHash] == hashes(t, c)[replication.SchemaHash] {
		t.Error("an index does not change the hash of the schema")
	}
}

// Where a replica's schema does not fit the entry, Apply refuses.
func TestApplier_Apply_RefusesOtherTables(t *testing.T) {
	for name, schema := range map[string]string{
		"TableMissing": "CREATE TABLE other(id INTEGER PRIMARY KEY, v)",
		"ColumnLess":   "CREATE TABLE t(id INTEGER PRIMARY KEY)",
		"OtherKey":     "CREATE TABLE t(id INTEGER, v NOT NULL PRIMARY KEY)",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
			e := p.record("INSERT INTO t VALUES(1,'a')")
			sqlitetest.Exec(t, p.dst, "DROP TABLE t", schema)
			if err := p.apply(e); !errors.Is(err, replication.ErrDiverged) {
				t.Errorf("got %v, want %v", err, replication.ErrDiverged)
			}
		})
	}
}

// A trigger of the schema does not fire under Apply: its rows are in the entry.
func TestApplier_Apply_TriggersStayQuiet(t *testing.T) {
	schema := []string{
		"CREATE TABLE t(id INTEGER PRIMARY KEY)", "CREATE TABLE audit(id INTEGER PRIMARY KEY, what TEXT)",
		"CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO audit(what) VALUES(new.id || random()); END",
	}
	p := newPair(t, schema...)
	e := p.record("INSERT INTO t VALUES(1)")
	if err := p.apply(e); err != nil {
		t.Fatal(err)
	}
	p.same()
}

// Rows are applied to the columns that the table has now, also after a schema change that was rolled back.
func TestApplier_Apply_SchemaRolledBack(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
	e := p.record("INSERT INTO t VALUES(1,'a')")
	other := dbaas.Entry{Seq: 1, Epoch: 1, Changes: []dbaas.Change{{Kind: dbaas.ChangeSchema, Data: []byte("ALTER TABLE t ADD COLUMN w")}}}
	other.Changes = append(other.Changes, e.Changes...) // the rows have one column too few for the new table.
	if err := p.apply(other); !errors.Is(err, replication.ErrDiverged) {
		t.Errorf("rows without the new column: got %v, want %v", err, replication.ErrDiverged)
	}
	if err := p.apply(e); err != nil {
		t.Fatalf("after the rollback: %v", err)
	}
	p.same()
}

// A batch over its limit is stopped, and the next batch is not.
func TestCapture_Over_UntilTheNextBatch(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
	k := replication.NewCapture(c, writes, 1000)
	const long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 100000) INSERT INTO t(v) SELECT 'some text' FROM n"
	for range 2 {
		if err := errors.Join(c.BeginWrite(), k.Begin()); err != nil {
			t.Fatal(err)
		}
		sqlitetest.Exec(t, c, "INSERT INTO t(v) VALUES('short')")
		if k.Over() {
			t.Error("a short batch is over the limit")
		}
		if err := c.Exec(long); dbaas.CodeOf(err) != dbaas.CodeTimeout || !k.Over() {
			t.Errorf("got %v, over %t; want code %q, true", err, k.Over(), dbaas.CodeTimeout)
		}
		if err := c.End(); err != nil {
			t.Fatal(err)
		}
	}
}
