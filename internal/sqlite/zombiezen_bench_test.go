package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqljson"
)

// The same work through this package ("Own") and through zombiezen, in one run on
// one engine, for docs/adr/0001-sqlite-binding.md. Only the ratio of a pair means anything.

const (
	benchPoint  = "SELECT username, password FROM users WHERE username=?"
	benchRows20 = "SELECT username, password FROM users WHERE username>=? ORDER BY username LIMIT 20"
	benchInsert = "INSERT INTO users(username, password) VALUES(?, ?)"
	benchBatch  = 64
)

// must ends the benchmark at an error.
func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// benchFile makes a file of 100,000 users and returns its path.
func benchFile(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bench.db")
	c, err := sqlite.Open(path, sqlite.Options{})
	must(b, err)
	must(b, replication.CreatePosition(c))
	must(b, c.Exec("CREATE TABLE users(username TEXT NOT NULL PRIMARY KEY, password TEXT NOT NULL)"))
	must(b, c.Exec(`INSERT INTO users SELECT printf('user%06d', i), hex(randomblob(20)) FROM
		(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n LIMIT 100000) SELECT i FROM n)`))
	must(b, c.Close())
	return path
}

func benchOwn(b *testing.B, path string, readOnly bool) *sqlite.Conn {
	b.Helper()
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: readOnly})
	must(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// benchWitness opens the file with the settings that Open uses.
func benchWitness(b *testing.B, path string, readOnly bool) *zombiezen.Conn {
	b.Helper()
	flags := zombiezen.OpenReadWrite | zombiezen.OpenWAL
	if readOnly {
		flags = zombiezen.OpenReadOnly
	}
	z, err := zombiezen.OpenConn(path, flags)
	must(b, err)
	b.Cleanup(func() { _ = z.Close() })
	for _, sql := range (sqlite.Options{ReadOnly: readOnly}).Pragmas() {
		benchStep(b, z.Prep(sql))
	}
	return z
}

// benchStep runs a prepared statement and drops its rows.
func benchStep(b *testing.B, s *zombiezen.Stmt) {
	b.Helper()
	for more := true; more; {
		var err error
		more, err = s.Step()
		must(b, err)
	}
	must(b, s.Reset())
}

// benchKey returns keys that walk over the whole table.
func benchKey() func() dbaas.Value {
	keys := make([]dbaas.Value, 1024)
	for i := range keys {
		keys[i] = dbaas.Text(fmt.Sprintf("user%06d", i*97%100000))
	}
	i := 0
	return func() dbaas.Value { i++; return keys[i%len(keys)] }
}

// witnessRead renders a read as AppendRead does with FormatArrays, but for the
// types: zombiezen knows the storage class of the first row, not the declared type.
func witnessRead(out []byte, z *zombiezen.Conn, sql string, key dbaas.Value) ([]byte, error) {
	s, err := z.Prepare(sql)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Reset() }() // repeats the error of Step.
	s.BindText(1, key.Text)
	more, err := s.Step()
	out = append(out, `{"columns":[`...)
	for i := range s.ColumnCount() {
		out = append(sqljson.AppendText(out, s.ColumnName(i)), ',')
	}
	out = append(out[:len(out)-1], `],"types":[`...)
	for i := range s.ColumnCount() {
		if s.ColumnType(i) != zombiezen.TypeText {
			return nil, fmt.Errorf("column %d is no text", i)
		}
		out = append(out, `"text",`...)
	}
	out = append(out[:len(out)-1], `],"values":[`...)
	for err == nil && more {
		out = append(out, '[')
		for i := range s.ColumnCount() {
			out = append(sqljson.AppendText(out, s.ColumnText(i)), ',')
		}
		out[len(out)-1] = ']'
		out = append(out, ',')
		more, err = s.Step()
	}
	out[len(out)-1] = ']'
	return append(out, '}'), err
}

// BenchmarkZombiezen_Read compares reads inside one read transaction, as a slave runs those of a message.
func BenchmarkZombiezen_Read(b *testing.B) {
	path := benchFile(b)
	c, z := benchOwn(b, path, true), benchWitness(b, path, true)
	must(b, c.Begin())
	benchStep(b, z.Prep("BEGIN"))
	r := dbaas.Read{Format: dbaas.FormatArrays, Statements: []dbaas.Statement{{Args: make([]dbaas.Value, 1)}}}
	own := func(out []byte, sql string, key dbaas.Value, deadline time.Time) ([]byte, error) {
		r.Deadline, r.Statements[0].SQL, r.Statements[0].Args[0] = deadline, sql, key
		return c.AppendRead(out, &r, replication.ReadGuard)
	}
	witness := func(out []byte, sql string, key dbaas.Value, deadline time.Time) ([]byte, error) {
		if deadline.IsZero() {
			return witnessRead(out, z, sql, key)
		}
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		defer z.SetInterrupt(z.SetInterrupt(ctx.Done()))
		return witnessRead(out, z, sql, key)
	}
	for _, bc := range []struct {
		name, sql string
		timeout   time.Duration
	}{{"Point", benchPoint, 0}, {"PointWithDeadline", benchPoint, time.Minute}, {"Rows20", benchRows20, 0}} {
		measure := func(read func([]byte, string, dbaas.Value, time.Time) ([]byte, error)) func(*testing.B) {
			return func(b *testing.B) {
				b.Helper()
				key, out, deadline := benchKey(), []byte(nil), time.Time{}
				b.ReportAllocs()
				for b.Loop() {
					if bc.timeout > 0 {
						deadline = time.Now().Add(bc.timeout)
					}
					var err error
					out, err = read(out[:0], bc.sql, key(), deadline)
					must(b, err)
				}
			}
		}
		mine, err := own(nil, bc.sql, benchKey()(), time.Time{})
		must(b, err)
		theirs, err := witness(nil, bc.sql, benchKey()(), time.Time{})
		must(b, err)
		if !bytes.Equal(mine, theirs) {
			b.Fatalf("%s: answers differ:\n%s\n%s", bc.name, mine, theirs)
		}
		b.Run(bc.name+"/Own", measure(own))
		b.Run(bc.name+"/Zombiezen", measure(witness))
	}
}

// ownRecord inserts a batch and returns what was captured.
func ownRecord(c *sqlite.Conn, k *replication.Capture, list []dbaas.Statement) ([]dbaas.Change, error) {
	if err := k.Begin(); err != nil {
		return nil, err
	}
	for i := range list {
		s, err := c.Prepare(list[i].SQL, writes)
		if err != nil {
			return nil, err
		}
		if _, err := s.Run(&list[i], 1<<20); err != nil {
			return nil, err
		}
	}
	return k.Take()
}

// witnessRecordBatch is ownRecord through zombiezen and the engine's sessions.
func witnessRecordBatch(z *zombiezen.Conn, list []dbaas.Statement) ([]byte, error) {
	session, err := z.CreateSession("")
	if err != nil {
		return nil, err
	}
	defer session.Delete()
	if err = session.Attach(""); err != nil {
		return nil, err
	}
	for i := range list {
		var s *zombiezen.Stmt
		if s, err = z.Prepare(list[i].SQL); err != nil {
			return nil, err
		}
		for k := range list[i].Args {
			witnessBind(s, k+1, &list[i].Args[k])
		}
		if _, err = s.Step(); err != nil {
			return nil, err
		}
		if err = s.Reset(); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	err = session.WriteChangeset(&out)
	return out.Bytes(), err
}

func benchStatements() []dbaas.Statement {
	list := make([]dbaas.Statement, benchBatch)
	for i := range list {
		list[i] = dbaas.Statement{SQL: benchInsert, Args: []dbaas.Value{
			dbaas.Text(fmt.Sprintf("user%06d-new", i*7919%100000)), dbaas.Text("40 characters, as a hashed password has.."),
		}}
	}
	return list
}

// BenchmarkZombiezen_Write compares the batch of a commit and its replay at a replica. Each
// transaction is rolled back, so that the table stays as large as it is.
func BenchmarkZombiezen_Write(b *testing.B) {
	path := benchFile(b)
	c, z, list := benchOwn(b, path, false), benchWitness(b, path, false), benchStatements()
	begin, rollback := z.Prep("BEGIN IMMEDIATE"), z.Prep("ROLLBACK")
	position := z.Prep("UPDATE rs_applied SET seq=1, epoch=1 WHERE seq=0 AND epoch<=1")
	var changes []dbaas.Change
	var changeset []byte
	k, applier := replication.NewCapture(c, writes, 1<<30), replication.NewApplier(c)
	inOwn := func(fn func() error) func(*testing.B) {
		return func(b *testing.B) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				must(b, c.BeginWrite())
				must(b, fn())
				must(b, c.End())
			}
		}
	}
	inWitness := func(fn func() error) func(*testing.B) {
		return func(b *testing.B) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				benchStep(b, begin)
				must(b, fn())
				benchStep(b, rollback)
			}
		}
	}
	b.Run("Record64/Own", inOwn(func() (err error) { changes, err = ownRecord(c, k, list); return err }))
	b.Run("Record64/Zombiezen", inWitness(func() (err error) { changeset, err = witnessRecordBatch(z, list); return err }))
	b.Run("Apply64/Own", inOwn(func() error { return applier.Apply(dbaas.Entry{Seq: 1, Epoch: 1, Changes: changes}) }))
	b.Run("Apply64/Zombiezen", inWitness(func() error {
		benchStep(b, position)
		return witnessApply(z, changeset)
	}))
}

func witnessApply(z *zombiezen.Conn, changeset []byte) error {
	return z.ApplyChangeset(bytes.NewReader(changeset), nil, func(zombiezen.ConflictType, *zombiezen.ChangesetIterator) zombiezen.ConflictAction {
		return zombiezen.ChangesetAbort
	})
}
