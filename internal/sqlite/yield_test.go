package sqlite_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// A long statement on the only core yields to other goroutines at many steps, and not only when Go preempts it.
func TestConn_LongStatement_LetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	var turns atomic.Int64
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	r := dbaas.Read{
		Format: dbaas.FormatArrays, Deadline: time.Now().Add(time.Minute),
		Statements: statements("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<100000) SELECT count(*) FROM n"),
	}
	if _, err := c.AppendRead(nil, &r, replication.ReadGuard); err != nil {
		t.Error(err)
	}
	over.Store(true)
	<-ended
	if n := turns.Load(); n < 100 {
		t.Errorf("others ran %d times, want 100 and more", n)
	}
}
