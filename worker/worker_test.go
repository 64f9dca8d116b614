package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/workerapi"
	"rideshare/worker"
)

// A worker prepares its replica before it has a role, and registers and consumes only with one.
func TestWorker_Run_ServesOnlyWithRole(t *testing.T) {
	c := newCluster(t, 0)
	c.store.Write(insert(1))
	n := c.start(7, nil)
	n.applied(1)
	if s := n.Status(); s.Ready || s.Registered || s.Role != dbaas.RoleNone {
		t.Errorf("before the role: got %+v, want neither ready nor registered", s)
	}
	if got := c.broker.Stats(mq.ReadQ).Consumers; got != 0 {
		t.Errorf("before the role: got %d consumers, want 0", got)
	}
	n.assign(dbaas.RoleSlave, 0)
	n.ready(dbaas.RoleSlave)
	m := c.registered(7, dbaas.RoleSlave)
	want := coord.Member{PID: 7, Worker: "w7", Role: dbaas.RoleSlave, Applied: 1, Control: n.url}
	if m != want {
		t.Errorf("got member %+v, want %+v", m, want)
	}
	if got := c.mustRead(mq.ReadQ, query(countSQL, 0))[0]; string(got.Body) != `[{"c":1,"m":1}]` || got.Seq != 1 {
		t.Errorf("got %s at %d, want one row at 1", got.Body, got.Seq)
	}
}

// A worker with a role serves and registers only after it has caught up.
func TestWorker_Run_NeverServesBeforeCaughtUp(t *testing.T) {
	c := newCluster(t, 0)
	c.store.Write(insert(1))
	c.store.SetDown(true)
	n := c.start(7, nil)
	n.assign(dbaas.RoleSlave, 0)
	testenv.Eventually(t, limit, func() error {
		if c.store.Calls("snapshot") < 3 {
			return errors.New("snapshot not asked for")
		}
		return nil
	})
	if _, err := c.member(7); !errors.Is(err, coord.ErrNone) || c.broker.Stats(mq.ReadQ).Consumers != 0 {
		t.Errorf("got registered (%v) or consuming, want neither", err)
	}
	c.store.SetDown(false)
	n.ready(dbaas.RoleSlave)
	if got := c.mustRead(mq.ReadQ, query(countSQL, 0))[0]; got.Seq != 1 {
		t.Errorf("got position %d, want 1", got.Seq)
	}
}

// A write reaches persdb, its caller and every slave; a read at its position sees it.
func TestWorker_Run_WriteReachesSlaves(t *testing.T) {
	c := newCluster(t, 0)
	m := c.master(1, nil)
	c.slave(2, nil)
	seq := c.mustWrite(1)
	got := c.mustRead(mq.ReadQ, query(countSQL, seq))[0]
	if string(got.Body) != `[{"c":1,"m":1}]` || got.Seq != seq {
		t.Errorf("got %s at %d, want one row at %d", got.Body, got.Seq, seq)
	}
	m.applied(seq)
	testenv.Eventually(t, limit, func() error {
		if reg, err := c.member(2); err != nil || reg.Applied != seq {
			return fmt.Errorf("member %+v, want position %d: %w", reg, seq, err)
		}
		return nil
	})
}

// A read at a position that no replica has reached fails at its deadline, and delays no other read of its message.
func TestWorker_Run_MinSeqMissedIsNotCaughtUp(t *testing.T) {
	c := newCluster(t, 0)
	c.slave(2, nil)
	late := query(countSQL, 99)
	late.Deadline = time.Now().Add(10 * callTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _ = c.read(ctx, mq.ReadQ, func(i int, r dbaas.ReadResult) {
		if i != 1 || r.Code != dbaas.CodeOK {
			t.Errorf("got %+v of read %d first, want the other read's result", r, i)
		}
		cancel()
	}, late, query(countSQL, 0))
	late.Deadline = time.Now().Add(50 * time.Millisecond)
	if r, err := c.read(t.Context(), mq.ReadQ, nil, late); err != nil || r[0].Code != dbaas.CodeNotCaughtUp {
		t.Errorf("got %+v, %v; want not caught up", r, err)
	}
}

// A slow statement delays no other statement of its message, and a failing statement fails alone.
func TestWorker_Run_SlowAndFailingReadsStandAlone(t *testing.T) {
	c := newCluster(t, 0)
	c.slave(2, nil)
	slow := query("WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM x) SELECT count(*) FROM x", 0) // never ends
	slow.Deadline = time.Now().Add(10 * callTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := map[int]dbaas.Code{}
	_, _ = c.read(ctx, mq.ReadQ, func(i int, r dbaas.ReadResult) {
		if got[i] = r.Code; len(got) == 3 {
			cancel()
		}
	}, query(countSQL, 0), slow, query("SELECT * FROM absent", 0), query(countSQL, 0))
	if diff := cmp.Diff(map[int]dbaas.Code{0: dbaas.CodeOK, 2: dbaas.CodeInvalid, 3: dbaas.CodeOK}, got); diff != "" {
		t.Errorf("the first three answers (-want +got):\n%s", diff)
	}
	slow.Deadline = time.Now().Add(50 * time.Millisecond)
	if r, err := c.read(t.Context(), mq.ReadQ, nil, slow); err != nil || r[0].Code != dbaas.CodeTimeout {
		t.Errorf("got %+v, %v; want a timeout", r, err)
	}
}

// A linearizable read sees every write that was acknowledged before it, even when syncQ is silent.
func TestWorker_Run_LinearizableReadSeesAcknowledged(t *testing.T) {
	c := newCluster(t, 0)
	c.master(1, nil)
	for i := 1; i <= 20; i++ {
		seq := c.mustWrite(i)
		r := query(countSQL, 0)
		r.Linearizable = true
		got := c.mustRead(mq.LinearQ, r)[0]
		if want := fmt.Sprintf(`[{"c":%d,"m":%d}]`, i, i); string(got.Body) != want || got.Seq < seq {
			t.Fatalf("got %s at %d, want %s at %d", got.Body, got.Seq, want, seq)
		}
	}
}

// Long linearizable reads hold up no write, however many they are.
func TestWorker_Run_SlowLinearizableReadsHoldUpNoWrite(t *testing.T) {
	c := newCluster(t, 0)
	n := c.master(1, nil)
	defer n.Kill() // the reads would go on
	slow := query("WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM x) SELECT count(*) AS c FROM x", 0)
	slow.Deadline = time.Now().Add(10 * callTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	var reads sync.WaitGroup
	defer reads.Wait()
	defer cancel()
	for range 40 {
		reads.Go(func() { _, _ = c.read(ctx, mq.LinearQ, nil, slow) }) // cut off at the end
	}
	testenv.Eventually(t, limit, func() error {
		if c.broker.Stats(mq.LinearQ).Unacked == 0 {
			return errors.New("no pending read")
		}
		return nil
	})
	for i := range 3 {
		c.mustWrite(i + 1)
	}
}

// A drained worker answers its pending work, withdraws its registration and ends without an error.
func TestWorker_Drain_FinishesAndLeaves(t *testing.T) {
	c := newCluster(t, time.Hour)
	n := c.slave(2, nil)
	slow := query("WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM x WHERE i<20000) SELECT count(*) AS c FROM x", 0)
	type answer struct {
		r   []dbaas.ReadResult
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		r, err := c.read(t.Context(), mq.ReadQ, nil, slow)
		answered <- answer{r, err}
	}()
	testenv.Eventually(t, limit, func() error {
		if n.Status().Counters["read_messages"] == 0 {
			return errors.New("read not begun")
		}
		return nil
	})
	if err := c.api.Drain(t.Context(), n.url); err != nil {
		t.Fatal(err)
	}
	if err := n.wait(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if a := <-answered; a.err != nil || a.r[0].Code != dbaas.CodeOK {
		t.Errorf("pending read: got %+v, %v; want ok", a.r, a.err)
	}
	if m, err := c.member(2); !errors.Is(err, coord.ErrNone) {
		t.Errorf("still registered: %+v, %v", m, err)
	}
	err := c.api.Assign(t.Context(), n.url, workerapi.Assignment{Worker: n.id, Role: dbaas.RoleSlave, PID: 2, Epoch: 9})
	if err != nil {
		t.Errorf("the role that it has: got %v, want nil", err)
	}
	err = c.api.Assign(t.Context(), n.url, workerapi.Assignment{Worker: n.id, Role: dbaas.RoleMaster, PID: 2, Epoch: 9})
	if dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("a role while leaving: got %v, want conflict", err)
	}
}

// A drain that takes too long still ends the worker without an error: the broker redelivers what it held.
func TestWorker_DrainTimeout_LeavesTheRestAndEndsWell(t *testing.T) {
	c := newCluster(t, 0)
	n := c.master(1, func(w *worker.Config) { w.DrainTimeout = time.Millisecond })
	c.store.SetDown(true) // the write stays pending
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() { _, _ = c.write(ctx, operation(insert(1))) }) // cut off at the end
	testenv.Eventually(t, limit, func() error {
		if c.broker.Stats(mq.WriteQ).Unacked == 0 {
			return errors.New("write not pending")
		}
		return nil
	})
	n.Drain()
	if err := n.wait(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if s := c.broker.Stats(mq.WriteQ); s.Ready+s.Unacked != 1 {
		t.Errorf("got %d messages at the broker, want the write", s.Ready+s.Unacked)
	}
}

// Roles are idempotent, and those that cannot follow are refused with a conflict.
func TestWorker_Assign_Rules(t *testing.T) {
	c := newCluster(t, 0)
	n := c.start(3, nil)
	for _, step := range []struct {
		role  dbaas.Role
		pid   int
		epoch dbaas.Epoch
		want  dbaas.Code
	}{
		{dbaas.RoleNone, 3, 0, dbaas.CodeInvalid},
		{dbaas.RoleSlave, 0, 0, dbaas.CodeInvalid},
		{dbaas.RoleMaster, 3, 0, dbaas.CodeInvalid},
		{dbaas.RoleSlave, 3, 0, dbaas.CodeOK},
		{dbaas.RoleSlave, 3, 5, dbaas.CodeOK},
		{dbaas.RoleSlave, 4, 0, dbaas.CodeConflict},
		{dbaas.RoleMaster, 4, 2, dbaas.CodeConflict},
		{dbaas.RoleMaster, 3, 2, dbaas.CodeOK},
		{dbaas.RoleMaster, 3, 2, dbaas.CodeOK},
		{dbaas.RoleMaster, 3, 1, dbaas.CodeConflict},
		{dbaas.RoleSlave, 3, 0, dbaas.CodeConflict}, // a late one
		{dbaas.RoleSlave, 3, 1, dbaas.CodeConflict},
		{dbaas.RoleSlave, 3, 2, dbaas.CodeOK},
		{dbaas.RoleSlave, 3, 2, dbaas.CodeOK},
		{dbaas.RoleMaster, 3, 2, dbaas.CodeConflict}, // a late one
		{dbaas.RoleMaster, 3, 3, dbaas.CodeOK},
	} {
		err := c.api.Assign(t.Context(), n.url, workerapi.Assignment{Worker: n.id, Role: step.role, PID: step.pid, Epoch: step.epoch})
		if got := dbaas.CodeOf(err); got != step.want {
			t.Errorf("%s pid %d epoch %d: got %v, want code %q", step.role, step.pid, step.epoch, err, step.want)
		}
	}
	err := c.api.Assign(t.Context(), n.url, workerapi.Assignment{Worker: "another", Role: dbaas.RoleMaster, PID: 3, Epoch: 4})
	if dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("a role for another worker: got %v, want conflict", err)
	}
	if s := n.Status(); s.Epoch != 3 || s.Role != dbaas.RoleMaster || s.PID != 3 {
		t.Errorf("got status %+v, want master 3 of epoch 3", s)
	}
}

// A name that an earlier worker left behind is taken as soon as it expires.
func TestWorker_Run_WaitsForTheNameOfAnEarlierLife(t *testing.T) {
	c := newCluster(t, time.Hour)
	old, err := c.coord.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Register(t.Context(), coord.Member{PID: 2, Worker: "earlier"}); err != nil {
		t.Fatal(err)
	}
	n := c.start(2, func(w *worker.Config) { w.RegisterRefresh = time.Hour })
	n.assign(dbaas.RoleSlave, 0)
	n.applied(0)
	if m, err := c.member(2); err != nil || m.Worker != "earlier" {
		t.Errorf("got %+v, %v; want the earlier registration", m, err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	n.ready(dbaas.RoleSlave)
	if m := c.registered(2, dbaas.RoleSlave); m.Worker != "w2" {
		t.Errorf("got %+v, want w2", m)
	}
}

// The control API of package workerapi returns hashes that equal persdb's.
func TestWorker_Hashes_EqualPersdb(t *testing.T) {
	c := newCluster(t, 0)
	c.store.Write(insert(1))
	n := c.slave(2, nil)
	want, err := c.store.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.api.Hashes(t.Context(), n.url)
	if err != nil || got.Seq != want.Seq || fmt.Sprint(got.Tables) != fmt.Sprint(want.Tables) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}
