package replication_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// BenchmarkApplier_Apply is a replica's share of a commit: one transaction with one changeset of a given number of inserts,
// with random keys, into a table of 50,000 rows with an index.
func BenchmarkApplier_Apply(b *testing.B) {
	for _, size := range []int{1, 8, 64, 256} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			dir := b.TempDir()
			src := benchConn(b, filepath.Join(dir, "src.db"))
			if err := replication.CreatePosition(src); err != nil {
				b.Fatal(err)
			}
			for _, s := range []string{
				"CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, g INTEGER NOT NULL, v TEXT NOT NULL)", "CREATE INDEX t_g ON t(g)",
				"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<50000) INSERT INTO t SELECT hex(randomblob(8)), i/20, 'value of row '||i FROM n",
			} {
				if err := src.Exec(s); err != nil {
					b.Fatal(err)
				}
			}
			sqlitetest.Snapshot(b, filepath.Join(dir, "src.db"), filepath.Join(dir, "dst.db"))
			dst := benchConn(b, filepath.Join(dir, "dst.db"))
			applier := replication.NewApplier(dst)
			k := replication.NewCapture(src, writes, 1<<30)
			var seq dbaas.Seq
			for b.Loop() {
				b.StopTimer()
				seq++
				e := recordInserts(b, src, k, seq, size)
				b.StartTimer()
				if err := dst.BeginWrite(); err != nil {
					b.Fatal(err)
				}
				if err := applier.Apply(e); err != nil {
					b.Fatal(err)
				}
				if err := dst.Commit(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/row")
		})
	}
}

func benchConn(b *testing.B, path string) *sqlite.Conn {
	b.Helper()
	c, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func recordInserts(b *testing.B, src *sqlite.Conn, k *replication.Capture, seq dbaas.Seq, n int) dbaas.Entry {
	b.Helper()
	err := src.BeginWrite()
	if err == nil {
		err = k.Begin()
	}
	if err != nil {
		b.Fatal(err)
	}
	for range n {
		err = src.Exec("INSERT INTO t VALUES(?, -1, ?)", dbaas.Text(fmt.Sprintf("%016x", rand.Uint64())), dbaas.Text("0123456789abcdef"))
		if err != nil {
			b.Fatal(err)
		}
	}
	changes, err := k.Take()
	if err == nil {
		err = src.Commit()
	}
	if err != nil {
		b.Fatal(err)
	}
	return dbaas.Entry{Seq: seq, Epoch: 1, Changes: changes}
}
