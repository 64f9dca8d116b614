package replica_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/workertest"
)

// A long read keeps the WAL from being emptied. It is stopped when the WAL grows too large, and no other read is
// stopped; the WAL stays bounded, whatever is written.
func TestReplica_LongRead_WALStaysBounded(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.broadcast(fill(store, 1, 1)...)
	l.reaches(1)
	rd, err := l.Reader()
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan dbaas.ReadResult, 1)
	go func() {
		defer rd.Close()
		answer <- rd.Read(t.Context(), &dbaas.Read{Format: dbaas.FormatObjects, Deadline: time.Now().Add(time.Hour), Statements: []dbaas.Statement{
			{SQL: "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c) SELECT count(*) FROM c, n"},
		}})
	}()
	const bound = 80 << 20
	largest, path := int64(0), l.path()
	for n := range 150 { // 150 MiB
		e := store.Write(dbaas.Statement{SQL: "UPDATE n SET v=? WHERE i=1", Args: []dbaas.Value{dbaas.Text(strings.Repeat(string(rune(65+n%26)), 1<<20))}})
		l.broadcast(e)
		l.reaches(e.Seq)
		info, statErr := os.Stat(path + "-wal")
		if statErr != nil {
			t.Fatal(statErr)
		}
		largest = max(largest, info.Size())
	}
	if largest > bound {
		t.Errorf("the WAL grew to %d MiB, want at most %d", largest>>20, bound>>20)
	}
	select {
	case got := <-answer:
		if got.Code != dbaas.CodeTimeout || !strings.Contains(got.Message, "log of changes") {
			t.Errorf("got %s %q, want a time-out that says why", got.Code, got.Message)
		}
	case <-time.After(limit):
		t.Fatal("the long read goes on")
	}
	if got, seq := l.count(); got != `[{"c":1}]` || seq != 151 {
		t.Errorf("got %s at %d on the same connection, want one row at 151", got, seq)
	}
	if got := l.Stats.ReadsEnded.Load(); got != 1 {
		t.Errorf("%d reads ended, want 1", got)
	}
}
