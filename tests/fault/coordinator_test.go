package fault_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/testkit/testenv"
)

// session is how long ZooKeeper keeps the registration of a worker that it does not hear.
const session = 6 * time.Second

// In tests of an outage of ZooKeeper a session is longer, so that a worker of a busy machine has the time to register again. outage is
// longer than such a session.
const (
	outageSession = "RIDESHARE_SESSION=12s"
	outage        = 15 * time.Second
)

// While ZooKeeper is dead, for longer than the workers' sessions, writes and reads are
// answered, and when it is back every worker is as before.
func TestSystem_CoordinatorKilled_ServiceGoesOnAndNothingChanges(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, ownCoordinator(t), 2, outageSession)
	l := startLoad(t, sys)
	before := sys.cluster(t)
	sys.zoo.Kill(t)
	outlast(t, outage)
	l.awaitProgress(t)
	sys.zoo.Start(t)
	sys.awaitWhole(t, 2)
	outlast(t, outage) // long enough that the end of the sessions would show
	if after := sys.awaitWhole(t, 2); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("after the outage: got %+v, want the workers and the epoch of before, %+v", after, before)
	}
	l.await(t, 2)
}

// While ZooKeeper is frozen, for longer than the sessions, writes and reads are answered. When it
// goes on it may end all sessions at once: every worker registers again, and none is replaced.
func TestSystem_CoordinatorFrozen_ServiceGoesOnAndNothingChanges(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, ownCoordinator(t), 2, outageSession)
	l := startLoad(t, sys)
	before := sys.cluster(t)
	sys.zoo.Pause(t)
	outlast(t, outage)
	l.awaitProgress(t)
	sys.zoo.Resume(t)
	outlast(t, outage)
	after := sys.awaitWhole(t, 2)
	if after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("after the outage: got %+v, want the workers and the epoch of before, %+v", after, before)
	}
	l.await(t, 2)
}

// ZooKeeper loses all its data. Writes and reads are still answered, the same workers register again with their roles, and the
// wanted number of slaves, which differs from the setting, is restored. No worker is replaced or promoted. When the master
// dies after that, the next master has a later epoch.
func TestSystem_CoordinatorDataLost_ServiceGoesOnAndNothingChanges(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, ownCoordinator(t), 1, slowSession, patient)
	sys.wantSlaves(t, 2)
	before := sys.awaitWhole(t, 2)
	l := startLoad(t, sys)
	sys.mark(t)
	sys.zoo.Wipe(t)
	sys.zoo.Start(t)
	sys.awaitUnmarked(t)
	sys.awaitRegistered(t, before)
	outlast(t, 20*time.Second) // a session: long enough that a consequence of the loss would show
	if after := sys.awaitWhole(t, 2); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("after the loss: got %+v, want the workers and the epoch of before, %+v", after, before)
	}
	if writes, reads := l.writesRefused.Load(), l.readsFailed.Load(); writes+reads > 0 {
		t.Errorf("%d writes and %d reads failed, want none", writes, reads)
	}
	sys.killLowest(t, "master")
	l.awaitFailover(t)
	after := sys.awaitSuccessor(t, before)
	if kept := after.pids("master")[0]; kept != before.pids("slave")[0] {
		t.Errorf("after the master's death: got %+v, want the lowest slave of %+v", after, before)
	}
	l.await(t, 2)
}

// inCoordinator calls do in a ZooKeeper session of the test's own.
func (s *system) inCoordinator(t *testing.T, do func(coord.Session) error) error {
	t.Helper()
	k, err := zookeeper.New(zookeeper.Config{URL: s.zoo.URL + "/" + s.id, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), healLimit)
	defer cancel()
	c, err := k.Open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// wantSlaves writes the wanted number of slaves, as scaling does.
func (s *system) wantSlaves(t *testing.T, n int) {
	t.Helper()
	if err := s.inCoordinator(t, func(c coord.Session) error {
		_, version, err := c.SlaveCount(t.Context())
		return errors.Join(err, c.SetSlaveCount(t.Context(), n, version))
	}); err != nil {
		t.Fatal(err)
	}
}

// markName is a value that only the test writes.
const markName = "mark-of-the-test"

func (s *system) mark(t *testing.T) {
	t.Helper()
	if err := s.inCoordinator(t, func(c coord.Session) error { return c.SetValue(t.Context(), markName, []byte("there"), 0) }); err != nil {
		t.Fatal(err)
	}
}

// awaitUnmarked waits until the coordinator answers that the mark does not exist.
func (s *system) awaitUnmarked(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		return s.inCoordinator(t, func(c coord.Session) error {
			value, _, err := c.Value(t.Context(), markName)
			if errors.Is(err, coord.ErrNone) {
				return nil
			}
			return fmt.Errorf("got %q, want the data lost: %w", value, err)
		})
	})
}

// awaitRegistered waits until the coordinator has those workers with their roles, and their number of slaves.
func (s *system) awaitRegistered(t *testing.T, want cluster) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		return s.inCoordinator(t, func(c coord.Session) error {
			n, _, err := c.SlaveCount(t.Context())
			if err != nil || n != len(want.pids("slave")) {
				return fmt.Errorf("wanted slaves: got %d, want %d: %w", n, len(want.pids("slave")), err)
			}
			members, err := c.Members(t.Context())
			var got cluster
			for _, m := range members {
				got.Members = append(got.Members, member{PID: m.PID, Role: string(m.Role)})
			}
			if err != nil || !slices.Equal(got.pids("master"), want.pids("master")) || !slices.Equal(got.pids("slave"), want.pids("slave")) {
				return fmt.Errorf("registered: got %+v, want %+v: %w", got, want, err)
			}
			return nil
		})
	})
}

// outlast waits for d, after which something that takes at most d must have happened.
func outlast(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
