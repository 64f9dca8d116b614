package replica_test

import (
	"context"
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
	l.writesMuch(store)
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

// While a comparison waits for persdb, its Reader keeps the WAL from being emptied. It is ended in time too.
func TestReplica_Verify_PersdbSlow_WALStaysBounded(t *testing.T) {
	store := slowStore{workertest.NewStore(t, schema), make(chan struct{})}
	l := bound(t, store, nil)
	l.broadcast(fill(store.Store, 1, 1)...)
	l.reaches(1)
	answer := make(chan error, 1)
	go func() {
		_, err := l.Verify(t.Context())
		answer <- err
	}()
	<-store.asked
	l.writesMuch(store.Store)
	if err := <-answer; dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

// slowStore is a persdb that never hashes a part to its end. asked is closed when it begins.
type slowStore struct {
	*workertest.Store

	asked chan struct{}
}

func (s slowStore) HashPart(ctx context.Context, _ dbaas.HashFrom) (dbaas.HashPart, error) {
	close(s.asked)
	<-ctx.Done()
	return dbaas.HashPart{}, ctx.Err()
}

// writesMuch applies 150 MiB of entries and checks that the WAL stays bounded.
func (l *live) writesMuch(store *workertest.Store) {
	l.t.Helper()
	const bound = 80 << 20
	largest, path := int64(0), l.path()
	for n := range 150 {
		e := store.Write(dbaas.Statement{SQL: "UPDATE n SET v=? WHERE i=1", Args: []dbaas.Value{dbaas.Text(strings.Repeat(string(rune(65+n%26)), 1<<20))}})
		l.broadcast(e)
		l.reaches(e.Seq)
		info, err := os.Stat(path + "-wal")
		if err != nil {
			l.t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if largest > bound {
		l.t.Errorf("the WAL grew to %d MiB, want at most %d", largest>>20, bound>>20)
	}
}
