package dispatch_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
	"rideshare/orchestrator/dispatch"
)

// instant answers every message immediately, as a worker without any work would.
func instant(_ context.Context, _ mq.Queue, body []byte, onReply func([]byte, bool) bool) error {
	r, err := wire.DecodeReadRequest(body, time.Now())
	if err != nil {
		return err
	}
	reply := wire.ReadReply{Last: true, Answers: make([]wire.ReadAnswer, len(r.Reads))}
	for i := range r.Reads {
		reply.Answers[i] = wire.ReadAnswer{Index: i, Result: dbaas.ReadResult{Seq: 1, Body: []byte(`[{"username":"ann"}]`)}}
	}
	if body, err = reply.Encode(); err == nil {
		onReply(body, false)
	}
	return err
}

// BenchmarkRead is the dispatcher's own share of a point read, encoding and
// decoding on both sides included.
func BenchmarkRead(b *testing.B) {
	for _, clients := range []int{1, 128} {
		for name, unbatched := range map[string]bool{"batched": false, "unbatched": true} {
			b.Run(name+"/"+strconv.Itoa(clients), func(b *testing.B) {
				d := newDispatcher(b, dispatch.Config{Caller: callerFunc(instant), Unbatched: unbatched})
				r := read(`SELECT "users"."username" AS "username" FROM "users" WHERE "users"."username" = ?1`)
				r.Statements[0].Args = []dbaas.Value{dbaas.Text("ann")}
				b.ReportAllocs()
				b.SetParallelism(max(1, clients/2))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := d.Read(b.Context(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
				s := d.Stats()[0]
				b.ReportMetric(float64(s.Requests)/float64(max(s.Messages, 1)), "reads/message")
			})
		}
	}
}
