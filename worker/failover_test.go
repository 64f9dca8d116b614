package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/worker"
)

// result is the outcome of a write that runs beside the test.
type result struct {
	r   []dbaas.OperationResult
	err error
}

func (c *cluster) writeBeside(op dbaas.Operation) <-chan result {
	out := make(chan result, 1)
	go func() {
		r, err := c.write(context.Background(), op)
		out <- result{r, err}
	}()
	return out
}

// A promoted slave catches up with persdb's head before its first commit, and no longer consumes readQ.
func TestWorker_Promotion_CatchesUpBeforeTheFirstWrite(t *testing.T) {
	c := newCluster(t, 0)
	var once sync.Once
	var n *node
	appliedAtFirst := dbaas.Seq(0)
	store := &storeFunc{Store: c.store, before: func(dbaas.Epoch, []dbaas.Operation) {
		once.Do(func() { appliedAtFirst = n.Status().Applied })
	}}
	n = c.slave(2, func(w *worker.Config) { w.Store = store })
	for i := 1; i <= 25; i++ {
		c.store.Write(insert(i)) // never broadcast: the slave lags
	}
	w := c.writeBeside(operation(insert(26)))
	epoch := c.claim()
	n.assign(dbaas.RoleMaster, epoch)
	n.ready(dbaas.RoleMaster)
	if got := <-w; got.err != nil || got.r[0].Seq != 26 {
		t.Errorf("got %+v, want written at 26", got)
	}
	if appliedAtFirst != 25 {
		t.Errorf("got position %d at the first commit, want 25", appliedAtFirst)
	}
	testenv.Eventually(t, limit, func() error {
		if got := c.broker.Stats(mq.ReadQ).Consumers; got != 0 {
			return fmt.Errorf("got %d consumers of readQ, want 0", got)
		}
		return nil
	})
	if m := c.registered(2, dbaas.RoleMaster); m.Epoch != epoch {
		t.Errorf("got member %+v, want epoch %d", m, epoch)
	}
}

// A slow pending read does not hold up a promotion, and a pending read that waits for a position is still answered.
func TestWorker_Promotion_DoesNotWaitForSlowReads(t *testing.T) {
	c := newCluster(t, 0)
	n := c.slave(2, nil)
	slow := query("WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM x) SELECT count(*) FROM x", 0) // never ends
	slow.Deadline = time.Now().Add(10 * callTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan int, 2)
	go func() {
		_, _ = c.read(ctx, mq.ReadQ, func(i int, _ dbaas.ReadResult) { answered <- i }, slow, query(countSQL, 1)) // The test does not wait for slow.
	}()
	testenv.Eventually(t, limit, func() error {
		if n.Status().Counters["reads_taken_over"] == 0 {
			return errors.New("the slow read does not run")
		}
		return nil
	})
	n.assign(dbaas.RoleMaster, c.claim())
	n.ready(dbaas.RoleMaster)
	c.mustWrite(1)
	select {
	case i := <-answered:
		if i != 1 {
			t.Error("the promotion has waited for the slow read")
		}
	case <-time.After(limit):
		t.Error("the read that waited for position 1 was not answered")
	}
}

// A master of a stale epoch ends with an error, and the next master answers its messages.
func TestWorker_StaleMaster_NextOneAnswers(t *testing.T) {
	c := newCluster(t, 0)
	old := c.master(1, nil)
	c.mustWrite(1)
	next := c.slave(2, nil)
	next.assign(dbaas.RoleMaster, c.claim())
	next.ready(dbaas.RoleMaster) // it waits for its turn at writeQ
	got := <-c.writeBeside(operation(insert(2)))
	if got.err != nil || got.r[0].Code != dbaas.CodeOK || got.r[0].Seq != 2 {
		t.Errorf("got %+v, want written at 2", got)
	}
	if err := old.wait(); !errors.Is(err, worker.ErrLeadershipLost) || !errors.Is(err, dbaas.ErrStaleEpoch) {
		t.Errorf("got %v, want leadership lost to a stale epoch", err)
	}
	if _, err := c.member(1); err == nil {
		t.Error("the old master is still registered")
	}
}

// A commit whose answer is lost is retried and takes effect once.
func TestWorker_LostCommitAnswer_OneEffect(t *testing.T) {
	c := newCluster(t, 0)
	c.master(1, nil)
	lost := 0
	c.store.LoseAnswers(func(dbaas.Commit) error {
		if lost++; lost <= 2 {
			return dbaas.ErrUnknown
		}
		return nil
	})
	if seq := c.mustWrite(1); seq != 1 {
		t.Errorf("got seq %d, want 1", seq)
	}
	if head, err := c.store.Head(t.Context()); err != nil || head.Seq != 1 {
		t.Errorf("got head %+v, %v; want 1", head, err)
	}
}

// A master is killed between commit and broadcast: the write takes effect once, the next master answers it, and the
// slaves get it although it was never broadcast.
func TestWorker_MasterKilledAfterCommit_SlavesConverge(t *testing.T) {
	c := newCluster(t, 0)
	old := c.master(1, nil)
	often := func(w *worker.Config) { w.Replica.AntiEntropy = 10 * time.Millisecond }
	slave, successor := c.slave(2, often), c.slave(3, often)
	c.store.LoseAnswers(func(dbaas.Commit) error {
		old.Kill()
		return nil
	})
	w := c.writeBeside(operation(insert(1)))
	if err := old.wait(); !errors.Is(err, worker.ErrKilled) {
		t.Errorf("got %v, want killed", err)
	}
	c.store.LoseAnswers(nil)
	slave.applied(1)
	successor.applied(1)
	successor.assign(dbaas.RoleMaster, c.claim())
	if got := <-w; got.err != nil || got.r[0].Code != dbaas.CodeOK || got.r[0].Seq != 1 {
		t.Errorf("got %+v, want the stored answer at 1", got)
	}
	if got := c.mustRead(mq.ReadQ, query(countSQL, 1))[0]; string(got.Body) != `[{"c":1,"m":1}]` {
		t.Errorf("got %s, want one row", got.Body)
	}
}

// A master whose session is suspended ends, and stops accepting writes before its registration can expire.
func TestWorker_SessionDoubt_StopsWrites(t *testing.T) {
	c := newCluster(t, 600*time.Millisecond)
	m := c.master(1, nil)
	c.mustWrite(1)
	m.client.Partition()
	if err := m.wait(); !errors.Is(err, worker.ErrLeadershipLost) {
		t.Errorf("got %v, want leadership lost", err)
	}
	if got := c.broker.Stats(mq.WriteQ).Consumers; got != 0 {
		t.Errorf("got %d consumers of writeQ, want 0", got)
	}
	w := c.writeBeside(operation(insert(2)))
	c.master(2, nil)
	if got := <-w; got.err != nil || got.r[0].Seq != 2 {
		t.Errorf("got %+v, want the next master to write at 2", got)
	}
}

// A master whose session is suspended continues as long as its assignment is renewed, since no other master is chosen
// then. It registers again when the coordinator is back.
func TestWorker_SessionDoubtWhileRenewed_WritesGoOn(t *testing.T) {
	c := newCluster(t, 600*time.Millisecond)
	m := c.master(1, nil)
	epoch := c.registered(1, dbaas.RoleMaster).Epoch
	c.mustWrite(1)
	m.assign(dbaas.RoleMaster, epoch)
	m.client.Partition()
	testenv.Eventually(t, limit, func() error {
		m.assign(dbaas.RoleMaster, epoch) // as the control loop repeats it
		if _, err := c.member(1); err == nil {
			return errors.New("still registered")
		}
		return nil
	})
	if seq := c.mustWrite(2); seq != 2 {
		t.Errorf("without a session: got seq %d, want 2", seq)
	}
	m.assign(dbaas.RoleMaster, epoch)
	m.client.Heal()
	c.registered(1, dbaas.RoleMaster)
	if seq := c.mustWrite(3); seq != 3 {
		t.Errorf("registered again: got seq %d, want 3", seq)
	}
}

// A slave whose session is lost continues to answer reads and registers again.
func TestWorker_SessionDoubt_SlaveGoesOn(t *testing.T) {
	c := newCluster(t, 100*time.Millisecond)
	n := c.slave(2, nil)
	n.client.Partition()
	testenv.Eventually(t, limit, func() error {
		if _, err := c.member(2); err == nil {
			return errors.New("still registered")
		}
		return nil
	})
	if got := c.mustRead(mq.ReadQ, query(countSQL, 0))[0]; got.Code != dbaas.CodeOK {
		t.Errorf("without a registration: got %+v, want ok", got)
	}
	n.client.Heal()
	c.registered(2, dbaas.RoleSlave)
}

// A master that is chosen again with a newer epoch continues, and registers that epoch.
func TestWorker_MasterChosenAgain_GoesOn(t *testing.T) {
	c := newCluster(t, 0)
	m := c.master(1, nil)
	c.mustWrite(1)
	m.assign(dbaas.RoleMaster, c.claim())
	testenv.Eventually(t, limit, func() error {
		if reg, err := c.member(1); err != nil || reg.Epoch != 2 {
			return fmt.Errorf("member %+v, want epoch 2: %w", reg, err)
		}
		return nil
	})
	if seq := c.mustWrite(2); seq != 2 {
		t.Errorf("got seq %d, want 2", seq)
	}
}

// While persdb is unreachable reads continue, and a write is answered as soon as persdb is back.
func TestWorker_StoreAway_ReadsGoOn(t *testing.T) {
	c := newCluster(t, 0)
	c.master(1, nil)
	c.slave(2, nil)
	seq := c.mustWrite(1)
	c.mustRead(mq.ReadQ, query(countSQL, seq))
	c.store.SetDown(true)
	w := c.writeBeside(operation(insert(2)))
	testenv.Eventually(t, limit, func() error {
		if c.store.Calls("commit") < 3 {
			return errors.New("commit not tried")
		}
		return nil
	})
	if got := c.mustRead(mq.ReadQ, query(countSQL, seq))[0]; got.Code != dbaas.CodeOK {
		t.Errorf("got %+v, want ok", got)
	}
	c.store.SetDown(false)
	if got := <-w; got.err != nil || got.r[0].Seq != 2 {
		t.Errorf("got %+v, want written at 2", got)
	}
}

// A worker continues on a bus whose connections drop, and no acknowledged write is lost or done twice.
func TestWorker_BusDrops_WritesGoOn(t *testing.T) {
	c := newCluster(t, 0)
	c.master(1, nil)
	s := c.slave(2, nil)
	c.mustWrite(1)
	c.broker.Disconnect()
	op := operation(insert(2))
	var seq dbaas.Seq
	testenv.Eventually(t, limit, func() error {
		r, err := c.write(t.Context(), op) // the caller's own reply queue was lost as well
		seq = r[0].Seq
		return err
	})
	testenv.Eventually(t, limit, func() error {
		r, err := c.read(t.Context(), mq.ReadQ, nil, query(countSQL, seq))
		if err == nil && string(r[0].Body) != `[{"c":2,"m":2}]` {
			err = fmt.Errorf("got %s, want two rows", r[0].Body)
		}
		return err
	})
	s.applied(seq)
}
