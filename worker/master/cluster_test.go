package master_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// A master ends when persdb belongs to another cluster than at catch-up, and reports that: at its next commit, which is
// not done, and at its next linearizable read.
func TestMaster_Run_OtherClusterEndsIt(t *testing.T) {
	body, err := wire.ReadRequest{Reads: []dbaas.Read{{Format: dbaas.FormatObjects, Linearizable: true}}}.Encode(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]func(b *fakeBus){
		"Write": func(b *fakeBus) { b.send(t, "x", op(1, time.Second)) },
		"Read": func(b *fakeBus) {
			b.linear <- &fakeDelivery{bus: b, message: mq.Message{Body: body, ID: "r", ReplyTo: "caller"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(3)
				store.head.Cluster = dbaas.ClusterID{1}
				m := start(t, store)
				close(m.replica.caughtUp)
				if err := m.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				store.mu.Lock()
				store.head.Cluster = dbaas.ClusterID{2}
				store.mu.Unlock()
				work(m.bus)
				if err := <-m.done; !errors.Is(err, dbaas.ErrStaleEpoch) || !strings.Contains(err.Error(), "cluster "+store.head.Cluster.String()) {
					t.Errorf("got %v, want stale epoch, with the cluster", err)
				}
				if store.head.Seq != 0 || len(m.bus.events) != 0 {
					t.Errorf("got head %d, events %v, want nothing done", store.head.Seq, m.bus.events)
				}
			})
		})
	}
}

// A queued write of another cluster under a client's key becomes a dead letter and ends there, without a stored failure. Other
// writes of its message are answered, and the failure of one with a generated id is stored.
func TestMaster_Run_QueuedWriteOfOtherClusterLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(3)
		store.head.Cluster = dbaas.ClusterID{1}
		store.classify = func(op dbaas.Operation, _ int) (dbaas.OperationResult, bool) {
			refused := op.Cluster == dbaas.ClusterID{2} && (op.GiveUp == "" || !op.ID.Generated())
			return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeUnavailable, Message: "of another cluster"}, refused
		}
		m := start(t, store)
		close(m.replica.caughtUp)
		if err := m.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		keyed, made, own := op(0, 0), op(0, 0), op(0, 0)
		keyed.ID, made.ID, own.ID = dbaas.OpIDFromKey("k"), dbaas.NewOpID(time.Now()), dbaas.OpIDFromKey("own")
		keyed.Cluster, made.Cluster, own.Cluster = dbaas.ClusterID{2}, dbaas.ClusterID{2}, dbaas.ClusterID{1}
		m.bus.send(t, "old", keyed, made, own)
		synctest.Wait()
		<-time.After(time.Minute)
		synctest.Wait()
		if _, stored := store.stored(keyed.ID); stored {
			t.Error("the key has a stored answer")
		}
		if r, stored := store.stored(made.ID); !stored || len(r.Statements) != 1 {
			t.Errorf("generated id: got %+v, want a stored failure", r)
		}
		if r, stored := store.stored(own.ID); !stored || len(r.Statements) != 0 {
			t.Errorf("write of this cluster: got %+v, want it done", r)
		}
		if !slices.Contains(m.bus.events, "reject old") || !slices.Contains(m.bus.events, "ack dead old") {
			t.Errorf("got events %v, want the message rejected, and the dead letter acknowledged", m.bus.events)
		}
		_ = m.finish()
	})
}

// A worker that persdb does not answer gives the leadership up within seconds, so that another worker gets it.
func TestMaster_CatchUp_WithoutPersdbGivesUp(t *testing.T) {
	for name, silent := range map[string]bool{"Unreachable": false, "Silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(1)
				store.silent, store.gone = silent, away
				m := start(t, store)
				close(m.replica.caughtUp)
				done := make(chan error, 1)
				go func() { done <- m.CatchUp(t.Context()) }()
				<-time.After(10 * time.Second)
				synctest.Wait()
				select {
				case err := <-done:
					if err == nil || errors.Is(err, dbaas.ErrStaleEpoch) {
						t.Errorf("got %v, want that persdb does not answer", err)
					}
				default:
					t.Error("CatchUp still waits for persdb after 10 s")
				}
				m.end(t)
			})
		})
	}
}

// A question that persdb does not answer is put again: the next one may reach another server of it.
func TestMaster_CatchUp_AsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.silent = true
		m := start(t, store)
		close(m.replica.caughtUp)
		done := make(chan error, 1)
		go func() { done <- m.CatchUp(t.Context()) }()
		<-time.After(3 * time.Second)
		store.mu.Lock()
		store.silent = false
		store.mu.Unlock()
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil", err)
		}
		_ = m.finish()
	})
}
