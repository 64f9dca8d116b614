package sqlite_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	zombiezen "zombiezen.com/go/sqlite"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// zombiezen.com/go/sqlite is an independent binding of the same engine. These tests compare this package with it;
// docs/adr/0001-sqlite-binding.md says why it is not used.

// openWitness opens the file at path through zombiezen, with foreign keys on or off.
func openWitness(t *testing.T, path string, foreignKeys bool) *zombiezen.Conn {
	t.Helper()
	z, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite, zombiezen.OpenCreate, zombiezen.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := z.Close(); err != nil {
			t.Error(err)
		}
	})
	if foreignKeys {
		witnessed(t, z, "PRAGMA foreign_keys=1")
	}
	return z
}

// witnessed runs one statement through zombiezen and returns its rows.
func witnessed(t *testing.T, z *zombiezen.Conn, sql string, args ...dbaas.Value) []dbaas.Row {
	t.Helper()
	s, _, err := z.PrepareTransient(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer func() { _ = s.Finalize() }() // repeats the error of Step.
	for i := range args {
		witnessBind(s, i+1, &args[i])
	}
	var rows []dbaas.Row
	for {
		more, err := s.Step()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if !more {
			return rows
		}
		row := make(dbaas.Row, s.ColumnCount())
		for i := range row {
			row[i] = witnessValue(s, i)
		}
		rows = append(rows, row)
	}
}

func witnessBind(s *zombiezen.Stmt, param int, v *dbaas.Value) {
	switch v.Kind {
	case dbaas.KindNull:
		s.BindNull(param)
	case dbaas.KindInteger:
		s.BindInt64(param, v.Int)
	case dbaas.KindFloat:
		s.BindFloat(param, v.Float)
	case dbaas.KindText:
		s.BindText(param, v.Text)
	case dbaas.KindBlob:
		s.BindBytes(param, v.Blob)
	}
}

func witnessValue(s *zombiezen.Stmt, col int) dbaas.Value {
	switch s.ColumnType(col) {
	case zombiezen.TypeInteger:
		return dbaas.Integer(s.ColumnInt64(col))
	case zombiezen.TypeFloat:
		return dbaas.Float(s.ColumnFloat(col))
	case zombiezen.TypeText:
		return dbaas.Text(s.ColumnText(col))
	case zombiezen.TypeBlob:
		b := make([]byte, s.ColumnLen(col))
		s.ColumnBytes(col, b)
		return dbaas.Blob(b)
	case zombiezen.TypeNull:
	}
	return dbaas.Null()
}

// rowsOf returns the rows of a query through this package.
func rowsOf(t *testing.T, c *sqlite.Conn, sql string) []dbaas.Row {
	t.Helper()
	var rows []dbaas.Row
	err := c.Query(sql, func(r sqlite.Row) error {
		row := make(dbaas.Row, r.Columns())
		for i := range row {
			row[i] = r.Value(i)
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// witnessStart makes tables of every kind with a few rows; witnessChanges changes
// all of them: every storage class, keys, cascades, rows that come and go.
func witnessStart() []string {
	return []string{
		"CREATE TABLE anything(k NOT NULL PRIMARY KEY, v)",
		"CREATE TABLE users(name TEXT NOT NULL PRIMARY KEY)",
		"CREATE TABLE rides(id INTEGER PRIMARY KEY, who TEXT REFERENCES users ON UPDATE CASCADE ON DELETE CASCADE)",
		"CREATE TABLE pairs(a INTEGER NOT NULL, b BLOB NOT NULL, c REAL, PRIMARY KEY(b,a)) WITHOUT ROWID",
		"INSERT INTO anything VALUES(1,'old'),('one',NULL),(x'01',1.5),(2.5,x'')",
		"INSERT INTO users VALUES('ann'),('bob'),('cid')",
		"INSERT INTO rides VALUES(1,'ann'),(2,'ann'),(3,'bob'),(4,NULL)",
		"INSERT INTO pairs VALUES(1,x'00',1.5),(2,x'',NULL)",
	}
}

func witnessChanges() []string {
	return []string{
		"INSERT INTO anything VALUES(9223372036854775807,'a'||char(0)||'b'),(-1e300,CAST(x'ff41' AS TEXT)),('λ',9e999),(x'',''),(x'00ff',zeroblob(9000))",
		"UPDATE anything SET v=x'00' WHERE k='one'", "UPDATE anything SET v=NULL WHERE k=1",
		"UPDATE anything SET v=-9223372036854775807-1 WHERE k=x'01'", "UPDATE anything SET k='moved', v=0.1 WHERE k=2.5",
		"UPDATE users SET name='zoe' WHERE name='ann'", "DELETE FROM users WHERE name='bob'", // both reach rides.
		"INSERT INTO rides VALUES(5,'cid'),(6,'cid')", "DELETE FROM rides WHERE id=6",
		"UPDATE pairs SET a=a+10, c=-0.5 WHERE b=x'00'", "DELETE FROM pairs WHERE b=x''",
	}
}

func witnessDump() []string {
	return []string{
		"SELECT * FROM anything ORDER BY k", "SELECT * FROM users ORDER BY name",
		"SELECT * FROM rides ORDER BY id", "SELECT * FROM pairs ORDER BY b, a",
	}
}

// equalRows fails the test unless both files have the same rows. Each file is read by the binding that did not write it.
func equalRows(t *testing.T, byWitness, byUs string, dump ...string) {
	t.Helper()
	z, c := openWitness(t, byUs, false), sqlitetest.OpenAt(t, byWitness, sqlite.Options{ReadOnly: true})
	for _, sql := range dump {
		ours, theirs := rowsOf(t, c, sql), witnessed(t, z, sql)
		if len(ours) == 0 {
			t.Errorf("%s: no rows, nothing was compared", sql)
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s (-written by us +written by zombiezen):\n%s", sql, diff)
		}
	}
	want := []dbaas.Row{{dbaas.Text("ok")}}
	if diff := cmp.Diff(want, witnessed(t, z, "PRAGMA integrity_check")); diff != "" {
		t.Errorf("file written by us:\n%s", diff)
	}
	if err := c.QuickCheck(); err != nil {
		t.Errorf("file written by zombiezen: %v", err)
	}
}

// What is captured and applied makes the rows that zombiezen has after the same statements.
func TestReplication_SameRowsAsZombiezen(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{ForeignKeys: true, Triggers: true})
	copied, to := sqlitetest.Open(t, sqlite.Options{})
	from := t.TempDir() + "/witness.db"
	z := openWitness(t, from, true)
	sqlitetest.Exec(t, c, witnessStart()...)
	sqlitetest.Exec(t, copied, witnessStart()...)
	for _, sql := range slices.Concat(witnessStart(), witnessChanges()) {
		witnessed(t, z, sql)
	}
	if err := replication.CreatePosition(copied); err != nil {
		t.Fatal(err)
	}
	k := replication.NewCapture(c, writes, 1<<30)
	if err := k.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, sql := range witnessChanges() {
		if err := k.Next(); err != nil {
			t.Fatal(err)
		}
		sqlitetest.Exec(t, c, sql)
	}
	changes, err := k.Take()
	if err == nil {
		err = replication.NewApplier(copied).Apply(dbaas.Entry{Seq: 1, Epoch: 1, Changes: changes})
	}
	if err != nil || k.Err() != nil {
		t.Fatal(err, k.Err())
	}
	equalRows(t, from, to, witnessDump()...)
}

// Values that one binding binds and writes the other reads back as they were.
func TestConn_FileReadThroughZombiezen(t *testing.T) {
	c, byUs := sqlitetest.Open(t, sqlite.Options{Durable: true})
	byWitness := t.TempDir() + "/witness.db"
	z := openWitness(t, byWitness, false)
	const create, insert = "CREATE TABLE v(id INTEGER PRIMARY KEY, v)", "INSERT INTO v(v) VALUES(?)"
	sqlitetest.Exec(t, c, create)
	witnessed(t, z, create)
	long := strings.Repeat("x", 20_000)
	for _, v := range []dbaas.Value{
		dbaas.Null(), dbaas.Integer(0), dbaas.Integer(-1 << 63), dbaas.Integer(1<<63 - 1), dbaas.Float(0.1), dbaas.Float(-1e308), dbaas.Text(""), dbaas.Text("a\x00b"),
		dbaas.Text("\xff"), dbaas.Text("λ😀"), dbaas.Text(long), dbaas.Blob([]byte{}), dbaas.Blob([]byte{0, 255}), dbaas.Blob([]byte(long)),
	} {
		if err := c.Exec(insert, v); err != nil {
			t.Fatal(err)
		}
		witnessed(t, z, insert, v)
	}
	equalRows(t, byWitness, byUs, "SELECT * FROM v ORDER BY id")
}
