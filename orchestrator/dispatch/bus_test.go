package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/mq/inproc"
	"rideshare/internal/wire"
	"rideshare/orchestrator/dispatch"
)

// onBus returns a Dispatcher on a real Caller over the in-process bus.
func onBus(t *testing.T, broker *inproc.Broker) (d *dispatch.Dispatcher, conn *inproc.Conn) {
	t.Helper()
	conn = broker.Dial("orchestrator")
	caller := mq.NewCaller(conn)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = caller.Run(ctx) }) // returns ctx's error at the end.
	d = dispatch.New(dispatch.Config{Caller: caller, Publisher: conn, Availability: healthy()})
	d.SawSeq(0)
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = d.Close(ended) // only ends what the test has left.
		cancel()
		running.Wait()
		_ = conn.Close()
	})
	return d, conn
}

// serve answers the messages of a queue in the background until the test ends.
func serve(t *testing.T, conn *inproc.Conn, q mq.Queue, answer func(body []byte) ([]byte, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = conn.Consume(ctx, mq.ConsumeConfig{Queue: q, Prefetch: 4}, func(d mq.Delivery) { // returns ctx's error at the end.
			m := d.Message()
			body, err := answer(m.Body)
			if err == nil {
				err = conn.Reply(ctx, m.ReplyTo, mq.Message{Body: body, ID: m.ID})
			}
			if err = errors.Join(err, d.Ack()); err != nil && ctx.Err() == nil && !errors.Is(err, mq.ErrStale) && !errors.Is(err, mq.ErrUnroutable) {
				t.Errorf("worker: %v", err)
			}
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = conn.Close()
	})
}

// echo answers every read with its own text.
func echo(body []byte) ([]byte, error) {
	r, err := wire.DecodeReadRequest(body, time.Now())
	if err != nil {
		return nil, err
	}
	reply := wire.ReadReply{Last: true}
	for i := range r.Reads {
		reply.Answers = append(reply.Answers, wire.ReadAnswer{Index: i, Result: dbaas.ReadResult{Body: []byte(r.Reads[i].Statements[0].SQL)}})
	}
	return reply.Encode()
}

// Over a real bus every one of many concurrent requests gets its own answer.
func TestDispatcher_OverTheBus_EveryoneGetsTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := inproc.NewBroker(inproc.Config{})
		d, _ := onBus(t, broker)
		serve(t, broker.Dial("slave"), mq.ReadQ, echo)
		var clients sync.WaitGroup
		for client := range 32 {
			clients.Go(func() {
				for i := range 50 {
					sql := fmt.Sprintf("%d of %d", i, client)
					got, err := d.Read(t.Context(), read(sql))
					if err != nil || string(got.Body) != sql {
						t.Errorf("read %q: got %q, %v", sql, got.Body, err)
					}
				}
			})
		}
		clients.Wait()
		if s := d.Stats()[0]; s.Requests != 1600 || s.Messages > 1600 || s.Refused+s.Timeouts+s.Malformed != 0 || s.Waiting != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

// If the broker drops all connections while requests are in flight, no request is
// lost: each is resent, a write with the same id, and answered.
func TestDispatcher_OverTheBus_DroppedConnectionsLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := inproc.NewBroker(inproc.Config{})
		d, _ := onBus(t, broker)
		release := make(chan struct{})
		var ids []dbaas.OpID
		serve(t, broker.Dial("master"), mq.WriteQ, func(body []byte) ([]byte, error) {
			r, err := wire.DecodeWriteRequest(body, time.Now())
			if err != nil {
				return nil, err
			}
			ids = append(ids, r.Operations[0].ID)
			<-release
			return wire.WriteReply{Last: true, Answers: []wire.WriteAnswer{{Result: dbaas.OperationResult{ID: r.Operations[0].ID, Seq: 3}}}}.Encode()
		})
		done := write(t.Context(), d, operation(1))
		synctest.Wait()
		broker.Disconnect()
		close(release)
		if w := <-done; w.err != nil || w.result.Seq != 3 {
			t.Errorf("got %+v, want the answer to the second message", w)
		}
		for _, id := range ids {
			if id != (dbaas.OpID{1}) {
				t.Errorf("an operation was sent with id %v", id)
			}
		}
		if len(ids) < 2 {
			t.Errorf("the master saw %d deliveries, want the redelivered or repeated one too", len(ids))
		}
	})
}

// If the broker refuses every message, requests fail with 503 immediately, and nothing hangs.
func TestDispatcher_OverTheBus_BlockedBrokerIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := inproc.NewBroker(inproc.Config{})
		d, _ := onBus(t, broker)
		synctest.Wait()
		broker.Block()
		start := time.Now()
		if _, err := d.Read(t.Context(), read("x")); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("read: got %v", err)
		}
		if _, err := d.Write(t.Context(), operation(1)); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("write: got %v", err)
		}
		broker.Unblock()
		broker.DeleteQueue(mq.ReadQ)
		if _, err := d.Read(t.Context(), read("x")); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("read without a queue: got %v", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("refusals took %v", took)
		}
	})
}

// Requests that no worker answers end at their own deadline. Their messages in the queue
// are dropped when their time to live ends.
func TestDispatcher_OverTheBus_NobodyAnswersIsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := inproc.NewBroker(inproc.Config{})
		d, _ := onBus(t, broker)
		start := time.Now()
		if _, err := d.Read(t.Context(), read("x")); dbaas.CodeOf(err) != dbaas.CodeTimeout || time.Since(start) != 5*time.Second {
			t.Errorf("got %v after %v, want a timeout after 5s", err, time.Since(start))
		}
		if _, err := d.Write(t.Context(), operation(1)); dbaas.CodeOf(err) != dbaas.CodeUnknown {
			t.Errorf("write: got %v, want unknown", err)
		}
	})
}
