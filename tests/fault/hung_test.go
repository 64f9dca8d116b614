package fault_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/failpoint"
	"rideshare/internal/testkit/testenv"
)

// busyHangs is the setting for tests in which a part of the system is stuck: on a busy machine a worker may be silent for less
// than that.
const busyHangs = "HUNG_AFTER=3s"

// slowHangs is the setting for tests that fail if a worker is taken for hung because the machine is busy.
const slowHangs = "HUNG_AFTER=5s"

// hangs returns the workers that were taken for hung so far: the reasons by pid.
func (s *system) hangs() (map[int]string, error) {
	text, err := os.ReadFile(s.logFile())
	reasons := map[int]string{}
	for line := range bytes.Lines(text) {
		var e struct {
			Msg, Reason string
			PID         int
		}
		if json.Unmarshal(line, &e) == nil && e.Msg == "worker hangs" {
			reasons[e.PID] = e.Reason
		}
	}
	return reasons, err
}

// awaitHung waits until a worker is taken for hung, for a reason that begins with want, and is killed.
func (s *system) awaitHung(t *testing.T, pid int, want string) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		if got, err := s.hangs(); !strings.HasPrefix(got[pid], want) {
			return fmt.Errorf("hung workers: got %v, %w, want %d: %s", got, err, pid, want)
		}
		return nil
	})
	s.awaitGone(t, []int{pid})
}

// checkUntouched fails the test if a worker was taken for hung, or workers or epoch have changed.
func (s *system) checkUntouched(t *testing.T, before cluster) {
	t.Helper()
	if got, err := s.hangs(); err != nil || len(got) > 0 {
		t.Errorf("hung workers: got %v, %v, want none", got, err)
	}
	if after := s.awaitWhole(t, len(before.pids("slave"))); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("got %+v, want nothing changed since %+v", after, before)
	}
}

// A master is replaced if one of its parts is stuck or spins, even though its process runs and answers. Nothing is lost or
// doubled.
func TestSystem_MasterStuck_Replaced(t *testing.T) {
	t.Parallel()
	l := startLoad(t, startFailable(t, shared(t), 2, busyHangs))
	for name, c := range map[string]struct {
		point  failpoint.Point
		action failpoint.Action
		part   string
	}{
		"CommitStuck": {failpoint.MasterBeforeCommit, failpoint.Pause, "committing"},
		"CommitSpins": {failpoint.MasterBeforeCommit, failpoint.Spin, "committing"},
		"TakeSpins":   {failpoint.MasterTaken, failpoint.Spin, "taking"},
		"FinishStuck": {failpoint.MasterAfterBroadcast, failpoint.Pause, "finishing"},
	} {
		t.Run(name, func(t *testing.T) {
			before := l.sys.awaitWhole(t, 2)
			master := before.pids("master")[0]
			l.sys.failpoints.Arm(t, master, c.point, c.action)
			l.sys.awaitHung(t, master, "hung: stuck while "+c.part)
			l.sys.awaitSuccessor(t, before)
			l.awaitProgress(t)
		})
	}
	l.await(t, 2)
}

// A slave that is stuck or stands still is replaced. No read fails, and the master stays.
func TestSystem_SlaveStuck_Replaced(t *testing.T) {
	t.Parallel()
	inTurn(t, startLoad(t, startFailable(t, shared(t), 2, slowSession, slowHangs, patient)), []workerFault{
		{"Reads", slaveReadsStuck},
		{"Process", slaveStandsStill},
	})
}

// A slave is replaced if its reads are stuck, even though its process runs and answers. No read fails, since the other slave
// gets the reads that it held. The master stays.
func slaveReadsStuck(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	slave := before.pids("slave")[0]
	l.sys.failpoints.Arm(t, slave, failpoint.SlaveBeforeRead, failpoint.Pause)
	l.sys.awaitHung(t, slave, "hung: stuck while reading")
	l.awaitProgress(t)
	if after := l.sys.awaitWhole(t, 2); after.Epoch != before.Epoch {
		t.Errorf("got %+v, want the master of %+v", after, before)
	}
	if n := l.readsFailed.Load(); n > 0 {
		t.Errorf("%d reads failed, want none", n)
	}
}

// Every worker hangs: the only slave is stopped, and the master spins. The master reports this itself, so it is killed
// although no slave answers that could take over, and the system recovers.
func TestSystem_EveryWorkerHangs_Replaced(t *testing.T) {
	t.Parallel()
	l := startLoad(t, startFailable(t, shared(t), 1, busyHangs))
	before := l.sys.awaitWhole(t, 1)
	master, slave := before.pids("master")[0], before.pids("slave")[0]
	signal(t, slave, syscall.SIGSTOP)
	l.sys.failpoints.Arm(t, master, failpoint.MasterBeforeCommit, failpoint.Spin)
	l.sys.awaitHung(t, master, "hung: stuck while committing")
	l.sys.awaitSuccessor(t, before)
	l.sys.awaitGone(t, []int{slave})
	l.await(t, 1)
}

// The orchestrator is stopped for longer than a worker may be silent. When it goes on, it takes no worker for hung.
func orchestratorStandsStill(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	for range 2 {
		signal(t, l.sys.cmd.Process.Pid, syscall.SIGSTOP)
		outlast(t, 4*time.Second) // longer than busyHangs
		signal(t, l.sys.cmd.Process.Pid, syscall.SIGCONT)
		l.awaitProgress(t)
	}
	l.sys.checkUntouched(t, before)
}
