package replica_test

import (
	"os"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/worker/workertest"
)

// mapped counts the parts of the replica's file that this process has in its address space.
func (l *live) mapped() int {
	l.t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Count(string(maps), l.path()+"\n")
}

// Readers map the file. What compared all of it is gone afterwards, so that a worker does not keep as much memory as
// its database is large; what reads for callers stays.
func TestReplica_Verify_KeepsNothingMapped(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 3)
	l := bound(t, store, nil)
	l.reaches(3)
	if _, err := l.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := l.mapped(); n != 0 {
		t.Errorf("after a comparison: got %d, want nothing mapped", n)
	}
	if got, seq := l.count(); seq != dbaas.Seq(3) {
		t.Fatalf("got %s at %d, want 3", got, seq)
	}
	if n := l.mapped(); n != 1 {
		t.Errorf("after a read: got %d, want the reader's", n)
	}
}
