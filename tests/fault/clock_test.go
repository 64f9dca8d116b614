package fault_test

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// clockShift is by how many seconds clocks are wrong. It is more than any request has time (patience): a deadline that went
// from one clock to another would have passed at once, or never.
const clockShift = 40

// shiftableBinary returns the path of a binary whose clock can be wrong.
var shiftableBinary = sync.OnceValues(func() (string, error) {
	target := filepath.Join(binaryDir, "rideshare-shiftable")
	return target, testenv.BuildShiftable(target)
})

// While the clocks of persdb and of the workers are wrong, each in another direction, every request is answered as ever, and an
// alert tells of it.
func TestClocks_Differ_NoRequestFails(t *testing.T) {
	t.Parallel()
	path, err := shiftableBinary()
	if err != nil {
		t.Fatal(err)
	}
	on := shared(t)
	for name, store := range map[string]int{"PersdbAhead": clockShift, "PersdbBehind": -clockShift} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSplit(t, on, 1)
			s.program, s.store = path, path
			s.env = []string{patient, testenv.ShiftEnv + "=" + strconv.Itoa(store)}
			s.startPersdb(t)
			s.env = []string{patient, testenv.ShiftEnv + "=" + strconv.Itoa(-store)}
			s.startLauncher(t)
			s.env = []string{patient}
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
