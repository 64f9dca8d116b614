package fault_test

import (
	"slices"
	"testing"
	"time"
)

// session is how long ZooKeeper keeps what a silent worker registered.
const session = 6 * time.Second

// While ZooKeeper is dead, for longer than the workers' sessions, writes and reads are
// answered, and when it is back every worker is as before.
func TestSystem_CoordinatorKilled_ServiceGoesOnAndNothingChanges(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, ownCoordinator(t), 2)
	l := startLoad(t, sys)
	before := sys.cluster(t)
	sys.zoo.Kill(t)
	outlast(t, 2*session)
	l.awaitProgress(t)
	sys.zoo.Start(t)
	sys.awaitWhole(t, 2)
	outlast(t, session) // for what an end of the sessions would bring about
	if after := sys.awaitWhole(t, 2); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("after the outage: got %+v, want the workers and the epoch of before, %+v", after, before)
	}
	l.settle(t, 2)
}

// While ZooKeeper is frozen, for longer than the sessions, writes and reads are answered. When it
// goes on it may end all sessions at once: every worker registers again, and none is replaced.
func TestSystem_CoordinatorFrozen_ServiceGoesOnAndNothingChanges(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, ownCoordinator(t), 2)
	l := startLoad(t, sys)
	before := sys.cluster(t)
	sys.zoo.Pause(t)
	outlast(t, 2*session)
	l.awaitProgress(t)
	sys.zoo.Resume(t)
	outlast(t, 2*session)
	after := sys.awaitWhole(t, 2)
	if after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("after the outage: got %+v, want the workers and the epoch of before, %+v", after, before)
	}
	l.settle(t, 2)
}

// outlast waits until something that is bounded by d must have happened.
func outlast(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
