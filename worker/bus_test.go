package worker_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/worker"
)

// A worker that loses the bus records that in its registration, and removes it when the bus is back.
func TestWorker_BusLost_IsRegistered(t *testing.T) {
	c := newCluster(t, 0)
	bus := c.broker.Dial("w1")
	c.slave(1, func(w *worker.Config) { w.Bus = bus })
	registered := func(lost bool) {
		t.Helper()
		testenv.Eventually(t, limit, func() error {
			if m, err := c.member(1); err != nil || m.BusLost != lost {
				return fmt.Errorf("got member %+v, %w, want bus lost: %t", m, err, lost)
			}
			return nil
		})
	}
	registered(false)
	bus.Partition()
	registered(true)
	bus.Heal()
	registered(false)
}

// A master that has long had no answer of persdb records that in its registration, and removes it when persdb answers.
func TestWorker_PersdbLost_IsRegistered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	c.master(1, func(w *worker.Config) { w.Replica.AntiEntropy = 10 * time.Millisecond })
	registered := func(lost bool) {
		t.Helper()
		testenv.Eventually(t, limit, func() error {
			if m, err := c.member(1); err != nil || m.PersdbLost != lost || m.Role != dbaas.RoleMaster {
				return fmt.Errorf("got member %+v, %w, want a master, persdb lost: %t", m, err, lost)
			}
			return nil
		})
	}
	registered(false)
	c.store.SetDown(true)
	registered(true)
	c.store.SetDown(false)
	registered(false)
	c.mustWrite(1)
}

// A new worker that cannot reach the bus prepares its replica from persdb alone. It becomes a slave only once it has the bus: until
// then no read could reach it.
func TestWorker_Run_WithoutBus_RegistersLater(t *testing.T) {
	c := newCluster(t, 0)
	c.store.Write(insert(1))
	bus := c.broker.Dial("w1")
	bus.Partition()
	n := c.start(1, func(w *worker.Config) { w.Bus = bus })
	n.assign(dbaas.RoleSlave, 0)
	n.applied(1)
	for range 100 { // long enough for a worker that does not wait
		if s := n.Status(); s.Registered {
			t.Fatalf("got %+v, want no registration without the bus", s)
		}
		if _, err := c.api.Status(t.Context(), n.url); err != nil {
			t.Fatal(err)
		}
	}
	bus.Heal()
	n.ready(dbaas.RoleSlave)
}
