package replica_test

import (
	"os"
	"strings"
	"testing"

	"rideshare/internal/testkit/workertest"
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

// Readers map the file. Comparing the whole file uses a separate connection that does not map it, so that a worker does
// not keep as much memory as its database is large. The connections of ordinary readers stay mapped.
func TestReplica_Verify_MapsNothing(t *testing.T) {
	store := &faultStore{Store: workertest.NewStore(t, schema)}
	fill(store.Store, 1, 3)
	l := bound(t, store, nil)
	l.reaches(3)
	during := -1
	store.asked = func() { during = l.mapped() } // its connection has begun to read by then
	if _, err := l.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := l.mapped(); during != 0 || after != 0 {
		t.Errorf("got %d during a comparison and %d after it, want nothing mapped", during, after)
	}
	if got, seq := l.count(); seq != 3 {
		t.Fatalf("got %s at %d, want 3", got, seq)
	}
	if n := l.mapped(); n != 1 {
		t.Errorf("after a read: got %d, want the reader's", n)
	}
}

// A comparison that cannot begin does not leave its connection in the pool.
func TestReplica_Verify_FailedLeavesNoConnection(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 3)
	l := bound(t, store, nil)
	l.reaches(3)
	l.alter("ALTER TABLE rs_applied RENAME TO elsewhere")
	if _, err := l.Verify(t.Context()); err == nil {
		t.Fatal("got no error without a position in the file")
	}
	l.alter("ALTER TABLE elsewhere RENAME TO rs_applied")
	if got, seq := l.count(); seq != 3 {
		t.Fatalf("got %s at %d, want 3", got, seq)
	}
	if n := l.mapped(); n != 1 {
		t.Errorf("after a read: got %d, want a caller's connection, which maps the file", n)
	}
}
