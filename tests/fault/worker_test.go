package fault_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// workerFault is a fault of workers, or of what they get, and its name.
type workerFault struct {
	name string
	do   func(t *testing.T, l *load)
}

// Workers that die or pause under load, or get messages that are wrong or come twice, are replaced where that is necessary, each by
// one worker. No acknowledged write is lost or doubled.
func TestSystem_WorkerFaults_ReplacedAndNothingLost(t *testing.T) {
	t.Parallel()
	inTurn(t, startLoad(t, startSystem(t, shared(t), 2, slowSession, patient)), []workerFault{
		{"SlavesPause", slavesPause},
		{"MasterKilled", masterKilled}, // before the slaves die, which lets reads wait
		{"SlavesKilled", slavesKilled},
		{"EveryWorkerKilled", everyWorkerKilled},
		{"DuplicateMessages", duplicateMessages},
		{"PoisonMessages", poisonMessages},
	})
}

// The same is true if the orchestrator or the master stands still.
func TestSystem_OneStandsStill_ReplacedAndNothingLost(t *testing.T) {
	t.Parallel()
	inTurn(t, startLoad(t, startSystem(t, shared(t), 2, slowSession, patient, busyHangs)), []workerFault{
		{"Orchestrator", orchestratorStandsStill}, // first: no worker may have been taken for hung
		{"Master", masterStandsStill},
	})
}

// inTurn causes one fault after the other. After each of them the system becomes whole and serves.
func inTurn(t *testing.T, l *load, faults []workerFault) {
	t.Helper()
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			fault.do(t, l)
			l.sys.awaitWhole(t, 2)
			l.awaitProgress(t)
		})
	}
	l.await(t, 2)
}

// The master is killed, not through the API, five times in a row: each time
// the slave with the lowest pid takes over, in a new epoch. Reads are answered throughout.
func masterKilled(t *testing.T, l *load) {
	t.Helper()
	alerts := l.sys.watchAlerts(t)
	for range 5 {
		before := l.sys.awaitWhole(t, 2)
		signal(t, before.pids("master")[0], syscall.SIGKILL)
		l.awaitFailover(t)
		after := l.sys.awaitSuccessor(t, before)
		if got, want := after.pids("master")[0], before.pids("slave")[0]; got != want {
			t.Errorf("the new master: got %d, want %d, the lowest slave of %v", got, want, before)
		}
		l.awaitProgress(t)
	}
	l.wantReadsThroughout(t)
	alerts.Await(t, "RideshareMasterChangesOften")
}

// awaitSuccessor waits for a master in a later epoch and the workers that belong to it.
func (s *system) awaitSuccessor(t *testing.T, before cluster) cluster {
	t.Helper()
	var after cluster
	testenv.Eventually(t, healLimit, func() error {
		after = s.awaitWhole(t, len(before.pids("slave")))
		if after.Epoch <= before.Epoch || slices.Equal(after.pids("master"), before.pids("master")) {
			return fmt.Errorf("got %+v, want another master after %+v", after, before)
		}
		return nil
	})
	return after
}

func slavesKilled(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.cluster(t)
	for _, pid := range before.pids("slave") {
		signal(t, pid, syscall.SIGKILL)
	}
	l.sys.awaitGone(t, before.pids("slave"))
	after := l.sys.awaitWhole(t, 2)
	if after.Epoch != before.Epoch || !slices.Equal(after.pids("master"), before.pids("master")) {
		t.Errorf("after the death of slaves: got %+v, want the master of %+v", after, before)
	}
}

func everyWorkerKilled(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.cluster(t).all()
	for _, pid := range before {
		signal(t, pid, syscall.SIGKILL)
	}
	l.sys.awaitGone(t, before)
}

// awaitGone waits until none of the processes is left.
func (s *system) awaitGone(t *testing.T, pids []int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d is still there: %w", pid, err)
			}
		}
		return nil
	})
}

// The master is stopped and taken for hung. When another worker has taken over, the old master goes on, if it was not
// killed: it must not write, and it ends.
func masterStandsStill(t *testing.T, l *load) {
	t.Helper()
	before, alerts := l.sys.cluster(t), l.sys.watchAlerts(t)
	old := before.pids("master")
	signal(t, old[0], syscall.SIGSTOP)
	l.sys.awaitHung(t, old[0], "hung: no answer")
	alerts.Await(t, "RideshareHungWorkerReplaced")
	l.sys.awaitSuccessor(t, before)
	l.awaitProgress(t)
	// The old master may have been killed already; the test allows both.
	if err := syscall.Kill(old[0], syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	l.sys.awaitGone(t, old)
}

// A slave is stopped. It is taken for hung long before its session ends or its reads miss their deadlines, so no read
// fails. The master stays.
func slaveStandsStill(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	slave := before.pids("slave")[0]
	signal(t, slave, syscall.SIGSTOP)
	l.sys.awaitHung(t, slave, "hung: no answer")
	l.awaitProgress(t)
	if after := l.sys.awaitWhole(t, 2); after.Epoch != before.Epoch {
		t.Errorf("got %+v, want the master of %+v", after, before)
	}
	if n := l.readsFailed.Load(); n > 0 {
		t.Errorf("%d reads failed, want none", n)
	}
}

// All slaves are stopped for less than their sessions while writes go on. When they go on, they find waiting reads that
// require newer writes than the slaves have applied.
func slavesPause(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	for _, slave := range before.pids("slave") {
		signal(t, slave, syscall.SIGSTOP)
	}
	awaitMore(t, "acknowledged writes", &l.acked, 50)
	for _, slave := range before.pids("slave") {
		signal(t, slave, syscall.SIGCONT)
	}
	l.awaitProgress(t)
	if after := l.sys.awaitWhole(t, 2); !slices.Equal(after.all(), before.all()) {
		t.Errorf("after a pause: got %+v, want the workers of before, %+v", after, before)
	}
}
