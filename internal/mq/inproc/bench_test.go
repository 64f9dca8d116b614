package inproc_test

import (
	"context"
	"errors"
	"testing"

	"rideshare/internal/mq"
	"rideshare/internal/mq/inproc"
)

// BenchmarkCall measures one request and one reply of a kilobyte, from many callers.
func BenchmarkCall(b *testing.B) {
	broker := inproc.NewBroker(inproc.Config{})
	orchestrator, worker := broker.Dial("orchestrator"), broker.Dial("worker")
	ctx, cancel := context.WithCancel(b.Context())
	caller := mq.NewCaller(orchestrator)
	done := make(chan error, 2)
	go func() { done <- caller.Run(ctx) }()
	go func() {
		done <- worker.Consume(ctx, mq.ConsumeConfig{Queue: mq.ReadQ, Prefetch: 2}, func(d mq.Delivery) {
			m := d.Message()
			_ = worker.Reply(ctx, m.ReplyTo, mq.Message{Body: m.Body, ID: m.ID})
			_ = d.Ack()
		})
	}()
	body := make([]byte, 1024)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := caller.Call(ctx, mq.ReadQ, body, func([]byte, bool) bool { return true }); err != nil {
				b.Error(err)
			}
		}
	})
	cancel()
	for range cap(done) {
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}
}
