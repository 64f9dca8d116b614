package fault_test

import (
	"slices"
	"syscall"
	"testing"
)

// Parts that the orchestrator works with die or stand still under load. Calls that do not need them succeed, and when
// the parts are back the system becomes whole by itself and nothing is lost or doubled.
func TestParts_Faults_OthersGoOnAndRecovery(t *testing.T) {
	t.Parallel()
	s := startSplit(t, shared(t), 2)
	o := s.startOrchestrator(t)
	l := startLoad(t, o.system)
	for _, fault := range []struct {
		name string
		do   func(t *testing.T, s *split, l *load)
	}{
		{"LauncherStandsStill", launcherStandsStill},
		{"LauncherKilled", launcherKilled},
		{"PersdbKilled", persdbKilled},
		{"PersdbStandsStill", persdbStandsStill}, // last: a statement may end by its time from then on
	} {
		t.Log(fault.name) // not a test by itself, at whose end the parts that it starts would end
		fault.do(t, s, l)
		o.awaitWhole(t, 2)
		l.awaitProgress(t)
	}
	o.check(t, l)
}

// The workers are the launcher's children and die with it; a new launcher starts as many workers as were wanted before.
func launcherKilled(t *testing.T, s *split, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	killPart(t, s.launcherCmd)
	l.sys.awaitGone(t, before.all())
	s.startLauncher(t)
	after := l.sys.awaitWhole(t, 2)
	if after.Epoch <= before.Epoch {
		t.Errorf("got %+v, want a later epoch than in %+v", after, before)
	}
}

// While no worker can be started or killed, writes and reads go on, and no worker changes.
func launcherStandsStill(t *testing.T, s *split, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	signal(t, s.launcherCmd.Process.Pid, syscall.SIGSTOP)
	outlast(t, session)
	l.awaitProgress(t)
	signal(t, s.launcherCmd.Process.Pid, syscall.SIGCONT)
	if after := l.sys.awaitWhole(t, 2); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("got %+v, want nothing changed since %+v", after, before)
	}
}

// Without persdb reads are answered and writes refused.
func persdbKilled(t *testing.T, s *split, l *load) {
	t.Helper()
	killPart(t, s.persdbCmd)
	l.awaitReadsWithoutWrites(t)
	s.startPersdb(t)
}

// As above, but persdb is stopped: the kernel still accepts connections to it.
func persdbStandsStill(t *testing.T, s *split, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	l.persdbStops.Store(true)
	signal(t, s.persdbCmd.Process.Pid, syscall.SIGSTOP)
	l.awaitReadsWithoutWrites(t)
	signal(t, s.persdbCmd.Process.Pid, syscall.SIGCONT)
	if after := l.sys.awaitWhole(t, 2); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("got %+v, want nothing changed since %+v", after, before)
	}
}

func (l *load) awaitReadsWithoutWrites(t *testing.T) {
	t.Helper()
	awaitMore(t, "refused writes", &l.writesRefused, 4)
	awaitMore(t, "answered reads", &l.reads, 20)
}
