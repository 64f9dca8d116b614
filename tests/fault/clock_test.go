package fault_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// clockShift is by how many seconds clocks are wrong. It is more than the time limit of any request: if a deadline were sent
// from one clock to another, it would pass at once, or never.
const clockShift = 40

// shifted builds a binary whose clock is wrong by that many seconds, and returns its path.
func shifted(t *testing.T, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rideshare"+strconv.Itoa(seconds))
	if err := testenv.BuildShifted(path, seconds); err != nil {
		t.Fatal(err)
	}
	return path
}

// While the clocks of persdb and of the workers are wrong, each in another direction, every request is answered, and an alert
// fires.
func TestClocks_Differ_NoRequestFails(t *testing.T) {
	t.Parallel()
	ahead, behind := shifted(t, clockShift), shifted(t, -clockShift)
	on := shared(t)
	for name, programs := range map[string]struct{ store, workers string }{"PersdbAhead": {ahead, behind}, "PersdbBehind": {behind, ahead}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSplit(t, on, 1)
			s.store, s.program, s.env = programs.store, programs.workers, []string{patient}
			s.startPersdb(t)
			s.startLauncher(t)
			o := s.startOrchestrator(t)
			l := startLoad(t, o.system)
			o.watchAlerts(t).Await(t, "RideshareClocksDiffer")
			awaitMore(t, "acknowledged writes", &l.acked, 100)
			awaitMore(t, "answered reads", &l.reads, 100)
			l.endWell(t)
			if refused, failed := l.writesRefused.Load(), l.readsFailed.Load(); refused+failed > 0 {
				t.Errorf("%d writes refused, %d reads failed, want none", refused, failed)
			}
		})
	}
}
