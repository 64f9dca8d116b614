package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
)

// Writes that wait on writeQ while the database is replaced by another cluster do not run there: the caller that waits is
// told so, and an accepted write gets a stored failure, unless it has a client's key: that key runs once when it is sent to the
// new cluster. So a DROP TABLE that was restored away does not come back.
func TestWorker_WritesOfAnotherCluster_DoNotRun(t *testing.T) {
	cluster := newCluster(t, 0)
	drop := dbaas.Statement{SQL: "DROP TABLE n"}
	accepted, keyed, waiting := operation(drop), operation(insert(3)), operation(drop)
	accepted.ID, keyed.ID = dbaas.NewOpID(time.Now()), dbaas.OpIDFromKey("k")
	accepted.Cluster = dbaas.NewClusterID()
	keyed.Cluster, waiting.Cluster = accepted.Cluster, accepted.Cluster
	client := cluster.broker.Dial("client")
	for _, queued := range []dbaas.Operation{accepted, keyed} {
		queued.Deadline = time.Time{}
		body, err := wire.WriteRequest{Operations: []dbaas.Operation{queued}}.Encode(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err = client.Publish(t.Context(), mq.WriteQ, mq.Message{Body: body, ID: queued.ID.String(), Persistent: true}); err != nil {
			t.Fatal(err)
		}
	}
	cluster.master(1, nil)

	r, err := cluster.write(t.Context(), waiting, operation(insert(1)))
	if err != nil || r[0].Code != dbaas.CodeUnavailable || !strings.Contains(r[0].Message, waiting.Cluster.String()) {
		t.Errorf("the write that waits: got %+v, %v, want it refused, with its cluster", r, err)
	}
	if err == nil && (r[1].Code != dbaas.CodeOK || r[1].Statements[0].Code != dbaas.CodeOK) {
		t.Errorf("its neighbour: got %+v, want it run: the table is there", r[1])
	}
	testenv.Eventually(t, limit, func() error {
		got, unknown := cluster.store.Lookup(t.Context(), accepted.ID)
		write, dead := cluster.broker.Stats(mq.WriteQ), cluster.broker.Stats(mq.DeadQ)
		if unknown != nil || len(got.Statements) != 1 || got.Statements[0].Code != dbaas.CodeUnavailable || !strings.Contains(got.Statements[0].Message, accepted.Cluster.String()) {
			return fmt.Errorf("the accepted write: got %+v, %w; want a stored failure, with its cluster", got, unknown)
		}
		if write.Ready+write.Unacked+dead.Ready+dead.Unacked > 0 {
			return fmt.Errorf("left at the broker: %+v and %+v", write, dead)
		}
		return nil
	})
	if got, unknown := cluster.store.Lookup(t.Context(), keyed.ID); dbaas.CodeOf(unknown) != dbaas.CodeNotFound {
		t.Errorf("the accepted write with a key: got %+v, %v, want nothing stored", got, unknown)
	}
	keyed.Cluster = dbaas.ClusterID{}
	for range 2 {
		r, err = cluster.write(t.Context(), keyed)
		if err != nil || r[0].Code != dbaas.CodeOK || r[0].Statements[0].Code != dbaas.CodeOK {
			t.Errorf("the key again: got %+v, %v, want it done once", r, err)
		}
	}
	cluster.mustWrite(2)
}
