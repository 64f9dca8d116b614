package worker_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
	"rideshare/worker"
)

// An accepted write survives while persdb is unreachable and its master loses the broker again and again. It has a
// result when persdb is back, even if the broker has dead-lettered it by then, and no message of it remains at the
// broker.
func TestWorker_AcceptedWrite_EndsWithAResult(t *testing.T) {
	for _, losses := range []int{12, mq.DeliveryLimit + 1} {
		t.Run(fmt.Sprint(losses), func(t *testing.T) {
			cluster := newCluster(t, 0)
			conn := cluster.broker.Dial("master's")
			cluster.master(1, func(w *worker.Config) { w.Bus = conn })
			cluster.store.SetDown(true)
			op := operation(insert(1))
			op.Deadline = time.Time{}
			body, err := wire.WriteRequest{Operations: []dbaas.Operation{op}}.Encode(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := cluster.broker.Dial("client").Publish(t.Context(), mq.WriteQ, mq.Message{Body: body, ID: op.ID.String(), Persistent: true}); err != nil {
				t.Fatal(err)
			}
			for range losses {
				testenv.Eventually(t, limit, func() error {
					if got := cluster.broker.Stats(mq.WriteQ); got.Unacked != 1 {
						return fmt.Errorf("got %+v, want the write in the master's hand", got)
					}
					return nil
				})
				conn.Disconnect()
			}
			cluster.store.SetDown(false)
			testenv.Eventually(t, limit, func() error {
				r, err := cluster.store.Lookup(t.Context(), op.ID)
				write, dead := cluster.broker.Stats(mq.WriteQ), cluster.broker.Stats(mq.DeadQ)
				if err != nil || len(r.Statements) != 1 || write.Ready+write.Unacked+dead.Ready+dead.Unacked > 0 {
					return fmt.Errorf("got %+v, %w, at the broker %+v and %+v; want a result and nothing at the broker", r, err, write, dead)
				}
				return nil
			})
		})
	}
}
