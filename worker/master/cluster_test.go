package master_test

import (
	"errors"
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
