package commitlog_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/commitlog"
)

func benchStore(b *testing.B, dir string) *commitlog.Store {
	b.Helper()
	s, err := commitlog.Open(b.Context(), app(commitlog.Config{Dir: dir, TrimEvery: -1}))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// inserts returns a batch of n new inserts of one row each.
func inserts(n int) []dbaas.Operation {
	batch := make([]dbaas.Operation, n)
	for i := range batch {
		o := dbaas.Operation{ID: dbaas.NewOpID(time.Now())}
		o.Statements = []dbaas.Statement{{
			SQL:  "INSERT INTO users(username, password) VALUES(?, ?)",
			Args: []dbaas.Value{dbaas.Text(o.ID.String()), dbaas.Text("0123456789012345678901234567890123456789")},
		}}
		o.Fingerprint = wire.FingerprintOf(false, o.Statements)
		batch[i] = o
	}
	return batch
}

// BenchmarkStore_Commit measures durable commits; the time is of one batch.
func BenchmarkStore_Commit(b *testing.B) {
	for _, size := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := benchStore(b, b.TempDir())
			defer func() { _ = s.Close() }()
			epoch := storetest.Claim(b, s)
			for b.Loop() {
				storetest.Commit(b, s, epoch, inserts(size)...)
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// BenchmarkStore_Open measures how long the index takes to be rebuilt from a log
// of 128,000 operations in batches of 64.
func BenchmarkStore_Open(b *testing.B) {
	const batches, size = 2000, 64
	dir := b.TempDir()
	s := benchStore(b, dir)
	epoch := storetest.Claim(b, s)
	for range batches {
		storetest.Commit(b, s, epoch, inserts(size)...)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := benchStore(b, dir)
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e6/(batches*size), "s/million-ops")
}

// BenchmarkStore_Commit_EmptiesTable measures a commit that empties a table of 32 MiB, whose rows are recorded for the
// change feed: its time, and the memory that it allocates.
func BenchmarkStore_Commit_EmptiesTable(b *testing.B) {
	s := benchStore(b, b.TempDir())
	defer func() { _ = s.Close() }()
	epoch := storetest.Claim(b, s)
	n := 0
	run := func(sql string) {
		n++
		storetest.Commit(b, s, epoch, storetest.Op(n, sql))
	}
	run("CREATE TABLE large(v)")
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for range 30 {
			run("INSERT INTO large WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<10000) SELECT randomblob(100) FROM n")
		}
		b.StartTimer()
		run("DELETE FROM large")
	}
}
