package fault_test

import (
	"slices"
	"syscall"
	"testing"
)

// Parts that the orchestrator works with die and stand still under load: what does not need them goes on, and
// when they are back the system is whole by itself and nothing is lost or doubled.
func TestParts_Faults_OthersGoOnAndRecovery(t *testing.T) {
	t.Parallel()
	on := shared(t)
	for name, fault := range map[string]func(t *testing.T, s *split, l *load){
		"LauncherKilled":      launcherKilled,
		"LauncherStandsStill": launcherStandsStill,
		"PersdbKilled":        persdbKilled,
		"PersdbStandsStill":   persdbStandsStill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSplit(t, on, 2)
			o := s.startOrchestrator(t)
			l := startLoad(t, o.system)
			fault(t, s, l)
			o.check(t, l)
		})
	}
}

// The workers are the launcher's children and die with it; a new one gets a new set, of the remembered size.
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

// While nobody can be started or killed, writes and reads go on, and nothing changes.
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

// As above, though connections to persdb are still taken.
func persdbStandsStill(t *testing.T, s *split, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
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
