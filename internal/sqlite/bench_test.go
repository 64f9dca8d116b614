package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// BenchmarkConn_AppendRead measures reads on one connection inside one read transaction, as a slave runs the reads of a
// message.
func BenchmarkConn_AppendRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	w, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if err = w.Exec("CREATE TABLE users(username TEXT NOT NULL PRIMARY KEY, password TEXT NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	if err = w.Exec("INSERT INTO users SELECT printf('user%06d', i), hex(randomblob(20)) FROM (WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n LIMIT 100000) SELECT i FROM n)"); err != nil {
		b.Fatal(err)
	}
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for name, sql := range map[string]string{
		"Point":  "SELECT username, password FROM users WHERE username=?",
		"Rows20": "SELECT username, password FROM users WHERE username>=? ORDER BY username LIMIT 20",
	} {
		b.Run(name, func(b *testing.B) {
			if err = c.Begin(); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.End() }()
			r := dbaas.Read{Format: dbaas.FormatArrays, Statements: []dbaas.Statement{{SQL: sql, Args: make([]dbaas.Value, 1)}}}
			keys := make([]string, 1024)
			for i := range keys {
				keys[i] = fmt.Sprintf("user%06d", i*97%100000)
			}
			var buf []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Statements[0].Args[0] = dbaas.Text(keys[i%len(keys)])
				if buf, err = c.AppendRead(buf[:0], &r, replication.ReadGuard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
