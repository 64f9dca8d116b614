package fault_test

import (
	"errors"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"rideshare/internal/failpoint"
	"rideshare/internal/testkit/testenv"
)

// A master dies under load at each step of a write. Another worker takes over, and every acknowledged write is there
// once, also if the master died after the commit and before the answer. If it died before it sent the entry to the
// slaves, these notice the gap and become equal by themselves.
func TestWrite_MasterDiesAtEachStep_EffectIsThereOnce(t *testing.T) {
	t.Parallel()
	l := startLoad(t, startFailable(t, shared(t), 2))
	for _, step := range []failpoint.Point{
		failpoint.MasterTaken, failpoint.MasterBeforeCommit, failpoint.MasterAfterCommit,
		failpoint.MasterAfterBroadcast, failpoint.MasterAfterReply,
	} {
		t.Run(string(step), func(t *testing.T) {
			before := l.sys.awaitWhole(t, 2)
			l.sys.failpoints.Arm(t, before.pids("master")[0], step, failpoint.Kill)
			l.sys.awaitSuccessor(t, before)
			l.awaitProgress(t)
		})
	}
	l.await(t, 2)
}

// persdb dies under load before and after the append to the log and the COMMIT of the tables, or one of these fails.
// persdb is started again, and every acknowledged write is there once.
func TestWrite_PersdbFailsAtEachStep_EffectIsThereOnce(t *testing.T) {
	t.Parallel()
	sys := startFailable(t, shared(t), 2)
	l := startLoad(t, sys)
	for name, fault := range map[string]struct {
		at   failpoint.Point
		does failpoint.Action
	}{
		"DiesBeforeCommit": {failpoint.PersdbBeforeCommit, failpoint.Kill},
		"DiesBeforeTables": {failpoint.PersdbBeforeTables, failpoint.Kill},
		"DiesAfterCommit":  {failpoint.PersdbAfterCommit, failpoint.Kill},
		"CommitFails":      {failpoint.PersdbBeforeCommit, failpoint.Error},
		"TablesFail":       {failpoint.PersdbBeforeTables, failpoint.Error},
		"AnswerLost":       {failpoint.PersdbAfterCommit, failpoint.Error},
	} {
		t.Run(name, func(t *testing.T) {
			persdb := sys.persdb(t)
			sys.failpoints.Arm(t, persdb, fault.at, fault.does)
			if fault.does == failpoint.Kill {
				sys.awaitGone(t, []int{persdb})
			} else {
				sys.failpoints.AwaitHit(t, persdb, fault.at)
				sys.failpoints.Disarm(t, persdb, fault.at)
			}
			sys.awaitWhole(t, 2)
			l.awaitProgress(t)
		})
	}
	l.await(t, 2)
}

// A commit takes longer than the master waits for it, and succeeds all the same: it has its effect once, and the write
// is answered. The master is not taken for hung.
func TestWrite_CommitOutlastsItsCaller_EffectIsThereOnce(t *testing.T) {
	t.Parallel()
	sys := startFailable(t, shared(t), 2)
	l := startLoad(t, sys)
	before := sys.awaitWhole(t, 2)
	persdb := sys.persdb(t)
	sys.failpoints.Arm(t, persdb, failpoint.PersdbAfterCommit, failpoint.Pause)
	sys.failpoints.AwaitPaused(t, persdb, failpoint.PersdbAfterCommit)
	awaitMore(t, "refused writes", &l.writesRefused, 4) // refused because their deadline is over
	sys.failpoints.Disarm(t, persdb, failpoint.PersdbAfterCommit)
	sys.checkUntouched(t, before)
	l.await(t, 2)
}

// After the master's death a worker dies at each step of becoming master. The next worker becomes master, and no worker
// is left without a role.
func TestRole_NewMasterDiesAtEachStep_NextOneFollows(t *testing.T) {
	t.Parallel()
	sys := startFailable(t, shared(t), 2)
	l := startLoad(t, sys)
	for _, step := range []failpoint.Point{
		failpoint.WorkerAssigned, failpoint.WorkerEpochTaken, failpoint.WorkerBeforeRegister, failpoint.WorkerBeforeConsume,
	} {
		t.Run(string(step), func(t *testing.T) {
			before := sys.awaitWhole(t, 2)
			successor := before.pids("slave")[0]
			sys.failpoints.Arm(t, successor, step, failpoint.Kill)
			signal(t, before.pids("master")[0], syscall.SIGKILL)
			sys.awaitGone(t, []int{successor})
			after := sys.awaitSuccessor(t, before)
			if after.Epoch < before.Epoch+2 {
				t.Errorf("got epoch %d after %d, want one for the successor and one for its successor", after.Epoch, before.Epoch)
			}
			l.awaitProgress(t)
		})
	}
	l.await(t, 2)
}

// The orchestrator dies at each step of a change of role: started again on the same data, it makes
// the system whole, with one master in a newer epoch, and nothing acknowledged is lost.
func TestRole_OrchestratorDiesAtEachStep_RestartMakesItWhole(t *testing.T) {
	t.Parallel()
	on := shared(t)
	for step, fault := range map[failpoint.Point]syscall.Signal{
		failpoint.ControlAfterKill:    syscall.SIGSTOP, // the orchestrator does not kill a master that is dead, so the old master must hang
		failpoint.ControlAfterClaim:   syscall.SIGKILL,
		failpoint.ControlBeforeAssign: syscall.SIGKILL,
		failpoint.ControlAfterAssign:  syscall.SIGKILL,
	} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			sys := startFailable(t, on, 2, hanging)
			l := startLoad(t, sys)
			before := sys.awaitWhole(t, 2)
			sys.failpoints.Arm(t, sys.cmd.Process.Pid, step, failpoint.Kill)
			signal(t, before.pids("master")[0], fault)
			sys.awaitDead(t)
			l.endBroken(t)
			sys.awaitNoChild(t)
			sys.checkLog(t)
			sys.start(t)
			after := sys.awaitWhole(t, 2)
			if after.Epoch <= before.Epoch {
				t.Errorf("got epoch %d, want more than %d", after.Epoch, before.Epoch)
			}
			sys.exec(t, "CREATE TABLE after(n INTEGER PRIMARY KEY)")
			l.checkEffects(t)
			sys.checkReplicas(t, 2)
		})
	}
}

// A master with a write in flight is stopped for longer than its session, is not killed, and finds a newer epoch when
// it goes on: persdb refuses its commit, and the master ends by itself.
func TestRole_StoppedMasterWakesUp_CannotWriteAndEnds(t *testing.T) {
	t.Parallel()
	sys := startFailable(t, shared(t), 2)
	l := startLoad(t, sys)
	before := sys.awaitWhole(t, 2)
	master, up := before.pids("master")[0], sys.cmd.Process.Pid
	persdb, err := settingOf(master, "--persdb-url")
	if err != nil {
		t.Fatal(err)
	}
	sys.failpoints.Arm(t, master, failpoint.MasterBeforeCommit, failpoint.Pause)
	sys.failpoints.AwaitPaused(t, master, failpoint.MasterBeforeCommit)
	signal(t, up, syscall.SIGSTOP) // otherwise up would kill the master
	signal(t, master, syscall.SIGSTOP)
	l.endWell(t)
	outlast(t, 2*session)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, persdb+"/v1/claim", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if a, sendErr := sys.send(req); sendErr != nil || a.status != http.StatusOK {
		t.Fatalf("claim an epoch: got %d %s, %v, want 200", a.status, a.body, sendErr)
	}
	signal(t, master, syscall.SIGCONT)
	sys.failpoints.Disarm(t, master, failpoint.MasterBeforeCommit)
	testenv.Eventually(t, healLimit, func() error {
		if slices.Contains(sys.processes(), master) {
			return errors.New("the old master lives")
		}
		return nil
	})
	signal(t, up, syscall.SIGCONT)
	after := sys.awaitSuccessor(t, before)
	if after.Epoch < before.Epoch+2 {
		t.Errorf("got epoch %d after %d and a claim, want a newer one", after.Epoch, before.Epoch)
	}
	sys.exec(t, "CREATE TABLE after(n INTEGER PRIMARY KEY)")
	l.checkEffects(t)
	sys.checkReplicas(t, 2)
	sys.stop(t)
	sys.checkLog(t)
}
