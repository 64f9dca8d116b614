package worker_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker"
)

// alter changes a row in the worker's replica without the worker's knowledge.
func (n *node) alter() {
	n.t.Helper()
	paths, err := filepath.Glob(filepath.Join(n.dir, "*.db"))
	if err != nil || len(paths) != 1 {
		n.t.Fatalf("replica: got %v, %v; want one file", paths, err)
	}
	db, err := sql.Open("sqlite", "file:"+paths[0]+"?_pragma=busy_timeout(5000)")
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // Exec reports errors.
	if _, err = db.ExecContext(n.t.Context(), "UPDATE n SET v='other' WHERE i=1"); err != nil {
		n.t.Fatal(err)
	}
}

// healed waits until the worker has discarded its replica once and equals persdb again.
func (n *node) healed() {
	n.t.Helper()
	want, err := n.c.store.Hashes(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	testenv.Eventually(n.t, limit, func() error {
		if d := n.Status().Counters["diverged"]; d != 1 {
			return fmt.Errorf("%s: diverged %d times, want 1", n.id, d)
		}
		got, err := n.c.api.Hashes(n.t.Context(), n.url)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("%s: hashes (-persdb +replica):\n%s", n.id, diff)
		}
		return err
	})
}

// A row altered in a slave's or the master's file is found when a verification is requested; the worker starts again
// from a snapshot without losing its role.
func TestWorker_Verify_AlteredRowIsRepaired(t *testing.T) {
	c := newCluster(t, 0)
	m, s := c.master(1, nil), c.slave(2, nil)
	seq := c.mustWrite(1)
	for _, n := range []*node{m, s} {
		n.applied(seq)
		n.alter()
		v, err := c.api.Verify(t.Context(), n.url)
		if err != nil || v.Seq != seq || !slices.Equal(v.Differ, []string{"n"}) {
			t.Errorf("%s: got %+v, %v; want n at %d", n.id, v, err, seq)
		}
		n.healed()
	}
	seq = c.mustWrite(2)
	if got := c.mustRead(mq.ReadQ, query("SELECT v FROM n WHERE i=1", seq))[0]; string(got.Body) != `[{"v":"v1"}]` {
		t.Errorf("got %s, want the row as it was written", got.Body)
	}
}

// heldHead tells the head once open is closed.
type heldHead struct {
	*workertest.Store

	open chan struct{}
}

func (s heldHead) Head(ctx context.Context) (dbaas.Head, error) {
	select {
	case <-s.open:
		return s.Store.Head(ctx)
	case <-ctx.Done():
		return dbaas.Head{}, dbaas.ErrUnavailable
	}
}

// A worker also verifies its replica without a request.
func TestWorker_Run_FindsAnAlteredRowByItself(t *testing.T) {
	c := newCluster(t, 0)
	c.master(1, nil)
	held := heldHead{c.store, make(chan struct{})} // Only the comparison asks for the head here.
	s := c.slave(2, func(w *worker.Config) {
		w.Store, w.Replica.VerifyEvery, w.Replica.VerifyTimeout = held, time.Millisecond, time.Hour
	})
	s.applied(c.mustWrite(1))
	s.alter()
	close(held.open)
	s.healed()
	s.ready(dbaas.RoleSlave)
}

// A worker whose replica was discarded records that in its registration until it has a new one.
func TestWorker_ReplicaAway_IsRegistered(t *testing.T) {
	c := newCluster(t, 0)
	c.store.Write(insert(1))
	store := &withoutSnapshots{Store: c.store}
	n := c.slave(2, func(w *worker.Config) { w.Store = store })
	registered := func(away bool) {
		t.Helper()
		testenv.Eventually(t, limit, func() error {
			if m, err := c.member(2); err != nil || m.NoReplica != away {
				return fmt.Errorf("got member %+v, %w, want no replica: %t", m, err, away)
			}
			return nil
		})
	}
	registered(false)
	store.closed.Store(true)
	n.alter()
	if _, err := c.api.Verify(t.Context(), n.url); err != nil {
		t.Fatal(err)
	}
	registered(true)
	store.closed.Store(false)
	registered(false)
}
