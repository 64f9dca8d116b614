package invariants_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/invariants"
	"rideshare/orchestrator/launch"
)

// In a sound system every invariant holds, and no worker is informed of a difference.
func TestChecker_Run_SoundSystemHolds(t *testing.T) {
	l := newLive(t)
	report := l.check()
	wantFailed(t, report, nil)
	if len(report.Workers) != 2 || report.Workers[0].Seq != 3 || report.Workers[1].Role != dbaas.RoleSlave {
		t.Errorf("got workers %+v, want both compared at 3", report.Workers)
	}
	if len(l.verified) > 0 {
		t.Errorf("verified %v, want no worker", l.verified)
	}
}

// Every possible difference between the running, the registered and the wanted workers breaks the right invariants, and
// the worker is named.
func TestChecker_Run_CountsWorkers(t *testing.T) {
	for name, tc := range map[string]struct {
		wreck func(l *live)
		want  map[string]string
	}{
		"NotRegistered": {func(l *live) {
			l.add(3, dbaas.RoleSlave)
			if err := l.session.Unregister(l.t.Context(), coord.Member{PID: 3}); err != nil {
				l.t.Fatal(err)
			}
		}, map[string]string{invariants.NoOrphans: "worker w3 (pid 3) runs and is not registered"}},
		"NotRunning": {
			func(l *live) { l.register(3, dbaas.RoleMaster) },
			map[string]string{invariants.NoOrphans: "worker w3 (pid 3) is registered and does not run"},
		},
		"Dead": {
			func(l *live) { l.instances[1].Running = false },
			map[string]string{invariants.NoOrphans: "worker w2 (pid 2) is registered and does not run", invariants.SlavesWanted: "0 slaves run, 1 are wanted"},
		},
		"OtherRole": {
			func(l *live) { l.workers[url(2)].status.Role = dbaas.RoleMaster },
			map[string]string{invariants.NoOrphans: "worker w2 (pid 2) is registered as slave, and says that it is master"},
		},
		"OtherPID": {
			func(l *live) { l.instances[1].PID = 9 },
			map[string]string{invariants.NoOrphans: "worker w2 (pid 9) is registered with pid 2"},
		},
		"TwoMasters": {func(l *live) { l.add(3, dbaas.RoleMaster) }, map[string]string{invariants.OneMaster: "2 masters run"}},
		"NoMaster": {func(l *live) {
			l.register(1, dbaas.RoleSlave)
			l.workers[url(1)].status.Role = dbaas.RoleSlave
		}, map[string]string{invariants.OneMaster: "none", invariants.SlavesWanted: "2 slaves run, 1 are wanted"}},
		"TooMany": {func(l *live) { l.add(3, dbaas.RoleSlave) }, map[string]string{invariants.SlavesWanted: "2 slaves run, 1 are wanted"}},
		"Mute": {
			func(l *live) { l.workers[url(2)].statusErr = dbaas.ErrUnavailable },
			map[string]string{invariants.NoOrphans: "worker w2 (pid 2) does not answer: unavailable"},
		},
		"EngineAway": {func(l *live) { l.listErr = launch.ErrUnavailable }, map[string]string{
			invariants.NoOrphans: "launcher unavailable", invariants.OneMaster: "launcher unavailable", invariants.SlavesWanted: "launcher unavailable",
			invariants.ReplicasEqual: "no replica",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			tc.wreck(l)
			wantFailed(t, l.check(), tc.want)
		})
	}
}

// What is wrong for a moment only is not wrong: a worker may be coming up.
func TestChecker_Run_WaitsForWhatSettles(t *testing.T) {
	l := newLive(t)
	if err := l.session.SetSlaveCount(t.Context(), 2, 1); err != nil {
		t.Fatal(err)
	}
	lists, looks := 0, 0
	l.onList = func() {
		if lists++; lists == 3 {
			w := l.add(3, dbaas.RoleSlave)
			w.hashes = func() (dbaas.TableHashes, error) {
				switch looks++; {
				case looks < 3:
					return dbaas.TableHashes{}, dbaas.Errorf(dbaas.CodeNotCaughtUp, "not yet")
				case looks < 5:
					return tables(2, "old")()
				}
				return tables(3, "u")()
			}
		}
	}
	report := l.check(func(c *invariants.Config) { c.Settle = 10 * time.Second })
	wantFailed(t, report, nil)
	if len(report.Workers) != 3 || looks != 5 {
		t.Errorf("got %+v after %d looks, want three workers after 5", report.Workers, looks)
	}
}

// The coordinator keeps the registration of a worker that was killed until the worker's session ends. Until then the
// registration is not wrong.
func TestChecker_Run_WaitsForTheEndOfASession(t *testing.T) {
	l := newLive(t)
	l.register(3, dbaas.RoleSlave)
	lists := 0
	l.onList = func() {
		if lists++; lists == 200 { // much later than Settle
			if err := l.session.Unregister(t.Context(), coord.Member{PID: 3, Worker: id(3)}); err != nil {
				t.Error(err)
			}
		}
	}
	wantFailed(t, l.check(func(c *invariants.Config) { c.Session = time.Minute }), nil)
}

// Rows that changed in persdb's file are found, although every replica has the same ones.
func TestChecker_Run_DamagedRows(t *testing.T) {
	l := newLive(t)
	whole := l.hashes
	l.hashes = func() (dbaas.TableHashes, error) {
		h, err := whole()
		h.Damaged = []string{"rides"}
		return h, err
	}
	wantFailed(t, l.check(), map[string]string{invariants.RowsIntact: "rows changed on the disk in rides"})
}

// A replica that differs at an equal position is reported with its table, and its worker is informed. The worker's
// answer is reported too.
func TestChecker_Run_DifferingReplicaIsVerified(t *testing.T) {
	for name, tc := range map[string]struct {
		verify func() (workerapi.Verification, error)
		want   string
	}{
		"Repairs": {func() (workerapi.Verification, error) {
			return workerapi.Verification{Seq: 4, Differ: []string{"users"}}, nil
		}, "it now starts again from a snapshot"},
		"Repaired": {func() (workerapi.Verification, error) { return workerapi.Verification{Seq: 4}, nil }, "by itself"},
		"Fails":    {func() (workerapi.Verification, error) { return workerapi.Verification{}, dbaas.ErrUnavailable }, "its worker does not answer: unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			w := l.workers[url(2)]
			w.hashes, w.verify = tables(3, "altered"), tc.verify
			report := l.check()
			wantFailed(t, report, map[string]string{invariants.ReplicasEqual: "worker w2 (pid 2): table users differs at 3; "})
			if got := report.Workers[1]; !slices.Equal(got.Differ, []string{"users"}) || !strings.Contains(got.Problem, tc.want) {
				t.Errorf("got %+v, want users and %q", got, tc.want)
			}
			if !slices.Equal(l.verified, []string{url(2)}) {
				t.Errorf("verified %v, want the slave alone", l.verified)
			}
		})
	}
}

// Positions that are never equal prove nothing: the worker then compares itself, and its word counts.
func TestChecker_Run_NeverAtOnePosition_WorkerCompares(t *testing.T) {
	for name, tc := range map[string]struct {
		verify func() (workerapi.Verification, error)
		want   map[string]string
	}{
		"Equal": {func() (workerapi.Verification, error) { return workerapi.Verification{Seq: 4}, nil }, nil},
		"Differs": {func() (workerapi.Verification, error) {
			return workerapi.Verification{Seq: 4, Differ: []string{"rides", "users"}}, nil
		}, map[string]string{invariants.ReplicasEqual: "tables rides, users differ at 4; it now starts again"}},
		"Fails": {func() (workerapi.Verification, error) { return workerapi.Verification{}, dbaas.ErrUnavailable }, map[string]string{invariants.ReplicasEqual: "not compared: unavailable"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			w := l.workers[url(2)]
			w.hashes, w.verify = tables(2, "altered"), tc.verify
			wantFailed(t, l.check(), tc.want)
		})
	}
}

// A worker that ends while it is compared is no replica that differs.
func TestChecker_Run_WorkerEndsMeanwhile(t *testing.T) {
	l := newLive(t)
	w := l.add(3, dbaas.RoleSlave)
	if err := l.session.SetSlaveCount(t.Context(), 2, 1); err != nil {
		t.Fatal(err)
	}
	w.hashes = func() (dbaas.TableHashes, error) {
		l.mu.Lock()
		l.instances[2].Running = false
		l.mu.Unlock()
		return dbaas.TableHashes{}, dbaas.ErrUnavailable
	}
	w.verify = func() (workerapi.Verification, error) { return workerapi.Verification{}, dbaas.ErrUnavailable }
	wantFailed(t, l.check(), nil)
}

// Without persdb the invariants of log and replicas fail, with that reason.
func TestChecker_Run_PersdbAway(t *testing.T) {
	l := newLive(t)
	l.logErr = dbaas.ErrUnavailable
	l.hashes = func() (dbaas.TableHashes, error) { return dbaas.TableHashes{}, errors.New("secret") }
	wantFailed(t, l.check(), map[string]string{
		invariants.LogDense: "unavailable", invariants.LogIntact: "unavailable", invariants.EpochsOrdered: "unavailable", invariants.RowsIntact: "persdb: internal error", invariants.ReplicasEqual: "persdb: internal error",
	})
}

// brokenCoordinator never opens a session.
type brokenCoordinator struct{}

func (brokenCoordinator) Open(context.Context) (coord.Session, error) {
	return nil, coord.ErrUnavailable
}

// Without the coordinator it is unknown which workers should run.
func TestChecker_Run_CoordinatorAway(t *testing.T) {
	l := newLive(t)
	wantFailed(t, l.check(func(c *invariants.Config) { c.Coordinator = brokenCoordinator{} }), map[string]string{
		invariants.NoOrphans: "coordinator unavailable", invariants.OneMaster: "coordinator unavailable", invariants.SlavesWanted: "coordinator unavailable",
		invariants.ReplicasEqual: "no replica",
	})
}

// One check at a time: it reads everything.
func TestChecker_Run_SecondAtOnceConflicts(t *testing.T) {
	l := newLive(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	l.hashes = func() (dbaas.TableHashes, error) {
		close(begun)
		<-goOn
		return tables(3, "u")()
	}
	c := l.checker()
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context())
		done <- err
	}()
	<-begun
	if _, err := c.Run(t.Context()); dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("got %v, want conflict", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("first check: %v", err)
	}
}

// The check has the answers of the read cache compared, if there is one.
func TestChecker_Run_CacheCompared(t *testing.T) {
	for name, c := range map[string]struct {
		wrong int
		err   error
		want  string
	}{
		"Equal":   {0, nil, "3 cached answers equal a worker's"},
		"Differs": {1, nil, "1 of 3 cached answers differ from a worker's; they were removed"},
		"NoSlave": {0, dbaas.ErrUnavailable, "not compared: unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			report := newLive(t).check(func(cfg *invariants.Config) {
				cfg.Cache = func(context.Context) (int, int, error) { return 3, c.wrong, c.err }
			})
			got := report.Invariants[len(report.Invariants)-1]
			if want := (invariants.Invariant{Name: invariants.CacheEqual, OK: name == "Equal", Detail: c.want}); got != want || report.OK != want.OK {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
